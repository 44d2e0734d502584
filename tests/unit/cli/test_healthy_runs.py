"""Healthy runs of different kinds on this machine: `busbw diagnose` accuses nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from busbw_testing.runs import NULL, start

from busbw.errors import ExitCode

pytestmark = pytest.mark.slow
# What other work on this machine does to the times is true, and no fault of the run.
LOAD = {"variance.contended", "variance.descheduled", "variance.unstable", "variance.modes"}
LOAD |= {"variance.clock", "ranks.odd", "ranks.late", "ranks.spread"}
FEW = ("-f", "32", "--case-time", "0.2s")
HEALTHY = {
    "all_reduce": ("all_reduce", "--ranks", "2", "-b", "8", "-e", "4M", "--evidence", "counters", *FEW),
    "two operations": ("reduce_scatter,alltoall", "--ranks", "3", "-b", "1K", "-e", "1M", *FEW),
    "single calls": ("all_reduce", "--ranks", "2", "--mode", "latency", "-b", "8", "-e", "64K", *FEW),
    "rooted": ("broadcast,reduce", "--ranks", "2", "--mode", "latency", "-b", "8", "-e", "64K", *FEW),
    "groups": ("all_reduce", "--ranks", "4", "--group-size", "2", "-b", "1K", "-e", "1M", *FEW),
    "uneven": ("alltoallv", "--ranks", "4", "--skew", "2", "-b", "1K", "-e", "1M", *FEW),
    "exact times": ("all_reduce", *NULL, "-b", "1K", "-f", "8"),
}


@pytest.mark.parametrize("words", HEALTHY.values(), ids=HEALTHY.keys())
def test_a_healthy_run_has_no_severe_finding(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = start(tmp_path, "run", *words)
    assert ran.returncode == ExitCode.OK, ran.stderr
    told = start(tmp_path, "diagnose", "last", "--format", "json")
    assert told.returncode in (ExitCode.OK, ExitCode.BAD_VERDICT, ExitCode.UNDECIDED), told.stderr
    found = json.loads(told.stdout)["conclusions"]
    assert found
    assert [each for each in found if each["severity"] == "error"] == []
    named = [each for each in found if each["severity"] == "warning"]
    assert [each for each in named if each["check"] not in LOAD] == []
    if "null" in words:  # nothing disturbs scripted times
        assert named == []
