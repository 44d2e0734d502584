from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.stats.interval import (
    EXACT_SAMPLES,
    LEAST_ORDERED,
    autocorrelation_time,
    estimate,
    least_samples,
    median,
    median_ranks,
)

# (samples, confidence, positions of the interval's ends among the ordered values, counted from 1): from the
# binomial distribution with p = 1/2, as in tables of the sign test.
TABLE = [
    (1, 0.95, 1, 1),
    (8, 0.95, 1, 8),
    (9, 0.95, 2, 8),
    (20, 0.95, 6, 15),
    (100, 0.95, 40, 61),
    (11, 0.99, 1, 11),
    (12, 0.99, 2, 11),
    (20, 0.99, 4, 17),
]


@given(st.lists(st.floats(1e-3, 1e15), min_size=1, max_size=30))
def test_the_median_is_numpys_to_the_last_bit(values: list[float]) -> None:
    assert median(np.array(values)) == np.median(values)


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


@pytest.mark.parametrize(("confidence", "least"), [(0.5, 2), (0.95, 6), (0.99, 8), (0.999, 11)])
def test_fewer_samples_do_not_attain_the_confidence(confidence: float, least: int) -> None:
    assert least_samples(confidence) == least
    assert estimate(unrelated(least), confidence).attained
    too_few = estimate(unrelated(least - 1), confidence)
    assert not too_few.attained
    assert (too_few.low, too_few.high) == (1, least - 1)


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


def test_a_median_of_zero_is_never_precise() -> None:
    assert estimate(np.zeros(8), 0.95).half_width == math.inf


@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_counting_gives_the_sums_of_the_definition(rows: list[bool]) -> None:
    values, n = np.array(rows, dtype=float), len(rows)
    above = (values > np.median(values)).astype(float)
    centred, expected = above - above.mean(), 1.0
    for lag in range(1, n // 4 + 1 if n >= LEAST_ORDERED else 1):
        r = (centred[:-lag] @ centred[lag:]) / (centred @ centred) if centred.any() else 0.0
        if r <= 1e-12 or (r <= 0.05 and r < 1 / math.sqrt(n)):
            break
        expected += 2 * r
    assert autocorrelation_time(values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=200), st.floats(0.5, 0.999))
def test_the_interval_encloses_the_median(values: list[float], confidence: float) -> None:
    result = estimate(np.array(values), confidence)
    assert min(values) <= result.low <= result.median <= result.high <= max(values)
    assert result.tau >= 1.0
