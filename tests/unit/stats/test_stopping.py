from __future__ import annotations

import math

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
    decide,
    fixed_samples,
    next_look,
    reported_confidence,
    target,
)

MEDIAN_NS = 1e6
SIMULATED_RUNS = 200


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


def test_quiet_samples_stop_at_the_first_look() -> None:
    times = np.linspace(0.995, 1.005, 8) * MEDIAN_NS
    assert decide(times, 0.0, Limits()) is StopReason.PRECISION


def test_noisy_samples_go_on() -> None:
    assert decide(np.linspace(0.9, 1.1, 8) * MEDIAN_NS, 0.0, Limits()) is None


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


def sample_until_enough(series: np.ndarray, limits: Limits) -> np.ndarray:
    samples = next_look(0)
    while decide(series[:samples], 0.0, limits) is None:
        samples = min(next_look(samples), limits.max_samples)
    return series[:samples]


def normal(random: np.random.Generator, n: int) -> np.ndarray:
    return random.normal(1.0, 0.03, n)


def lognormal(random: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(random.normal(0.0, 0.03, n))


def autoregressive(random: np.random.Generator, n: int) -> np.ndarray:
    rho, value = 0.6, random.normal()
    noise = random.normal(size=n) * math.sqrt(1 - rho * rho)
    out = np.empty(n)
    for i in range(n):
        value = rho * value + noise[i] if i else value
        out[i] = 1.0 + 0.03 * value
    return out


@pytest.mark.parametrize("noise", [normal, lognormal, autoregressive])
def test_the_reported_interval_covers_the_true_median_in_spite_of_peeking(noise: object) -> None:
    # All three series have a median of 1; a plain 95 % interval covers 0.92 of the last.
    random = np.random.default_rng(20_261)
    covered = 0
    for _ in range(SIMULATED_RUNS):
        series = noise(random, 1000) * MEDIAN_NS  # type: ignore[operator]
        samples = sample_until_enough(series, Limits())
        result = estimate(samples, reported_confidence(StopReason.PRECISION))
        covered += result.low <= MEDIAN_NS <= result.high
    assert covered / SIMULATED_RUNS >= 0.95


def test_one_look_at_a_fixed_number_of_calls_needs_no_allowance_for_peeking() -> None:
    assert reported_confidence(StopReason.CALLS) == 0.95
