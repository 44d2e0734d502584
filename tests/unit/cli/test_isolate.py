"""Hunts as a user calls them: on scripted times, and on CPU ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.runs import NULL, start

from busbw.cli.app import RunCommand
from busbw.cli.isolate import hunt, lost_host, node_of, without_gpu, without_host
from busbw.cli.main import main
from busbw.errors import ExitCode, RankFailed
from busbw.launch.variables import read_here
from busbw.model.event import Event, EventKind, error_event, event
from busbw.model.finding import Finding
from busbw.plan.flags.hunt import HuntSettings
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings

MPI = ("--backend", "mpi", "--rank-wait", "sleep", "--no-preflight")
PRESETS = "family: own\npresets: {sweep: {run: {minbytes: 8, maxbytes: 16G, stepfactor: 2}}}"


def hunted(launch: LaunchSettings, **ranks: Any) -> ExitCode:
    settings = RunSettings(hunt=HuntSettings(kind="isolate"), **ranks)
    return hunt(RunCommand(("isolate",), settings, launch, ()))


def test_the_record_has_rounds_and_verdict(tmp_path: Path) -> None:
    words = ("isolate", "--backend", "null", "--world", "nccl", "--ranks", "4", "--format", "json")
    record = json.loads(start(tmp_path, *words).stdout)
    assert (record["status"], record["results"], record["hunt"]["exit_code"]) == ("complete", [], 0)
    (field,) = record["hunt"]["fields"]
    assert field["decision"] == "healthy"
    assert len(record["rounds"]) == field["rounds"] == 8
    test = record["rounds"][0]["tests"][0]
    # 4 MiB at 100 bytes a nanosecond, and a microsecond.
    assert test["times_ns"]["bandwidth"] == [[1000 + (4 << 20) // 100]] * 2
    (folder,) = tmp_path.glob("*-isolate-*")
    assert len((folder / "rounds.jsonl").read_text().splitlines()) == 8


@pytest.mark.parametrize(
    ("command", "ranks", "said"),
    [
        ("isolate", "3", ("could not decide: 3 parts: it takes 4", "`busbw pairs` shows every pair")),
        ("pairs", "1", ("nothing was tested: one rank has no partner to test",)),
        ("rails", "1", ("nothing was tested: one rank has no partner to test",)),
    ],
)
def test_too_few_ranks_decide_nothing(
    tmp_path: Path, command: str, ranks: str, said: tuple[str, ...]
) -> None:
    done = start(tmp_path, command, "--backend", "null", "--world", "nccl", "--ranks", ranks)
    assert done.returncode == 3
    assert all(words in done.stdout for words in said)
    assert "round 1" not in done.stderr  # nothing is measured that cannot tell


@pytest.mark.slow
@pytest.mark.parametrize(("command", "damage"), [("isolate", "cut"), ("pairs", "gone")])
def test_rounds_that_are_missing_are_said(tmp_path: Path, command: str, damage: str) -> None:
    start(tmp_path, command, "--backend", "null", "--world", "nccl", "--ranks", "5")
    (folder,) = tmp_path.glob(f"*-{command}-*")
    assert "missing" not in start(tmp_path, "show", str(folder)).stderr
    file = folder / "rounds.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    kept = {"cut": [*lines[:-1], lines[-1][:40]]}
    file.unlink() if damage == "gone" else file.write_text("".join(kept[damage]))
    lost = {"cut": 1, "gone": len(lines)}[damage]
    shown = start(tmp_path, "show", str(folder))
    assert f"{lost} of {len(lines)} rounds are missing" in shown.stderr
    reported = start(tmp_path, "report", str(folder), "--output", str(tmp_path / "page.html"))
    assert f"{lost} of {len(lines)} rounds are missing" in reported.stderr


def test_cpu_ranks_hunt_and_wait_asleep(tmp_path: Path) -> None:
    done = start(tmp_path, "isolate", *MPI, "--ranks", "4", "-b", "256K", "--rounds", "3", "--format", "json")
    record = json.loads(done.stdout)
    assert done.returncode == record["hunt"]["exit_code"] in (0, 1, 3)
    for tested in record["rounds"]:
        for test in tested["tests"]:
            assert all(
                ns > 0
                for metric in ("bandwidth", "latency")
                for way in test["times_ns"][metric]
                for ns in way
            )


def test_every_pair_is_in_the_matrix(tmp_path: Path) -> None:
    done = start(tmp_path, "pairs", *MPI, "--ranks", "3", "-b", "64K", "--format", "csv")
    assert done.returncode == 0, done.stderr
    head, *rows = (line.split(",") for line in done.stdout.splitlines())
    assert head == ["source", "target", "one_way_gb_per_s", "both_ways_gb_per_s", "latency_us"]
    assert len({(row[0], row[1]) for row in rows}) == len(rows) == 6
    assert all(float(number) > 0 for row in rows for number in row[2:])
    table = start(tmp_path, "show", "last").stdout
    assert "# Pairs of ranks of " in table
    assert "from the row's rank to the column's. Median " in " ".join(table.split("\n# "))


def test_rails_of_one_host_are_a_ring(tmp_path: Path) -> None:
    done = start(tmp_path, "rails", "--backend", "null", "--world", "nccl", "--ranks", "3", "-b", "1M")
    assert done.returncode == 3, done.stderr
    assert "there is no other rail or host of as many ranks to compare one with" in done.stdout
    assert "received from the rank left of it (the first from the last), all hosts at once" in done.stdout
    assert "round 8, each-host: 1 hosts" in done.stderr
    assert "round 11, nodes: 1 pairs of ranks" in done.stderr
    assert "# test     1 MiB a rank and a step, second best of 5 samples; a loss from" in done.stdout
    assert "rail 2" in done.stdout
    rate = f"{(1 << 20) / (1000 + (1 << 20) // 100):.3g}"
    (ring,) = (line for line in done.stdout.splitlines() if line.count(f" {rate} ") == 3)
    assert ring.startswith("# ")


def test_an_alltoall_of_a_rail_needs_something_for_every_rank(tmp_path: Path) -> None:
    done = start(tmp_path, "rails", "--backend", "null", "--world", "nccl", "--ranks", "3", "-b", "32")
    assert done.returncode == ExitCode.USAGE
    assert "hint: give -b 48 or more" in done.stderr


# Two ranks a host: hosts that differ in their name alone, which is all that groups go by.
AS_HOSTS = 'hostname "h$((PMI_RANK / 2))"; exec "$@"'


def test_rails_and_hosts_have_collectives_of_their_own_in_one_launch(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "--uts", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not name hosts (unshare --uts)")
    words = [sys.executable, "-m", "busbw", "rails", *MPI, "-b", "64K", "--format", "json"]
    launch = [Path(sys.executable).with_name("mpiexec"), "-n", "4", "unshare", "--uts", "sh", "-c", AS_HOSTS]
    environ = clean_environ(BUSBW_HOME=str(tmp_path))
    done = subprocess.run(
        [*launch, "-", *words], env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    record = json.loads(done.stdout)
    assert record["status"] == "complete", done.stderr
    assert done.returncode == record["hunt"]["exit_code"] in (0, 1, 3)
    by_stage: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for tested in record["rounds"]:
        by_stage[tested["round"]["stage"]].append(tested)
    assert list(by_stage) == ["each-rail", "each-host", "rails", "nodes"]
    for stage, groups in (("each-rail", [[0, 2], [1, 3]]), ("each-host", [[0, 1], [2, 3]])):
        assert len(by_stage[stage]) in (8, 24)
        for tested in by_stage[stage]:
            assert [each["ranks"] for each in tested["groups"]] == groups
            assert all(len(each["times_ns"]) == 5 and min(each["times_ns"]) > 0 for each in tested["groups"])
    assert [field["names"] for field in record["hunt"]["fields"]] == [["rail 0", "rail 1"], ["h0", "h1"]]
    shown = start(tmp_path, "show", "last").stdout
    assert "# GB/s: bus bandwidth of alltoall in every rail, all rails at once, over rounds" in shown


def test_halves_are_the_pairs_across_each_cut(tmp_path: Path) -> None:
    words = ("--backend", "null", "--world", "nccl", "--ranks", "5", "-b", "1M", "--halves")
    done = start(tmp_path, "pairs", *words)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("*-pairs-*")
    rounds = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    assert [each["round"]["stage"] for each in rounds] == ["halves"] * 3
    assert [each["round"]["pairs"] for each in rounds] == [[[0, 2], [1, 3]], [[0, 1], [2, 3]], [[3, 4]]]
    cuts = [line for line in done.stdout.splitlines() if line.startswith("# cut ")]
    assert [line.partition(":")[0] for line in cuts] == ["# cut 1", "# cut 2", "# cut 3"]
    shown = start(tmp_path, "show", str(folder))
    assert cuts == [line for line in shown.stdout.splitlines() if line.startswith("# cut ")]
    assert "missing" not in shown.stderr


def test_an_interrupted_hunt_is_shown_as_one(tmp_path: Path) -> None:
    start(tmp_path, "isolate", "--backend", "null", "--world", "nccl", "--ranks", "4")
    (folder,) = tmp_path.glob("*-isolate-*")
    fields = json.loads((folder / "run.json").read_text())
    fields.update(status="interrupted", hunt={}, findings=[])
    (folder / "run.json").write_text(json.dumps(fields))
    shown = start(tmp_path, "show", str(folder))
    assert "the run was interrupted" in shown.stderr
    assert "round 8, screen" in shown.stderr
    assert "# result" not in shown.stdout
    assert "# next     hunt again" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("isolate", "-d", "half", *NULL), "has no flag -d"),
        (("pairs", "--groups", "FILE", *NULL), "has no flag --groups"),
        (("isolate", "--slower", "100000%", *NULL), "is not between 0 and 1000"),
        (("isolate", "--format", "csv", *NULL), "csv"),
        (("isolate", "-b", "2", *NULL), "-b 2 is less than an element"),
        (("isolate", "--halves", *NULL), "unknown flag '--halves'"),
    ],
)
def test_what_cannot_be_meant_is_refused(capsys: Any, words: tuple[str, ...], said: str) -> None:
    assert main(list(words)) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_what_holds_for_every_command_is_no_mistake_of_a_hunt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    """A variable, and the sweep of a preset: 8 B are no size for a hunt."""
    presets = tmp_path / "own.yaml"
    presets.write_text(PRESETS)
    monkeypatch.setenv("BUSBW_PRESET_FILES", str(presets))
    monkeypatch.setenv("BUSBW_DATATYPE", "half")
    words = ["isolate", "--preset", "own/sweep", "--slower", "100%", *NULL, "--dry-run", "--format", "json"]
    assert main(words) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert plan["hunt"]["size_bytes"] == 4 << 20
    assert plan["hunt"]["rules"]["floors"]["latency"] == 1.0


def test_a_lost_host_is_left_out_where_hosts_are_named() -> None:
    launch = LaunchSettings(on="hosts", hosts="a:2,user@b,c", nodes="3")
    rest = without_host(launch, "b", "b")
    assert rest is not None
    assert (rest.hosts, rest.nodes) == ("a:2,c", "")
    assert without_host(launch, "z", "z") is None
    heard = [
        event(EventKind.STATE, job="1", phase="running", why=""),
        error_event(RankFailed("rank 1 on b was killed by SIGKILL", rank=1, host="b")),
    ]
    assert lost_host(heard) == ("b", "rank 1 on b was killed by SIGKILL")
    assert lost_host(heard[:1]) == ("", "")


@pytest.mark.parametrize(("format_name", "printed"), [("json", "2\n"), ("csv", "2\n"), ("table", "1\n2\n")])
def test_a_document_is_that_of_the_last_launch(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, format_name: str, printed: str
) -> None:
    """Which knows who was lost before it."""
    known: list[tuple[str, ...]] = []

    def launched(command: RunCommand) -> ExitCode:
        known.append(tuple(finding.host for finding in command.before))
        print(len(known))
        if len(known) == 2:
            return ExitCode.OK
        command.hear(error_event(RankFailed("rank 1 on b was killed by SIGKILL", rank=1, host="b")))
        return ExitCode.RANK_FAILED

    monkeypatch.setattr("busbw.cli.isolate.run", launched)
    assert hunted(LaunchSettings(on="hosts", hosts="a,b,c"), format=format_name) is ExitCode.BAD_VERDICT
    assert known == [(), ("b",)]
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(("code", "launches"), [(ExitCode.UNDECIDED, 1), (ExitCode.RANK_FAILED, 2)])
def test_only_a_host_that_failed_is_left_out(
    monkeypatch: pytest.MonkeyPatch, code: ExitCode, launches: int
) -> None:
    """Where nobody is named, the hunt does not begin again; where a host cannot be left out, it ends."""
    known: list[int] = []

    def launched(command: RunCommand) -> ExitCode:
        known.append(len(command.before))
        error = RankFailed("gone", host="b" if code is ExitCode.RANK_FAILED else "")
        command.hear({**error_event(error), "exit_code": int(code)})
        return code

    monkeypatch.setattr("busbw.cli.isolate.run", launched)
    assert hunted(LaunchSettings(on="hosts", hosts="a,b,c")) is code
    assert len(known) == launches


def test_slurm_is_told_to_take_others() -> None:
    """By its own name of the node, beside those that the user leaves out: sbatch takes the last --exclude."""
    launch = LaunchSettings(on="slurm", nodes="8", sbatch_args="--comment='a b' -x n1,n2")
    rest = without_host(launch, "ip-10-0-0-3", "n3")
    assert rest is not None
    assert (rest.nodes, rest.sbatch_args) == ("7", "'--comment=a b' -x n1,n2 --exclude=n1,n2,n3")
    once_more = without_host(rest, "n4", "n4")
    assert once_more is not None
    assert once_more.sbatch_args.endswith(" --exclude=n1,n2,n3,n4")
    for other in ({"nodes": "2"}, {"nodes": "8", "job_id": "7"}, {"nodes": "4,8"}, {"nodes": ""}):
        assert without_host(LaunchSettings(on="slurm", **other), "b", "b") is None
    assert without_host(LaunchSettings(on="pbs", nodes="8"), "b", "b") is None


def test_kubernetes_is_told_to_take_others() -> None:
    rest = without_host(
        LaunchSettings(on="kubernetes", nodes="4", set=("gpu=8", "exclude=n1")), "pod-3", "n3"
    )
    assert rest is not None
    assert (rest.nodes, rest.set) == ("3", ("gpu=8", "exclude=n1", "exclude=n3"))


def test_an_engine_has_names_of_its_own_for_hosts() -> None:
    places = [
        {"host": "ip-10-0-0-3", "slurm_node": "n3", "kubernetes_node": ""},
        {"host": "pod-1", "slurm_node": "", "kubernetes_node": "n1"},
        {"host": "b", "slurm_node": "", "kubernetes_node": ""},
    ]
    heard = [event(EventKind.HEADER, world={"places": places})]
    names = ("ip-10-0-0-3", "pod-1", "b", "c")
    assert [node_of(heard, name) for name in names] == ["n3", "n1", "b", "c"]


@pytest.mark.parametrize(
    ("inherited", "given", "ranks", "rank", "left", "word"),
    [
        (None, None, 4, 2, "0,1,3", "2"),
        ("4,5,6,7", None, 4, 2, "4,5,7", "6"),
        ("4,5,6,7", None, 3, 0, "5,6", "4"),  # no more GPUs than there were ranks
        (" GPU-8f6d , GPU-1b,MIG-7", None, 3, 1, "GPU-8f6d,MIG-7", "GPU-1b"),
        ("0,1,2", "5,6,7", 3, 2, "5,6", "7"),  # --env is over what the process has
        ("5,6,-1,7", None, 4, 0, None, ""),
        ("", None, 3, 0, None, ""),
    ],
)
def test_the_gpu_of_a_lost_rank_is_left_out_by_the_users_words(
    inherited: str | None, given: str | None, ranks: int, rank: int, left: str | None, word: str
) -> None:
    launch = LaunchSettings(env=("A=1", *([] if given is None else [f"CUDA_VISIBLE_DEVICES={given}"])))
    environ = {} if inherited is None else {"CUDA_VISIBLE_DEVICES": inherited}
    rest = without_gpu(launch, environ, ranks, rank)
    if left is None:
        assert rest is None
        return
    assert rest is not None
    assert read_here(rest[0], environ) == {"A": "1", "CUDA_VISIBLE_DEVICES": left}
    assert rest[1] == word


def lost_here(rank: int | None, ranks: int, backend: str) -> list[Event]:
    """What a launch on this host says whose ranks had met, and that lost one."""
    header = event(EventKind.HEADER, world={"size": ranks, "places": []}, plan={"backend": backend})
    return [header, error_event(RankFailed(f"rank {rank} on vm was killed by SIGKILL", rank=rank, host="vm"))]


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
def test_a_lost_rank_of_this_host_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, backend: str
) -> None:
    """Rank by rank, until two are left; a GPU keeps its number."""
    monkeypatch.setattr("busbw.cli.run.identify", lambda environ: None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    launches: list[tuple[int | None, tuple[str, ...]]] = []
    found: list[Finding] = []

    def launched(command: RunCommand) -> ExitCode:
        ranks = command.settings.ranks
        launches.append((ranks, command.launch.env))
        found[:] = command.before
        for item in lost_here(1, ranks or 4, backend):
            command.hear(item)
        return ExitCode.RANK_FAILED

    monkeypatch.setattr("busbw.cli.isolate.run", launched)
    assert hunted(LaunchSettings()) is ExitCode.RANK_FAILED
    gpus = [(), ("CUDA_VISIBLE_DEVICES=0,2,3",), ("CUDA_VISIBLE_DEVICES=0,2,3", "CUDA_VISIBLE_DEVICES=0,3")]
    assert launches == list(zip((None, 3, 2), gpus if backend == "nccl" else [()] * 3, strict=True))
    whose = (" (GPU 1)", " (GPU 2)") if backend == "nccl" else ("", "")
    assert [finding.claim for finding in found] == [
        f"rank 1 of 4{whose[0]} on vm: lost during the hunt: rank 1 on vm was killed by SIGKILL",
        f"rank 1 of 3{whose[1]} on vm: lost during the hunt: rank 1 on vm was killed by SIGKILL",
    ]
    assert [(finding.severity, finding.check, finding.host) for finding in found] == [
        ("error", "lost", "vm")
    ] * 2
    assert [finding.node for finding in found] == ["", ""]
    assert ("CUDA_VISIBLE_DEVICES=0,3" in found[1].hint) == (backend == "nccl")
    assert "the other 2 ranks are renumbered" in found[1].evidence
    assert capsys.readouterr().err.count("; starting again without it") == 2


@pytest.mark.parametrize("why", ["somebody's ranks", "not met", "nobody named"])
def test_what_is_no_lost_rank_of_ours_ends_the_hunt(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    identity = object() if why == "somebody's ranks" else None
    monkeypatch.setattr("busbw.cli.run.identify", lambda environ: identity)
    launches: list[int] = []

    def launched(command: RunCommand) -> ExitCode:
        launches.append(len(command.before))
        header, error = lost_here(None if why == "nobody named" else 1, 4, "mpi")
        for item in (error,) if why == "not met" else (header, error):
            command.hear(item)
        return ExitCode.RANK_FAILED

    monkeypatch.setattr("busbw.cli.isolate.run", launched)
    assert hunted(LaunchSettings()) is ExitCode.RANK_FAILED
    assert launches == [0]
