"""What the first rounds say: which parts and pairs look slow, and what could not have been seen."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from busbw.hunt.classes import UNKNOWN, Classes
from busbw.hunt.noise import Floats, Noise, estimate, noise_of
from busbw.model.hunt import BANDWIDTH, LATENCY, QUICKEST, RESENT, PairTest, RoundResult, Rules

# The least effect that two tests of a part can show, in standard deviations of one test: half of it is the
# cut, which a healthy part passes in both but for 1 in 7,000.
_SEEN: Final = 4.5
# Where so many pairs are faster than the rest by more than the cut, the rest is no measure of health.
_MOST_FAST: Final = 0.2
_LEAST_OTHERS: Final = 3  # who all find a part slow, where there is no majority of tests that pass
_MOST_STRAYS: Final = 0.1  # of tests that resend without a part to explain it: it is usual then
_MOST_STALLED: Final = 0.5  # more often than not, something waited for a core
_MOST_MOVED: Final = 0.5  # of the rounds: where more are slow as a whole, that is what tests take
_LEAST_TESTS: Final = 3  # of a round that no slow paths explain: of two, each may go over one
# A pair that was quick once has a path that is: where it is late another time, messages waited elsewhere.
_BY_MOST: Final = (LATENCY, QUICKEST)
_LEAST_SIGMA: Final = 1e-9  # of scripted times, which are all alike


@dataclass(frozen=True)
class Screen:
    """One metric, all rounds of the first stage. Effects and residuals are differences of logarithms of
    times. ``floor`` is the least effect that is worth naming, ``smallest`` the least that these rounds can
    show of a part, ``striking`` what a single test shows. ``suspects`` are parts whose tests were slow, both
    of two or most of more; ``slow_pairs`` pairs that are strikingly slow although both parts passed with
    others: once, or in latency both times or most of more. ``agree`` says whether most tests agree at all.
    ``chance`` is how often a test is slow of parts that are not: what disturbs single tests is no normal
    noise, and is counted. ``passed`` are the tests of parts that are no suspects, with their residuals, but
    for those that did not pass. ``classes`` is what is known of paths that are not alike: its share is in no
    residual.
    """

    metric: str
    noise: Noise
    floor: float
    smallest: float
    striking: float
    residuals: dict[tuple[int, int], float]
    of_part: dict[int, tuple[float, ...]]
    suspects: tuple[int, ...]
    slow_pairs: tuple[tuple[int, int], ...]
    agree: bool
    chance: float
    passed: tuple[tuple[float, PairTest], ...]
    classes: Classes = UNKNOWN

    @property
    def cut(self) -> float:
        """Above it, a part's tests are slow."""
        return _cut(self.metric, self.smallest)

    @property
    def stray(self) -> float:
        """Beyond it, a test does not pass."""
        return self.striking / 2

    @property
    def sees_floor(self) -> bool:
        """Whether whatever is worth naming would have been seen."""
        return self.smallest <= self.floor

    @property
    def sigma(self) -> float:
        """The upper bound of the noise, never 0; of counts no less than chance alone makes of as many as the
        cut (Poisson), however alike those of a quiet fabric are.
        """
        if self.metric != RESENT:
            return max(self.noise.upper, _LEAST_SIGMA)
        at_cut = math.exp(self.noise.base + self.cut)
        return max(self.noise.upper, math.sqrt(at_cut - 1) / at_cut)

    def value(self, test: PairTest) -> float:
        """What rules compare of a test: what it took, but for what its class of paths takes longer."""
        return value(test, self.metric) - self.classes.of(test.one, test.other)

    def loss(self, value: float) -> float:
        """What an effect means: of bandwidth, the share that is missing; of latency, the share by which it is
        longer; of resent segments their number, over those that the others resend.
        """
        if self.metric == BANDWIDTH:
            return -math.expm1(-value)
        return math.expm1(value) * (math.exp(self.noise.base) if self.metric == RESENT else 1)


def _cut(metric: str, smallest: float) -> float:
    """Half of the least effect; of counts the effect of half of their number, which is more than that."""
    return math.log1p(math.expm1(smallest) / 2) if metric == RESENT else smallest / 2


