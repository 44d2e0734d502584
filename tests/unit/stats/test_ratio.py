"""Ratios of times from launches: centre, interval, and how many more blocks would decide."""

from __future__ import annotations

import math
import random

import pytest

from busbw.stats.ratio import (
    Basis,
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
    assert (ratio.low, ratio.high, ratio.decides) == (None, None, True)


def test_samples_of_one_launch_do_not_decide() -> None:
    ratio = sample_ratio((100.0, 99.0, 101.0), (90.0, 89.0, 91.0))
    assert ratio.basis is Basis.SAMPLES
    assert not ratio.decides
    assert ratio.low is not None
    assert 0 < ratio.low < ratio.centre < (ratio.high or 0)
    assert ratio.p is None


def test_a_known_spread_makes_single_launches_comparable() -> None:
    ratio = spread_ratio([100.0], [90.0], 0.01)
    assert ratio.decides
    half = 1.959964 * 0.01 * math.sqrt(2)
    assert (ratio.low, ratio.high) == pytest.approx((math.log(10 / 9) - half, math.log(10 / 9) + half))
    assert ratio.p is not None
    assert ratio.p < 1e-9
    assert (spread_ratio([100.0], [90.0], 0.2).p or 0) > 0.5


def test_more_blocks_are_as_many_as_decide_in_a_simulation() -> None:
    """What is promised from 12 noisy blocks decides most of the time when it is done."""
    kept = 0
    for seed in range(40):
        first = paired_ratio(launches(12, 100, 0.03, seed), launches(12, 98.5, 0.03, seed + 1000))
        more = more_blocks(first, 0.02, 0.01)
        if more is None:
            continue
        n, spread = 12 + more, first.deviation / 2**0.5
        slower = 100 * math.exp(-first.centre)
        again = paired_ratio(launches(n, 100, spread, seed + 2000), launches(n, slower, spread, seed + 3000))
        near, far = math.log1p(0.01), math.log1p(0.02)
        assert again.low is not None
        assert again.high is not None
        kept += again.low > near or again.high < -near or (-far < again.low and again.high < far)
    assert kept >= 16  # about half: the estimate is of the middle, not of a bound


def test_more_blocks_know_the_smallest_p() -> None:
    clear = paired_ratio([2.0, 2.01, 1.99, 2.0, 2.02, 1.98], [1.0] * 6)
    # 2^(1-n) < 0.0005 from n = 12 on.
    assert more_blocks(clear, 0.02, 0.0005) == 6


def test_one_observation_promises_nothing() -> None:
    assert more_blocks(single_ratio(2.0, 1.0), 0.02, 0.01) is None
    assert more_blocks(paired_ratio([2.0], [1.0]), 0.02, 0.01) is None
