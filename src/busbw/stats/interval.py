"""Distribution-free interval of the median from order statistics, honest about autocorrelation.

Method: Hoefler & Belli (SC'15) give the ranks n/2 -+ z sqrt(n)/2 for independent samples. Network timings
cluster, so the ranks are widened by sqrt(tau), with tau from the series of "is above the median".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A median with its interval, in the unit of the data. ``tau`` is the autocorrelation time in samples."""

    median: float
    low: float
    high: float
    mean: float
    tau: float
    samples: int

    @property
    def half_width(self) -> float:
        """Half the interval's width relative to the median; infinite where the median is 0."""
        return (self.high - self.low) / 2 / self.median if self.median > 0 else math.inf


def estimate(values: Float64Array, confidence: float) -> Estimate:
    """Median of ``values`` with a two-sided interval. Needs at least one value.

    With too few samples for the confidence asked, the interval is [min, max], the widest that order
    statistics can give.
    """
    ordered = np.sort(values)
    n = len(ordered)
    tau = autocorrelation_time(values)
    low, high = _binomial_ranks(n, confidence) if tau == 1.0 else _normal_ranks(n, confidence, tau)
    return Estimate(
        median=float(np.median(ordered)),
        low=float(ordered[low]),
        high=float(ordered[high]),
        mean=float(ordered.mean()),
        tau=tau,
        samples=n,
    )


def autocorrelation_time(values: Float64Array) -> float:
    """1 + 2 x the sum of the leading positive autocorrelations of the above-median indicator, >= 1.

    Lags are added until one is not positive, or is below both 0.05 and 1/sqrt(n); n/4 lags at most.
    """
    n = len(values)
    indicator = (values > np.median(values)).astype(np.int64)
    # In whole numbers (n times the deviation from the mean), which every processor adds up alike: the ranks
    # of a mixed cluster must come to the same decision from the same samples.
    centred = n * indicator - int(indicator.sum())
    variance = int(centred @ centred)
    if variance == 0:
        return 1.0
    total = 0.0
    for lag in range(1, n // 4 + 1):
        r = int(centred[:-lag] @ centred[lag:]) / variance
        if r <= 0 or (r <= 0.05 and r < 1 / math.sqrt(n)):
            break
        total += r
    return 1.0 + 2.0 * total


def _binomial_ranks(n: int, confidence: float) -> tuple[int, int]:
    """The narrowest symmetric pair of ranks whose binomial coverage reaches ``confidence``."""
    tail = (1 - confidence) / 2
    cumulative, below = 0.0, -1
    for k in range(n // 2):
        cumulative += math.exp(
            math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2)
        )
        if cumulative > tail:
            break
        below = k
    low = max(below, 0)
    return low, n - 1 - low


def _normal_ranks(n: int, confidence: float, tau: float) -> tuple[int, int]:
    spread = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(n * tau) / 2
    low = max(0, math.floor(n / 2 - spread) - 1)  # the formula counts from 1
    return low, n - 1 - low
