"""Rank tests of a few numbers, exact: signed ranks for pairs, rank sums for two groups.

The null distribution is counted, not approximated, on the ranks that are there, ties and zeros included; an
interval is the set of shifts that the test does not reject. scipy has the tests, but its exact form refuses
ties and zeros, loading it takes a second, and it is not in the base install, where a gate must work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

# Sums of ranks are counted in whole numbers of any length; beyond this many values the normal approximation
# differs by less than 1e-3 and the counts get slow.
EXACT_VALUES: Final = 60


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, from 2; equal values share the mean of their ranks, so whole numbers."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for position in range(first, last + 1):
            ranks[order[position]] = first + last + 2
        first = last + 1
    return ranks


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test that differences are symmetric about 0.

    Zeros take part in the ranking and are dropped then (Pratt 1959). 1.0 where nothing differs.
    """
    ranks = doubled_ranks([abs(value) for value in differences])
    signed = [(rank, value > 0) for rank, value in zip(ranks, differences, strict=True) if value != 0]
    if not signed:
        return 1.0
    up = sum(rank for rank, is_up in signed if is_up)
    total = sum(rank for rank, _ in signed)
    if len(signed) > EXACT_VALUES:
        deviation = math.sqrt(sum(rank * rank for rank, _ in signed)) / 2
        return _two_sided_normal((up - total / 2) / deviation)
    counts = _subset_counts(tuple(sorted(rank for rank, _ in signed)))
    return min(1.0, sum(counts[: min(up, total - up) + 1]) / float(2 ** (len(signed) - 1)))


def rank_sum_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p of the Wilcoxon-Mann-Whitney test that two groups have one distribution."""
    n, m = len(first), len(second)
    if not n or not m:
        return 1.0
    ranks = doubled_ranks([*first, *second])
    own, total = sum(ranks[:n]), sum(ranks)
    if n + m > EXACT_VALUES:
        mean = n * total / (n + m)
        spread = sum((rank - total / (n + m)) ** 2 for rank in ranks) / (n + m - 1)
        variance = spread * n * m / (n + m)
        return _two_sided_normal((own - mean) / math.sqrt(variance)) if variance else 1.0
    counts = _choice_counts(tuple(sorted(ranks)), n)
    below = sum(counts[: own + 1])
    above = sum(counts[own:])
    return min(1.0, 2 * min(below, above) / math.comb(n + m, n))


def least_signed_rank_p(pairs: int) -> float:
    """The smallest p that so many pairs can give: all on one side."""
    return float(min(1.0, 2.0 ** (1 - pairs)))


def least_rank_sum_p(first: int, second: int) -> float:
    """The smallest p that two groups of these sizes can give: one wholly above the other."""
    return min(1.0, 2 / math.comb(first + second, first)) if first and second else 1.0


def median_interval(differences: Sequence[float], confidence: float) -> tuple[float, float, float] | None:
    """Hodges-Lehmann centre (median of all pairwise means) and the signed-rank interval around it.

    None where so few values cannot give this confidence: below 6 at 95 %.
    """
    n = len(differences)
    if n == 0 or least_signed_rank_p(n) > 1 - confidence:
        return None
    means = sorted((differences[i] + differences[j]) / 2 for i in range(n) for j in range(i, n))
    cut = _signed_rank_cut(n, confidence)
    return _median(means), means[cut], means[len(means) - 1 - cut]


def shift_interval(
    first: Sequence[float], second: Sequence[float], confidence: float
) -> tuple[float, float, float] | None:
    """Hodges-Lehmann shift of ``second`` against ``first`` (median of all differences), with the rank-sum
    interval. None where the groups are too small for the confidence: below 4 and 4 at 95 %.
    """
    if least_rank_sum_p(len(first), len(second)) > 1 - confidence:
        return None
    shifts = sorted(after - before for after in second for before in first)
    cut = _rank_sum_cut(len(first), len(second), confidence)
    return _median(shifts), shifts[cut], shifts[len(shifts) - 1 - cut]


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _two_sided_normal(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))


@lru_cache(maxsize=512)
def _subset_counts(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """How many subsets of the ranks have each sum."""
    counts = [1]
    for rank in ranks:
        counts += [0] * rank
        for total in range(len(counts) - 1, rank - 1, -1):
            counts[total] += counts[total - rank]
    return tuple(counts)


@lru_cache(maxsize=512)
def _choice_counts(ranks: tuple[int, ...], chosen: int) -> tuple[int, ...]:
    """How many choices of ``chosen`` ranks have each sum."""
    most = sum(ranks)
    counts = [[0] * (most + 1) for _ in range(chosen + 1)]
    counts[0][0] = 1
    for rank in ranks:
        for taken in range(chosen, 0, -1):
            row, before = counts[taken], counts[taken - 1]
            for total in range(most, rank - 1, -1):
                row[total] += before[total - rank]
    return tuple(counts[chosen])


@lru_cache(maxsize=512)
def _signed_rank_cut(n: int, confidence: float) -> int:
    """How many of the pairwise means the interval leaves out on each side."""
    tail = (1 - confidence) / 2
    if n > EXACT_VALUES:
        z = _normal_quantile(1 - tail)
        return max(0, math.floor(n * (n + 1) / 4 - z * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)) - 1)
    counts = _subset_counts(tuple(range(1, n + 1)))
    return _cut(counts, tail * 2**n)


@lru_cache(maxsize=512)
def _rank_sum_cut(n: int, m: int, confidence: float) -> int:
    tail = (1 - confidence) / 2
    if n + m > EXACT_VALUES:
        z = _normal_quantile(1 - tail)
        return max(0, math.floor(n * m / 2 - z * math.sqrt(n * m * (n + m + 1) / 12)) - 1)
    counts = _choice_counts(tuple(range(1, n + m + 1)), n)[n * (n + 1) // 2 :]
    return _cut(counts, tail * math.comb(n + m, n))


def _cut(counts: Sequence[int], allowed: float) -> int:
    """The largest k such that the sums up to k together stay within ``allowed`` outcomes: the test rejects a
    shift that at most k of the pairwise numbers exceed, so the interval begins at the k-th from 0.
    """
    below = 0
    for cut, outcomes in enumerate(counts):
        below += outcomes
        if below > allowed:
            return max(cut - 1, 0)
    return len(counts) - 1


def _normal_quantile(probability: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)
