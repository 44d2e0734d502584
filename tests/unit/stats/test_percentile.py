from __future__ import annotations

import numpy as np
import pytest

from busbw.stats.percentile import at_most, least_samples, nearest_rank, percentile


@pytest.mark.parametrize(
    ("percent", "least"),
    [(50, 5), (90, 29), (95, 59), (99, 299), (99.9, 2995), (99.99, 29956), (1, 299), (10, 29)],
)
def test_samples_that_a_percentile_needs(percent: float, least: int) -> None:
    assert least_samples(percent) == least
    assert percentile(np.arange(least - 1.0), percent) is None
    assert percentile(np.arange(float(least)), percent) is not None


@pytest.mark.parametrize(
    ("n", "percent", "rank"),
    # 0.999 x 1000 as floats is 999.0000000000001 with some roundings: rank 999, not 1000.
    [(1000, 99.9, 999), (1000, 99, 990), (1000, 50, 500), (5, 50, 3), (4, 50, 2), (7, 1, 1), (10, 99.9, 10)],
)
def test_nearest_rank(n: int, percent: float, rank: int) -> None:
    assert nearest_rank(np.arange(1.0, n + 1), percent) == rank


def test_what_bounds_a_percentile_holds_it_in_95_of_100_cases() -> None:
    random = np.random.default_rng(3)
    held = [(at_most(random.random(600), 99) or 0.0) >= 0.99 for _ in range(1000)]
    assert 0.94 <= np.mean(held) <= 0.99
    # As a table of the binomial distribution has it: P(at most 597 of 600 below) is 0.94, of 598 0.98.
    assert at_most(np.arange(1.0, 601), 99) == 599
    assert at_most(np.arange(1.0, 299), 99) is None
    assert at_most(np.arange(1.0, 300), 99) == 299
