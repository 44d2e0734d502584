"""Exact rank tests: against scipy where scipy is exact, by hand where there are ties, and their coverage."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.stats.ranking import (
    doubled_ranks,
    least_rank_sum_p,
    least_signed_rank_p,
    median_interval,
    rank_sum_p,
    shift_interval,
    signed_rank_p,
)

NUMBERS = st.lists(st.integers(-5, 5), min_size=1, max_size=9)


@pytest.mark.parametrize("n", [6, 9, 14, 25])
def test_p_is_that_of_scipy(n: int) -> None:
    from scipy import stats

    draw = random.Random(n)
    for _ in range(5):
        one = [draw.gauss(0.3, 1) for _ in range(n)]
        two = [draw.gauss(0.5, 1) for _ in range(n - 2)]
        assert signed_rank_p(one) == pytest.approx(stats.wilcoxon(one, method="exact").pvalue)
        assert rank_sum_p(one, two) == pytest.approx(stats.mannwhitneyu(one, two, method="exact").pvalue)


def test_large_samples_come_near_scipys_normal_form() -> None:
    from scipy import stats

    draw = random.Random(1)
    one = [draw.gauss(0.1, 1) for _ in range(90)]
    two = [draw.gauss(0.3, 1) for _ in range(80)]
    normal = stats.wilcoxon(one, method="approx", correction=False).pvalue
    assert signed_rank_p(one) == pytest.approx(normal, rel=1e-6)
    normal = stats.mannwhitneyu(one, two, method="asymptotic", use_continuity=False).pvalue
    assert rank_sum_p(one, two) == pytest.approx(normal, rel=1e-6)


@given(NUMBERS)
def test_signed_ranks_with_ties_and_zeros_are_counted(values: list[int]) -> None:
    ranks = doubled_ranks([abs(value) for value in values])
    own = [rank for rank, value in zip(ranks, values, strict=True) if value]
    up = sum(rank for rank, value in zip(ranks, values, strict=True) if value > 0)
    sums = [0]
    for rank in own:
        sums += [total + rank for total in sums]
    least = min(up, sum(own) - up)
    expected = min(1.0, 2 * sum(total <= least for total in sums) / len(sums))
    assert signed_rank_p(values) == pytest.approx(expected)


def test_equal_ranks_share_their_mean() -> None:
    assert doubled_ranks([3.0, 1.0, 3.0, 2.0]) == [7, 2, 7, 4]


def test_nothing_that_differs_is_no_evidence() -> None:
    assert signed_rank_p([0.0] * 12) == 1.0
    assert rank_sum_p([1.0] * 5, [1.0] * 5) == 1.0
    assert rank_sum_p([], [1.0]) == 1.0


def test_the_smallest_p_is_all_on_one_side() -> None:
    for n in (6, 8, 12):
        assert signed_rank_p([float(i) for i in range(1, n + 1)]) == pytest.approx(least_signed_rank_p(n))
    assert rank_sum_p([1, 2, 3, 4], [5, 6, 7]) == pytest.approx(least_rank_sum_p(4, 3))


def test_too_few_values_have_no_interval() -> None:
    assert median_interval([1.0] * 5, 0.95) is None
    assert median_interval([1.0] * 6, 0.95) is not None
    assert shift_interval([1.0] * 3, [1.0] * 3, 0.95) is None
    assert shift_interval([1.0] * 4, [1.0] * 4, 0.95) is not None


def test_six_values_give_their_range() -> None:
    assert median_interval([1, 2, 3, 4, 5, 9], 0.95) == (3.5, 1, 9)


@pytest.mark.parametrize("n", [6, 8, 12])
def test_intervals_cover_and_agree_with_p(n: int) -> None:
    draw = random.Random(n)
    paired = unpaired = 0
    trials = 400
    for _ in range(trials):
        one, two = [draw.gauss(0, 1) for _ in range(n)], [draw.gauss(0, 1) for _ in range(n)]
        _, low, high = median_interval(one, 0.95) or (0, 1, -1)
        paired += low <= 0 <= high
        assert (low <= 0 <= high) == (signed_rank_p(one) > 0.05)
        _, low, high = shift_interval(one, two, 0.95) or (0, 1, -1)
        unpaired += low <= 0 <= high
        assert (low <= 0 <= high) == (rank_sum_p(one, two) > 0.05)
    # 0.95 or a little more by design; 400 trials scatter by 0.011.
    assert min(paired, unpaired) / trials > 0.915
