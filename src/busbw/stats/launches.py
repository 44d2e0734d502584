"""The interval over launches: what one launch cannot know about itself.

Placement, addresses and a library's choices change between launches and not within one, so the unit is the
launch: its median is one observation. Medians of launches are few, positive and scatter by ratios; their
logarithms get Student's t.

Few launches say little of their scatter, so it is moderated by what is known from other launches. Smyth 2004
(limma): the prior deviation s0 counts as d0 more degrees of freedom, s~^2 = (d0 s0^2 + d s^2) / (d0 + d), and
a mean over the launches is tested with Student's t of d0 + d.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

CONFIDENCE: Final = 0.95  # holds because the number of launches is fixed beforehand
PRIOR_DEGREES: Final = 4
FALSE_ALARM: Final = 0.001  # of one case


def launch_interval(medians: Sequence[float]) -> tuple[float, float, float] | None:
    """The geometric mean of launch medians (each > 0) and the ends of its interval, that of Student's t of
    their logarithms, in their unit; None below two launches.
    """
    n = len(medians)
    if n < 2:
        return None
    logs = [math.log(median) for median in medians]
    mean = math.fsum(logs) / n
    variance = math.fsum((log - mean) ** 2 for log in logs) / (n - 1)
    half = student_quantile((1 + CONFIDENCE) / 2, n - 1) * math.sqrt(variance / n)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


@lru_cache(maxsize=256)
def student_quantile(probability: float, degrees: int) -> float:
    """The t below which Student's distribution has ``probability`` (0.5 to less than 1), by bisection."""
    low, high = 0.0, 1.0
    while student_cdf(high, degrees) < probability:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def student_cdf(t: float, degrees: int) -> float:
    """Student's distribution for whole degrees of freedom, where it is a finite sum.

    Abramowitz & Stegun, Handbook of Mathematical Functions, 26.7.3 (odd) and 26.7.4 (even).
    """
    angle = math.atan2(t, math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2 == 1
    term = total = cosine if odd else 1.0
    for k in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if not odd:
        return 0.5 + sine * total / 2
    return 0.5 + (angle + (sine * total if degrees > 1 else 0.0)) / math.pi


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
