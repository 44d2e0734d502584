"""Ratios of times from launches: pairs and groups, and what is known of their scatter."""

from __future__ import annotations

import math
import random

import pytest
from busbw_testing.compared import launches

from busbw.stats.launches import student_quantile
from busbw.stats.ratio import MOST_IN_A_ROW, Difference, in_groups, in_pairs, of_class, of_neighbours, ratio


def test_pairs_take_out_what_drifts_for_both() -> None:
    before, after = launches(100, 12, 1, drift=0.05), launches(90, 12, 2, drift=0.05)
    paired, apart = (ratio(make(before, after), 0.01) for make in (in_pairs, in_groups))
    assert paired.low > math.log(1.08)
    assert paired.p < 1e-8
    assert apart.low < 0 < apart.high


def test_one_launch_of_each_has_the_interval_of_what_is_known() -> None:
    """t of 4 degrees, 2.776: with 1 %, 10 % is certain and 3 % is not."""
    found = ratio(in_groups([110.0], [100.0]), 0.01)
    half = 2.7764 * 0.01 * math.sqrt(2)
    assert (found.low, found.high) == pytest.approx((math.log(1.1) - half, math.log(1.1) + half), abs=1e-5)
    assert found.bound == pytest.approx(1.1 * math.exp(half) - 1, abs=1e-4)
    assert found.p == pytest.approx(0.002526, abs=1e-6)
    near = ratio(in_groups([103.0], [100.0]), 0.01)
    assert near.low < 0 < near.high


def test_own_scatter_moderates_what_is_known() -> None:
    """Of 3 and 3 launches: (4 x 0.01^2 + 4 x 0.02^2) / 8."""
    side = [math.exp(each) for each in (-0.02, 0.0, 0.02)]
    found = ratio(in_groups(side, side), 0.01)
    assert found.scatter.degrees == 8
    assert found.scatter.deviation == pytest.approx(math.sqrt((0.01**2 + 0.02**2) / 2))
    half = student_quantile(0.975, 8) * found.scatter.deviation * math.sqrt(2 / 3)
    assert found.high == pytest.approx(half)


def test_more_launches_in_a_row_count_no_more() -> None:
    few, many = ([100.0] * n for n in (MOST_IN_A_ROW, 20))
    assert in_groups(few, few).share == in_groups(many, many).share == pytest.approx(2 / 3)
    assert in_pairs(many, many).share == pytest.approx(0.1)


def seen(deviation: float, degrees: int) -> Difference:
    return Difference(0.0, 1.0, deviation, degrees, (degrees + 1, degrees + 1), paired=True)


@pytest.mark.parametrize(
    ("deviation", "degrees", "rows", "known"),
    [
        (0.02, 2, 20, 0.02),  # 20 sizes say that launches scatter twice as much,
        (0.02, 2, 1, 0.01),  # one of 3 blocks does not;
        (0.002, 2, 20, 0.01),  # sizes may share what is odd: 3 blocks never say that it is less,
        (0.002, 11, 20, 0.002),  # 12 blocks do;
        (0.0, 11, 20, 0.0001),
        (0.009, 11, 20, 0.01),  # nothing contradicts it
        (0.5, 0, 20, 0.01),  # no side has two launches
    ],
)
def test_what_launches_contradict_is_their_own(
    deviation: float, degrees: int, rows: int, known: float
) -> None:
    assert of_class(0.01, [seen(deviation, degrees)] * rows) == pytest.approx(known)


def curve(scatter: float, seed: int, gains: list[float]) -> list[float]:
    """What one launch a side shows at each size."""
    draw = random.Random(seed)
    return [gain + math.sqrt(2) * draw.gauss(0, scatter) for gain in gains]


def test_neighbouring_sizes_show_a_default_that_is_too_small() -> None:
    found = [of_neighbours(0.01, [curve(0.05, seed, [0.0] * 20)]) for seed in range(200)]
    assert sum(each > 0.01 for each in found) > 190
    assert sorted(found)[100] == pytest.approx(0.05, rel=0.3)
    right = [of_neighbours(0.01, [curve(0.01, seed, [0.0] * 20)]) for seed in range(200)]
    assert right.count(0.01) > 196


def test_a_step_or_a_trend_over_sizes_is_no_scatter_and_few_sizes_say_nothing() -> None:
    for gains in ([0.1] * 20, [0.0] * 10 + [0.1] * 10, [0.005 * at for at in range(20)]):
        assert of_neighbours(0.01, [curve(0.003, 1, gains)]) == 0.01
    assert of_neighbours(0.01, [curve(0.05, 1, [0.0] * 6)]) == 0.01


def test_gains_that_change_much_from_size_to_size_are_no_scatter() -> None:
    """Two published logs: twelve sizes 1.0 to 2.2 times faster."""
    gains = [0.02, 0.34, 0.5, 0.8, 0.45, 0.7, 0.35, 0.6, 0.4, 0.75, 0.5, 0.36]
    assert of_neighbours(0.01, [gains]) == 0.05
