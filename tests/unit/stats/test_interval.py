from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.stats.interval import (
    EXACT_SAMPLES,
    autocorrelation_time,
    estimate,
    indicator_time,
    least_samples,
    median_ranks,
)

# (samples, confidence, positions of the interval's ends among the ordered values, counted from 1): from the
# binomial distribution with p = 1/2, as in tables of the sign test.
TABLE = [
    (1, 0.95, 1, 1),
    (5, 0.95, 1, 5),
    (8, 0.95, 1, 8),
    (9, 0.95, 2, 8),
    (10, 0.95, 2, 9),
    (20, 0.95, 6, 15),
    (50, 0.95, 18, 33),
    (100, 0.95, 40, 61),
    (8, 0.99, 1, 8),
    (11, 0.99, 1, 11),
    (12, 0.99, 2, 11),
    (16, 0.99, 3, 14),
    (20, 0.99, 4, 17),
]


def unrelated(n: int) -> np.ndarray:
    """1..n in an order whose above-median indicator alternates, so that no autocorrelation is found."""
    low, high = np.arange(1, n // 2 + 1), np.arange(n // 2 + 1, n + 1)
    out = np.empty(n)
    out[0::2], out[1::2] = high[: (n + 1) // 2], low[: n // 2]
    return out


@pytest.mark.parametrize(("n", "confidence", "low", "high"), TABLE)
def test_ends_of_the_interval_are_those_of_the_sign_test(
    n: int, confidence: float, low: int, high: int
) -> None:
    result = estimate(unrelated(n), confidence)
    assert result.tau == 1.0
    assert (result.low, result.high) == (low, high)


@pytest.mark.parametrize(("n", "confidence", "low", "high"), [row for row in TABLE if row[2] > 1])
def test_those_ends_cover_as_promised_and_the_next_do_not(
    n: int, confidence: float, low: int, high: int
) -> None:
    def coverage(lowest: int) -> float:
        return 1 - 2 * sum(math.comb(n, k) for k in range(lowest)) / 2**n

    assert coverage(low) >= confidence > coverage(low + 1)
    assert high == n + 1 - low


@pytest.mark.parametrize(("confidence", "least"), [(0.5, 2), (0.95, 6), (0.99, 8), (0.999, 11)])
def test_fewer_samples_do_not_attain_the_confidence(confidence: float, least: int) -> None:
    assert least_samples(confidence) == least
    assert estimate(unrelated(least), confidence).attained
    too_few = estimate(unrelated(least - 1), confidence)
    assert not too_few.attained
    assert (too_few.low, too_few.high) == (1, least - 1)


def test_one_sample_promises_nothing() -> None:
    result = estimate(np.array([7.0]), 0.95)
    assert (result.low, result.high, result.attained) == (7.0, 7.0, False)


def test_samples_that_hang_together_count_as_fewer() -> None:
    # tau is 1 + 2 (5/8 + 2/8) = 2.75, so eight of these are worth three.
    result = estimate(np.arange(1.0, 9.0), 0.99)
    assert not result.attained
    assert (result.low, result.high) == (1.0, 8.0)


def test_ranks_of_many_samples_join_those_of_the_exact_binomial() -> None:
    for n in (EXACT_SAMPLES, EXACT_SAMPLES - 1):
        exact, more = median_ranks(n, 0.99), median_ranks(n + 2, 0.99)
        assert abs(more[0] - 1 - exact[0]) <= 2, (exact, more)
    low, high = median_ranks(1_000_000, 0.95)
    assert low == pytest.approx(500_000 - 1.96 * 500, abs=2)
    assert high == 999_999 - low


def test_median_mean_and_half_width() -> None:
    result = estimate(np.array([4.0, 1.0, 3.0, 2.0, 10.0]), 0.95)
    assert (result.median, result.mean, result.samples) == (3.0, 4.0, 5)
    assert result.half_width == pytest.approx((10 - 1) / 2 / 3)


def test_equal_values_have_no_width() -> None:
    result = estimate(np.full(8, 7.0), 0.99)
    assert (result.low, result.high, result.half_width, result.tau) == (7.0, 7.0, 0.0, 1.0)


def test_a_median_of_zero_is_never_precise() -> None:
    assert estimate(np.zeros(8), 0.95).half_width == math.inf


def test_a_slow_drift_widens_the_interval() -> None:
    drifting = np.repeat([1.0, 2.0, 3.0, 4.0], 10)
    result = estimate(drifting, 0.95)
    assert result.tau > 3
    assert (result.low, result.high) == (1.0, 4.0)


def test_autocorrelation_time_by_hand() -> None:
    # Indicator 00001111: lag 1 has (3 + 3 - 1) / 8, lag 2 (2 + 2 - 2) / 8; n/4 = 2 lags.
    assert autocorrelation_time(np.arange(8.0)) == pytest.approx(1 + 2 * (5 / 8 + 2 / 8))


@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_counting_gives_the_sums_of_the_definition(above: list[bool]) -> None:
    values, n = np.array(above, dtype=float), len(above)
    centred, expected = values - values.mean(), 1.0
    for lag in range(1, n // 4 + 1):
        r = (centred[:-lag] @ centred[lag:]) / (centred @ centred) if centred.any() else 0.0
        if r <= 1e-12 or (r <= 0.05 and r < 1 / math.sqrt(n)):
            break
        expected += 2 * r
    assert indicator_time(np.array(above)) == pytest.approx(expected)


def test_a_level_that_holds_for_very_long_stays_affordable() -> None:
    # 1000 lags at most, each with r near 1.
    half = np.repeat([False, True], 50_000)
    assert 1900 < indicator_time(half) < 2001


def test_alternation_is_not_narrower_than_independence() -> None:
    assert autocorrelation_time(np.tile([1.0, 2.0], 20)) == 1.0


def test_autocorrelation_time_of_an_autoregressive_series() -> None:
    # For the sign of a Gaussian series with correlation r^k, r = 0.6: 1 + 2 sum (2/pi) asin(r^k) = 2.9.
    taus = [autocorrelation_time(autoregressive(np.random.default_rng(seed), 1000)) for seed in range(20)]
    assert 2.3 < float(np.mean(taus)) < 3.6


def autoregressive(random: np.random.Generator, n: int, rho: float = 0.6) -> np.ndarray:
    noise = random.normal(size=n) * math.sqrt(1 - rho * rho)
    values = np.empty(n)
    values[0] = random.normal()
    for i in range(1, n):
        values[i] = rho * values[i - 1] + noise[i]
    return values


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=200), st.floats(0.5, 0.999))
def test_the_interval_encloses_the_median(values: list[float], confidence: float) -> None:
    result = estimate(np.array(values), confidence)
    assert min(values) <= result.low <= result.median <= result.high <= max(values)
    assert result.tau >= 1.0


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=100))
def test_more_confidence_is_never_narrower(values: list[float]) -> None:
    usual, high = estimate(np.array(values), 0.95), estimate(np.array(values), 0.99)
    assert high.low <= usual.low <= usual.high <= high.high
