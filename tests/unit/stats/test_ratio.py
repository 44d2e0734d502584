"""Ratios of times from launches: centre, interval, and how many more blocks would decide."""

from __future__ import annotations

import math
import random

import pytest

from busbw.stats.ratio import (
    Basis,
    Ratio,
    more_blocks,
    paired_ratio,
    sample_ratio,
    single_ratio,
    spread_ratio,
    unpaired_ratio,
)


def launches(n: int, median: float, spread: float, seed: int, drift: float = 0.0) -> list[float]:
    draw = random.Random(seed)
    return [median * math.exp(draw.gauss(0, spread) + drift * block) for block in range(n)]


def test_positive_is_faster() -> None:
    assert paired_ratio([2.0] * 8, [1.0] * 8).centre == pytest.approx(math.log(2))
    assert unpaired_ratio([2.0] * 5, [1.0] * 5).centre == pytest.approx(math.log(2))
    assert single_ratio(2.0, 1.0).centre == pytest.approx(math.log(2))


def test_pairs_take_out_what_drifts_for_both() -> None:
    before, after = launches(12, 100, 0.01, 1, drift=0.05), launches(12, 90, 0.01, 2, drift=0.05)
    paired, unpaired = paired_ratio(before, after), unpaired_ratio(before, after)
    assert paired.low is not None
    assert unpaired.low is not None
    assert paired.low > math.log(1.08)
    assert unpaired.low < 0 < unpaired.high
    assert paired.p == pytest.approx(2 / 2**12)


def test_two_launches_of_each_have_no_interval() -> None:
    ratio = unpaired_ratio([1.0, 1.1], [2.0, 2.1])
    assert (ratio.low, ratio.high, ratio.decides) == (None, None, False)


def test_samples_of_one_launch_do_not_decide() -> None:
    ratio = sample_ratio((100.0, 99.0, 101.0), (90.0, 89.0, 91.0))
    assert ratio.basis is Basis.SAMPLES
    assert not ratio.decides
    assert ratio.low is not None
    assert 0 < ratio.low < ratio.centre < (ratio.high or 0)
    assert ratio.p is None


def test_launches_of_one_series_do_not_make_a_known_spread_smaller() -> None:
    """They share what drifts between the series."""
    one, many = spread_ratio([100.0], [90.0], 0.03), spread_ratio([100.0] * 20, [90.0] * 20, 0.03)
    assert (one.low, one.high, one.p) == pytest.approx((many.low, many.high, many.p))


def test_a_known_spread_makes_single_launches_comparable() -> None:
    ratio = spread_ratio([100.0], [90.0], 0.01)
    assert ratio.decides
    half = 1.959964 * 0.01 * math.sqrt(2)
    assert (ratio.low, ratio.high) == pytest.approx((math.log(10 / 9) - half, math.log(10 / 9) + half))
    assert ratio.p is not None
    assert ratio.p < 1e-9
    assert (spread_ratio([100.0], [90.0], 0.2).p or 0) > 0.5


@pytest.mark.parametrize("odd", [0, 1])
def test_launches_that_contradict_the_spread_decide_nothing(odd: int) -> None:
    """One launch of twenty times the time: its side scatters by 173 %, and its median is not moved by it."""
    sides = [[46.0, 45.9, 45.8], [46.0, 45.9, 45.8]]
    sides[odd] = [36.7, 36.6, 734.0]
    ratio = spread_ratio(*sides, 0.02)
    assert not ratio.decides
    assert ratio.beyond_spread == pytest.approx(1.73, abs=0.01)
    assert abs(ratio.centre) == pytest.approx(math.log(45.9 / 36.7))
    assert spread_ratio(*sides, 2.0).decides


def test_launches_that_scatter_by_the_spread_rarely_contradict_it() -> None:
    found = [spread_ratio(launches(n, 100, 0.02, seed), [90.0], 0.02) for n in (2, 5) for seed in range(1000)]
    assert sum(not ratio.decides for ratio in found) < 40  # 20 of 2000 by chance
    wide = [spread_ratio(launches(5, 100, 0.08, seed), [90.0], 0.02) for seed in range(100)]
    assert sum(not ratio.decides for ratio in wide) > 90


@pytest.mark.parametrize(
    ("have", "centre", "spread"), [(8, 0.03, 0.03), (8, 0.3, 0.3), (8, 0.0, 0.03), (12, 0.05, 0.05)]
)
def test_more_blocks_do_decide(have: int, centre: float, spread: float) -> None:
    """Of series that are not decided, at least three in four are after the blocks that were asked for."""
    near, far, p_needed = math.log1p(0.01), math.log1p(0.02), 0.01 / 12
    draw = random.Random(3)

    def is_decided(logs: list[float]) -> tuple[bool, Ratio]:
        ratio = paired_ratio([math.exp(log) for log in logs], [1.0] * len(logs))
        if ratio.low is None or ratio.high is None or ratio.p is None:
            return False, ratio
        beyond = (ratio.low > near or ratio.high < -near) and ratio.p < p_needed
        return beyond or (-far < ratio.low and ratio.high < far), ratio

    asked = kept = 0
    for _ in range(150):
        logs = [draw.gauss(centre, spread) for _ in range(have)]
        decided, ratio = is_decided(logs)
        more = None if decided else more_blocks(ratio, 0.02, p_needed)
        if more is None or more > 50:
            continue
        asked += 1
        kept += is_decided([*logs, *(draw.gauss(centre, spread) for _ in range(more))])[0]
    assert asked > 40
    assert kept >= 0.75 * asked


def test_more_blocks_know_the_smallest_p() -> None:
    clear = paired_ratio([2.0, 2.01, 1.99, 2.0, 2.02, 1.98], [1.0] * 6)
    # 2^(1-n) < 0.0005 from n = 12 on.
    assert more_blocks(clear, 0.02, 0.0005) == 6


def test_one_observation_promises_nothing() -> None:
    assert more_blocks(single_ratio(2.0, 1.0), 0.02, 0.01) is None
    assert more_blocks(paired_ratio([2.0], [1.0]), 0.02, 0.01) is None
