"""Which directions and lanes of a part are slow, and by how much against healthy ones of as many.

Rules compare the slowest lane of the slower direction, whatever is slow of a part. Of healthy pairs that is
the longest of several noisy times, of a part that only sends slowly it is one of them: against each other
they would tell too small a loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from busbw.hunt.candidate import Candidate
from busbw.hunt.noise import Floats, upper_bound
from busbw.hunt.screen import Screen, value
from busbw.model.hunt import BANDWIDTH, PairTest

# Directions and lanes that differ by less are slow alike, in standard deviations of the difference.
_ALIKE: Final = 2.5


@dataclass(frozen=True)
class Side:
    """What is slow of a candidate: ``effect`` is the logarithm of its times over those of healthy ones,
    ``sigma`` the upper bound of the noise of one test of it. ``direction`` is ``sends`` or ``receives`` where
    only one of them is slow, ``lanes`` the lanes that are slow where others are not.
    """

    effect: float
    sigma: float
    direction: str = ""
    lanes: tuple[int, ...] = ()


def slow_side(candidate: Candidate, found: Screen) -> Side:
    """Told of bandwidth, by the middle of the fresh tests of each direction and lane."""
    whole = Side(candidate.effect, found.sigma)
    if candidate.leaf or candidate.metric != BANDWIDTH or not candidate.fresh or not found.passed:
        return whole
    own = _excess(candidate.fresh, candidate.parts[0])
    seen = _excess(found.passed)
    healthy = np.concatenate([seen, seen[:, ::-1]])  # either part of a pair that passes is a healthy one
    middle = np.median(own, axis=0) - healthy.mean(axis=0)
    told = _told(middle > found.cut) if len(candidate.parts) == 1 else ("", ())
    alike = _ALIKE * float(healthy.std()) * math.sqrt(2 / len(own))
    slowest = middle > max(found.cut, float(middle.max()) - alike)
    if slowest.all() or not slowest.any():
        return Side(whole.effect, whole.sigma, *told)
    longest = healthy[:, slowest].max(axis=1)
    usual = float(longest.mean())
    # Of the tests, not of their directions, which need not be independent; each round has its own centre.
    freedom = max(1, len(seen) - len(found.noise.centres))
    spread = math.sqrt(float(((longest - usual) ** 2).sum()) / 2 / freedom)
    effect = float(own[:, slowest].max(axis=1).mean()) - usual
    return Side(effect, upper_bound(spread, freedom), *told)


def _excess(tests: Sequence[tuple[float, PairTest]], part: int | None = None) -> Floats:
    """What each lane took longer than a healthy pair, by test, direction (first away from ``part``, or from
    the first part) and lane.
    """
    rows = []
    for residual, test in tests:
        centre = value(test, BANDWIDTH) - residual
        ways = np.log(np.array(test.times_ns[BANDWIDTH])) - centre
        rows.append(ways[::-1] if part == test.other else ways)
    return np.array(rows)


def _told(slow: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> tuple[str, tuple[int, ...]]:
    """The direction and the lanes that are slow where others are not, of which are ``slow``."""
    sends, receives = (bool(way.any()) for way in slow)
    of_lane = slow.any(axis=0)
    lanes = () if of_lane.all() else tuple(np.flatnonzero(of_lane).tolist())
    return "" if sends == receives else "sends" if sends else "receives", lanes
