"""What options change in a run, on the null backend and with real ranks over the bundled MPI."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from busbw_testing.compared import csv_rows
from busbw_testing.runs import NULL, start

from busbw.cli.main import main
from busbw.plan.flags.engines import ENGINES
from busbw.record.read import read_record, read_samples

Busbw = Callable[..., subprocess.CompletedProcess[str]]


# ---- options, on the null backend ---------------------------------------------------------------------


def table_rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line[:1] == " "]


def test_every_operation_runs_and_says_what_it_has_not(tmp_path: Path) -> None:
    words = ("run", "all", "-b", "1K", "-o", "sum,avg", "-r", "-1", "-n", "4", "-w", "0", *NULL)
    done = start(tmp_path, *words, "--format", "csv")
    assert done.returncode == 0, done.stderr
    found = csv_rows(done.stdout)
    kinds = {(row["collective"], row["dtype"], row["op"], row["root"]) for row in found}
    # 2 reductions of all_reduce, of reduce_scatter and, with 2 roots, of reduce; 2 roots of three that move;
    # the 7 others and the barrier.
    assert len(kinds) == 2 + 2 + 2 * 2 + 3 * 2 + 7 + 1
    assert {row["status"] for row in found} == {"good", "not-applicable"}
    assert {row["error"] for row in found if row["status"] == "not-applicable"} == {
        "alltoall has no in-place form on null",
        "alltoallv has no in-place form on null",
        "all_gatherv has no in-place form on null",
        "permute has no in-place form on null",
        "sendrecv has no in-place form on null",
        "barrier has no in-place form on null",
    }


@pytest.mark.parametrize(
    ("words", "variables", "message"),
    [
        (("run", "all_reduce", "-n", "1.5"), {}, "-n takes a whole number, not 1.5"),
        (("run", "all_reduce"), {"BUSBW_ITERS": "2.5"}, "BUSBW_ITERS takes a whole number, not 2.5"),
        (("isolate", "--rounds", "16.5"), {}, "--rounds takes a whole number, not 16.5"),
        (("exec", "--ranks-per-node", "1.5", "--", "true"), {}, "takes a whole number, not 1.5"),
        (("exec", "--on", "slurm", "-N", "1.5", "--", "true"), {}, "--nodes 1.5 is not a number of nodes"),
    ],
)
def test_a_broken_number_is_not_rounded(
    words: tuple[str, ...],
    variables: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(list(words)) == 2
    assert message in capsys.readouterr().err


def test_factors_and_hexadecimal_numbers_stay(tmp_path: Path) -> None:
    words = ("run", "all_reduce", "-b", "8", "-e", "12", "-f", "1.5", "-n", "0x4", *NULL, "--format", "csv")
    done = start(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert {row["samples"] for row in csv_rows(done.stdout)} == {"4"}


def test_columns_and_lines_that_were_asked_for(tmp_path: Path, called: Any) -> None:
    words = ("run", "all_reduce", "-b", "1K", "--stats", "avg,first", "-S", "1", "-C", "1", "-M", "1", *NULL)
    done = start(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    titles = next(line for line in done.stdout.splitlines() if line.startswith("#        size")).split()[6:]
    half = ["time", "+-", "avg", "first", "issue", "finished", "algbw", "busbw", "#wrong"]
    assert titles == half * 2
    (row,) = table_rows(done.stdout)
    result = dict(zip(half, row[5:14], strict=True))
    assert (result["time"], result["avg"], result["first"], result["issue"]) == ("1.01",) * 4
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", result["finished"])
    assert "memory" not in done.stdout  # the null backend has none
    assert called(tmp_path, "show")[1] == done.stdout


def test_what_the_budget_did_not_reach_is_not_run(tmp_path: Path) -> None:
    words = ("run", "all_reduce", "-b", "8", "-e", "64", "--budget", "0.001ms", *NULL)
    done = start(tmp_path, *words)
    assert done.returncode == 3, done.stderr  # nothing was decided
    assert "\n# not run: the budget of 1e-06 s ran out first: give a longer --budget" in done.stdout
    assert len(table_rows(done.stdout)) == 4
    (folder,) = tmp_path.glob("2*")
    record = read_record(folder)
    assert (record.status, len(record.results)) == ("complete", 8)
    assert {result.status for result in record.results} == {"not-run"}
    assert record.plan.limits.budget_seconds == 1e-6


# ---- real ranks on this host, over the bundled MPI ----------------------------------------------------

MPI = ("--backend", "mpi", "--ranks", "2")
MPIEXEC = Path(sys.executable).with_name("mpiexec")
real_ranks = pytest.mark.skipif(not MPIEXEC.exists(), reason="the bundled mpich is not installed here")


@real_ranks
def test_n_0_checks_every_case_and_times_none(tmp_path: Path) -> None:
    words = ("run", "all", "-d", "half,int64", "-o", "avg", "-b", "4K", "-n", "0", "-r", "1", *MPI)
    done = start(tmp_path, *words, "--format", "csv", BUSBW_LAUNCHER="none")
    assert done.returncode == 0, done.stderr
    found = csv_rows(done.stdout)
    checked = [row for row in found if row["status"] == "good" and row["collective"] != "barrier"]
    assert {row["collective"] for row in checked} == {row["collective"] for row in found} - {"barrier"}
    assert {(row["wrong"], row["stop"]) for row in checked} == {("0", "check-only")}
    assert {(row["time_ns"], row["busbw_gb_per_s"], row["samples"]) for row in found} == {("", "", "0")}
    assert {row["conditions"] for row in checked if row["dtype"] == "half" and row["op"]} == {
        "user-op scaled"
    }
    (folder,) = tmp_path.glob("2*")
    assert len(read_samples(folder)) == 0


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Single calls on a common clock: what was printed, and the run's folder."""
    home = tmp_path_factory.mktemp("isolated")
    options = ("--mode", "latency", "--time", "span", "--stats", "p50", "skew,first", "-S", "1", "-M", "1")
    words = ("run", "all_reduce", "barrier", "-b", "1K", "-n", "60", *options, *MPI)
    done = start(home, *words, BUSBW_LAUNCHER="none")
    assert done.returncode == 0, done.stderr
    (folder,) = home.glob("2*")
    return done.stdout, folder


