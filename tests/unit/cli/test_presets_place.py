"""The ranks' place by a preset: what flags, a preset on top and a preset that extends another leave of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from busbw_testing.presets import ours

from busbw.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


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
        (("--hosts", "a,b", "--ranks", "6"), (6, 2), f"--ranks 6 {OF_P5} --ranks-per-node 8\n"),
        (
            ("--hosts", "a:4,b:4", "--preset", "u/file"),
            (8, 2),
            "--hosts a:4,b:4 takes the place of preset u/file's --hostfile /nowhere\n",
        ),
        (("--hostfile", "FILE", "--preset", "u/hosts"), (8, 2), "preset u/hosts's --hosts a:1,b:1,c:1\n"),
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
    named = "file: {launch: {hostfile: /nowhere}}"
    ours(tmp_path, monkeypatch, f"family: u\npresets: {{{many}, {hosts}, {named}}}")
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


@pytest.mark.usefixtures("gpu_hosts")
@pytest.mark.parametrize("own", ["hosts: 'x:1,y:1'", "hostfile: /nowhere"])
def test_a_job_starts_no_ranks_on_hosts_that_are_not_its_own(
    own: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours(tmp_path, monkeypatch, f"family: u\npresets: {{a: {{launch: {{{own}}}}}, b: {{hosts: {{{own}}}}}}}")
    file = tmp_path / "nodes"
    file.write_text("a\nb\nc\n" * 4)
    monkeypatch.setenv("PBS_NODEFILE", str(file))
    flag, value = own.replace("'", "").split(": ")
    presets = ("--preset", "u/a", "--preset", "u/b")
    found, said = placed(capsys, monkeypatch, *presets)
    assert found == (12, 3)
    for name in ("a", "b"):
        told = (
            f"note: PBS_NODEFILE (3 hosts, 12 slots) takes the place of preset u/{name}'s --{flag} {value}\n"
        )
        assert told in said
    found, said = placed(capsys, monkeypatch, *presets, "--hosts", "z:2")  # by hand it can be said
    assert found == (2, 1)
    assert "PBS_NODEFILE" not in said


@pytest.mark.parametrize(
    ("preset", "words", "shown"),
    [
        ("full", (), ["replicas: 2\n", "slotsPerWorker: 8\n", " -n 16 "]),
        ("full", ("-N", "4"), ["replicas: 4\n", "slotsPerWorker: 8\n", " -n 32 "]),
        ("full", ("--ranks-per-node", "4"), ["replicas: 2\n", "slotsPerWorker: 4\n", " -n 8 "]),
        ("full", ("--set", "replicas=4"), ["replicas: 4\n", " -n 32 "]),
        ("full", ("--set", "preset.replicas=4"), ["replicas: 4\n", " -n 32 "]),
        ("general", ("--set", "replicas=4"), ["replicas: 4\n", " -n 32 "]),
        ("full", ("-N", "4", "--set", "replicas=4"), ["replicas: 4\n", " -n 32 "]),
        ("full", ("--ranks", "8"), ["replicas: 2\n", "slotsPerWorker: 4\n", " -n 8 "]),
        ("general", ("--set", "np=6"), ["replicas: 2\n", "slotsPerWorker: 3\n", " -n 6 "]),
        ("full", ("--set", "np=8", "--set", "slots=8"), ["slotsPerWorker: 8\n", " -n 8 "]),
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
    left_out = bool(words) and "--ranks" not in words and "np=6" not in words
    also = " and --nodes 2" * ("replicas=4" in " ".join(words) and "-N" not in words)
    assert (f"takes the place of preset u/{preset}'s --ranks 16{also}\n" in err) == left_out


@pytest.mark.slow
@pytest.mark.usefixtures("gpu_hosts")
@pytest.mark.parametrize(
    ("name", "words", "place"),
    [
        ("four", (), (16, 4)),  # nodes were those of other hosts
        ("own", (), (16, 4)),
        ("three", (), (12, 3)),
        ("slots", (), (6, 3)),
        ("file", (), (12, 3)),
        ("slotted", (), (4, 3)),
        ("hydra", (), (4, 3)),
        ("said", (), (6, 3)),
        ("below", (), (3, 3)),
        ("ranks", ("--hosts", "a,b,c"), (6, 3)),
        ("each", ("--hosts", "a,b,c"), (6, 3)),
    ],
)
def test_a_childs_place_holds_over_its_bases_in_other_words(
    name: str,
    words: tuple[str, ...],
    place: tuple[int, int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("d\ne max_slots=9\nf  # slots=4\n")
    slotted, hydra = tmp_path / "slotted", tmp_path / "hydra"
    slotted.write_text("# ours\nd max_slots=9 slots=2\ne slots=1\nf slots=1\n")
    hydra.write_text("d:2\ne:1\nf:1")
    text = (
        "family: u\nsource: s\ndate: d\npresets:\n"
        "  base: {launch: {nodes: 2, ranks_per_node: 4}}\n"
        "  four: {extends: base, launch: {hosts: 'a,b,c,d'}}\n"
        "  own: {extends: base, hosts: {hosts: 'a,b,c,d'}}\n"
        "  three: {extends: four, launch: {nodes: 3}}\n"
        "  slots: {extends: base, launch: {hosts: 'a:2,b:2,c:2'}}\n"
        f"  file: {{extends: four, launch: {{hostfile: '{hosts}'}}}}\n"
        f"  slotted: {{extends: base, launch: {{hostfile: '{slotted}'}}}}\n"
        f"  hydra: {{extends: base, launch: {{hostfile: '{hydra}'}}}}\n"
        f"  said: {{extends: base, launch: {{hostfile: '{slotted}', ranks_per_node: 2}}}}\n"
        "  below: {extends: slotted, launch: {ranks_per_node: 1}}\n"
        "  ranks: {extends: base, run: {ranks: 6}}\n"
        "  each: {extends: ranks, launch: {ranks_per_node: 2}}\n"
    )
    file = ours(tmp_path, monkeypatch, text)
    assert main(["presets", "check", str(file)]) == 0, capsys.readouterr().err
    found, _ = placed(capsys, monkeypatch, "--preset", f"u/{name}", *words)
    assert found == place


def test_what_a_child_says_for_one_engine_leaves_the_others_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from busbw.launchers.engine import load

    facts = {"python": "/p", "user_id": "1000", "setup": "", "mpi": "pmix", "gpus": "8"}
    monkeypatch.setattr(load("slurm"), "inquire", lambda _launch, _command=(): facts)
    kubernetes = {"namespace": "n", "token": "0" * 32}
    monkeypatch.setattr(load("kubernetes"), "inquire", lambda _launch, _command=(): kubernetes)
    base = "base: {launch: {nodes: 2, ranks_per_node: 4}}"
    child = "child: {extends: base, hosts: {hosts: 'a,b,c'}, kubernetes: {np: 6}}"
    ours(tmp_path, monkeypatch, f"family: u\npresets: {{{base}, {child}}}")
    words = ["run", "all_reduce", "--dry-run", "--preset", "u/child", "--on"]
    assert main([*words, "slurm"]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert "#SBATCH --nodes=2\n" in out
    assert "#SBATCH --ntasks-per-node=4\n" in out
    assert main([*words, "kubernetes", "--image", "x"]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert "slotsPerWorker: 3\n" in out
    assert " -n 6 " in out


def test_exec_tells_what_takes_the_place_of_a_presets_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from busbw.launchers.engine import load

    kubernetes = {"namespace": "n", "token": "0" * 32}
    monkeypatch.setattr(load("kubernetes"), "inquire", lambda _launch, _command=(): kubernetes)
    words = ["exec", "--dry-run", "--on", "kubernetes", "--image", "x:1", *P5, "--env", "FI_PROVIDER=tcp"]
    assert main([*words, "--set", "np=8", "--", "hostname"]) == 0
    out, err = capsys.readouterr()
    assert f"note: --set np=8 {OF_P5} --ranks-per-node 8\n" in err
    assert "note: FI_PROVIDER=tcp, --env's, takes the place of preset aws/p5.48xlarge's efa\n" in err
    assert "slotsPerWorker: 4\n" in out


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


SIX = """family: u
presets:
  base: {launch: {nodes: 2, ranks_per_node: 4}}
  six: {extends: base, run: {ranks: 6}}
