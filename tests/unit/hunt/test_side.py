"""How slow a part is where it is slow one way only, or in one lane, and which that is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from busbw_testing.fabric import Fabric, hunt, simulate, trial

from busbw.hunt.verdict import Suspect, conclude
from busbw.model.hunt import BANDWIDTH, PairTest, Round, RoundResult, Rules


def suspect_of(fabric: Fabric, seed: int) -> Suspect:
    rules = Rules(seed=seed)
    everyone = (tuple(range(fabric.parts)),)
    (suspect,) = conclude(rules, everyone, simulate(fabric, rules, seed)).suspects
    return suspect


@pytest.mark.parametrize("one_way", [False, True])
def test_intervals_hold_the_loss_whichever_way_a_part_is_slow(one_way: bool) -> None:
    """19 of 20 are expected; 16 is three standard deviations below. 2 % of noise is where it showed: a
    healthy pair's slower direction was compared with the one direction of the slow part.
    """
    found = trial(Rules(), 8, 1, 0.10, 0.02, 20, one_way=one_way)
    assert (found.named, found.accused) == (20, 0)
    assert found.held >= 16
    assert found.told == pytest.approx(0.10, abs=0.01)


def test_of_two_slow_directions_the_slower_one_is_told() -> None:
    """Both are slow, and yet what is told is one direction and has to be judged as one."""
    inside = 0
    for seed in range(15):
        suspect = suspect_of(Fabric(8, slow_sending={2: 0.10}, slow_receiving={2: 0.05}), seed)
        assert suspect.direction == ""
        inside += int(suspect.low <= 0.10 <= suspect.high)
    assert inside >= 12  # 14 are expected


def test_one_lane_of_many_is_judged_as_one() -> None:
    """The slowest of 16 noisy times is 1.8 standard deviations above their mean, one lane is not."""
    inside, told = 0, []
    for seed in range(15):
        rules, generator = Rules(seed=seed), np.random.default_rng(seed)

        def run(turn: Round, generator: np.random.Generator = generator) -> RoundResult:
            return RoundResult(turn, tuple(_of_lanes(test, generator) for test in plain(turn)))

        def plain(turn: Round, generator: np.random.Generator = generator) -> tuple[PairTest, ...]:
            return Fabric(8, noise=0).run(turn, generator).tests

        (suspect,) = conclude(rules, (tuple(range(8)),), hunt(rules, (tuple(range(8)),), run)).suspects
        assert (suspect.parts, suspect.direction, suspect.lanes) == ((5,), "sends", (6,))
        inside += int(suspect.low <= 0.10 <= suspect.high)
        told.append(suspect.loss)
    assert inside >= 12
    assert math.isclose(float(np.mean(told)), 0.10, abs_tol=0.01)


def _of_lanes(test: PairTest, generator: np.random.Generator) -> PairTest:
    """The test on 8 lanes with 1 % of noise each; part 5 loses 10 % of what it sends on lane 6."""
    there, back = 4e7 * np.exp(generator.normal(0, 0.01, (2, 8)))
    if 5 in (test.one, test.other):
        (there if test.one == 5 else back)[6] /= 0.9
    lanes = (tuple(there.tolist()), tuple(back.tolist()))
    return replace(test, times_ns={**test.times_ns, BANDWIDTH: lanes})
