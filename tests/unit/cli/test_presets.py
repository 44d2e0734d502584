from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from busbw.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def plan_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[int], str]:
    """Sizes of the planned cases, and the commands that would be started."""
    assert main(["run", "all_reduce", *words, "--ranks", "2", "--dry-run", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    return sorted({case["requested_bytes"] for case in shown["plan"]["cases"]}), " ".join(shown["commands"])


def test_a_preset_stands_under_flags_and_over_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, commands = plan_of(capsys, "--preset", "coreweave/h100", "--backend", "null")
    assert sizes == [512 << 20, 1 << 30, 2 << 30, 4 << 30, 8 << 30]
    assert "NCCL_IB_HCA=ibp" in commands
    sizes, commands = plan_of(
        capsys, "--preset", "coreweave/h100", "--backend", "null", "-e", "1G", "--env", "NCCL_IB_HCA=mlx5"
    )
    assert sizes == [512 << 20, 1 << 30]
    assert "NCCL_IB_HCA=mlx5" in commands
    assert "ibp " not in commands
    monkeypatch.setenv("BUSBW_MINBYTES", "4G")
    assert plan_of(capsys, "--preset", "coreweave/h100", "--backend", "null")[0] == [4 << 30, 8 << 30]


def test_the_last_preset_is_on_top(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("family: ours\npresets: {small: {run: {maxbytes: 16}, env: {NCCL_NET: Socket}}}")
    monkeypatch.setenv("BUSBW_PRESET_FILES", str(file))
    words = ("--preset", "generic/classic", "--preset", "ours/small", "--backend", "null")
    sizes, commands = plan_of(capsys, *words)
    assert sizes == [4, 8, 16]
    assert "NCCL_NET=Socket" in commands


def test_folders_of_libraries_add_up_and_the_users_come_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("family: ours\npresets: {nccl: {library_path: [/ours/nccl]}}")
    monkeypatch.setenv("BUSBW_PRESET_FILES", str(file))
    words = [
        "run",
        "all_reduce",
        "--on",
        "pbs",
        "--preset",
        "ours/nccl",
        "--preset",
        "alcf/polaris-recommended",
    ]
    assert main([*words, "--library-path", "/mine", "--library-path", "/too", "--dry-run"]) == 0
    plugin = "/soft/libraries/aws-ofi-nccl/v1.6.0/lib"
    assert f" /mine:/too:/ours/nccl:/soft/libraries/hwloc/lib:{plugin} " in capsys.readouterr().out


def test_list_show_and_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["presets", "list"]) == 0
    assert "aws/p5.48xlarge" in capsys.readouterr().out
    assert main(["presets", "show", "aws/p5.48xlarge@2024-04"]) == 0
    out = capsys.readouterr().out
    assert "FI_EFA_USE_DEVICE_RDMA=1" in out
    assert "note" in out
    file = tmp_path / "x.yaml"
    file.write_text("family: x\npresets: {a: {summary: s}}")
    assert main(["presets", "check", str(file)]) == 0
    assert "1 presets" in capsys.readouterr().out
    file.write_text("family: x\npresets: {a: {sumary: s}}")
    assert main(["presets", "check", str(file)]) == 2
    assert "'sumary' is not known" in capsys.readouterr().err


def test_a_preset_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "all_reduce", "--preset", "aws/p5", "--dry-run"]) == 2
    err = capsys.readouterr().err
    assert "no preset 'aws/p5'" in err
    assert "aws/p5.48xlarge" in err


def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    file = tmp_path / "ours.yaml"
    file.write_text(text)
    monkeypatch.setenv("BUSBW_PRESET_FILES", str(file))
    return file


def test_a_user_s_preset_is_on_top_wherever_it_stands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours(
        tmp_path, monkeypatch, "family: ours\npresets: {mine: {env: {FI_PROVIDER: tcp}, run: {maxbytes: 16}}}"
    )
    for pair in (("ours/mine", "generic/classic"), ("generic/classic", "ours/mine")):
        words = [word for name in pair for word in ("--preset", name)]
        assert plan_of(capsys, *words, "--backend", "null")[0] == [4, 8, 16]
    words = ["--preset", "ours/mine", "--preset", "aws/p5.48xlarge", "--backend", "null"]
    assert "FI_PROVIDER=tcp" in plan_of(capsys, *words)[1]