def effect(metric: str, loss: float) -> float:
    """The logarithm of times that a loss means where nobody resends: of bandwidth, the share that is missing;
    of latency, the share by which it is longer; of resent segments their number.
    """
    return -math.log1p(-loss) if metric == BANDWIDTH else math.log1p(loss)


def value(test: PairTest, metric: str) -> float:
    """What rules compare: the logarithm of the slower direction's slowest lane."""
    return math.log(test.worst_ns(metric))


def counts(metric: str, tested: RoundResult) -> bool:
    """Whether a round says anything of a metric: not where a rank could not observe it, and the mean of many
    messages not where cores were fought for. What a late message then waits for is mostly the kernel and
    other programs, and may be longer on one host for as long as the hunt takes. The quickest messages found a
    core.
    """
    is_observed = all(metric in test.times_ns for test in tested.tests)
    return is_observed and (metric != LATENCY or tested.stalled <= _MOST_STALLED)


def screen(rules: Rules, metric: str, rounds: Sequence[RoundResult], paths: Classes = UNKNOWN) -> Screen:
    """Judge rounds of random pairs, at least one with two tests; ``paths`` are their classes.

    Of four parts a slow one is in half of all tests, and there is no majority. What is known all the same is
    that one part explains every slow test; nothing less does. What the other tests take among themselves is
    the noise then: they may share more with a part that is busy than parts share with an idle one.
    """
    placed = [(number, test) for number, tested in enumerate(rounds) for test in tested.tests]
    floor = effect(metric, rules.floors[metric])
    values = np.array([value(test, metric) - paths.of(test.one, test.other) for _, test in placed])
    numbers = np.array([number for number, _ in placed])
    found = replace(
        _judged(metric, floor, placed, values, estimate(values, numbers, floor / 2)), classes=paths
    )
    if found.agree and found.sees_floor:
        return found
    slowest = _slowest(placed, values)
    rest = np.array([slowest not in (test.one, test.other) for _, test in placed])
    if 2 * int(rest.sum()) < max(len(rest), 2 * _LEAST_OTHERS):
        return found
    other = _judged(metric, floor, placed, values, noise_of(values, numbers, rest), slow=slowest)
    return replace(other, agree=True, classes=paths) if _explains(other, slowest) else found


def _slowest(placed: Sequence[tuple[int, PairTest]], values: Floats) -> int:
    """The part whose quickest test took longest."""
    least: dict[int, float] = {}
    for (_, test), found in zip(placed, values, strict=True):
        for part in (test.one, test.other):
            least[part] = min(float(found), least.get(part, math.inf))
    return max(least, key=least.__getitem__)


def moved(metric: str, floor: float, rounds: Sequence[RoundResult], paths: Classes) -> frozenset[int]:
    """The rounds (their places) to leave out, since their tests were slow one and all: something disturbed
    the round, as pairs have no part in common. None where that is most of them, and so what tests take; and
    none that would take along all tests of a pair that was slow again and again, or is one of two alone.
    """
    values = [np.array([value(t, metric) - paths.of(t.one, t.other) for t in each.tests]) for each in rounds]
    numbers = np.repeat(np.arange(len(values)), [len(each) for each in values])
    noise = estimate(np.concatenate(values), numbers, floor / 2)
    beyond = noise.base + max(floor, _SEEN * noise.upper) / 2
    slow = {place for place, each in enumerate(values) if len(each) > 1 and min(each) > beyond}
    if len(slow) > _MOST_MOVED * len(values):
        return frozenset()
    places: dict[tuple[int, int], set[int]] = defaultdict(set)
    for place, tested in enumerate(rounds):
        for test in tested.tests:
            places[test.one, test.other].add(place)
    return frozenset(place for place in slow if not _may_be_paths(rounds[place], places, slow))


def _may_be_paths(tested: RoundResult, places: Mapping[tuple[int, int], set[int]], slow: set[int]) -> bool:
    """Whether a round that was slow as a whole has a pair of no other rounds than such: of several, or it is
    one of two alone. ``places`` has the rounds of each pair.
    """
    own = [places[test.one, test.other] for test in tested.tests]
    return any(each <= slow and (len(each) > 1 or len(own) < _LEAST_TESTS) for each in own)


