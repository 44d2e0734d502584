"""A against B: the ratio of two times from launches, its interval, its p, and how many more would decide.

Times scatter by factors, so everything is about logarithms. The unit is the launch: placement, addresses and
a library's choices change between launches and not within one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist, median, stdev
from typing import Final

from busbw.stats.launches import student_quantile
from busbw.stats.ranking import (
    least_signed_rank_p,
    median_interval,
    rank_sum_p,
    shift_interval,
    signed_rank_p,
)

CONFIDENCE: Final = 0.95
LEAST_KNOWN: Final = 6  # as many as an interval needs; the scatter of two values is anything
MOST_BLOCKS: Final = 1000  # more are not a plan
SCATTER_LEVEL: Final = 0.01  # launches as wide as a side's are no accident of the spread that was stated
POWER: Final = 0.8  # with which the blocks that are asked for decide
_EFFICIENCY: Final = 0.955  # of signed ranks against t: 3 / pi


class Basis(StrEnum):
    """What a ratio's interval stands on."""

    BLOCKS = "blocks"  # launches of both in turn, in random order: drift hits both alike
    LAUNCHES = "launches"  # launches of each, at different times: what drifts between them is in it
    SPREAD = "spread"  # the same, and a spread between launches at different times that the user gave
    SAMPLES = "samples"  # one launch each: says nothing about the next launch
    SINGLE = "single"  # one number on a side, no interval


@dataclass(frozen=True)
class Ratio:
    """The logarithm of (time of A / time of B): positive where B is faster.

    ``low`` and ``high`` bound it at 95 %; None where the basis gives none. ``p``: that there is no
    difference; None where no test is possible. ``n``: observations of each side. ``deviation``: standard
    deviation of one observation of the difference, None from one. ``beyond_spread``: the relative standard
    deviation of the launches of a side, where the spread that was given does not allow it.
    """

    basis: Basis
    centre: float
    low: float | None
    high: float | None
    p: float | None
    n: tuple[int, int]
    deviation: float | None = None
    beyond_spread: float | None = None

    @property
    def decides(self) -> bool:
        """Whether interval and p hold for the next launch, whenever that is."""
        return self.basis in (Basis.BLOCKS, Basis.SPREAD) and self.beyond_spread is None


def paired_ratio(first_ns: Sequence[float], second_ns: Sequence[float]) -> Ratio:
    """Of launches in blocks: ``first_ns[i]`` and ``second_ns[i]`` (> 0) are of one block.

    Hodges-Lehmann centre, signed-rank interval (none below 6 blocks) and exact signed-rank p.
    """
    logs = [math.log(first / second) for first, second in zip(first_ns, second_ns, strict=True)]
    n = len(logs)
    found = median_interval(logs, CONFIDENCE)
    centre, low, high = found if found is not None else (_middle(logs), None, None)
    deviation = stdev(logs) if n > 1 else None
    return Ratio(Basis.BLOCKS, centre, low, high, signed_rank_p(logs), (n, n), deviation)


def unpaired_ratio(first_ns: Sequence[float], second_ns: Sequence[float]) -> Ratio:
    """Of launches of each (all > 0), at different times: rank-sum interval (none below 4 and 4) and p."""
    before = [math.log(value) for value in first_ns]
    after = [math.log(value) for value in second_ns]
    found = shift_interval(after, before, CONFIDENCE)
    centre, low, high = found if found is not None else (_middle(before) - _middle(after), None, None)
    deviation = None
    if min(len(before), len(after)) > 1:
        deviation = math.hypot(stdev(before), stdev(after))
    return Ratio(
        Basis.LAUNCHES, centre, low, high, rank_sum_p(before, after), (len(before), len(after)), deviation
    )


