"""What the next launches may be, from those that there were; and whether that is narrow enough for a gate.

The logarithms of launch times are taken as normal, so the mean logarithm of the next launches has Student's
prediction interval around that of the known ones. Scatter is not pooled over sizes: all sizes of a launch
share what is odd about the launch, so three launches of thirty sizes are nearer to three observations than to
ninety.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from busbw.stats.launches import student_quantile

# Of one case: 50 cases of a good run fail together with 1 % at most, whatever other cases a run has.
FALSE_ALARM: Final = 0.0002
# A gate that lets through more than this is none: of four rails or links, losing one costs 25 %.
WIDEST: Final = 0.20
MOST_LAUNCHES: Final = 100  # more are not a plan


@dataclass(frozen=True)
class More:
    """How many more launches of the known side and of the new one would make the interval narrow enough."""

    known: int
    new: int


def least_share(deviation: float, known: int, new: int) -> float:
    """The share of the known speed that ``new`` launches reach, but for one case in 5000 (``FALSE_ALARM``).

    ``deviation``: standard deviation of the logarithms of ``known`` (>= 2) launch times; ``new`` >= 1.
    """
    quantile = student_quantile(1 - FALSE_ALARM, known - 1)
    return math.exp(-quantile * deviation * math.sqrt(1 / known + 1 / new))


def more_launches(deviation: float, known: int, new: int, widest: float = WIDEST) -> More | None:
    """The fewest more launches of the known side with which it can be judged, if its scatter stays as it is;
    where it alone never does, the fewest of both sides together. None where ``MOST_LAUNCHES`` of both do not.
    """
    for more in range(MOST_LAUNCHES - known + 1):
        if least_share(deviation, known + more, new) >= 1 - widest:
            return More(more, 0)
    for each in range(2, MOST_LAUNCHES + 1):
        wanted = (max(known, each), max(new, each))
        if least_share(deviation, *wanted) >= 1 - widest:
            return More(wanted[0] - known, wanted[1] - new)
    return None
