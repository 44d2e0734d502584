"""Where the warm-up of a series ends: the marginal standard error rule (MSER).

White (1997): drop the prefix that makes the squared standard error of what is left smallest,

    MSER(d) = sum over i >= d of (x_i - mean)^2 / (n - d)^2,

so a prefix goes only if losing its samples costs less than keeping its deviation. Half of the series at most.

The rule alone also cuts noise: it takes the best of n/2 places, and chance makes one of them look good.
Cutting by it at every look dropped leading samples of one in four series without a warm-up, and the interval
of samples that are like their neighbours (AR(1) 0.9) then held the true median in 0.83 of the series instead
of 0.90. So ``settled`` asks for evidence that noise seldom gives. benchmarks/stopping has the tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from busbw.stats.interval import Float64Array, autocorrelation_time
from busbw.stats.percentile import nearest_rank
from busbw.stats.shift import LEAST_Z as SHIFT_Z
from busbw.stats.shift import Shift, mann_whitney_z

# Samples per median, in 2^-20: fine enough for any clock, and whole, so that ranks compute the same.
_STEPS: Final = 2**20
# Of independent noise without any warm-up the rule drops a tenth of 16 samples, a twentieth of 31 and a
# hundredth of 118 on average, but a sixth of 8 (simulated): too dear there.
LEAST_SAMPLES: Final = 16
# How far a start's median is from that of the rest, in ranges of the rest's middle four fifths (1.5 of them
# are 3.8 standard deviations of a normal distribution). Noise that wanders (AR(1) 0.9) mostly stays nearer:
# at 1 range one series in 22 was cut, at 1.5 one in 49, at 2 one in 91; but at 2 half of the warm-ups that
# decay are missed, at 1.5 one in six (benchmarks/stopping).
LEAST_SPREADS: Final = 1.5
# Where Mann and Whitney's statistic is as large as for a shift of the halves, this is enough for a mark: of
# independent noise none of 2000 series (22 to 1000 samples) had it, with AR(1) 0.6 one in 1000.
SHIFT_SPREADS: Final = 1.0
# Standard deviations of Mann and Whitney's statistic. Four samples that all lie beyond the rest reach it
# where at least 15 follow, three never do (without ties); so few hardly move a median.
LEAST_Z: Final = 3.0


@dataclass(frozen=True)
class Truncation:
    """``drop`` leading samples are warm-up. Not ``settled``: the best place is the cap of one half, so the
    series was still moving there and no prefix of it can be called the warm-up.
    """

    drop: int
    settled: bool


def truncation(values: Float64Array) -> Truncation:
    """The MSER truncation point of a series in the order in which it was taken.

    Fewer than 16 samples, or a median that is not positive, give no truncation.
    """
    n = len(values)
    middle = float(np.median(values)) if n else 0.0
    if n < LEAST_SAMPLES or middle <= 0:
        return Truncation(0, settled=True)
    whole = [int(value) for value in np.rint(values / middle * _STEPS).tolist()]
    total, squares = sum(whole), sum(value * value for value in whole)
    # MSER(d) as a fraction with denominator (n - d)^3; compared crosswise, it never leaves whole numbers.
    best, least = 0, (n * squares - total * total, n**3)
    for d in range(1, n // 2 + 1):
        total, squares, left = total - whole[d - 1], squares - whole[d - 1] ** 2, n - d
        error = (left * squares - total * total, left**3)
        if error[0] * least[1] < least[0] * error[1]:
            best, least = d, error
    return Truncation(best, settled=best < n // 2)


def settled(values: Float64Array, precision: float) -> int:
    """How many leading samples are warm-up: the MSER prefix where it is one for certain and slower than what
    follows, else 0. Pure, and the same on every rank.

    What warms up gets faster. A start that is faster is the level before something became slow (a boost clock
    that met its power cap), so it stays, and ``faster_start`` tells it.
    """
    found = _start(values, precision)
    return found.samples if found and found.slower and found.beyond(LEAST_SPREADS, LEAST_Z) else 0


def faster_start(values: Float64Array, precision: float) -> Shift | None:
    """The shift from a start that is faster than the rest: by the evidence that ``settled`` asks for, or from
    nearer by the test that a shift of the halves has to pass (a mark takes no samples away).
    """
    found = _start(values, precision)
    if found is None or found.slower:
        return None
    certain = found.beyond(LEAST_SPREADS, LEAST_Z) or found.beyond(SHIFT_SPREADS, SHIFT_Z)
    return found.shift if certain else None


@dataclass(frozen=True)
class _Start:
    """Leading samples at a level of their own, and the shift from it; ``spread`` is the rest's."""

    samples: int
    shift: Shift
    spread: float

    @property
    def slower(self) -> bool:
        return self.shift.before > self.shift.after

    def beyond(self, spreads: float, least_z: float) -> bool:
        """Whether both, the distance between the levels and the test, say more than that."""
        distance = abs(self.shift.before - self.shift.after)
        return distance > spreads * self.spread and abs(self.shift.z) >= least_z


def _start(values: Float64Array, precision: float) -> _Start | None:
    """The MSER prefix where MSER settles and the prefix's median is off the rest's by more than ``precision``
    of it: less could not be seen in the result.

    Mann and Whitney's test between prefix and rest has the rest's autocorrelation time. The prefix's own does
    not count: a warm-up that decays is alike because it is one.
    """
    cut = truncation(values)
    if cut.drop == 0 or not cut.settled:
        return None
    start, rest = values[: cut.drop], values[cut.drop :]
    ordered = np.sort(rest)
    before, after = float(np.median(start)), float(np.median(ordered))
    if abs(before - after) <= precision * after:
        return None
    z = mann_whitney_z(start, rest) / math.sqrt(autocorrelation_time(rest))
    spread = nearest_rank(ordered, 90) - nearest_rank(ordered, 10)
    return _Start(cut.drop, Shift(before, after, z, math.erfc(abs(z) / math.sqrt(2))), spread)
