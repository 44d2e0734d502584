"""When a series has left its level, and which loss would have been seen. Pure.

Values are logarithms of times, one a window. A block of the newest windows is held against the windows before
it by normal scores (van der Waerden): each value becomes the normal quantile of its place among the earlier
ones, so that outliers and other shapes raise no more alarms than a normal distribution does. The level has
changed where the sum of a block's scores is LIMIT standard errors from 0, and its median LEAST_CHANGE from
that of the windows before; or where FAR_WINDOWS in a row lie far outside of all before. A standard error
takes in the autocorrelation time of the series, and that the earlier windows are a sample too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np

from busbw.stats.interval import Float64Array, autocorrelation_time

LEAST_HISTORY: Final = 20  # windows of which a level is known
HISTORY: Final = 512  # windows that a level is known from at most: the newest
MOST_BLOCK: Final = 64  # windows of a block
# 8 h are 2,880 windows of 10 s, each the end of 64 blocks that mostly overlap: about one alarm in 20 such
# soaks (benchmarks/soak).
LIMIT: Final = 4.7
LEAST_CHANGE: Final = 0.02
# While few windows are known, ranks cannot tell a great loss from a small one: so many windows in a row that
# lie further from the level than so many of its ranges are a change too.
FAR_WINDOWS: Final = 4
FAR_RANGES: Final = 2.0
SETTLED: Final = 60  # windows after which a change is the level that others are held against
BLIND: Final = 2 * LEAST_HISTORY  # windows of a soak before which nothing is promised
POSITIONS: Final = 8
_LENGTHS: Final = (*range(1, 17), *range(18, 33, 2), *range(36, MOST_BLOCK + 1, 4))
_NORMAL: Final = NormalDist()
_LEAST_RETURN: Final = 3


@dataclass(frozen=True)
class Level:
    """What a value is held against: earlier ones in order, and their autocorrelation time in windows."""

    ordered: Float64Array
    tau: float

    @classmethod
    def of(cls, values: Float64Array) -> Level:
        """Of values in the order of time; at least one."""
        return cls(np.sort(values), autocorrelation_time(values))

    @property
    def middle(self) -> float:
        """The median."""
        return float(np.median(self.ordered))

    def scores(self, values: Float64Array) -> Float64Array:
        """The normal quantile of each value's place among the level's; ties count half."""
        below = np.searchsorted(self.ordered, values, side="left")
        upto = np.searchsorted(self.ordered, values, side="right")
        return np.asarray(_quantiles(2 * len(self.ordered))[below + upto], np.float64)

    def block(self, values: Float64Array) -> int:
        """How many of the newest values have left the level: the block that is furthest from it; 0 where
        none is far enough.
        """
        # Of the newest 1, 2, 3, ... values together, in standard errors of the sum of their scores.
        count = np.arange(1, len(values) + 1)
        sums = np.cumsum(self.scores(values)[::-1])
        far = np.abs(sums / np.sqrt(count * self.tau * (1 + count / len(self.ordered))))
        length = int(far.argmax()) + 1
        moved = abs(float(np.median(values[-length:])) - self.middle)
        if far[length - 1] > LIMIT and moved >= LEAST_CHANGE:
            return length
        # How many of the newest values in a row lie far outside, on one side of the level.
        reach = max(FAR_RANGES * float(self.ordered[-1] - self.ordered[0]), LEAST_CHANGE)
        newest = values[::-1] - self.middle
        beyond = max(int((side * newest > reach).cumprod().sum()) for side in (1, -1))
        return beyond if beyond >= FAR_WINDOWS else 0

    def power(self, loss: float, windows: int, earlier: int) -> float:
        """Probability that a loss of bandwidth (a share of it) over so many whole windows is seen, where so
        many ``earlier`` ones are known.

        The level's own values, later by the loss, have the scores s against as many of its values. The sum of
        m such scores passes LIMIT with probability Phi((mean(s) sqrt(m / (tau q)) - LIMIT) / sd), where
        q = 1 + m/n and sd^2 = (var(s) + m/n) / q; n is ``earlier``.
        """
        thinned = self.ordered[np.linspace(0, len(self.ordered) - 1, earlier).round().astype(int)]
        share = windows / earlier
        found = Level(thinned, self.tau).scores(self.ordered - math.log1p(-loss))
        mean = float(found.mean()) * math.sqrt(windows / (self.tau * (1 + share)))
        deviation = math.sqrt((float(found.var()) + share) / (1 + share))
        return _NORMAL.cdf((mean - LIMIT) / deviation)


@lru_cache(maxsize=8)
def _quantiles(places: int) -> Float64Array:
    """Of (place + 1) / (places + 2), for place 0 to ``places``."""
    return np.array([_NORMAL.inv_cdf((place + 1) / (places + 2)) for place in range(places + 1)])


def _newest(windows: int) -> int:
    """Of so many windows the newest, which are held against the others."""
    return min(MOST_BLOCK, windows // 3)


@dataclass(frozen=True)
class Change:
    """Windows ``first`` to ``last`` (counted from 0; None: to the end) had the level ``after``, where it was
    ``before``; both are medians of what was added.
    """

    first: int
    last: int | None
    before: float
    after: float

    @property
    def share(self) -> float:
        """Bandwidth after over that before, less 1: -0.1 is a loss of a tenth."""
        return math.expm1(self.before - self.after)


class LevelWatch:
    """Takes the windows of one series as they come. It keeps a fixed number of them."""

    def __init__(self) -> None:
        self._count = 0
        self._level: list[float] = []
        self._left: list[float] = []  # since the level was left
        self._block = 0
        self._change: Change | None = None

    def power(self, loss: float, windows: int) -> float:
        """Probability that a loss over so many whole windows would have been seen: the mean over POSITIONS of
        its beginning from BLIND windows on (``Level.power``). 0 where the level is not known.
        """
        if self._count - windows <= BLIND or len(self._level) < LEAST_HISTORY:
            return 0.0
        level = Level.of(np.array(self._level))
        known = (min(HISTORY, round(place)) for place in np.linspace(BLIND, self._count - windows, POSITIONS))
        return float(np.mean([level.power(loss, windows, count - _newest(count)) for count in known]))

    def shortest(self, loss: float, probability: float) -> int | None:
        """The fewest whole windows over which a loss would have been seen with this probability; None where
        it would not.
        """
        return next((m for m in _LENGTHS if self.power(loss, m) >= probability), None)

    def add(self, value: float) -> Change | None:
        """The change that this window shows to have begun (``last`` is None) or to be over, if any."""
        self._count += 1
        if self._change is not None:
            self._left.append(value)
            return self._ended(self._change)
        self._level.append(value)
        del self._level[:-HISTORY]
        return self._begun()

    def _begun(self) -> Change | None:
        newest = _newest(len(self._level))
        earlier, values = self._level[:-newest], np.array(self._level[-newest:])
        if len(earlier) < LEAST_HISTORY:
            return None
        level = Level.of(np.array(earlier))
        self._block = level.block(values)
        if self._block == 0:
            return None
        self._left = self._level[-self._block :]
        del self._level[-self._block :]
        after = float(np.median(self._left))
        self._change = Change(self._count - self._block, None, level.middle, after)
        return self._change

    def _ended(self, change: Change) -> Change | None:
        newest = self._left[-max(_LEAST_RETURN, self._block // 2) :]
        middle = float(np.median(newest))
        if abs(middle - change.before) < abs(middle - change.after):
            # How many of the windows since belong to the change: the split that fits both levels best.
            left = np.array(self._left)
            inside, outside = np.abs(left - change.after), np.abs(left - change.before)
            costs = np.cumsum(inside) + outside.sum() - np.cumsum(outside)
            stays = int(costs.argmin()) + 1
            last = change.first + stays - 1
            over = replace(change, last=last, after=float(np.median(self._left[:stays])))
            self._level += self._left[stays:]
            self._left, self._change = [], None
            return over
        if len(self._left) >= SETTLED:
            self._level, self._left, self._change = self._left, [], None
        return None