"""


@pytest.mark.usefixtures("gpu_hosts")
@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        (("--on", "hosts", "--hosts", "a,b"), 6),
        (("--on", "slurm"), 6),
        (("--on", "kubernetes", "--image", "x:1"), 6),
        (("--on", "pbs"), 6),
        (("--on", "slurm", "--ranks", "4"), 4),
        (("--on", "slurm", "--ranks-per-node", "5"), 10),
        (("--on", "hosts", "--hosts", "a:2,b:2"), 4),
    ],
)
def test_exec_places_a_preset_as_run_does(
    words: tuple[str, ...],
    ranks: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    from busbw.cli import on
    from busbw.launchers.engine import JobRequest, load

    ours(tmp_path, monkeypatch, SIX)
    slurm = {"python": "/p", "user_id": "1000", "setup": "", "mpi": "pmix", "gpus": "8"}
    kubernetes = {"namespace": "n", "token": "0" * 32}
    for engine, facts in {"slurm": slurm, "kubernetes": kubernetes}.items():
        monkeypatch.setattr(load(engine), "inquire", lambda _launch, _command=(), facts=facts: facts)
    requests: list[JobRequest] = []
    monkeypatch.setattr(on, "_print_dry_run", lambda found, _format: requests.extend(found))
    rest = ("--dry-run", "--preset", "u/six", *words)
    assert main(["run", "all_reduce", *rest]) == 0, capsys.readouterr().err
    assert main(["exec", *rest, "--", "hostname"]) == 0, capsys.readouterr().err
    assert [(request.ranks, request.nodes) for request in requests] == [(ranks, 2), (ranks, 2)]


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
