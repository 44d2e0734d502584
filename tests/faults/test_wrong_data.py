"""A library that delivers wrong data: the case is shown and marked, has no bandwidth, and the run exits
with 1.
"""

from __future__ import annotations

import re
from typing import Any

# One bit of element 3 on rank 1, where 256 elements are reduced.
FAULT = {"SHIM_FAULT": "last bit", "SHIM_BYTES": "1024"}


def test_one_wrong_element_on_rank_1(launcher: Any, shim: str) -> None:
    words = ("run", "all_reduce", "--ranks", "2", "-b", "512", "-e", "2K", "-n", "8", "-c", "2")
    run = launcher.begin(*words, LD_PRELOAD=shim, **FAULT)
    done = run.finish()
    assert done.code == 1
    good, wrong, also_good = (line.split() for line in done.out.splitlines() if line[:1] == " ")
    assert [row[0] for row in (good, wrong, also_good)] == ["512", "1024", "2048"]
    # Beside time, interval, imbalance, n and the two bandwidths: one element, in each of two checks
    # before timing and in the one after.
    assert [row[11] for row in (good, wrong, also_good)] == ["0", "1", "0"]
    assert "# WRONG all_reduce sum float 1024 B out-of-place: 1 element" in done.out
    assert re.search(r"^# +rank 1 on \S+: 1 wrong, first at element 3$", done.out, re.MULTILINE)
    results = run.record()["results"]
    assert run.record()["status"] == "complete"
    assert [result["status"] for result in results] == ["good", "good", "wrong", "wrong", "good", "good"]
    assert results[2]["time_ns"] > 0
    assert (results[2]["algbw_gb_per_s"], results[2]["busbw_gb_per_s"]) == (None, None)
    assert [(at["rank"], at["wrong"], at["first_offset"]) for at in results[2]["wrong_at"]] == [(1, 1, 3)]


def test_ranks_of_the_users_own_mpiexec_exit_with_1_too(launcher: Any, shim: str, mpiexec: str) -> None:
    words = (mpiexec, "-n", "2", *launcher.busbw, *["run", "all_reduce", "-b", "1K", "-e", "1K", "-n", "8"])
    done = launcher.start(*words, LD_PRELOAD=shim, **FAULT).finish()
    assert done.code == 1


def test_it_is_found_without_timing_anything(launcher: Any, shim: str) -> None:
    words = ("run", "all_reduce", "--ranks", "2", "-b", "1K", "-n", "0")
    run = launcher.begin(*words, LD_PRELOAD=shim, **FAULT)
    done = run.finish()
    assert done.code == 1
    assert "# WRONG all_reduce sum float 1024 B in-place: 1 element" in done.out
    results = run.record()["results"]
    assert [(result["status"], result["wrong"], result["time_ns"]) for result in results] == [
        ("wrong", 1, None)
    ] * 2
