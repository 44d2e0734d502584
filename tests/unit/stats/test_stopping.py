from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.stats.interval import estimate
from busbw.stats.stopping import (
    TIMED_SHARE,
    calls_per_sample,
    fixed_samples,
    judge_look,
    next_look,
    over_passes,
    target,
    wanted_passes,
)

MEDIAN_NS = 1e6


def test_looks_grow_by_1_4() -> None:
    looks = [next_look(0)]
    while looks[-1] < 600:
        looks.append(next_look(looks[-1]))
    assert looks == [8, 11, 16, 22, 31, 43, 60, 84, 118, 165, 231, 324, 454, 635]
    assert [next_look(0, passes=2), next_look(4, passes=2), next_look(6, passes=2)] == [4, 6, 8]


def test_small_times_have_a_wider_target() -> None:
    limits = Limits(precision=0.01, small_precision=0.025, small_ns=50_000)
    assert target(limits, 49_999) == 0.025
    assert target(limits, 50_000) == 0.01


def shuffled(low: float, high: float) -> np.ndarray:
    """Eight times between the two, in an order whose above-median indicator alternates."""
    return np.linspace(low, high, 8)[[0, 4, 1, 5, 2, 6, 3, 7]] * MEDIAN_NS


def stop(times: np.ndarray, limits: Limits, passes: int = 1, spent: float = 0.0) -> StopReason | None:
    return judge_look(times, len(times), spent, limits, passes)


def test_a_drift_within_the_target_goes_on_because_its_samples_are_worth_fewer() -> None:
    assert stop(np.sort(shuffled(0.995, 1.005)), Limits()) is None


def test_fewer_than_eight_samples_are_never_precise() -> None:
    equal = np.full(8, MEDIAN_NS)
    assert stop(equal, Limits()) is StopReason.PRECISION
    assert stop(equal[:7], Limits()) is None


def test_four_samples_of_a_pass_are_judged_by_what_so_few_can_say() -> None:
    # [min, max] of four has 87.5 %, 1.534 standard errors; 99 % of three passes is asked for, 2.576.
    reached = 0.01 * 0.9 * 3**0.5 * 1.534121 / 2.575829
    for half, expected in ((reached * 0.99, StopReason.PRECISION), (reached * 1.01, None)):
        times = np.array([1 - half, 1 + half / 2, 1 - half / 2, 1 + half]) * MEDIAN_NS
        assert stop(times, Limits(), 3) is expected
        assert stop(times[:3], Limits(), 3) is None


def test_limits_end_what_stays_noisy_and_are_named() -> None:
    times = np.tile([0.8, 1.2], 500) * MEDIAN_NS
    assert stop(times, Limits(max_samples=1000)) is StopReason.MAX_SAMPLES
    assert stop(times[:8], Limits(case_seconds=0.5), spent=0.5) is StopReason.CASE_TIME
    assert stop(times[:8], Limits(case_seconds=0.5), spent=0.49) is None


def test_a_pass_has_its_part_of_the_limits_and_a_wider_target() -> None:
    times = np.tile([0.8, 1.2], 500) * MEDIAN_NS
    assert stop(times[:249], Limits(), 4) is None
    assert stop(times[:250], Limits(), 4) is StopReason.MAX_SAMPLES
    assert stop(times[:8], Limits(case_seconds=0.5), 4, spent=0.13) is StopReason.CASE_TIME
    wide = shuffled(0.985, 1.015)  # +-1.5 %, and 0.9 sqrt(4) x 1 % is asked for
    assert stop(wide, Limits(), 1) is None
    assert stop(wide, Limits(), 4) is StopReason.PRECISION


def test_the_limit_is_on_what_was_taken() -> None:
    times = np.tile([0.8, 1.2], 23) * MEDIAN_NS  # 46 samples count
    stops = [judge_look(times, taken, 0.0, Limits(max_samples=50), 1) for taken in (49, 50)]
    assert stops == [None, StopReason.MAX_SAMPLES]


@pytest.mark.parametrize(
    ("limits", "median_ns", "sample_ns", "passes"),
    [
        (Limits(), 6e3, 1e5, 9),
        (Limits(), 1e6, 1e6, 3),
        (Limits(), 1e8, 1e8, 2),  # two samples fit into each
        (Limits(), 3e8, 3e8, 1),
        (Limits(max_samples=8), 6e3, 1e5, 2),
        (Limits(calls=20), 6e3, 1e5, 1),
    ],
)
def test_as_many_passes_as_the_time_asks_for_and_the_limits_leave(
    limits: Limits, median_ns: float, sample_ns: float, passes: int
) -> None:
    assert wanted_passes(limits, median_ns, sample_ns) == passes


def test_why_a_case_ended_is_why_its_passes_did_unless_all_together_are_precise() -> None:
    narrow = estimate(np.full(40, MEDIAN_NS), 0.99)
    wide = replace(narrow, high=2 * MEDIAN_NS)
    good, limit = StopReason.PRECISION, StopReason.CASE_TIME
    assert over_passes([good, limit], 2, narrow, Limits()) is good
    assert over_passes([good, limit], 2, wide, Limits()) is limit
    assert over_passes([good, good], 2, wide, Limits()) is StopReason.PASSES
    assert over_passes([StopReason.CALLS], 1, narrow, Limits()) is StopReason.CALLS


@pytest.mark.parametrize(
    ("call_ns", "cost_ns", "k"),
    # cost / (0.005 call), rounded up.
    [
        (1e6, 4000.0, 1),
        (1e5, 4000.0, 8),
        (1000.0, 25.0, 5),
        (1000.0, 26.0, 6),
        (0.0, 10.0, 2000),
        (1e3, 0, 1),
    ],
)
def test_calls_per_sample(call_ns: float, cost_ns: float, k: int) -> None:
    assert calls_per_sample(call_ns, cost_ns) == k


def test_samples_of_small_calls_are_half_as_long() -> None:
    assert [calls_per_sample(7e3, 3500.0, small_ns) for small_ns in (0.0, 5e4)] == [100, 50]
    assert calls_per_sample(7e4, 3500.0, 5e4) == calls_per_sample(7e4, 3500.0)


@given(st.floats(1.0, 1e9), st.floats(0, 1e5))
def test_timing_never_costs_more_than_its_share(call_ns: float, cost_ns: float) -> None:
    k = calls_per_sample(call_ns, cost_ns)
    assert cost_ns <= TIMED_SHARE * k * call_ns * (1 + 1e-9)


@pytest.mark.parametrize(
    ("calls", "k", "expected"),
    [
        (200, 1, (200, 1)),
        (200, 10, (20, 10)),
        (20, 100, (10, 2)),
        (8, 100, (8, 1)),
        (200, 7, (40, 5)),
        (199, 7, (28, 7)),
        (3, 100, (3, 1)),
    ],
)
def test_fixed_calls_keep_at_least_eight_samples_where_they_can(
    calls: int, k: int, expected: tuple[int, int]
) -> None:
    assert fixed_samples(calls, k) == expected
