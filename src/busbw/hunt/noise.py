"""What tests of healthy pairs look like, estimated from the tests themselves, a few of which may be slow.

Values are logarithms of times, so that differences are ratios and a loss means the same at every size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# How far from the others a test may lie and still pass, in standard deviations, while noise is estimated.
_PASSING: Final = 2.5
_MOST_STEPS: Final = 20
# A round's own centre, which follows what changes between rounds, needs so many passing tests.
_LEAST_OF_ROUND: Final = 3
# The shortest half of normal values is 2 x 0.6745 standard deviations wide.
_SHORTEST_HALF: Final = 1.349
# The standard error of the middle of the lowest third, of n normal values: 1.5 standard deviations / sqrt(n).
_ERROR_OF_LOWEST: Final = 1.5
_SURELY: Final = 4.0  # standard errors
# The 80 % point of the normal distribution: noise is taken at its upper bound of that confidence.
_UPPER: Final = 0.8416


@dataclass(frozen=True)
class Noise:
    """Of passing tests: the standard deviation ``sigma``, its upper confidence bound ``upper``, the centre of
    all (``base``) and of each round, and which tests passed.
    """

    sigma: float
    upper: float
    base: float
    centres: Floats
    passing: npt.NDArray[np.bool_]


def estimate(values: Floats, rounds: Ints, floor: float) -> Noise:
    """The noise of ``values``, taken in ``rounds`` (numbers from 0). Tests less than ``floor`` from the
    centre pass in any case. At least two values.

    It starts at the shortest half of all values, which less than half of them cannot spoil, and takes in what
    lies near, until that does not change any more (as iterated sigma clipping does).
    """
    base, sigma = _shortest_half(values)
    count = int(rounds.max()) + 1
    centres = np.full(count, base)
    passing = np.zeros(len(values), np.bool_)
    for _ in range(_MOST_STEPS):
        near = np.abs(values - centres[rounds]) <= max(floor, _PASSING * sigma)
        if bool((near == passing).all()):
            break
        passing = near
        base = float(np.median(values[passing]))
        own = [values[passing & (rounds == number)] for number in range(count)]
        centres = np.array([np.median(each) if len(each) >= _LEAST_OF_ROUND else base for each in own])
        fitted = sum(len(each) >= _LEAST_OF_ROUND for each in own) or 1
        freedom = max(1, int(passing.sum()) - fitted)
        sigma = math.sqrt(float(((values - centres[rounds])[passing] ** 2).sum()) / freedom)
    freedom = max(1, int(passing.sum()) - count)
    return Noise(sigma, upper_bound(sigma, freedom), base, centres, passing)


def noise_of(values: Floats, rounds: Ints, chosen: npt.NDArray[np.bool_]) -> Noise:
    """The noise of those ``chosen``, two at least, where it is known which are healthy: all of them pass,
    however far they lie from one another, and rounds have no centres of their own.
    """
    own = values[chosen]
    base, sigma = float(np.median(own)), float(own.std(ddof=1))
    return Noise(
        sigma, upper_bound(sigma, len(own) - 1), base, np.full(int(rounds.max()) + 1, base), chosen.copy()
    )


def upper_bound(sigma: float, freedom: int) -> float:
    """Of a standard deviation that was estimated with so many degrees of freedom, the upper 80 % bound."""
    return sigma * math.sqrt(freedom / _least_chi2(freedom))


def surely_more(values: Floats, others: Floats) -> float:
    """How much more ``values`` are than ``others``; 0 where that is nothing or chance. The lowest third of
    both counts, which faults of fewer than two thirds of them do not move.
    """
    more = _lowest_third(values) - _lowest_third(others)
    sigma = _shortest_half(max(values, others, key=len))[1]
    error = _ERROR_OF_LOWEST * sigma * math.sqrt(1 / len(values) + 1 / len(others))
    return more if more > _SURELY * error else 0.0


def _shortest_half(values: Floats) -> tuple[float, float]:
    """Centre and standard deviation by the shortest interval that has half of the values; the lower of two
    that are equally short, because faults make times longer.
    """
    ordered = np.sort(values)
    half = len(ordered) // 2 + 1
    widths = ordered[half - 1 :] - ordered[: len(ordered) - half + 1]
    first = int(np.argmin(widths))
    return float(np.median(ordered[first : first + half])), float(widths[first]) / _SHORTEST_HALF


def _lowest_third(values: Floats) -> float:
    """Centre of the lowest third of the values."""
    return float(np.median(np.sort(values)[: max(1, len(values) // 3)]))


def _least_chi2(freedom: int) -> float:
    """What chi-squared of so many degrees of freedom exceeds with 80 % (Wilson and Hilferty 1931)."""
    part = 2 / (9 * freedom)
    return freedom * max(0.05, 1 - part - _UPPER * math.sqrt(part)) ** 3