def spread_ratio(first_ns: Sequence[float], second_ns: Sequence[float], spread: float) -> Ratio:
    """As ``unpaired_ratio``, where the relative standard deviation ``spread`` between launches at different
    times is known from elsewhere: a normal interval and p.

    The launches of a side are near in time and share what drifts, so they count as one: more of them do not
    make the interval narrower, and they scatter by no more than the spread, else it is not theirs. Their
    median is the one, as it is what readers see.
    """
    centre = math.log(median(first_ns) / median(second_ns))
    deviation = spread * math.sqrt(2)
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    p = math.erfc(abs(centre) / deviation / math.sqrt(2))
    half = z * deviation
    counts = (len(first_ns), len(second_ns))
    beyond = max(filter(None, (_beyond(side, spread) for side in (first_ns, second_ns))), default=None)
    return Ratio(Basis.SPREAD, centre, centre - half, centre + half, p, counts, beyond_spread=beyond)


def _beyond(launches_ns: Sequence[float], spread: float) -> float | None:
    """The relative standard deviation of launches, where it is more than that of ``spread`` is by chance."""
    if len(launches_ns) < 2:
        return None
    deviation = stdev(map(math.log, launches_ns))
    allowed = spread * math.sqrt(_chi_square_share(1 - SCATTER_LEVEL, len(launches_ns) - 1))
    return deviation if deviation > allowed else None


def sample_ratio(first: tuple[float, float, float], second: tuple[float, float, float]) -> Ratio:
    """Of one launch each, from (time, low, high) over its samples: for reading, never a verdict."""
    centre = math.log(first[0] / second[0])
    below = math.hypot(math.log(first[0] / first[1]), math.log(second[2] / second[0]))
    above = math.hypot(math.log(first[2] / first[0]), math.log(second[0] / second[1]))
    return Ratio(Basis.SAMPLES, centre, centre - below, centre + above, None, (1, 1))


def single_ratio(first_ns: float, second_ns: float) -> Ratio:
    """Of two numbers."""
    return Ratio(Basis.SINGLE, math.log(first_ns / second_ns), None, None, None, (1, 1))


def more_blocks(ratio: Ratio, delta: float, p_needed: float) -> int | None:
    """How many more blocks decide with a probability of ``POWER``, if centre and scatter stay as they are.

    Decided is: the interval lies beyond delta / 2 and p is below ``p_needed``, or it lies within +-delta.
    None where it cannot be said: another basis, fewer than LEAST_KNOWN blocks, whose scatter says too little
    of that of more, or more than MOST_BLOCKS.
    """
    if ratio.deviation is None or ratio.basis is not Basis.BLOCKS or ratio.n[0] < LEAST_KNOWN:
        return None
    have, most = ratio.n[0], MOST_BLOCKS
    deviation = ratio.deviation * _upper(have)

    def decides(blocks: int) -> bool:
        return _decision(blocks, abs(ratio.centre), deviation, delta, p_needed) >= POWER

    if not decides(most):
        return None
    least = have
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if decides(middle) else (middle, most)
    return most - have


def _upper(n: int) -> float:
    """How much larger the true scatter may well be (one time in four) than that of n values."""
    quarter = _chi_square_share(0.25, n - 1)
    return 1 / math.sqrt(quarter) if quarter > 0 else math.inf


def _chi_square_share(level: float, degrees: int) -> float:
    """The quantile of chi-square / degrees, by Wilson and Hilferty."""
    third = 2 / (9 * degrees)
    return (1 - third + NormalDist().inv_cdf(level) * math.sqrt(third)) ** 3


def _decision(n: int, centre: float, deviation: float, delta: float, p_needed: float) -> float:
    """The probability that ``n`` blocks decide, with the signed-rank test taken as Student's t on 0.955 of
    the blocks (its efficiency for normal differences).
    """
    if least_signed_rank_p(n) > 1 - CONFIDENCE:
        return 0.0  # too few for any interval
    error = deviation / math.sqrt(_EFFICIENCY * n)
    if error == 0:
        error = 1e-12
    near, far = math.log1p(delta / 2), math.log1p(delta)
    t = student_quantile((1 + CONFIDENCE) / 2, n - 1)
    below = NormalDist().cdf
    beyond = below((centre - near) / error - t)
    if least_signed_rank_p(n) < p_needed:
        beyond = min(beyond, below(centre / error - student_quantile(1 - p_needed / 2, n - 1)))
    else:
        beyond = 0.0
    within = below((far - centre) / error - t) + below((far + centre) / error - t) - 1
    return beyond + max(within, 0.0)


def _middle(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