def test_what_a_variable_takes_the_place_of_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "TRACE")
    words = ["run", "all_reduce", "--ranks", "2", "--backend", "null", "--dry-run"]
    assert main([*words, "--preset", "aws/p5.48xlarge", "--env", "FI_PROVIDER=tcp"]) == 0
    err = capsys.readouterr().err
    assert "NCCL_DEBUG=INFO, preset aws/p5.48xlarge's, takes the place of this shell's TRACE" in err
    assert "FI_PROVIDER=tcp, --env's, takes the place of preset aws/p5.48xlarge's efa" in err
    assert err.count("takes the place") == 2


def test_the_record_names_presets_with_their_dates_and_what_they_took_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "TRACE")
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    words = ["run", "all_reduce", "--ranks", "2", "--backend", "null", "--world", "nccl", "--no-preflight"]
    words += ["-b", "8", "-e", "8", "-n", "2", "-c", "0"]
    assert main([*words, "--preset", "aws/p5.48xlarge@2026-02"]) == 0, capsys.readouterr().err
    (record,) = tmp_path.glob("*/run.json")
    settings = json.loads(record.read_text())["settings"]
    assert settings["presets_used"] == ["aws/p5.48xlarge@2026-02"]
    assert settings["overridden"] == [
        "NCCL_DEBUG=INFO, preset aws/p5.48xlarge@2026-02's, takes the place of this shell's TRACE"
    ]


