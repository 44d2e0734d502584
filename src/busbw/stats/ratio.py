"""A against B: the ratio of two times from launches, with its interval and p.

Times scatter by factors, so everything is about logarithms. The unit is the launch: placement, addresses and
a library's choices change between launches and not within one. Few launches say little of their scatter, so
it is moderated by what is known of other launches (``stats.launches``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean, median, stdev
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.stats.interval import LOOK_CONFIDENCE, Estimate, Float64Array, estimate
from busbw.stats.launches import CONFIDENCE, Moderated, moderated, student_cdf, student_quantile
from busbw.stats.percentile import least_samples, nearest_rank

SCATTER_LEVEL: Final = 0.001  # launches that scatter so unlikely are not those that were known
# Launches of one side that follow each other share what drifts, so more of them do not narrow the interval.
MOST_IN_A_ROW: Final = 3
LEAST_DEVIATION: Final = 1e-4  # launches are not known to be more alike than this
LEAST_STEPS: Final = 8  # between neighbouring sizes
NORMAL_OF_MEDIAN: Final = 1.4826  # of |x|, to the standard deviation of normal x
MOST_OF_PRIOR: Final = 5
RESAMPLES: Final = 400
_SEED: Final = 1
STEPS_EFFICIENCY: Final = 0.25  # degrees of freedom of the median of neighbouring steps, a step


@dataclass(frozen=True)
class Difference:
    """What launches show of the logarithm of (time of A / time of B): positive where B is faster.

    ``share`` is the variance of ``centre`` in units of that of one launch. ``deviation`` is the standard
    deviation of one launch, with ``degrees`` of freedom; 0 where no side has two. ``n``: launches of each.
    ``paired``: each launch of A is held against one of B in its block, so that drift hits both alike.
    """

    centre: float
    share: float
    deviation: float
    degrees: int
    n: tuple[int, int]
    paired: bool = False


def in_pairs(first_ns: Sequence[float], second_ns: Sequence[float]) -> Difference:
    """Launches in blocks: ``first_ns[i]`` and ``second_ns[i]`` (> 0) are of one block.

    A pair has the variance of two launches.
    """
    logs = [math.log(first / second) for first, second in zip(first_ns, second_ns, strict=True)]
    n = len(logs)
    deviation = stdev(logs) / math.sqrt(2) if n > 1 else 0.0
    return Difference(fmean(logs), 2 / n, deviation, n - 1, (n, n), paired=True)


def in_groups(first_ns: Sequence[float], second_ns: Sequence[float]) -> Difference:
    """Launches of each (all > 0), at different times: what drifts between the sides is in ``centre``, and not
    in their own scatter. So at most ``MOST_IN_A_ROW`` of a side count.
    """
    sides = [[math.log(value) for value in values] for values in (first_ns, second_ns)]
    means = [fmean(side) for side in sides]
    squares = math.fsum((log - mean) ** 2 for side, mean in zip(sides, means, strict=True) for log in side)
    n, m = map(len, sides)
    degrees = n + m - 2
    deviation = math.sqrt(squares / degrees) if degrees else 0.0
    share = 1 / min(n, MOST_IN_A_ROW) + 1 / min(m, MOST_IN_A_ROW)
    return Difference(means[0] - means[1], share, deviation, degrees, (n, m))


def of_class(prior: float, seen: Sequence[Difference]) -> float:
    """The prior deviation of one launch for differences whose launches scatter alike: ``prior``, or the
    pooled deviation where that contradicts it (chi-square at ``SCATTER_LEVEL``).

    Sizes of a launch may share what is odd about it. So a larger scatter counts every difference, a smaller
    one those of one size only: a scatter that is too small makes false verdicts, one too large hides.
    """
    degrees = sum(each.degrees for each in seen)
    if not degrees:
        return prior
    pooled = math.sqrt(math.fsum(each.degrees * each.deviation**2 for each in seen) / degrees)
    least = _chi_square_share(SCATTER_LEVEL, max(each.degrees for each in seen))
    most = _chi_square_share(1 - SCATTER_LEVEL, degrees)
    return prior if least <= (pooled / prior) ** 2 <= most else max(pooled, LEAST_DEVIATION)


def of_neighbours(prior: float, curves: Sequence[Sequence[float]]) -> float:
    """The deviation of one launch, where each side has one: ``prior``, or more where neighbouring sizes show
    it.

    ``curves`` are the centres of differences in order of size. Sizes from 1 MiB scatter independently between
    launches, and what is really different changes slowly with the size: so a step from one size to the next
    has the variance of four launches. The median of the steps leaves real jumps out. A scatter is at most
    ``MOST_OF_PRIOR`` times what is known: what changes more than that from size to size is a difference.
    """
    steps = [abs(after - before) for curve in curves for before, after in pairwise(curve)]
    if len(steps) < LEAST_STEPS:
        return prior
    spread = NORMAL_OF_MEDIAN * median(steps) / 2
    most = _chi_square_share(1 - SCATTER_LEVEL, int(len(steps) * STEPS_EFFICIENCY))
    return min(spread, MOST_OF_PRIOR * prior) if (spread / prior) ** 2 > most else prior


@dataclass(frozen=True)
class Ratio:
    """The logarithm of (time of A / time of B) with its 95 % interval; ``p``: that there is no difference.
    ``scatter`` is that of one launch, as the interval has it.
    """

    seen: Difference
    low: float
    high: float
    p: float
    scatter: Moderated

    @property
    def bound(self) -> float:
        """The largest relative difference that the interval leaves."""
        return math.expm1(max(abs(self.low), abs(self.high)))


def ratio(seen: Difference, prior: float) -> Ratio:
    """Student's t, with the deviation ``prior`` (> 0) of one launch moderated by that which is seen."""
    scatter = moderated(prior, seen.deviation, seen.degrees)
    error = scatter.deviation * math.sqrt(seen.share)
    half = error * student_quantile((1 + CONFIDENCE) / 2, scatter.degrees)
    p = 2 * (1 - student_cdf(abs(seen.centre) / error, scatter.degrees))
    return Ratio(seen, seen.centre - half, seen.centre + half, max(p, 0.0), scatter)


