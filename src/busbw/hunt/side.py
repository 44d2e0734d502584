"""Which directions and lanes of a slow part are slow, and by how much against healthy ones of as many.

Rules compare the slowest lane of the slower direction, whatever is slow of a part. Of healthy pairs that is
the longest of several noisy times, of a part that only sends slowly it is one of them: against each other
they would show too small a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from busbw.hunt.evidence import Evidence
from busbw.hunt.noise import Bools, counts
from busbw.model.hunt import BANDWIDTH, RoundResult

_SLOWEST: Final = 0.7  # of the greatest loss: directions and lanes that lost less are not what is measured


@dataclass(frozen=True)
class Side:
    """What is slow of a part: ``effect`` is the logarithm of its times over those of healthy ones, ``sigma``
    its standard deviation in one test; ``direction`` is ``sends`` or ``receives`` where only one of them is
    slow, ``lanes`` the lanes that are slow where others are not.
    """

    effect: float
    sigma: float
    direction: str
    lanes: tuple[int, ...]


def slow_side(found: Evidence, history: Sequence[RoundResult], part: int) -> Side | None:
    """By the middle of each direction and lane of its tests. None where all of them are slow alike."""
    tests = [test for each in history if counts(BANDWIDTH, each) for test in each.tests]
    times = np.log([test.times_ns[BANDWIDTH] for test in tests])
    over = times - (found.tests.values - found.noise.excess)[:, None, None]
    over = np.where((found.tests.other == part)[:, None, None], over[:, ::-1], over)
    own = over[found.of_part(part)]
    passed = over[(found.noise.excess <= found.noise.cut) & _of_others(found, part)]
    if not len(passed):
        return None
    middle = np.median(own, axis=0) - passed.mean(axis=(0, 1))
    slowest = middle > max(found.noise.cut, _SLOWEST * float(middle.max()))
    if slowest.all() or not slowest.any():
        return None
    usual = float(passed[:, slowest].max(axis=1).mean())
    took = own[:, slowest].max(axis=1)
    return Side(float(np.median(took)) - usual, float(took.std()), *_words(middle > found.noise.cut))


def _of_others(found: Evidence, part: int) -> Bools:
    others: Bools = (found.tests.one != part) & (found.tests.other != part)
    return others


def _words(slow: Bools) -> tuple[str, tuple[int, ...]]:
    """The direction and the lanes that are slow where others are not."""
    sends, receives = (bool(way.any()) for way in slow)
    of_lane = slow.any(axis=0)
    lanes = () if of_lane.all() else tuple(np.flatnonzero(of_lane).tolist())
    return "" if sends == receives else "sends" if sends else "receives", lanes