@real_ranks
def test_latency_mode_times_single_calls_on_a_common_clock(isolated: tuple[str, Path]) -> None:
    record = read_record(isolated[1])
    assert record.method is not None
    assert record.method.mode == "latency"
    assert record.method.time.endswith("on a synchronised clock of a single call behind a barrier")
    assert record.method.clock_error_ns is not None
    out_of_place, in_place, barrier, none = record.results
    for result in (out_of_place, in_place, barrier):
        assert (result.samples + result.excluded, result.calls_per_sample) == (60, 1)
        assert result.stop == "calls"
        assert result.skew_ns is not None
        assert result.skew_ns >= 0
        assert result.time_ns is not None
        assert result.first_call_ns is not None
        # Last exit minus first entry is no shorter than any rank's own time.
        assert result.stats["p50"] is not None
        assert result.time_ns >= 0.5 * result.stats["p50"]
        assert result.evidence["clock_error_ns"] == record.method.clock_error_ns
    assert (barrier.algbw_gb_per_s, barrier.wrong) == (None, None)
    assert (out_of_place.wrong, none.status) == (0, "not-applicable")


@real_ranks
def test_latency_mode_keeps_the_samples_of_every_rank(isolated: tuple[str, Path]) -> None:
    samples = read_samples(isolated[1])
    first = samples[samples["case"] == 0]
    assert set(first["k"].tolist()) == {1}
    assert sorted(set(first["rank"].tolist())) == [-3, -2, -1, 0, 1]
    by_rank = {rank: first[first["rank"] == rank]["elapsed_ns"] for rank in (-3, -2, -1, 0, 1)}
    assert {len(own) for own in by_rank.values()} == {60}
    both = np.stack((by_rank[0], by_rank[1]))
    assert (by_rank[-1] == both.max(axis=0)).all()
    assert (by_rank[-2] == both.min(axis=0)).all()


@real_ranks
def test_the_table_of_single_calls(isolated: tuple[str, Path]) -> None:
    out = isolated[0]
    titles = next(line for line in out.splitlines() if line.startswith("#        size")).split()[6:]
    assert titles == ["time", "+-", "p50", "skew", "first", "finished", "algbw", "busbw", "#wrong"] * 2
    reduced, barrier = table_rows(out)
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", cell) for cell in (reduced[10], reduced[19]))
    assert (barrier[0], barrier[11:14]) == ("0", ["n/a", "n/a", "N/A"])
    memory = next(line for line in out.splitlines() if line.startswith("# memory"))
    assert "buffers 24.0 KiB" in memory  # two of a page, each with bands around it
    assert memory.endswith("(the most of any rank)")
    assert read_record(isolated[1]).memory_bytes["buffers"] == 24576


@real_ranks
def test_a_loop_and_statistics_in_throughput_mode(tmp_path: Path) -> None:
    options = ("--time", "loop", "--stats", "avg", "min", "imbalance", "p99", "n")
    words = ("run", "all_gather", "-b", "1K", "-n", "100", *options, *MPI, "--format", "csv")
    done = start(tmp_path, *words, BUSBW_LAUNCHER="none")
    assert done.returncode == 0, done.stderr
    for row in csv_rows(done.stdout):
        assert int(row["samples"]) * int(row["calls_per_sample"]) == 100
        assert int(row["calls_per_sample"]) >= 20
        assert float(row["avg"]) == pytest.approx(float(row["mean_ns"]))
        assert float(row["imbalance"]) >= 0
        assert (row["min"], row["p99"]) == ("", "")  # of loops nobody can tell


def test_inside_exec_its_hosts_are_no_flags_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """BUSBW_HOSTFILE and BUSBW_NODES tell a command its nodes; elsewhere they are --hostfile and --nodes."""
    for name, value in {"BUSBW_HOSTFILE": "/proc/1/fd/9", "BUSBW_NODES": "2"}.items():
        monkeypatch.setenv(name, value)
    words = ["run", "all_reduce", "-e", "8", "--ranks", "2", "--dry-run"]
    assert main(words) == 2
    monkeypatch.setenv("BUSBW_NODE_RANK", "0")
    assert main(words) == 0
    assert main([*words, "--partition", "x"]) == 2


def test_exec_without_an_engine_names_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", "--", "echo", "hi"]) == 2
    hint = capsys.readouterr().err.partition("hint: ")[2]
    assert [name for name in ENGINES if name not in hint] == []
