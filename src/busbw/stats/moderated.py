"""A standard deviation from few launches, moderated by what is known from other launches.

Smyth 2004 (limma): the prior deviation s0 counts as d0 more degrees of freedom,
s~^2 = (d0 s0^2 + d s^2) / (d0 + d), and a mean over the launches is tested with Student's t of d0 + d.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.stats.launches import student_quantile

PRIOR_DEGREES: Final = 4
FALSE_ALARM: Final = 0.001  # of one case


@dataclass(frozen=True)
class Moderated:
    """A standard deviation (of logarithms: relative) and its degrees of freedom."""

    deviation: float
    degrees: int


def moderated(prior: float, own: float, degrees: int, prior_degrees: int = PRIOR_DEGREES) -> Moderated:
    """``own`` has ``degrees`` (0 where one launch says nothing of its scatter), ``prior`` is s0 > 0."""
    together = prior_degrees + degrees
    variance = (prior_degrees * prior**2 + degrees * own**2) / together
    return Moderated(math.sqrt(variance), together)


def pooled(samples: Iterable[Sequence[float]]) -> Moderated:
    """The standard deviation of the logarithms of launch times (each > 0) about the mean of their own case,
    over several cases; 0 with 0 degrees where no case has two launches.
    """
    squares, degrees = 0.0, 0
    for times in samples:
        logs = [math.log(time) for time in times]
        mean = math.fsum(logs) / max(len(logs), 1)
        squares += math.fsum((log - mean) ** 2 for log in logs)
        degrees += max(len(logs) - 1, 0)
    return Moderated(math.sqrt(squares / degrees) if degrees else 0.0, degrees)


def least_share(scatter: Moderated, known: int, new: int, error: float = 0.0) -> float:
    """The share of the speed of ``known`` launches that the mean of ``new`` equal ones reaches, but for one
    case in 1,000: Student's t, one-sided. ``error`` is the standard error of the new mean by itself, where
    that is known to be larger.
    """
    standard_error = max(scatter.deviation * math.sqrt(1 / known + 1 / new), error)
    return math.exp(-student_quantile(1 - FALSE_ALARM, scatter.degrees) * standard_error)
