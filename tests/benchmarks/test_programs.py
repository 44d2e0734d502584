"""Each program says what its table is made of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

Script = Callable[..., str]


@pytest.mark.slow
@pytest.mark.usefixtures("mpicc")
def test_control_counts_messages_and_times_looks(script: Script, tmp_path: Path) -> None:
    few = ("--ranks", "2,40", "--many", "3", "--repeats", "10")
    text = script("control/control.py", *few, "--output", "out.json")
    kept = json.loads((tmp_path / "out.json").read_text())
    assert all(len(look["barrier_ns"]) == 10 for found in kept["two"].values() for look in found["looks"])
    assert "| 40 | 78 | 117 |" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith(("| mpi", "| nccl"))]
    assert [row[1] for row in rows] == ["2"] * 12 + ["3"] * 6
    assert [row[3] for row in rows[:4]] == ["448", "14,224", "57,344", "229,376"]


def test_storage_says_what_rank_0_holds_and_what_is_left(script: Script) -> None:
    text = script("control/storage.py", "--ranks", "40", "--cases", "3", "--samples", "100")
    assert text.startswith("# 40 ranks x 3 cases x 100 samples\n")
    # Six series of 100 samples and 40 digests, of 36 and 64 bytes.
    assert "samples/digests.bin 0.01, samples/samples.bin 0.06" in text
    held = re.search(r"rank 0 holds at most ([\d.]+) MB more", text)
    assert held is not None
    assert 0 < float(held[1]) < 100


@pytest.mark.slow
@pytest.mark.usefixtures("mpicc")
def test_fidelity_compares_both_loops_and_keeps_every_block(script: Script, tmp_path: Path) -> None:
    few = ("--sizes", "8,64K", "--launches", "2", "--most-launches", "2", "--seconds", "0.001")
    text = script("cpu/fidelity.py", *few, "--output", "out.json")
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["ranks"] == 2
    assert "MPICH" in result["mpi"]
    cases = {
        "all_reduce 8 B",
        "all_reduce 64 KiB",
        "all_gather 32 B",  # 8 B would round to nothing
        "all_gather 64 KiB",
        "sendrecv 8 B",
        "sendrecv 64 KiB",
    }
    assert {row["key"] for row in result["rows"]} == cases
    assert {row["launch"] for row in result["rows"]} == {0, 1}
    assert all(len(row["log_ratios"]) >= 8 and row["plain_us"] > 0 for row in result["rows"])
    assert all(case in text for case in cases)


def test_changes_of_level_are_simulated(script: Script) -> None:
    lines = script("history/simulate.py", "--points", "300", "--series", "5").splitlines()
    alarms = {cells[0]: float(cells[1]) for line in lines[2:12] if (cells := line.strip("| ").split(" | "))}
    assert alarms["independent"] < 10
    found = next(line for line in lines if line.startswith("| 100 |")).strip("| ").split(" | ")
    assert float(found[2]) >= 0.6  # within six launches, of five series


@pytest.mark.slow
def test_the_index_is_timed(script: Script) -> None:
    first, history, adding = script("history/index.py", "--runs", "60", "--sizes", "3").splitlines()
    assert first.startswith("index of 60 runs of 3 cases: ")
    assert float(history.split(": ")[1].split()[0]) > 0
    assert float(adding.split(": ")[1].split()[0]) > 0


def test_hunts_are_simulated(script: Script) -> None:
    lines = script("isolate/simulate.py", "--hunts", "1", "--parts", "16", "--cases", "noise 1%|half")
    rows = [row.split(" | ") for row in lines.splitlines()[2:]]
    assert [row[5] for row in rows] == ["-", "1 of 1", "1 of 1", "1 of 1", "8 of 8"]
    assert {row[7] for row in rows} == {"0 parts, 0 paths"}


@pytest.mark.slow
def test_a_load_of_nothing_beside_a_collective(script: Script) -> None:
    words = ("all_reduce", "-b", "64K", "--ranks", "2", "--backend", "mpi", "--case-time", "0.3s")
    _, _, *rows = script("load/alone.py", "--launches", "2", "--", *words).splitlines()
    mean, median, *_ = (row.strip("| ").split(" | ") for row in rows)
    assert mean[:3] == ["compute:share=0", "all_reduce 64 KiB", "mean"]
    assert median[2] == "median"
    assert 0.2 < float(mean[3]) < 5
    assert sum(map(int, mean[4:])) == 2


def test_progress_cost_compares_with_and_without(script: Script) -> None:
    text = script("overhead/progress_cost.py", "--samples", "20", "--rounds", "6")
    rows = text.splitlines()[2:6]
    assert [row.split()[0] for row in rows] == ["1", "10", "100", "1000"]
    assert len(re.findall(r"^(?:with it|itself) +[+-]\d+\.\d\d %", text, re.MULTILINE)) == 2


def test_preflight_of_many_ranks_is_timed(script: Script) -> None:
    text = script("preflight/many.py", "--simulated", "2x4,5x1", "--real", "3", "--rounds", "2")
    lines = text.splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith(("| 2 hosts x 4", "| 5 hosts x 1"))]
    assert len(rows) == 2
    assert all(float(row[3]) >= 0 for row in rows)
    (real,) = [line for line in lines if line.startswith("| 3 |")]
    assert float(real.split()[3]) > 0


@pytest.mark.slow
def test_a_report_is_timed(script: Script) -> None:
    row = script("report/large.py", "--ranks", "32", "--cases", "6", "--rounds", "1").splitlines()[-1]
    ranks, cases, built, cpu, megabytes, shown = row.strip("| ").split(" | ")
    assert (ranks, cases, shown) == ("32", "6", "n/a")
    assert float(cpu) > 0
    assert float(built) > 0
    assert 0 < float(megabytes) < 10


def test_simulated_soaks_have_a_row_for_each_kind_of_windows(script: Script) -> None:
    told = script("soak/simulate.py", "--soaks", "1", "--plants", "2", "--windows", "100", "--length", "60")
    rows = [line for line in told.splitlines() if line.startswith("| ") and "windows" not in line]
    assert len(rows) == 2 * 6
    assert rows[0].startswith("| normal, 1 % | 0.00 | 0 |")


@pytest.mark.slow
def test_planted_faults_of_a_short_soak(script: Script) -> None:
    wrong, _, memory, *_ = script("soak/planted.py", "--time", "15", "--shared", "3").splitlines()
    assert wrong.endswith("(rank, element) [(1, 3)]")
    assert "exit code 1" in wrong
    assert memory.startswith("memory of rank 0: ")
