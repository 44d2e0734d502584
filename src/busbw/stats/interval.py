"""Distribution-free interval of the median from order statistics, honest about autocorrelation.

Method: Hoefler & Belli (SC'15) give the ranks n/2 -+ z sqrt(n)/2 for independent samples. Network timings
cluster, so the ranks are widened by sqrt(tau), with tau from the series of "is above the median".

Ranks of a job decide with these numbers when to stop, and must not differ in the last bit: everything here is
counting, whole numbers, and single IEEE operations in a written order. No sum is left to numpy's vector units
(the mean is for reading only), no decision to the mathematics library of one machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]

# Of the interval that a look decides by.
LOOK_CONFIDENCE: Final = 0.99
# Beyond this the whole numbers of the exact binomial get long (2^n), and the normal ranks differ from its by
# one or two places among thousands.
EXACT_SAMPLES: Final = 2000
# A series that is still alike after so many samples is unstable, whatever its exact tau; counting on to n/4
# would cost the square of n.
MOST_LAGS: Final = 1000
LEAST_ORDERED: Final = 6


@dataclass(frozen=True)
class Estimate:
    """A median with its interval, in the unit of the data. ``tau`` is the autocorrelation time in samples.

    ``attained`` is False where the samples are too few for the confidence asked for, taking ``tau`` of them
    as one: the interval is then everything that was seen, and nothing promises that it is wide enough.
    ``moved``: passes far apart differed, and the interval is widened for it (``passes.estimate_over``).
    """

    median: float
    low: float
    high: float
    mean: float
    tau: float
    samples: int
    attained: bool
    moved: bool = False

    @property
    def half_width(self) -> float:
        """Half the interval's width relative to the median; infinite where the median is 0."""
        return (self.high - self.low) / 2 / self.median if self.median > 0 else math.inf


def estimate(values: Float64Array, confidence: float, *, independent: bool = False) -> Estimate:
    """Median of ``values`` with a two-sided interval. Needs at least one value. ``independent`` ones cannot
    hang together, as ratios of neighbours in time cannot, so few of them are enough.

    With too few samples for the confidence asked, the interval is [min, max], the widest that order
    statistics can give, and ``attained`` is False.
    """
    ordered = np.sort(values)
    n = len(ordered)
    tau = 1.0 if independent else autocorrelation_time(values)
    attained = n >= tau * least_samples(confidence)
    low, high = median_ranks(n, confidence, tau) if attained else (0, n - 1)
    return Estimate(
        median=_middle(ordered),
        low=float(ordered[low]),
        high=float(ordered[high]),
        mean=float(ordered.sum()) / n,
        tau=tau,
        samples=n,
        attained=attained,
    )


def median(values: npt.ArrayLike) -> float:
    """The median of at least one value: numpy's to the last bit, in a tenth of its time for a few values."""
    return _middle(np.sort(values))


def _middle(ordered: npt.NDArray[Any]) -> float:
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else float(ordered[half - 1] + ordered[half]) / 2


def median_ranks(n: int, confidence: float, tau: float = 1.0) -> tuple[int, int]:
    """Positions (from 0) among n ordered values of the ends of the median's interval, n >= 1."""
    if tau == 1.0 and n <= EXACT_SAMPLES:
        return _binomial_ranks(n, confidence)
    spread = normal_quantile(confidence) * math.sqrt(n * tau) / 2
    low = max(0, math.floor(n / 2 - spread) - 1)  # the formula counts from 1
    return low, n - 1 - low


def least_samples(confidence: float) -> int:
    """Independent samples from which [min, max] holds the median with this confidence: 6 at 95 %, 8 at 99 %.

    All n lie on one side of it with probability 2 x 2^-n. Needs confidence < 1.
    """
    n = 1
    while 2.0 ** (1 - n) > 1 - confidence:
        n += 1
    return n


def attainable(confidence: float, n: int) -> float:
    """The confidence of an interval of n values, n >= 2: that asked for, or what [min, max] has."""
    return min(confidence, 1 - 2.0 ** (1 - n))


@lru_cache(maxsize=64)
def normal_quantile(confidence: float) -> float:
    """Half the width, in standard deviations, of the two-sided interval of a normal distribution.

    The quantile comes through a logarithm, whose last places are the machine's; six are everybody's.
    """
    return round(NormalDist().inv_cdf((1 + confidence) / 2), 6)


def autocorrelation_time(values: Float64Array) -> float:
    """1 + 2 x the sum of the leading positive autocorrelations of the above-median indicator, >= 1.

    Lags are added until one is not positive, or is below both 0.05 and 1/sqrt(n); n/4 lags at most. Of fewer
    than LEAST_ORDERED values the order says nothing: half of all orders of four would look alike.
    """
    n = len(values)
    if n < LEAST_ORDERED:
        return 1.0
    above = values > median(values)
    ones = int(np.count_nonzero(above))
    # n^2 x the sums of (b_i - mean)(b_j - mean), from counts: every processor adds those up alike.
    variance = n * ones * (n - ones)
    if variance == 0:
        return 1.0
    total = 0.0
    left = right = ones
    for lag in range(1, min(n // 4, MOST_LAGS) + 1):
        left -= int(above[n - lag])
        right -= int(above[lag - 1])
        both = int(np.count_nonzero(above[:-lag] & above[lag:]))
        r = (n * n * both - n * ones * (left + right) + (n - lag) * ones * ones) / variance
        if r <= 0 or (r <= 0.05 and r < 1 / math.sqrt(n)):
            break
        total += r
    return 1.0 + 2.0 * total


@lru_cache(maxsize=4096)
def _binomial_ranks(n: int, confidence: float) -> tuple[int, int]:
    """The narrowest symmetric pair of ranks whose binomial coverage reaches ``confidence``."""
    tail = Fraction((1 - confidence) / 2)
    allowed = (tail.numerator << n) // tail.denominator  # of 2^n equally likely outcomes
    low, outcomes, below = -1, 1, 0
    for k in range(n // 2):
        below += outcomes
        if below > allowed:
            break
        low, outcomes = k, outcomes * (n - k) // (k + 1)
    low = max(low, 0)
    return low, n - 1 - low