def _explains(found: Screen, part: int) -> bool:
    """Whether the part is slow in all its tests, with three others or more, and every other test passes and
    is nearer to the middle than to those: a second slow part would be taken for noise.
    """
    own = [pair for pair in found.residuals if part in pair]
    rest = {pair: residual for pair, residual in found.residuals.items() if part not in pair}
    if len(own) < _LEAST_OTHERS or len(rest) < len(own):
        return False
    least = min(found.of_part[part])
    return least > found.cut and max(map(abs, rest.values())) < min(found.stray, least / 2)


def _judged(
    metric: str,
    floor: float,
    placed: Sequence[tuple[int, PairTest]],
    values: Floats,
    noise: Noise,
    slow: int | None = None,
) -> Screen:
    """What ``values`` of the ``placed`` tests (number of the round, test) say, by their noise. ``slow``: the
    part that is asked after, and no other.
    """
    rounds = len(noise.centres)
    striking = max(floor, _SEEN * noise.upper)
    smallest = max(floor, _SEEN * noise.upper * math.sqrt(2 / max(2, rounds)))
    cut = _cut(metric, smallest)
    of_pair: dict[tuple[int, int], list[float]] = defaultdict(list)
    of_part: dict[int, list[float]] = defaultdict(list)
    passed: list[tuple[float, PairTest]] = []
    for (number, test), found, passes in zip(placed, values, noise.passing, strict=True):
        residual = float(found - noise.centres[number])
        passed += [(residual, test)] if passes else []
        of_pair[test.one, test.other].append(residual)
        for part in (test.one, test.other):
            of_part[part].append(residual)
    residuals = {pair: max(own) for pair, own in of_pair.items()}
    suspects = {part for part, own in of_part.items() if len(own) > 1 and lower_median(own) > cut}
    suspects = suspects if slow is None else {slow}
    quick = [pair for pair, residual in residuals.items() if residual < -striking / 2]  # in all of its tests
    # Again and again faster than the rest: then the rest, and not a few of them, is what has lost.
    is_measure = len(quick) < max(1, _MOST_FAST * len(residuals)) and all(
        len(of_pair[pair]) < 2 for pair in quick
    )
    others = [own for pair, own in residuals.items() if suspects.isdisjoint(pair)]
    strays = sum(residual > striking / 2 for residual in others)
    return Screen(
        metric,
        noise,
        floor,
        smallest,
        striking,
        residuals,
        {part: tuple(own) for part, own in of_part.items()},
        tuple(sorted(suspects)),
        tuple(
            pair
            for pair, own in of_pair.items()
            if (lower_median if metric in _BY_MOST else max)(own) > striking
            and suspects.isdisjoint(pair)
            and _pass_elsewhere(pair, of_part, striking)
        ),
        agree=2 * int(noise.passing.sum()) > len(values) and is_measure,
        chance=(strays + 1) / (len(others) + 2),  # the rule of succession
        passed=tuple(each for each in passed if suspects.isdisjoint((each[1].one, each[1].other))),
    )


def lower_median(values: Sequence[float]) -> float:
    """The middle one, the lower of two: of two values the lower, so that both have to be large."""
    return sorted(values)[(len(values) - 1) // 2]


def _pass_elsewhere(pair: tuple[int, int], of_part: dict[int, list[float]], striking: float) -> bool:
    return all(min(of_part[part]) <= striking / 2 for part in pair)


def tells(found: Screen) -> bool:
    """Whether a metric can tell the slow from the others: not where pairs do not agree at all, and of resent
    segments not where those are common. Whoever resends most may be a lossy part and is no reason.
    """
    if found.metric != RESENT:
        return found.agree
    others = [pair for pair in found.residuals if not {*found.suspects} & {*pair}]
    strays = [pair for pair in others if found.residuals[pair] > found.cut]
    most = max((sum(part in pair for pair in strays) for part in found.of_part), default=0)
    return found.agree and len(strays) - most <= _MOST_STRAYS * len(others)
