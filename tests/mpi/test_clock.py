"""Clocks of real ranks under the bundled MPI, against artificial clocks whose truth is known.

No test asserts how good a bound is (benchmarks/clock/ shows that); all assert that it holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.mpi_ranks import load, needs_mpiexec, said_by_ranks

PROGRAM = Path(__file__).with_name("clock_program.py")
FAR_APART = {"separate": True, "ppm": 100.0, "offset_s": 5.0}
Ranks = list[dict[str, Any]]

pytestmark = needs_mpiexec


def run(ranks: int, **asked: object) -> Ranks:
    found: Ranks = said_by_ranks(ranks, PROGRAM, json.dumps(asked))
    assert [rank["rank"] for rank in found] == list(range(ranks))
    return found


def assert_bounds_hold(found: Ranks) -> None:
    for rank in found:
        now_ns, soon_ns, late_ns = (abs(error_ns) for error_ns in rank["true_ns"])
        assert now_ns <= rank["own_error_ns"] <= rank["error_ns"]
        # The growth is a statistical statement; a test must not fail once in a hundred ranks.
        growth_ns = 3 * rank["drift_error_ppm"] * 1e3
        assert soon_ns <= rank["own_error_ns"] + growth_ns
        assert late_ns <= rank["own_error_ns"] + 10 * growth_ns
        # The truth was looked at when the recheck was over, a little after the bound was found.
        assert abs(rank["true_at_recheck_ns"]) <= rank["recheck"][0] + rank["recheck_s"] * growth_ns
    for said_by_all in ("error_ns", "drift_error_ppm", "leader_of", "recheck"):
        assert all(rank[said_by_all] == found[0][said_by_all] for rank in found)


@pytest.mark.parametrize(("ranks", "busy"), [(2, False), (5, True)], ids=["idle", "load"])
def test_the_true_error_is_within_the_bound(ranks: int, busy: bool) -> None:
    with load(busy):
        found = run(ranks, **FAR_APART, seed=ranks)
    assert found[0]["leader_of"] == list(range(ranks))
    assert found[0]["recheck"][4] is False
    assert_bounds_hold(found)


def test_ranks_of_one_machine_share_its_clock() -> None:
    for rank in run(3):
        assert rank["leader_of"] == [0, 0, 0]
        assert (rank["error_ns"], rank["drift_error_ppm"], rank["true_ns"]) == (0, 0, [0, 0, 0])


@pytest.mark.parametrize(
    "oddity",
    [{"step_ns": -30_000_000}, {"bend_ppm": 60_000.0, "bent_s": 0.5}],
    ids=["step back", "a spell at another rate"],
)
def test_a_clock_that_does_not_run_evenly_is_found_and_named(oddity: dict[str, float]) -> None:
    found = run(4, **FAR_APART, odd_rank=2, **oddity)
    assert_bounds_hold(found)
    error_ns, excess_ns, rank, expired, renew = found[0]["recheck"]
    assert (rank, expired, renew) == (2, False, True)
    # 30 ms, less what the bounds leave open.
    assert 10e6 < excess_ns < error_ns


def test_one_rank_with_an_old_clock_renews_all() -> None:
    for rank in run(2, **FAR_APART, odd_rank=1, older_s=11.0):
        _, excess_ns, _, expired, renew = rank["recheck"]
        assert (excess_ns, expired, renew) == (0, True, True)
