from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.stats.warmup import LEAST_SAMPLES, faster_start, settled, truncation


def test_a_slow_start_is_dropped_exactly() -> None:
    times = np.tile([1.00, 1.01, 0.99], 20) * 1e6
    times[:5] = [3e6, 2e6, 1.6e6, 1.4e6, 1.2e6]
    assert truncation(times).drop == 5
    assert truncation(times).settled


def test_the_rule_cuts_a_fast_start_as_well() -> None:
    times = np.tile([1.00, 1.01, 0.99], 20) * 1e6
    times[:4] = 0.5e6
    assert truncation(times).drop == 4


@given(st.lists(st.integers(1, 10**9), min_size=16, max_size=60))
def test_it_is_the_minimum_of_the_definition(times: list[int]) -> None:
    values = np.array(times, float)
    whole = np.rint(values / np.median(values) * 2**20)
    errors = [
        float(((whole[d:] - whole[d:].mean()) ** 2).sum()) / (len(whole) - d) ** 2
        for d in range(len(whole) // 2 + 1)
    ]
    assert errors[truncation(values).drop] <= min(errors) * (1 + 1e-9) + 1e-9


def test_half_the_series_at_most_and_then_it_has_not_settled() -> None:
    result = truncation(np.arange(100.0, 0.0, -1.0))
    assert (result.drop, result.settled) == (50, False)


def test_equal_samples_lose_nothing() -> None:
    assert truncation(np.full(100, 5.0)).drop == 0


@pytest.mark.parametrize("times", [[], [9.0, 1.0], [9.0] + [1.0] * 14, [0.0] * 20])
def test_what_is_too_short_or_has_no_median_loses_nothing(times: list[float]) -> None:
    assert truncation(np.array(times)).drop == 0


def test_noise_without_warm_up_loses_little() -> None:
    random = np.random.default_rng(4)
    dropped = [truncation(1e6 * np.exp(random.normal(0, 0.03, 118))).drop for _ in range(100)]
    assert float(np.mean(dropped)) < 0.03 * 118


def test_scale_does_not_matter() -> None:
    times = np.random.default_rng(2).lognormal(0, 0.5, 64)
    assert truncation(times) == truncation(times * 1024) == truncation(times / 4096)


# ---- the prefix that is warm-up for certain ---------------------------------------------------------


def noisy(start: int, factor: float, samples: int = 100, spread: float = 0.03) -> np.ndarray:
    times = 1e6 * np.exp(np.random.default_rng(9).normal(0, spread, samples))
    times[:start] *= factor
    return times


@pytest.mark.parametrize("factor", [1.2, 10.0])
def test_a_slower_start_is_warm_up(factor: float) -> None:
    # MSER takes the next few along where these happen to lie on the same side.
    assert 10 <= settled(noisy(10, factor), 0.01) <= 15


@pytest.mark.parametrize("factor", [0.8, 0.1])
def test_a_faster_start_is_a_shift_and_no_warm_up(factor: float) -> None:
    times = noisy(10, factor)
    found = faster_start(times, 0.01)
    assert settled(times, 0.01) == 0
    assert found is not None
    assert (found.before, found.after) == pytest.approx((factor * 1e6, 1e6), rel=0.05)
    assert found.z > 3
    assert faster_start(noisy(10, 1 / factor), 0.01) is None


def test_a_start_within_the_precision_asked_for_is_not() -> None:
    quiet = np.concatenate((np.full(8, 1.02e6), np.full(72, 1e6)))
    assert (settled(quiet, 0.019), settled(quiet, 0.021)) == (8, 0)


def test_a_start_within_the_noise_is_not() -> None:
    # 8 % is 2.7 standard deviations of this noise, and MSER does cut there.
    assert truncation(noisy(10, 1.08)).drop >= 9
    assert settled(noisy(10, 1.08), 0.01) == 0


@pytest.mark.parametrize(("start", "dropped"), [(3, 0), (4, 4)])
def test_too_few_slow_samples_are_no_evidence(start: int, dropped: int) -> None:
    times = noisy(start, 3.0, samples=40, spread=0.001)
    assert truncation(times).drop == start
    assert settled(times, 0.01) == dropped


def test_a_start_counts_less_where_samples_are_alike() -> None:
    # The same values after the same start; only their order, and with it tau, differs.
    start, level = np.full(6, 1.5e6), np.linspace(0.99e6, 1.01e6, 40)
    spread_out = level[np.random.default_rng(3).permutation(40)]
    blocks = np.concatenate((level[20:30], level[:20], level[30:]))
    assert settled(np.concatenate((start, spread_out)), 0.01) == 6
    assert settled(np.concatenate((start, blocks)), 0.01) == 0


def test_a_series_that_never_settles_loses_nothing() -> None:
    assert settled(np.linspace(2e6, 1e6, 100), 0.01) == 0
    assert settled(noisy(60, 1.5), 0.01) == 0
    # Half of it at one level and half at another is a shift, and nobody knows which half is the warm-up.
    assert settled(noisy(50, 1.5), 0.01) == 0


@pytest.mark.parametrize("samples", [0, 1, LEAST_SAMPLES - 1])
def test_a_short_series_loses_nothing(samples: int) -> None:
    assert settled(noisy(5, 9.0)[:samples], 0.01) == 0


@given(st.lists(st.floats(1.0, 1e9), max_size=60).map(np.array), st.floats(0, 1))
def test_it_is_the_mser_prefix_or_nothing(times: np.ndarray, precision: float) -> None:
    assert settled(times, precision) in (0, truncation(times).drop)


def test_noise_loses_nothing(one_level: Callable[[np.random.Generator, int], np.ndarray]) -> None:
    random = np.random.default_rng(11)
    cut = [settled(one_level(random, samples), 0.01) > 0 for samples in (16, 43, 118) for _ in range(200)]
    assert float(np.mean(cut)) <= 0.01