def test_a_library_path_on_this_host(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/here/lib")
    words = ("--backend", "null", "--preset", "alcf/polaris-3")
    folders = "/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib:/here/lib "
    assert f"LD_LIBRARY_PATH={folders}" in plan_of(capsys, *words)[1]
    assert f"LD_LIBRARY_PATH=/mine:{folders}" in plan_of(capsys, *words, "--library-path", "/mine")[1]
    assert "LD_LIBRARY_PATH=/all " in plan_of(capsys, *words, "--env", "LD_LIBRARY_PATH=/all")[1]


def test_the_engine_that_a_preset_names_counts_as_if_typed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All that the preset below it says of that engine holds, too; a typed one wins."""
    from busbw.launchers.engine import load

    facts = {"python": "/env/bin/python", "user_id": "1000", "setup": "", "mpi": "pmix", "gpus": "4"}
    monkeypatch.setattr(load("slurm"), "inquire", lambda _launch, _command=(): facts)
    kubernetes = {"namespace": "n", "token": "0" * 32}
    monkeypatch.setattr(load("kubernetes"), "inquire", lambda _launch, _command=(): kubernetes)
    text = (
        "family: u\nsource: s\ndate: d\npresets: {a: {extends: coreweave/gb200-nvl72, launch: {on: slurm}}}"
    )
    file = ours(tmp_path, monkeypatch, text)
    assert main(["presets", "check", str(file)]) == 0, capsys.readouterr().err
    assert "1 presets of family u are well formed" in capsys.readouterr().out
    words = ["run", "all_reduce", "--preset", "u/a", "--dry-run"]
    assert main(words) == 0, capsys.readouterr().err
    named = capsys.readouterr().out
    assert "#SBATCH --segment=" in named
    assert main(["run", "all_reduce", "--preset", "coreweave/gb200-nvl72", "--on", "slurm", "--dry-run"]) == 0
    assert capsys.readouterr().out == named
    assert main([*words, "--on", "kubernetes", "--image", "x"]) == 0, capsys.readouterr().err
    assert "kind: MPIJob" in capsys.readouterr().out


def test_a_preset_of_accelerators_that_busbw_cannot_drive_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "all_reduce", "--preset", "aws/trn1.32xlarge"]) == 2
    err = capsys.readouterr().err
    assert "preset aws/trn1.32xlarge is not measured by `busbw run`" in err
    assert "`busbw nccom-test`" in err


@pytest.mark.parametrize(
    "name", ["aws/p5.48xlarge", "coreweave/gb300-roce-2-racks", "aws/p6e-gb200.36xlarge"]
)
def test_one_word_is_enough_on_kubernetes(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from busbw.launchers.engine import load

    monkeypatch.setattr(
        load("kubernetes"), "inquire", lambda _launch, _command=(): {"namespace": "n", "token": "0" * 32}
    )
    words = ["run", "all_reduce", "--dry-run", "--on", "kubernetes", "--image", "x:1", "--preset", name]
    assert main(words) == 0, capsys.readouterr().err
    nodes = {"aws/p5.48xlarge": 2, "aws/p6e-gb200.36xlarge": 18}.get(name, 32)
    assert f"replicas: {nodes}\n" in capsys.readouterr().out


def test_a_flag_wins_over_the_presets_form(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from busbw.launchers.engine import load

    facts = {"namespace": "n", "token": "0" * 32}
    monkeypatch.setattr(load("kubernetes"), "inquire", lambda _launch, _command=(): facts)
    words = ["run", "all_reduce", "--dry-run", "--on", "kubernetes", "--image", "x:1"]
    words += ["--preset", "aws/p5.48xlarge", "--ranks-per-node", "4"]
    assert main(words) == 0, capsys.readouterr().err
    assert "slotsPerWorker: 4\n" in capsys.readouterr().out
    assert main([*words, "--set", "slots=2"]) == 0, capsys.readouterr().err
    assert "slotsPerWorker: 2\n" in capsys.readouterr().out


AGENTS = ["--on", "hosts", "--dry-run"]


def placed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[tuple[int | None, int | None], str]:
    """What a dry run on hosts asks for (ranks, nodes), and what it says."""
    from busbw.cli import on
    from busbw.launchers.engine import JobRequest

    requests: list[JobRequest] = []
    monkeypatch.setattr(on, "_print_dry_run", lambda found, _format: requests.extend(found))
    assert main(["run", "all_reduce", *AGENTS, *words]) == 0, capsys.readouterr().err
    return (requests[0].ranks, requests[0].nodes), capsys.readouterr().err


@pytest.fixture
def gpu_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that have eight GPUs each, and answer."""
    from dataclasses import asdict

    from busbw.launchers.engine import load
    from busbw.launchers.hosts_list import read_places
    from busbw.launchers.hosts_probe import HostFacts
    from busbw.settings.launch import LaunchSettings

    here: dict[str, object] = {
        "name": "login",
        "python": "/p",
        "version": [3, 11],
        "machine": "x86_64",
        "busbw": "1.0",
    }
    here |= {"mpi": "mpich", "mpiexec": "/env/bin/mpiexec", "bundled": True}
    answer = HostFacts("n", (3, 11), "/p", "x86_64", 96, 8, busbw="1.0", mpi="mpich", mpiexec="/m")

    def inquire(launch: LaunchSettings, _command: tuple[str, ...] = ()) -> dict[str, str]:
        hosts = {place.host: {**asdict(answer), "hostname": place.host} for place in read_places(launch)}
        texts = {"setup": "", "token": "0" * 32}
        return {**{k: json.dumps(v) for k, v in answers(hosts, here).items()}, **texts}

    monkeypatch.setattr(load("hosts"), "inquire", inquire)


def answers(hosts: object, here: object) -> dict[str, object]:
    return {"hosts": hosts, "local": [], "here": here, "inherited": {}}


P5 = ("--preset", "aws/p5.48xlarge")
OF_P5 = "takes the place of preset aws/p5.48xlarge's"


@pytest.mark.usefixtures("gpu_hosts")
@pytest.mark.parametrize(
    ("words", "place", "note"),
    [
        (("--hosts", "a:4,b:4,c:4"), (12, 3), f"--hosts (3 hosts, 12 slots) {OF_P5} --nodes 2 and --ranks-p"),
        (("--hosts", "a"), (8, 1), f"--hosts (1 host) {OF_P5} --nodes 2\n"),
        (("--hosts", "a,b"), (16, 2), ""),
        (("--hosts", "a:8,b:8"), (16, 2), ""),
        (("--hosts", "a:4,b:2"), (6, 2), f"--hosts (2 hosts, 6 slots) {OF_P5} --ranks-per-node 8\n"),
        (("--hosts", "a:4,b:4,c:4", "-N", "1"), (4, 1), f"{OF_P5} --ranks-per-node 8\n"),
        (("--hosts", "a:4,b:4,c:4", "--ranks-per-node", "2"), (6, 3), f"{OF_P5} --nodes 2\n"),
        (("--hostfile", "FILE"), (8, 2), f"--hostfile (2 hosts, 8 slots) {OF_P5} --ranks-per-node 8\n"),
        (("--hosts", "a:4,b:4,c:4", "--preset", "u/many"), (12, 3), "preset u/many's --nodes 9 and"),
        (("--preset", "u/hosts"), (3, 3), f"--hosts (3 hosts, 3 slots) {OF_P5} --nodes 2 and"),
    ],
)
def test_hosts_that_are_named_win_over_a_presets_place(
    words: tuple[str, ...],
    place: tuple[int, int],
    note: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    many, hosts = "many: {launch: {nodes: 9}, run: {ranks: 72}}", "hosts: {hosts: {hosts: 'a:1,b:1,c:1'}}"
    ours(tmp_path, monkeypatch, f"family: u\npresets: {{{many}, {hosts}}}")
    file = tmp_path / "hosts"
    file.write_text("a slots=4\nb slots=4\n")
    found, said = placed(capsys, monkeypatch, *P5, *(word.replace("FILE", str(file)) for word in words))
    assert found == place
    assert note in said
    assert bool(note) == ("takes the place" in said)


@pytest.mark.usefixtures("gpu_hosts")
@pytest.mark.parametrize(
    ("lines", "place", "note"),
    [
        (
            "abcabcabcabc",
            (12, 3),
            f"PBS_NODEFILE (3 hosts, 12 slots) {OF_P5} --nodes 2 and --ranks-per-node 8\n",
        ),
        ("abc", (24, 3), f"PBS_NODEFILE (3 hosts) {OF_P5} --nodes 2\n"),  # nobody asked for slots
    ],
)
def test_hosts_of_a_pbs_job_win_over_a_presets_place(
    lines: str,
    place: tuple[int, int],
    note: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = tmp_path / "nodes"
    file.write_text("\n".join(lines))
    monkeypatch.setenv("PBS_NODEFILE", str(file))
    found, said = placed(capsys, monkeypatch, *P5)
    assert found == place
    assert note in said


@pytest.mark.parametrize(
    ("preset", "words", "shown"),
    [
        ("full", (), ["replicas: 2\n", "slotsPerWorker: 8\n", " -n 16 "]),
        ("full", ("-N", "4"), ["replicas: 4\n", "slotsPerWorker: 8\n", " -n 32 "]),
        ("full", ("--ranks-per-node", "4"), ["replicas: 2\n", "slotsPerWorker: 4\n", " -n 8 "]),
        ("full", ("--set", "replicas=4"), ["replicas: 4\n", " -n 32 "]),
        ("full", ("--ranks", "8"), ["replicas: 2\n", "slotsPerWorker: 8\n", " -n 8 "]),
        ("general", ("-N", "3", "--ranks-per-node", "4"), ["replicas: 3\n", "slotsPerWorker: 4\n"]),
    ],
)
def test_flags_win_over_the_words_of_a_presets_form(
    preset: str,
    words: tuple[str, ...],
    shown: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    from busbw.launchers.engine import load

    full = 'full: {kubernetes: {np: "16", slots: "8", replicas: "2"}}'
    general = "general: {launch: {set: [slots=8, replicas=2, np=16]}}"
    ours(tmp_path, monkeypatch, f"family: u\npresets: {{{full}, {general}}}")
    facts = {"namespace": "n", "token": "0" * 32}
    monkeypatch.setattr(load("kubernetes"), "inquire", lambda _launch, _command=(): facts)
    line = ["run", "all_reduce", "--dry-run", "--on", "kubernetes", "--image", "x:1"]
    assert main([*line, "--preset", f"u/{preset}", *words]) == 0, capsys.readouterr().err
    out, err = capsys.readouterr()
    assert [text for text in shown if text not in out] == []
    left_out = bool(words) and "--ranks" not in words
    assert (f"takes the place of preset u/{preset}'s --ranks 16\n" in err) == left_out


def test_exec_has_the_ranks_of_a_presets_form(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from busbw.launchers.engine import load

    ours(tmp_path, monkeypatch, "family: u\npresets: {a: {kubernetes: {np: 3, slots: 2, replicas: 2}}}")
    facts = {"namespace": "n", "token": "0" * 32}
    monkeypatch.setattr(load("kubernetes"), "inquire", lambda _launch, _command=(): facts)
    words = ["exec", "--dry-run", "--on", "kubernetes", "--image", "x:1", "--preset", "u/a", "--", "hostname"]
    assert main(words) == 0, capsys.readouterr().err
    assert " -n 3 " in capsys.readouterr().out


def test_flags_win_over_set_of_a_preset_on_slurm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from busbw.launchers.engine import load

    words = "set: [slots=8, replicas=2, 'image=theirs/i:1']"
    ours(
        tmp_path,
        monkeypatch,
        f"family: u\npresets: {{a: {{slurm: {{{words}}}}}, b: {{launch: {{{words}}}}}}}",
    )
    facts = {"python": "/p", "user_id": "1000", "setup": "", "mpi": "pmix", "gpus": "8"}
    monkeypatch.setattr(load("slurm"), "inquire", lambda _launch, _command=(): facts)
    flags = ["--ranks-per-node", "4", "-N", "3", "--image", "mine/i:1"]
    for preset in ("u/a", "u/b"):
        assert main(["run", "all_reduce", "--on", "slurm", "--preset", preset, *flags, "--dry-run"]) == 0
        out = capsys.readouterr().out
        assert "#SBATCH --nodes=3\n" in out
        assert "--ntasks-per-node=4" in out
        assert "mine/i:1" in out
        assert "theirs" not in out


def test_check_takes_references_of_presets_of_the_same_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "u.yaml"
    presets = "a: {extends: aws/p5.48xlarge}, b: {run: {expect: [u/a]}}"
    file.write_text(f"family: u\nsource: s\ndate: d\npresets: {{{presets}}}\n")
    assert main(["presets", "check", str(file)]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("run: {minbytes: purple}", "preset u/a: -b: not a size: 'purple'"),
        ("slurm_run: {minbytes: purple}", "preset u/a on slurm: -b: not a size: 'purple'"),
        ('kubernetes: {gpuu: "8"}', "preset u/a on kubernetes: --set gpuu is not known"),
        ("expects: [net]", "preset u/a: --expect-use 'net' is not FEATURE=VALUE"),
        ("node: {nics: many}", "preset a: node: nics: 'many' is no number of them"),
        ("launch: {nodes: many}", "preset u/a: nodes: 'many' is no number of nodes"),
        ("launch: {mpi: x}", 'preset u/a: Invalid value "x" for --mpi'),
        ("versions: {2026-01: {run: {minbytes: red}}}", "preset u/a@2026-01: -b: not a size: 'red'"),
        ("extends: a", "extends itself: u/a -> u/a"),
        ("extends: aws/p5", "extends 'aws/p5', which does not exist"),
        ("notes: [slow, but right]", "a comma begins the note 'but right'"),
        ("expects: [1]", "expects: 1 is not text"),
        ("node: {gpuz: 3}", "preset a: node: 'gpuz' is not known"),
        ("references: [nosuch]", "preset u/a: references: "),
        ("hosts: {hosts: 'a b'}", "preset u/a on hosts: --hosts: 'a b' is not a host name"),
        ("run: {expect: [nosuch]}", "preset u/a: no reference 'nosuch'"),
        ("launch: {env_file: /nowhere/env}", "preset u/a: env_file: there is no file /nowhere/env"),
        (
            "hosts: {hostfile: /nowhere/hosts}",
            "preset u/a on hosts: hostfile: there is no file /nowhere/hosts",
        ),
        (
            "expects: [net=infiniband]",
            "preset u/a: expects: net=infiniband: no network is known by that name",
        ),
        ("tool: hammer", "tool 'hammer' is not known"),
        ("launch: {on: slrum}", "preset a: launch: on: 'slrum' is no engine"),
        ("slurm: {on: hosts}", "preset a: slurm: 'on' is no setting"),
        ("launch: {on: slurm, nodes: x}", "preset u/a on slurm: nodes: 'x' is no number of nodes"),
        ("launch: {on: slurm, set: [gqu=8]}", "preset u/a on slurm: --set gqu means nothing on Slurm"),
        ("hosts: {set: [gqu=8]}", "preset u/a on hosts: --set gqu=8: no such value for hosts"),
        ("pbs: {set: [gqu=8]}", "preset u/a on pbs: --set 'gqu=8' is not known to PBS jobs"),
        ("batch: {set: [gqu=8]}", "preset u/a on batch: --set 'gqu=8' is not known to AWS Batch jobs"),
        ("launch: {on: kubernetes, set: [gqu=8]}", "on kubernetes: --set gqu is not known to Kubernetes"),
        ("launch: {set: [gqu=8]}", "preset u/a: --set gqu=8 means nothing to any engine"),
        ("launch: {topology: [/nowhere/nodes]}", "preset u/a: cannot read --topology /nowhere/nodes"),
        ("launch: {env_file: HERE}", "u.yaml, line 1: 'family: u' is not K=V"),
        ("run: {expect: [u/nothere]}", "preset u/a: no reference 'u/nothere'"),
        ("run: {expect: [u/a]}", "preset u/a: preset u/a has no reference"),
        ("kubernetes: {np: 17, slots: 8, replicas: 2}", "on kubernetes: 17 ranks but 2 workers of 8 slots"),
        ("kubernetes: {np: 0}", "preset a: kubernetes: np: 0 is no count"),
        ("launch: {time_limit: soon}", "preset u/a: --time-limit 'soon' means nothing to any engine"),
        ("slurm: {time_limit: 30m}", "preset u/a on slurm: --time-limit '30m' is no time"),
        ("pbs: {time_limit: soon}", "preset u/a on pbs: --time-limit 'soon' is no time"),
        ("batch: {time_limit: soon}", "preset u/a on batch: --time-limit 'soon' is no time"),
        ("launch: {on: kubernetes, time_limit: '20:00'}", "on kubernetes: --time-limit '20:00' is no time"),
    ],
)
def test_check_reads_values_as_flags_would(
    body: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "u.yaml"
    body = body.replace("HERE", str(file))
    file.write_text(f"family: u\nsource: s\ndate: d\npresets:\n  a: {{{body}}}\n")
    assert main(["presets", "check", str(file)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "hint:" in err


@pytest.mark.parametrize("limit", ["30", "20:00", "1:30:00", "2-12", "2-12:30:00", "UNLIMITED"])
def test_check_takes_times_as_slurm_writes_them(
    limit: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "u.yaml"
    body = f"{{extends: generic/full, launch: {{on: slurm, time_limit: '{limit}'}}}}"
    file.write_text(f"family: u\nsource: s\ndate: d\npresets: {{a: {body}}}\n")
    assert main(["presets", "check", str(file)]) == 0, capsys.readouterr().err


def test_check_takes_a_network_that_the_preset_asks_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "u.yaml"
    file.write_text(
        "family: u\nsource: s\ndate: d\npresets:\n  a: {expects: [net=Mine, nics=0], env: {NCCL_NET: mine}}\n"
    )
    assert main(["presets", "check", str(file)]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", ["p5", "aws/p5", "P5.48xlarge"])
def test_a_name_without_its_family_is_near(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets", "show", name]) == 2
    assert "aws/p5.48xlarge" in capsys.readouterr().err


def test_check_takes_what_extends_a_shipped_preset(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "family: u\nsource: s\ndate: d\npresets: {a: {extends: aws/p5.48xlarge, env: {NCCL_DEBUG: WARN}}}"
    file = ours(tmp_path, monkeypatch, text)
    assert main(["presets", "check", str(file)]) == 0
    assert "1 presets of family u are well formed" in capsys.readouterr().out


MEANT_FOR_NOBODY = (
    "asked: ranks=zz",
    "hunt: zz",
    "stop_after: deep",
    "deliver: /x",
    "presets_used: [x]",
    "overridden: [x]",
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a: {env: {A=B: x}}", "preset a: env: 'A=B' is no name of a variable"),
        ("a: {slurm_env: {1A: x}}", "preset a: slurm_env: '1A' is no name of a variable"),
        ("a: {env: {'': x}}", "preset a: env: '' is no name of a variable"),
        ("a: {env: {1: x}}", "preset a: env: 1 is no name of a variable"),
        ("a: {unset: [A=B]}", "preset a: unset: 'A=B' is no name of a variable"),
        ('a: {env: {A: "x\\0y"}}', "presets: a: env: A: 'x\\x00y' holds a zero byte"),
        ('a: {env: {A: "x\\ud800"}}', "env: A: 'x\\ud800' holds '\\ud800', which is no character"),
        ('a: {env: {"A\\0": x}}', "presets: a: env: 'A\\x00' holds a zero byte"),
        ("a: {kubernetes: {1: x}}", "preset a: kubernetes: 1 is no setting"),
        ("a: {launch: {ranks_per_node: 0}}", "preset a: launch: ranks_per_node: 0 is no count"),
        ("a: {slurm: {ranks_per_node: '-3'}}", "preset a: slurm: ranks_per_node: '-3' is no count"),
        ("a: {kubernetes: {slots: 0}}", "preset a: kubernetes: slots: 0 is no count"),
        ("a: {run: {minbytes: [8, 16]}}", "preset a: run: minbytes: [8, 16] is not one value"),
        ("a: {run: {stats: p50}}", "preset a: run: stats is not a list"),
        ("a: {launch: {set: [1]}}", "preset a: launch: set: 1 is not text"),
        ("a: {launch: {time_limit: 2026-01-01}}", "preset a: launch: time_limit is not text"),
        ("a: {launch: {preset: [b]}}", "preset a: launch: 'preset' is no setting"),
        ("a: {launch: {env: [A=1]}}", "preset a: launch: 'env' is no setting"),
        ("a: {run: {expect_use: [net=ib]}}", "preset a: run: 'expect_use' is no setting"),
        *(
            (f"a: {{run: {{{word}}}}}", f"preset a: run: '{word.partition(':')[0]}' is no setting")
            for word in MEANT_FOR_NOBODY
        ),
        ("a: {run: &n {minbytes: *n}}", "presets: a: run: minbytes: an anchor stands within itself"),
        ("a: &x {versions: {2026-01: *x}}", "a: versions: 2026-01: an anchor stands within itself"),
        ("a: {notes: %s}" % ("[" * 2000 + "]" * 2000), "is nested too deeply"),
        ("a: {summary: 2026-13-01}", "is not YAML: month must be in 1..12"),
        ("a: {versions: {2026-01: {extends: b}}}", "version 2026-01: 'extends' cannot differ"),
        ("a: {versions: {2026-01: {since: 2025-01}}}", "version 2026-01: 'since' cannot differ"),
        ("a: {versions: {2026-01: {versions: {}}}}", "version 2026-01: 'versions' cannot differ"),
        ("a: {versions: {soon: {}}}", "preset a: 'soon' is no date of values"),
        ("a: {since: soon}", "preset a: 'soon' is no date of values"),
        ("a: {since: 2026-02, versions: {2025-01: {}}}", "has a version 2025-01, before it was there"),
        ("a: {abstract: 'no'}", "preset a: abstract: 'no' is neither true nor false"),
        ("a: {extends: ''}", "preset a: extends names no preset"),
        ("a: {node: {gpus: [8]}}", "preset a: node: gpus: [8] is no number of them"),
        ("a: {node: {gpu: 8}}", "preset a: node: gpu is not text"),
        *(
            (f"{name}: {{}}", "is no name for --preset")
            for name in ("a/b", "a@b", "''", "1", "a b", "-a", "null")
        ),
    ],
)
def test_check_and_run_refuse_a_file_in_the_same_words(
    body: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = ours(tmp_path, monkeypatch, f"family: u\nsource: s\ndate: d\npresets:\n  {body}\n")
    told = []
    for words in (["presets", "check", str(file)], ["run", "all_reduce", "--preset", "u/a", "--dry-run"]):
        assert main(words) == 2
        told.append(capsys.readouterr().err)
    assert message in told[0]
    assert str(file) in told[0]
    assert "\nhint: " in told[0]
    assert told[1] == told[0]


@pytest.mark.parametrize("engine", ["hosts", "slurm", "kubernetes", "pbs", "batch"])
@pytest.mark.parametrize(
    ("flag", "count"), [("--ranks-per-node", "0"), ("--ranks-per-node", "-3"), ("--segment", "0")]
)
def test_no_engine_starts_less_than_one(
    engine: str, flag: str, count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["run", "all_reduce"], ["exec"]):
        assert main([*command, "--on", engine, f"{flag}={count}", "--dry-run"]) == 2
        assert capsys.readouterr().err == f"error: {flag} {count} is too small\nhint: give 1 or more\n"


def test_an_abstract_preset_is_not_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    presets = "a: {abstract: true}, b: {extends: a}, c: {extends: b}, d: {}, e: {abstract: true}"
    ours(tmp_path, monkeypatch, f"family: u\npresets: {{{presets}}}")
    for command in (["run", "all_reduce"], ["exec", "--on", "hosts"]):
        assert main([*command, "--preset", "u/a", "--dry-run"]) == 2
        err = capsys.readouterr().err
        assert "error: preset u/a is abstract: it only holds what others extend\n" in err
        assert err.endswith("hint: use one that extends it: u/b, u/c\n")
    assert main(["run", "all_reduce", "--preset", "u/e", "--dry-run"]) == 2
    assert "hint: extend it" in capsys.readouterr().err
    assert main(["run", "all_reduce", "--preset", "coreweave/common@2025-07", "--dry-run"]) == 2
    assert "`busbw presets list`" in capsys.readouterr().err
    assert main(["presets", "show", "u/a"]) == 0
