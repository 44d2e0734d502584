"""Skewed experts and late ranks in real runs on this machine's CPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from busbw_testing.runs import start

FEW = ("-n", "10", "--backend", "mpi", "--format", "json")


def run(tmp_path: Path, *words: str) -> dict[str, Any]:
    done = start(tmp_path, "run", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_skewed_bytes_are_moved_right_and_shown_by_rank(tmp_path: Path) -> None:
    record = run(tmp_path, "alltoallv", "--ranks", "4", "--skew", "zipf:1", "-b", "48K", *FEW)
    measured = [each for each in record["results"] if each["time_ns"]]
    assert [(each["case"], each["wrong"]) for each in measured] == [(0, 0), (2, 0)]
    uneven, even = (start(tmp_path, "show", "last", "--ranks", "--case", case) for case in ("0", "2"))
    received = [line.split()[4] for line in uneven.stdout.splitlines() if line.startswith(" ")]
    assert received == ["49152", "24576", "16384", "12288"], uneven.stdout
    assert even.stdout.count("25600") == 8 + 1, even.stdout  # sent and received, and the size
    table = start(tmp_path, "show", "last").stdout
    assert "its busiest rank moves 1.92 times" in table.replace("\n#  ", "")


def test_a_late_rank_is_waited_for_as_long_as_it_is_late(tmp_path: Path) -> None:
    words = ("--mode", "latency", "--arrival", "late-one:4ms", "-b", "1K", *FEW)
    record = run(tmp_path, "all_reduce", "--ranks", "2", *words)
    assert record["method"]["arrival"] == "late-one:4ms"
    for result in record["results"]:
        assert result["evidence"]["latest_arrival_ns"] == 4e6
        assert result["stats"]["last"] < result["time_ns"]
        assert result["skew_ns"] > 1e6  # on a busy host ranks leave the barrier apart
    assert "over T_last" in start(tmp_path, "show", "last", "--ranks").stdout
