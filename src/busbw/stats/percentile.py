"""Percentiles by nearest rank, and how far each can be known from so many samples.

A percentile is always a sample that occurred, never a value between two. Its interval is distribution-free:
the number of samples below a percentile is binomial, whatever the distribution of the times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np

from busbw.errors import UsageError
from busbw.stats.interval import Float64Array, indicator_time

# A percentile is shown from the number of samples on that bounds it on its far side with this confidence.
BOUND_CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class PercentileEstimate:
    """A percentile in the unit of the data. An end of the interval is None where no sample bounds it.

    ``tau`` is the autocorrelation time of "is above this percentile": slow samples that come in bursts.
    """

    percent: float
    value: float
    low: float | None
    high: float | None
    tau: float
    samples: int


@cache
def least_samples(percent: float) -> int:
    """Samples from which the percentile is shown: p90 29, p95 59, p99 299, p99.9 2995.

    The largest of n independent samples is above the percentile p with probability 1 - p^n; that is at least
    95 % from n = ln(0.05) / ln(p) on. Below the median the same holds for the smallest sample.
    Raises UsageError unless 0 < percent < 100.
    """
    p = float(_fraction(percent))
    return math.ceil(math.log(1 - BOUND_CONFIDENCE) / math.log(max(p, 1 - p)))


def nearest_rank(ordered: Float64Array, percent: float) -> float:
    """The smallest sample that at least ``percent`` of all samples do not exceed. ``ordered`` ascends."""
    return float(ordered[math.ceil(_fraction(percent) * len(ordered)) - 1])


def percentile(values: Float64Array, percent: float) -> float | None:
    """The nearest-rank percentile, or None where there are fewer than ``least_samples``."""
    if len(values) < least_samples(percent):
        return None
    return nearest_rank(np.sort(values), percent)


def estimate_percentile(
    values: Float64Array, percent: float, confidence: float = 0.95
) -> PercentileEstimate | None:
    """The percentile with its two-sided interval, or None where there are fewer than ``least_samples``.

    The ranks are those of the exact binomial distribution, widened by sqrt(tau). Two-sided 95 % needs more
    samples than showing the percentile does (p99: 368 against 299); between them ``high`` is None.
    """
    n = len(values)
    if n < least_samples(percent):
        return None
    ordered = np.sort(values)
    value = nearest_rank(ordered, percent)
    tau = indicator_time(values > value)
    p = float(_fraction(percent))
    below, above = _binomial_ends(n, p, (1 - confidence) / 2)
    low = math.floor(n * p - (n * p - below) * math.sqrt(tau))
    high = math.ceil(n * p + (above - n * p) * math.sqrt(tau))
    return PercentileEstimate(
        percent,
        value,
        float(ordered[low - 1]) if low >= 1 else None,
        float(ordered[high - 1]) if high <= n else None,
        tau,
        n,
    )


def _binomial_ends(n: int, p: float, tail: float) -> tuple[int, int]:
    """Positions, counted from 1, of the order statistics that a percentile leaves with ``tail`` on each side.

    X_(l) is above the percentile with probability P(B < l), X_(u) below it with P(B >= u), B binomial. 0 and
    n + 1 stand for no sample.
    """
    k = np.arange(n)
    log_ratio = np.log((n - k) / (k + 1)) + math.log(p / (1 - p))
    log_mass = np.concatenate(([0.0], np.cumsum(log_ratio))) + n * math.log1p(-p)
    cumulative = np.cumsum(np.exp(log_mass))
    low = int(np.searchsorted(cumulative, tail, side="right"))
    high = int(np.searchsorted(cumulative, 1 - tail, side="left")) + 1
    return low, high


def _fraction(percent: float) -> Fraction:
    """Exactly what is written: 99.9 is 999/1000, which as a float times 1000 samples would be rank 1000."""
    if not 0 < percent < 100:
        raise UsageError(
            f"p{percent:g} is not between 0 and 100", hint="give a percentile such as p50, p99 or p99.9"
        )
    return Fraction(str(percent)) / 100