def _chi_square_share(level: float, degrees: int) -> float:
    """The quantile of chi-square / degrees, by Wilson and Hilferty; 0 where that is below it."""
    third = 2 / (9 * degrees)
    return max(1 - third + NormalDist().inv_cdf(level) * math.sqrt(third), 0.0) ** 3


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """The q of each p, in their order: the false-discovery rate at which it would just be called different.

    Benjamini & Hochberg 1995; holds for independent tests and for the positive dependence that sizes of one
    sweep have (Benjamini & Yekutieli 2001).
    """
    many = len(p_values)
    order = sorted(range(many), key=p_values.__getitem__, reverse=True)
    q_values = [1.0] * many
    least = 1.0
    for position, index in enumerate(order):
        least = min(least, p_values[index] * many / (many - position))
        q_values[index] = least
    return q_values


# ---- two things measured in turn, round by round -----------------------------------------------------------


def over_rounds(ratios: Float64Array) -> Estimate:
    """The median of a ratio that each round has, with an interval by order statistics that holds at 95 %
    overall where looks at 8, 11, 16, ... rounds may end the measurement. What drifts from round to round is
    in both of its parts, so ratios of rounds are independent.
    """
    return estimate(ratios, LOOK_CONFIDENCE, independent=True)


def p99_ratio(first: Sequence[Float64Array], second: Sequence[Float64Array]) -> tuple[float, ...]:
    """The ratio of the 99th percentiles of all samples (> 0), and the ends of its 95 % interval by the
    bootstrap over rounds: a round is drawn with its samples of both. Empty where there are too few samples.
    """
    if min(sum(map(len, first)), sum(map(len, second))) < least_samples(99):
        return ()
    draw = np.random.default_rng(_SEED).integers(len(first), size=(RESAMPLES, len(first)))
    drawn = np.sort([_p99(first, rounds) / _p99(second, rounds) for rounds in draw])
    all_rounds = np.arange(len(first))
    ends = (nearest_rank(drawn, 2.5), nearest_rank(drawn, 97.5))
    return (_p99(first, all_rounds) / _p99(second, all_rounds), *ends)


def _p99(samples: Sequence[Float64Array], rounds: npt.NDArray[np.int64]) -> float:
    return nearest_rank(np.sort(np.concatenate([samples[number] for number in rounds])), 99)
