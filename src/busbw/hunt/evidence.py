"""What the tests of a hunt say of parts and of the paths between them, by one metric.

A test is as slow as the slower of its two parts and their path. So a pair that is quick clears both of its
parts and the path; a part is slow that is slow with everybody, a path that is slow between two parts which
are quick with others. Tests speak by sequential probability ratios (Wald 1945), which hold however many
tests there are: against somebody by how often its tests were slow, of which single disturbed tests change
little; for a pair by how quick they were.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from busbw.hunt.field import Groups
from busbw.hunt.noise import Bools, Floats, Ints, Leaf, Noise, Tests, effect, noise_of, read_tests
from busbw.model.hunt import RESENT, RoundResult, Rules

ALL_PAIRS = 32  # parts, up to which every pair is tested
_SURELY = 3  # good tests of a pair, before they clear parts that are slow with all others
_MOST_MATES = 16
_MOST_TESTS = 6  # of a pair that is good, on the average: more noise takes a greater loss
_LEAST_PARTNERS = 2  # of a pair alone, nobody can say which of its parts it is
_LEAST_FAST = 4  # tests
_MOST_FAST = 0.02  # of the tests


@dataclass(frozen=True)
class Evidence:
    """By one metric: the parts that are slow (``slow_parts``, by part), and of the pairs that were tested
    (``tests.ends``) those that are ``slow`` for their path alone, those that are neither that nor quick yet
    (``open``), and those that ``ask`` for another test. ``disputed`` parts are slow with most and
    quick with some. ``fast`` is the share of tests that are faster than the usual again and again;
    ``tells``: so many tests as a part has would show that it is slow.
    """

    metric: str
    floor: float
    tests: Tests
    noise: Noise
    slow_parts: Bools
    slow: Bools
    open: Bools
    ask: Bools
    disputed: Bools
    fast: float
    tells: bool

    def pairs(self, chosen: Bools) -> list[tuple[int, int]]:
        """The parts of the pairs that are chosen."""
        one, other = self.tests.ends[:, chosen].tolist()
        return list(zip(one, other, strict=True))

    def unmet(self, group: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs of a group, one of them slow and the other one slow or disputed, that were not tested: parts
        behind another switch than most are slow with these, and quick with each other.
        """
        bad = [part for part in group if self.slow_parts[part] or self.disputed[part]][:_MOST_MATES]
        known = set(self.pairs(np.ones_like(self.ask)))
        return [
            pair
            for pair in itertools.combinations(bad, 2)
            if self.slow_parts[list(pair)].any() and pair not in known
        ]

    def of_part(self, part: int) -> Bools:
        """The tests of a part with others that are not slow."""
        one, other = self.tests.one, self.tests.other
        partner = np.where(one == part, other, one)
        own: Bools = ((one == part) | (other == part)) & ~self.slow_parts[partner]
        return own


def all_pairs(rules: Rules, parts: int) -> bool:
    """Whether a hunt among so many parts tests every pair."""
    return parts <= ALL_PAIRS or rules.rounds >= parts - 1 + parts % 2


def judge(
    rules: Rules, metric: str, groups: Groups, history: Sequence[RoundResult], leaves: Sequence[Leaf] = ()
) -> Evidence | None:
    """What all rounds say of the loss that was asked for, or of the least that so noisy tests can show; None
    where no two tests say anything of the metric.
    """
    parts = sum(map(len, groups))
    tests = read_tests(metric, history, parts, leaves)
    if len(tests.values) < 2:
        return None
    floor, noise = _shown(rules, metric, tests, is_whole=all_pairs(rules, max(map(len, groups))))
    against, quick_sum = _sums(rules, tests, noise, floor)
    convicted = math.log((parts + tests.ends.shape[1]) / rules.accusation)
    cleared = math.log(rules.acquittal)
    of_pair = np.bincount(tests.pair, against)
    quick = (quick_sum <= cleared) & (of_pair < convicted)
    slow_parts, weight = _slow_parts(tests, against, convicted, quick)
    is_of_slow = slow_parts[tests.ends].any(axis=0)
    slow = (of_pair >= convicted) & ~is_of_slow
    disputed = (weight >= convicted) & ~slow_parts
    open_ = ~quick & ~slow & ~is_of_slow
    doubtful = quick & (quick_sum > _SURELY * cleared) & disputed[tests.ends].any(axis=0)
    if metric != rules.metrics[0]:  # it accuses only: a pair is asked again that was never quick
        never = np.bincount(tests.pair, noise.excess <= noise.cut) == 0
        open_, doubtful = open_ & never, doubtful & never
    of_a_part = float(np.median(_by_part(np.stack([tests.one, tests.other]), np.ones(len(against)), parts)))
    tells = of_a_part * _if_slow(noise) >= convicted
    return Evidence(
        metric, floor, tests, noise, slow_parts, slow, open_, open_ | doubtful, disputed,
        _fast(tests, noise), tells,
    )  # fmt: skip


