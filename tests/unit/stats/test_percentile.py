from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.stats.percentile import estimate_percentile, least_samples, nearest_rank, percentile


@pytest.mark.parametrize(
    ("percent", "least"),
    [(50, 5), (90, 29), (95, 59), (99, 299), (99.9, 2995), (99.99, 29956), (1, 299), (10, 29)],
)
def test_samples_that_a_percentile_needs(percent: float, least: int) -> None:
    assert least_samples(percent) == least
    assert percentile(np.arange(least - 1.0), percent) is None
    assert percentile(np.arange(float(least)), percent) is not None


@pytest.mark.parametrize("percent", [1, 10, 50, 90, 95, 99, 99.9])
def test_so_many_samples_bound_it_and_one_less_do_not(percent: float) -> None:
    far = max(percent, 100 - percent) / 100
    assert 1 - far ** least_samples(percent) >= 0.95 > 1 - far ** (least_samples(percent) - 1)


@pytest.mark.parametrize(
    ("n", "percent", "rank"),
    # 0.999 x 1000 as floats is 999.0000000000001 with some roundings: rank 999, not 1000.
    [(1000, 99.9, 999), (1000, 99, 990), (1000, 50, 500), (5, 50, 3), (4, 50, 2), (7, 1, 1), (10, 99.9, 10)],
)
def test_nearest_rank(n: int, percent: float, rank: int) -> None:
    assert nearest_rank(np.arange(1.0, n + 1), percent) == rank


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=200), st.floats(0.1, 99.9))
def test_nearest_rank_is_the_smallest_sample_that_so_many_do_not_exceed(
    values: list[float], percent: float
) -> None:
    ordered = np.sort(np.array(values))
    value = nearest_rank(ordered, percent)
    share = 100 / len(values)
    assert (ordered <= value).sum() * share >= percent * (1 - 1e-12)
    assert (ordered < value).sum() * share < percent * (1 + 1e-12)


@pytest.mark.parametrize("percent", [0, 100, -1, 250, math.nan])
def test_percentiles_out_of_range(percent: float) -> None:
    with pytest.raises(UsageError) as error:
        percentile(np.arange(10.0), percent)
    assert error.value.hint


def alternating(n: int) -> np.ndarray:
    """1..n with largest and smallest in turn, so that neighbours are never alike."""
    ordered = np.arange(1.0, n + 1)
    out = np.empty(n)
    out[0::2], out[1::2] = ordered[: (n + 1) // 2], ordered[(n + 1) // 2 :][::-1]
    return out


@pytest.mark.parametrize(
    ("n", "percent", "low", "high"), [(100, 50, 40, 61), (100, 90, 84, 96), (20, 50, 6, 15)]
)
def test_interval_from_tables_of_the_binomial(n: int, percent: float, low: int, high: int) -> None:
    result = estimate_percentile(alternating(n), percent)
    assert result is not None
    assert (result.low, result.high) == (low, high)


@given(st.integers(5, 400), st.sampled_from([10.0, 25.0, 50.0, 75.0, 90.0]))
def test_each_end_leaves_at_most_its_tail_and_the_next_sample_leaves_more(n: int, percent: float) -> None:
    result = estimate_percentile(alternating(n), percent)
    if result is None or result.tau > 1:
        return
    p = percent / 100
    mass = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    low = int(result.low) if result.low is not None else 0
    high = int(result.high) if result.high is not None else n + 1
    assert sum(mass[:low]) <= 0.025 < sum(mass[: low + 1])
    assert sum(mass[high:]) <= 0.025 < sum(mass[high - 1 :])


def test_an_end_that_no_sample_bounds_is_none() -> None:
    few, enough = (estimate_percentile(alternating(n), 99) for n in (367, 368))
    assert few is not None
    assert enough is not None
    assert (few.high, enough.high) == (None, 368.0)
    assert few.low is not None


def test_slow_samples_in_bursts_widen_the_interval_of_their_percentile() -> None:
    times = np.tile(np.arange(1.0, 101.0), 10)  # distinct levels, the slowest ten scattered or side by side
    bursts, scattered = np.sort(times), np.random.default_rng(3).permutation(times)
    wide, narrow = estimate_percentile(bursts, 90), estimate_percentile(scattered, 90)
    assert wide is not None
    assert narrow is not None
    assert wide.value == narrow.value
    assert wide.tau > 10
    assert narrow.tau < 2
    assert wide.low is not None
    assert narrow.low is not None
    assert wide.low < narrow.low


def test_the_interval_covers_the_true_percentile() -> None:
    random, covered, runs = np.random.default_rng(11), 0, 400
    for _ in range(runs):
        result = estimate_percentile(random.exponential(size=500), 95)
        assert result is not None
        assert result.low is not None
        assert result.high is not None
        covered += result.low <= -math.log(0.05) <= result.high
    assert covered / runs >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / runs)
