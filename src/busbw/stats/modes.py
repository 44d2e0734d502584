"""Two modes: the times of a case fall into two groups with a gap between them.

A median says little about such a case: it is in the larger group, and jumps when the weights change. Usual
causes are two paths or two algorithms, a clock that switches, and a neighbour that comes and goes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from busbw.stats.interval import Float64Array, autocorrelation_time, median
from busbw.stats.percentile import nearest_rank

# The gap between the groups, in median absolute deviations of the wider one. Halves of a normal distribution
# are 0.6 apart, of a uniform one 0.8.
LEAST_GAP_MADS: Final = 5.0
LEAST_SHARE: Final = 0.1
# Independent samples in the smaller group; fewer are outliers, and eight normal samples look like two groups
# of four once in a hundred times (simulated).
LEAST_IN_MODE: Final = 6


@dataclass(frozen=True)
class Mode:
    """A group of samples: its share of all, and its median in the unit of the data."""

    weight: float
    centre: float


@dataclass(frozen=True)
class Modes:
    """Two groups of samples, and the gap between them in MADs of the wider one; None where that has none."""

    low: Mode
    high: Mode
    gap_mads: float | None


def find_modes(values: Float64Array, least_distance: float = 0.01) -> Modes | None:
    """The two modes of ``values``, or None where they are one group.

    The samples are split at the widest step between neighbours that leaves a tenth of them on either side.
    The gap is counted from the inner tenth of one group to that of the other, not between their nearest
    samples: those come closer the more samples there are. Groups whose centres are less than
    ``least_distance`` of the lower one apart do not count: they fit into the interval of the median.
    """
    ordered, n = np.sort(values), len(values)
    least = max(math.ceil(LEAST_SHARE * n), math.ceil(LEAST_IN_MODE * autocorrelation_time(values)))
    if 2 * least > n:
        return None  # too few for two groups
    split = least + int(np.argmax(np.diff(ordered[least - 1 : n - least + 1])))
    low, high = ordered[:split], ordered[split:]
    low_centre, high_centre = median(low), median(high)
    if high_centre - low_centre <= least_distance * low_centre:
        return None
    gap = nearest_rank(high, 10) - nearest_rank(low, 90)
    # A coarse clock puts most of a group on one tick: its MAD is 0, but its spread is a tick, the smallest
    # distance between different values of one group.
    steps = np.concatenate((np.diff(low), np.diff(high)))
    tick = float(np.min(steps[steps > 0])) if steps.any() else 0.0
    mad = max(median(np.abs(low - low_centre)), median(np.abs(high - high_centre)), tick)
    if gap <= LEAST_GAP_MADS * mad:
        return None
    return Modes(
        Mode(len(low) / n, low_centre),
        Mode(len(high) / n, high_centre),
        gap / mad if mad else None,
    )
