"""A level shift: the second half of the samples runs at another pace than the first.

Mann and Whitney's test, with the variance corrected for ties (clocks have ticks) and widened for samples that
are like their neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from busbw.stats.interval import Float64Array, autocorrelation_time

# Two-sided p < 1e-4 of the normal distribution. Held against z itself: z is made of counts and single
# operations, so every rank sees the same; a p would come from the machine's mathematics library.
LEAST_Z: Final = 3.8906


@dataclass(frozen=True)
class Shift:
    """The levels (medians) before and after, of the halves or of the start and the rest, in the unit of the
    data; ``z`` is the evidence, positive where what comes later is slower, ``p`` its two-sided probability
    without a shift, for reading.
    """

    before: float
    after: float
    z: float
    p: float


def find_shift(values: Float64Array, least_difference: float = 0.01) -> Shift | None:
    """The level shift between the halves of ``values`` (in the order in which they were taken), or None.

    Levels less than ``least_difference`` of the lower one apart do not count, however sure the difference.
    The autocorrelation time is that inside the halves: the shift itself makes the whole series alike.
    """
    middle = len(values) // 2
    first, second = values[:middle], values[middle:]
    if middle < 2:
        return None
    tau = max(autocorrelation_time(first), autocorrelation_time(second))
    z = mann_whitney_z(first, second) / math.sqrt(tau)
    before, after = float(np.median(first)), float(np.median(second))
    if abs(z) < LEAST_Z or abs(after - before) <= least_difference * min(before, after):
        return None
    return Shift(before, after, z, math.erfc(abs(z) / math.sqrt(2)))


def mann_whitney_z(first: Float64Array, second: Float64Array) -> float:
    """How many standard deviations more often ``second`` exceeds ``first`` than the other way round.

    Normal approximation with tie correction, without continuity correction; 0 where all values are equal.
    """
    n, m = len(first), len(second)
    ordered = np.sort(first)
    # 2 U, so that a tie, which is half a win, stays a whole number.
    wins = int(
        np.searchsorted(ordered, second, "left").sum() + np.searchsorted(ordered, second, "right").sum()
    )
    _, repeats = np.unique(np.concatenate((first, second)), return_counts=True)
    ties = sum(t**3 - t for t in repeats.tolist() if t > 1)
    total = n + m
    # 12 x the variance of U, times N (N - 1), in whole numbers until one division.
    scaled_variance = n * m * ((total + 1) * total * (total - 1) - ties)
    if scaled_variance == 0:
        return 0.0
    return (wins - n * m) / 2 / math.sqrt(scaled_variance / (12 * total * (total - 1)))
