"""Percentiles by nearest rank: always a sample that occurred, never a value between two."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np

from busbw.errors import UsageError
from busbw.stats.interval import Float64Array

# A percentile is shown from the number of samples on that bounds it on its far side with this confidence.
BOUND_CONFIDENCE: Final = 0.95


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


def at_most(values: Float64Array, percent: float) -> float | None:
    """What so many percent of all calls take at most, with 95 % confidence: an order statistic above the
    percentile of the samples, which is below the true one in half of all cases. None where even the largest
    of so few samples is no bound.

    The r-th smallest of n is below the percentile p with the probability that at least r of n are.
    """
    n, p = len(values), float(_fraction(percent))
    rank, exactly = n, p**n
    too_low = exactly
    if too_low > 1 - BOUND_CONFIDENCE:
        return None
    while rank > 1:
        exactly *= rank * (1 - p) / ((n - rank + 1) * p)
        too_low += exactly
        if too_low > 1 - BOUND_CONFIDENCE:
            break
        rank -= 1
    return float(np.sort(values)[rank - 1])


def _fraction(percent: float) -> Fraction:
    """Exactly what is written: 99.9 is 999/1000, which as a float times 1000 samples would be rank 1000."""
    if not 0 < percent < 100:
        raise UsageError(
            f"p{percent:g} is not between 0 and 100", hint="give a percentile such as p50, p99 or p99.9"
        )
    return Fraction(str(percent)) / 100