def _shown(rules: Rules, metric: str, tests: Tests, *, is_whole: bool) -> tuple[float, Noise]:
    """The effect that is looked for, which is greater than what was asked for where tests are too noisy, and
    the noise.
    """
    floor, whole = effect(metric, rules.floors[metric]), is_whole and metric != RESENT
    noise = noise_of(tests, metric, floor, all_pairs=whole)
    least = noise.sigma * math.sqrt(-2 * math.log(rules.acquittal) / _MOST_TESTS)
    if metric == RESENT or least <= floor:
        return floor, noise
    return least, noise_of(tests, metric, least, all_pairs=whole)


def _sums(rules: Rules, tests: Tests, noise: Noise, floor: float) -> tuple[Floats, Floats]:
    """Of each test the logarithm of the probability ratio that it is of a slow part or path, by whether it is
    slow; and of each pair that of a loss of ``floor`` against none, by how slow its tests were. One test can
    clear a pair, and one disturbed test is half as much.
    """
    is_slow = noise.excess > noise.cut
    against = np.where(is_slow, _if_slow(noise), math.log(noise.missed / (1 - noise.by_chance)))
    most = -math.log(rules.acquittal)
    ratio = floor * (noise.excess - noise.cut) / noise.sigma**2
    clipped = np.clip(ratio, -most, most / 2)
    return against.astype(np.float64), np.bincount(tests.pair, clipped).astype(np.float64)


def _if_slow(noise: Noise) -> float:
    return math.log((1 - noise.missed) / noise.by_chance)


def _slow_parts(tests: Tests, against: Floats, convicted: float, quick: Bools) -> tuple[Bools, Floats]:
    """The parts that are slow with everybody, and what speaks against each of the others. The slowest comes
    first: tests with a slow part say nothing of its partners.
    """
    slow, alive = np.zeros(tests.parts, np.bool_), np.ones(len(against), np.bool_)
    is_cleared = _by_part(tests.ends, quick, tests.parts) > 0
    while True:
        both = np.stack([tests.one, tests.other])
        weight = _by_part(both, against * alive, tests.parts)
        met = np.bincount(tests.pair, alive) > 0
        partners = _by_part(tests.ends, met, tests.parts)
        accused = (weight >= convicted) & (partners >= _LEAST_PARTNERS) & ~is_cleared & ~slow
        if not accused.any():
            return slow, weight
        worst = int(np.where(accused, weight, -math.inf).argmax())
        slow[worst] = True
        alive &= (tests.one != worst) & (tests.other != worst)


def _by_part(ends: Ints, weights: Floats | Bools, parts: int) -> Floats:
    return np.bincount(ends.ravel(), np.tile(weights, 2), parts).astype(np.float64)


def _fast(tests: Tests, noise: Noise) -> float:
    """The share of tests that are as much faster than the usual as slow ones are slower, where a pair's are
    again and again: paths or parts are of two kinds then. 0 where that may be chance.
    """
    is_fast = noise.excess < -noise.cut
    count, fast = np.bincount(tests.pair), np.bincount(tests.pair, is_fast)
    again = count > 1
    beside = float(fast[again].sum())
    same = float((fast * (fast - 1) / np.maximum(1, count - 1))[again].sum())
    share = float(is_fast.mean())
    return share if beside >= _LEAST_FAST and same > beside / 2 and share > _MOST_FAST else 0.0
