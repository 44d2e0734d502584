"""The tests of a hunt by one metric as arrays, and their noise: what a test usually takes, how far it
scatters, and how often a test of a good pair is slow.

Values are logarithms of times, so that differences are ratios and a loss means the same at every size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.model.hunt import BANDWIDTH, LATENCY, RESENT, RoundResult

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Leaf = tuple[int, ...]
"""The parts on one lowest switch."""

_MOST_STALLED: Final = 0.5  # more often than not, something waited for a core
LEAST_LEAVES: Final = 3  # of two switches nobody can say whether what leaves them is slow or built so
_PASSING: Final = 2.5  # standard deviations from the usual within which a test belongs to it
_MOST_STEPS: Final = 10
_LEAST_OF_ROUND: Final = 4  # passing tests, for a round to have a centre of its own
_LEAST_REPEATS: Final = 8  # pairs tested again, for the noise to be that of repeats
_QUICK_TESTS: Final = 1 / 12  # of a part's tests: where fewer go over quick paths, the slow ones are usual
_QUICK_PARTS: Final = 1 / 4
_SHORTEST_HALF: Final = 1.349  # standard deviations that the middle half of normal values is wide
_MAD: Final = 1.4826  # standard deviations in a median absolute deviation of normal values
_UPPER: Final = 0.8416  # the 80 % point of the normal distribution
_LEAST_SIGMA: Final = 1e-9  # of scripted times, which are all alike


@dataclass(frozen=True)
class Tests:
    """One metric's tests: the ``round`` of each, its parts and the logarithm of what it took, less what its
    kind of path takes longer: ``longer`` is taken off tests between switches. ``pair`` numbers the pairs that
    were tested, of which ``ends`` has the parts.
    """

    round: Ints
    one: Ints
    other: Ints
    values: Floats
    pair: Ints
    ends: Ints
    parts: int
    longer: float


@dataclass(frozen=True)
class Noise:
    """``excess`` is what each test took over the usual; ``sigma`` its standard deviation, at the upper 80 %
    bound. A test is slow whose excess is above ``cut``. ``by_chance`` is how often a test of a good pair is
    slow, ``missed`` how often one of a slow pair is not.
    """

    excess: Floats
    base: float
    sigma: float
    cut: float
    by_chance: float
    missed: float


def effect(metric: str, loss: float) -> float:
    """The logarithm of times that a loss means where nobody resends: of bandwidth, the share that is missing;
    of latency, the share by which it is longer; of resent segments their number.
    """
    return -math.log1p(-loss) if metric == BANDWIDTH else math.log1p(loss)


def loss(metric: str, value: float, base: float = 0.0) -> float:
    """What an effect means, the inverse of ``effect``; of resent segments over those that the usual ``base``
    has.
    """
    if metric == BANDWIDTH:
        return -math.expm1(-value)
    return math.expm1(value) * (math.exp(base) if metric == RESENT else 1)


def counts(metric: str, tested: RoundResult) -> bool:
    """Whether a round says anything of a metric: not where a rank could not observe it, and the mean of many
    messages not where cores were fought for. What a late message then waits for is mostly the kernel and
    other programs. The quickest messages found a core.
    """
    return tested.has(metric) and (metric != LATENCY or tested.stalled <= _MOST_STALLED)


def read_tests(metric: str, history: Sequence[RoundResult], parts: int, leaves: Sequence[Leaf]) -> Tests:
    """The tests of all rounds that say something of the metric: the slower direction's slowest lane."""
    told = [(number, each) for number, each in enumerate(history) if counts(metric, each) and each.tests]
    rounds = np.repeat([number for number, _ in told], [len(each.tests) for _, each in told]).astype(np.int64)
    one, other = np.concatenate([np.empty((2, 0), np.int64), *(each.ends for _, each in told)], axis=1)
    values = np.log(np.concatenate([np.empty(0), *(each.worst_ns(metric) for _, each in told)]))
    keys, pair = np.unique(one * parts + other, return_inverse=True)
    longer = 0.0
    if len(leaves) >= LEAST_LEAVES and metric != RESENT:
        values, longer = _by_paths(one, other, values, parts, leaves)
    return Tests(rounds, one, other, values, pair, np.stack([keys // parts, keys % parts]), parts, longer)


def _by_paths(
    one: Ints, other: Ints, values: Floats, parts: int, leaves: Sequence[Leaf]
) -> tuple[Floats, float]:
    """The values less what tests between switches take longer than those within one, which is how the fabric
    is built; and that, by the lower quartiles, which faults of most paths do not move.
    """
    leaf_of = np.full(parts, -1)
    for number, leaf in enumerate(leaves):
        leaf_of[list(leaf)] = number
    known = (leaf_of[one] >= 0) & (leaf_of[other] >= 0)
    is_between = known & (leaf_of[one] != leaf_of[other])
    within = known & ~is_between
    if min(is_between.sum(), within.sum()) < LEAST_LEAVES:
        return values, 0.0
    longer = max(0.0, float(np.quantile(values[is_between], 0.25) - np.quantile(values[within], 0.25)))
    return values - longer * is_between, longer


def noise_of(tests: Tests, metric: str, floor: float, *, all_pairs: bool) -> Noise:
    """The noise of tests; ``floor`` is the effect that was asked for.

    The usual is the level of the quick paths where ``all_pairs`` were tested: every part has a share of
    them. Otherwise it is that of most tests. Tests near the usual are taken in until that does not change
    any more (iterated sigma clipping); the standard deviation is no more than that of tests of one pair,
    which no fault moves.
    """
    order = np.lexsort((tests.values, tests.round))
    values, rounds = tests.values[order], tests.round[order]
    base, sigma = shortest_half(values)
    repeats = _of_repeats(tests)
    if all_pairs:  # what quick tests take, of parts that are quick
        of, every = np.concatenate([tests.one, tests.other]), np.tile(tests.values, 2)
        by_part = np.lexsort((every, of))
        levels, count = _of_each(of[by_part], every[by_part], tests.parts, _QUICK_TESTS)
        base = float(np.quantile(levels[count > 0], _QUICK_PARTS))
    centres = np.full(int(rounds.max()) + 1, base)
    passing = np.zeros(len(values), np.bool_)
    for _ in range(_MOST_STEPS):
        sigma = min(sigma, repeats)
        near = np.abs(values - centres[rounds]) <= max(floor / 2, _PASSING * sigma)
        if bool((near == passing).all()) or near.sum() < 2:
            break
        passing = near
        base = float(np.median(values[passing]))
        # What a test usually takes in each round follows what slows all of a round alike.
        middles, tested = _of_each(rounds[passing], values[passing], len(centres), 0.5)
        centres = np.where(tested >= _LEAST_OF_ROUND, middles, base)
        sigma = float(np.sqrt(np.mean((values - centres[rounds])[passing] ** 2)))
    excess = tests.values - centres[tests.round]
    cut = math.log1p(math.expm1(floor) / 2) if metric == RESENT else floor / 2
    upper = max(_LEAST_SIGMA, upper_bound(min(sigma, repeats), max(1, int(passing.sum()) - len(centres))))
    return Noise(excess, base, upper, cut, *_mistaken(tests, excess, cut))


def _of_each(group: Ints, ordered: Floats, groups: int, share: float) -> tuple[Floats, Ints]:
    """The quantile of the values of each group, between two the mean of them; and how many there are. Values
    come in the order of groups, and in each of what they are.
    """
    count = np.bincount(group, minlength=groups)
    first = np.cumsum(count) - count
    place = np.maximum(0, count - 1) * share
    ends = [
        np.minimum(first + each(place).astype(np.int64), len(ordered) - 1) for each in (np.floor, np.ceil)
    ]
    return (ordered[ends[0]] + ordered[ends[1]]) / 2, count


def _of_repeats(tests: Tests) -> float:
    """The standard deviation of a test among those of its pair; infinite where too few were repeated."""
    order = np.argsort(tests.pair, kind="stable")
    steps = np.diff(tests.values[order])[np.diff(tests.pair[order]) == 0]
    if len(steps) < _LEAST_REPEATS:
        return math.inf
    return float(np.median(np.abs(steps))) * _MAD / math.sqrt(2)


def _mistaken(tests: Tests, excess: Floats, cut: float) -> tuple[float, float]:
    """How often a test of a good pair is slow, and one of a slow pair not: of pairs that were tested again,
    how often a test was slow beside another that was quick, and how often one was as much too quick. Paths
    and parts that are slow for good are slow in both and count for nothing. By the rule of succession.
    """
    count, slow, fast = (np.bincount(tests.pair, weights) for weights in (None, excess > cut, excess < -cut))
    again = count > 1
    count, quick, fast = count[again], (count - slow)[again], fast[again]
    others = np.maximum(1, count - 1)
    beside = float(quick.sum())
    late = float((quick * (count - quick) / others).sum())
    early = float((fast * (quick - 1) / others).sum())
    return (late + 1) / (beside + 2), (early + 1) / (beside + 2)


def shortest_half(values: Floats) -> tuple[float, float]:
    """The centre of the shortest half of values, and their standard deviation by it."""
    ordered = np.sort(values)
    half = len(ordered) // 2 + 1
    widths = ordered[half - 1 :] - ordered[: len(ordered) - half + 1]
    start = int(widths.argmin())
    return float(np.median(ordered[start : start + half])), float(widths[start]) / _SHORTEST_HALF


def upper_bound(sigma: float, freedom: int) -> float:
    """Of a standard deviation that was estimated with so many degrees of freedom, the upper 80 % bound
    (Wilson and Hilferty's approximation of chi-squared).
    """
    least = freedom * max(1e-3, 1 - 2 / (9 * freedom) - _UPPER * math.sqrt(2 / (9 * freedom))) ** 3
    return sigma * math.sqrt(freedom / least)
