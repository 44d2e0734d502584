from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.stats.stopping import (
    TIMED_SHARE,
    calls_per_sample,
    decide,
    fixed_samples,
    judge_look,
    next_look,
    reported_confidence,
    settling,
    target,
)

MEDIAN_NS = 1e6


def test_looks_grow_by_1_4() -> None:
    looks = [next_look(0)]
    while looks[-1] < 600:
        looks.append(next_look(looks[-1]))
    assert looks == [8, 11, 16, 22, 31, 43, 60, 84, 118, 165, 231, 324, 454, 635]


@given(st.integers(0, 10**6))
def test_a_look_always_adds_samples(samples: int) -> None:
    assert next_look(samples) > samples


def test_small_times_have_a_wider_target() -> None:
    limits = Limits(precision=0.01, small_precision=0.025, small_ns=50_000)
    assert target(limits, 49_999) == 0.025
    assert target(limits, 50_000) == 0.01


def shuffled(low: float, high: float) -> np.ndarray:
    """Eight times between the two, in an order whose above-median indicator alternates."""
    return np.linspace(low, high, 8)[[0, 4, 1, 5, 2, 6, 3, 7]] * MEDIAN_NS


def test_quiet_samples_stop_at_the_first_look() -> None:
    assert decide(shuffled(0.995, 1.005), 0.0, Limits()) is StopReason.PRECISION


def test_noisy_samples_go_on() -> None:
    assert decide(shuffled(0.9, 1.1), 0.0, Limits()) is None


def test_a_drift_within_the_target_goes_on_because_its_samples_are_worth_fewer() -> None:
    assert decide(np.sort(shuffled(0.995, 1.005)), 0.0, Limits()) is None


def test_fewer_than_eight_samples_are_never_precise() -> None:
    equal = np.full(8, MEDIAN_NS)
    assert decide(equal, 0.0, Limits()) is StopReason.PRECISION
    assert decide(equal[:7], 0.0, Limits()) is None


def test_limits_end_what_stays_noisy_and_are_named() -> None:
    times = np.tile([0.8, 1.2], 500) * MEDIAN_NS
    assert decide(times, 0.0, Limits(max_samples=1000)) is StopReason.MAX_SAMPLES
    assert decide(times[:8], 0.5, Limits(case_seconds=0.5)) is StopReason.CASE_TIME
    assert decide(times[:8], 0.49, Limits(case_seconds=0.5)) is None


def test_precision_is_named_before_a_budget() -> None:
    assert decide(np.full(1000, MEDIAN_NS), 9.0, Limits()) is StopReason.PRECISION


@given(st.lists(st.floats(1.0, 1e9), min_size=1, max_size=60), st.floats(0, 1))
def test_the_same_numbers_give_the_same_decision(times: list[float], spent: float) -> None:
    first = decide(np.array(times), spent, Limits())
    assert decide(np.array(times), spent, Limits()) is first


def slow_start(samples: int = 40, factor: float = 1.5) -> np.ndarray:
    return np.concatenate((np.full(6, factor), np.tile([0.999, 1.001], samples)[: samples - 6])) * MEDIAN_NS


def test_a_look_judges_what_is_left_after_the_warm_up() -> None:
    judged = judge_look(slow_start(), 40, 0.0, Limits())
    assert (judged.settling, judged.stop) == (6, StopReason.PRECISION)


def test_without_a_warm_up_a_look_is_the_decision() -> None:
    for times in (shuffled(0.995, 1.005), shuffled(0.9, 1.1)):
        judged = judge_look(times, 8, 0.0, Limits())
        assert (judged.settling, judged.stop) == (0, decide(times, 0.0, Limits()))


@pytest.mark.parametrize(("taken", "stop"), [(49, None), (50, StopReason.MAX_SAMPLES)])
def test_the_limit_is_on_what_was_taken(taken: int, stop: StopReason | None) -> None:
    # Of 50 samples 46 count: 4 were flagged. Six of these are the slow start.
    times = np.concatenate((np.full(6, 9.0), np.tile([0.8, 1.2], 20))) * MEDIAN_NS
    judged = judge_look(times, taken, 0.0, Limits(max_samples=50))
    assert (judged.settling, judged.stop) == (6, stop)


def test_a_fixed_number_of_calls_counts_them_all() -> None:
    judged = judge_look(slow_start(), 40, 9.0, Limits(calls=40))
    assert (judged.settling, judged.stop) == (0, StopReason.CALLS)


def test_small_times_settle_within_their_own_target() -> None:
    times = slow_start(factor=1.02)
    assert settling(times, Limits(small_ns=MEDIAN_NS / 2)) == 6
    assert settling(times, Limits(small_ns=MEDIAN_NS * 2)) == 0
    assert settling(np.empty(0), Limits()) == 0


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


def test_one_look_at_a_fixed_number_of_calls_needs_no_allowance_for_peeking() -> None:
    assert reported_confidence(StopReason.CALLS) == 0.95
