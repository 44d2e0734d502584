"""A against B: the ratio of two times from launches, its interval, its p, and how many more would decide.

Times scatter by factors, so everything is about logarithms. The unit is the launch: placement, addresses and
a library's choices change between launches and not within one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist, stdev
from typing import Final

from busbw.stats.launches import student_quantile
from busbw.stats.ranking import (
    least_rank_sum_p,
    least_signed_rank_p,
    median_interval,
    rank_sum_p,
    shift_interval,
    signed_rank_p,
)

CONFIDENCE: Final = 0.95
MOST_BLOCKS: Final = 1000  # more are not a plan


class Basis(StrEnum):
    """What a ratio's interval stands on."""

    BLOCKS = "blocks"  # launches of both in turn, in random order: drift hits both alike
    LAUNCHES = "launches"  # launches of each, at different times
    SPREAD = "spread"  # one launch on a side, and a spread between launches that the user gave
    SAMPLES = "samples"  # one launch each: says nothing about the next launch
    SINGLE = "single"  # one number on a side, no interval


@dataclass(frozen=True)
class Ratio:
    """The logarithm of (time of A / time of B): positive where B is faster.

    ``low`` and ``high`` bound it at 95 %; None where the basis gives none. ``p``: that there is no
    difference; None where no test is possible. ``n``: observations of each side. ``deviation``: standard
    deviation of one observation of the difference, None from one.
    """

    basis: Basis
    centre: float
    low: float | None
    high: float | None
    p: float | None
    n: tuple[int, int]
    deviation: float | None = None

    @property
    def decides(self) -> bool:
        """Whether the interval is one over launches."""
        return self.basis in (Basis.BLOCKS, Basis.LAUNCHES, Basis.SPREAD)


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
    """As ``unpaired_ratio`` where a side has too few launches to show how they differ, with their relative
    standard deviation ``spread`` known from elsewhere: a normal interval and p.
    """
    centre = _mean_log(first_ns) - _mean_log(second_ns)
    deviation = spread * math.sqrt(1 / len(first_ns) + 1 / len(second_ns))
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    p = math.erfc(abs(centre) / deviation / math.sqrt(2))
    counts = (len(first_ns), len(second_ns))
    half = z * deviation
    return Ratio(Basis.SPREAD, centre, centre - half, centre + half, p, counts, spread * math.sqrt(2))


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
    """How many more blocks (or launches of each) would decide, if centre and scatter stay as they are.

    Decided is: the interval lies beyond delta / 2 and p can reach ``p_needed``, or it lies within +-delta.
    The half-width of n is taken as Student's t x deviation / sqrt(n). None where it cannot be said: fewer
    than two observations of a side, or more than MOST_BLOCKS.
    """
    if ratio.deviation is None:
        return None
    have = min(ratio.n)
    centre, near, far = abs(ratio.centre), math.log1p(delta / 2), math.log1p(delta)
    for n in range(max(have + 1, 4), MOST_BLOCKS + 1):
        degrees = n - 1 if ratio.basis is Basis.BLOCKS else 2 * n - 2
        half = student_quantile((1 + CONFIDENCE) / 2, degrees) * ratio.deviation / math.sqrt(n)
        least_p = least_signed_rank_p(n) if ratio.basis is Basis.BLOCKS else least_rank_sum_p(n, n)
        if least_p > 1 - CONFIDENCE:
            continue  # too few for any interval
        if (centre - half > near and least_p < p_needed) or centre + half < far:
            return n - have
    return None


def _middle(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _mean_log(values: Sequence[float]) -> float:
    return math.fsum(math.log(value) for value in values) / len(values)
