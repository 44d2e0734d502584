"""Which tests to make next, and what they say so far: pure functions of the rounds that were run.

Everybody is screened in random pairs. Who was slow there is a suspect and no more: what accused it is not
used again. Suspects are tested afresh with parts that passed, one new partner a round, while the others are
tested among themselves as the control of that round. Each fresh test adds to a sequential probability ratio
(Wald 1945). How much it may add against a part is bounded by how often tests of healthy parts were slow in
this hunt, and so that no single test can decide. Where it is known which parts share a switch, the switch is
told from its parts (``leaves``).
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from busbw.hunt.leaves import Leaf, across, inside, of_round, suspected
from busbw.hunt.screen import Screen, counts, lower_median, screen, value
from busbw.model.hunt import PairTest, Round, RoundResult, Rules, Stage
from busbw.planning.rounds import matchings, pair, turns

Groups = tuple[tuple[int, ...], ...]
"""Parts by who can be tested with whom: all in one group, or the ranks of each host in one of its own."""

_LEAST_CONTROLS: Final = 3  # fewer can make a round look slower than it was, but not faster
_MOST_STRAY: Final = 0.25  # of a round's controls beyond the cut: more, and the round says nothing


class State(StrEnum):
    """How far a candidate came."""

    OPEN = "open"
    CONFIRMED = "confirmed"
    CLEARED = "cleared"


@dataclass(frozen=True)
class Candidate:
    """A part that was slow in screening, or a pair whose parts are not (then ``parts`` has two). ``screened``
    and ``fresh`` are residuals; ``evidence`` is the logarithm of the probability ratio of the fresh ones.
    ``leaf``: the parts are all that share a switch, which is what is meant; of each round it has one test.
    """

    parts: tuple[int, ...]
    metric: str
    screened: tuple[float, ...]
    fresh: tuple[tuple[float, PairTest], ...]
    evidence: float
    state: State
    leaf: bool = False

    @property
    def effect(self) -> float:
        """How slow: the mean of the fresh residuals, of the screened ones where there is none."""
        own = [residual for residual, _ in self.fresh] or list(self.screened)
        return sum(own) / len(own)


@dataclass(frozen=True)
class Standing:
    """Where a hunt stands. ``good`` are parts that passed and may be the partner of a suspect; ``void``
    rounds were too restless to count. ``fenced`` are suspected switches, ``inside`` those of their parts that
    passed with another of the same switch.
    """

    screens: tuple[Screen, ...]
    candidates: tuple[Candidate, ...]
    good: tuple[int, ...]
    void: int
    fenced: tuple[Leaf, ...] = ()
    inside: frozenset[int] = frozenset()

    @property
    def open(self) -> tuple[Candidate, ...]:
        """Those that need more tests, the slowest first: a pair when its parts were cleared."""
        cleared = {each.parts for each in self.candidates if each.state is State.CLEARED}
        left = [
            each
            for each in self.candidates
            if each.state is State.OPEN
            and (each.leaf or len(each.parts) == 1 or all((p,) in cleared for p in each.parts))
        ]
        return tuple(sorted(left, key=lambda each: -lower_median(each.screened)))


def next_round(
    rules: Rules, groups: Groups, history: Sequence[RoundResult], leaves: Sequence[Leaf] = ()
) -> Round | None:
    """The round to run now; None where the hunt is over, or there is nobody to pair. ``leaves``: the parts on
    each switch, where that is known.
    """
    if all(len(group) < 2 for group in groups):
        return None
    screens, confirms = by_stage(history)
    if not confirms and not _is_screened(rules, groups, screens):
        return Round(len(history), Stage.SCREEN, tuple(_screening(rules, groups, len(screens))))
    standing = stand(rules, history, leaves)
    if not standing.open or len(confirms) >= rules.most_confirms or not all_agree(standing):
        return None
    pairs = _confirming(rules, groups, history, standing)
    return Round(len(history), Stage.CONFIRM, pairs) if pairs else None


def by_stage(history: Sequence[RoundResult]) -> tuple[list[RoundResult], list[RoundResult]]:
    """The rounds of screening, and those of confirmation."""
    screens = [tested for tested in history if tested.round.stage is Stage.SCREEN]
    return screens, [tested for tested in history if tested.round.stage is Stage.CONFIRM]


def all_agree(standing: Standing) -> bool:
    """Whether there is a majority to compare with, by the metric that decides."""
    return standing.screens[0].agree


def stand(rules: Rules, history: Sequence[RoundResult], leaves: Sequence[Leaf] = ()) -> Standing:
    """What the rounds say; at least one of screening, with two tests."""
    screens, confirms = by_stage(history)
    counted = {metric: [each for each in screens if counts(metric, each)] for metric in rules.metrics}
    found = tuple(
        screen(rules, metric, own)
        for metric, own in counted.items()
        if len(own) > 1 or metric == rules.metrics[0]
    )
    shut = [(each, leaf) for each in found for leaf in suspected(each, leaves)]
    switches: list[Candidate] = []
    if shut:  # a switch that was cleared fences nobody
        first = _Judge(rules, found, confirms, tuple(dict.fromkeys(leaf for _, leaf in shut)), len(shut))
        switches = [first.switch(each, leaf) for each, leaf in shut]
    fenced = dict.fromkeys(each.parts for each in switches if each.state is not State.CLEARED)
    judge = _Judge(rules, found, confirms, tuple(fenced), len(shut))
    switches = [judge.switch(each, leaf) for each, leaf in shut if leaf in fenced]
    parts = [judge.candidate(each, own) for each, own in judge.wanted]
    void = judge.centres[found[0].metric].count(None)
    return Standing(found, (*switches, *parts), judge.good, void, judge.fenced, judge.inside)


class _Judge:
    """Fresh tests by metric, against the centre of their rounds. Parts of ``fenced`` switches are no control,
    and are judged by tests among themselves.
    """

    def __init__(
        self,
        rules: Rules,
        found: Sequence[Screen],
        confirms: Sequence[RoundResult],
        fenced: tuple[Leaf, ...],
        more: int,
    ) -> None:
        self._confirms, self.fenced = confirms, fenced
        behind = {part for leaf in fenced for part in leaf}
        self.wanted = [(each, parts) for each in found for parts in _wanted(each, behind)]
        accused = {part for _, parts in self.wanted for part in parts} | behind
        self.good = tuple(sorted(part for part in found[0].of_part if part not in accused))
        ends = {part for _, parts in self.wanted for part in parts[:1]} | behind
        self.control = set(self.good) or set(found[0].of_part) - ends
        self.centres = {
            each.metric: [
                _centre(each, tested, self.control) if counts(each.metric, tested) else None
                for tested in confirms
            ]
            for each in found
        }
        own = [(each, *told) for each in found for told in self._among(each)]
        slow = {(each.metric, part) for each, _, test, residual in own if residual > each.cut
                for part in (test.one, test.other)}  # fmt: skip
        passed = {part for each, _, test, residual in own if each is found[0] and residual <= each.cut
                  for part in (test.one, test.other)}  # fmt: skip
        self.inside = frozenset(passed)
        self.wanted += [(each, (part,)) for each in found for part in sorted(behind)
                        if (each.metric, part) in slow]  # fmt: skip
        # However many are suspected, the chance that any healthy one is accused stays the same (Bonferroni).
        total = max(1, len(self.wanted) + more)
        self._against = math.log((1 - rules.acquittal) * total / rules.accusation)
        self._for_it = math.log(rules.acquittal)

    def candidate(self, found: Screen, parts: tuple[int, ...]) -> Candidate:
        """A part by its tests with good partners (behind a fence, with those that passed there), or a pair by
        its own.
        """
        leaf = next((set(leaf) for leaf in self.fenced if parts[0] in leaf), None)
        control = self.control if leaf is None else leaf & self.inside
        tests = []
        for tested, centre in zip(self._confirms, self.centres[found.metric], strict=True):
            own = next((test for test in tested.tests if _is_of(test, parts, control)), None)
            if centre is not None and own is not None:
                tests.append((value(own, found.metric) - centre, own))
        screened = found.of_part[parts[0]] if len(parts) == 1 else (found.residuals[parts[0], parts[1]],)
        return self._weighed(Candidate(parts, found.metric, screened, (), 0.0, State.OPEN), found, tests)

    def switch(self, found: Screen, leaf: Leaf) -> Candidate:
        """A switch by the middle one of each round's tests that leave it."""
        tests = []
        for tested, centre in zip(self._confirms, self.centres[found.metric], strict=True):
            own = across(tested.tests, leaf, self.control)
            if centre is not None and own:
                residuals = {value(test, found.metric) - centre: test for test in own}
                middle = of_round(list(residuals))
                tests.append((middle, residuals[middle]))
        out = [r for pair, r in found.residuals.items() if len(set(pair) & set(leaf)) == 1]
        plain = Candidate(leaf, found.metric, tuple(out), (), 0.0, State.OPEN, leaf=True)
        return self._weighed(plain, found, tests)

    def _among(self, found: Screen) -> Iterable[tuple[Leaf, PairTest, float]]:
        """Tests among the parts of a fenced switch, and what they took more than the controls."""
        for tested, centre in zip(self._confirms, self.centres[found.metric], strict=True):
            for leaf in self.fenced:
                if centre is not None:
                    for test in inside(tested.tests, leaf):
                        yield leaf, test, value(test, found.metric) - centre

    def _weighed(self, plain: Candidate, found: Screen, tests: Sequence[tuple[float, PairTest]]) -> Candidate:
        """The candidate with so many of its fresh tests as it took to decide. One good test clears who was
        slow once; who was slow again and again may be so now and then, and takes two good ones or more.
        """
        fresh: list[tuple[float, PairTest]] = []
        evidence, state = 0.0, State.OPEN
        is_slow_again = len(plain.screened) > 1 and lower_median(plain.screened) > found.cut
        for residual, test in tests:
            if state is not State.OPEN:
                break
            fresh.append((residual, test))
            ratio = 2 * (found.smallest - found.cut) * (residual - found.cut) / found.sigma**2
            most = min(-math.log(found.chance), self._against / 2)
            is_slow_again = is_slow_again or residual > found.cut
            evidence += max(min(ratio, most), self._for_it / 2 if is_slow_again else self._for_it)
            if evidence >= self._against * (1 - 1e-9) and len(fresh) > 1:
                state = State.CONFIRMED
            elif evidence <= self._for_it:
                state = State.CLEARED
        return replace(plain, fresh=tuple(fresh), evidence=evidence, state=state)


def _wanted(found: Screen, behind: set[int]) -> Iterable[tuple[int, ...]]:
    """What one metric wants tested afresh: suspects, both parts of a slow pair, and then the pair itself; but
    for those behind a fence.
    """
    pairs = [pair for pair in found.slow_pairs if behind.isdisjoint(pair)]
    ends = itertools.chain((part for part in found.suspects if part not in behind), *pairs)
    return (*((part,) for part in dict.fromkeys(ends)), *pairs)


def _is_screened(rules: Rules, groups: Groups, screens: Sequence[RoundResult]) -> bool:
    """Whether every part has two tests, and there are enough values to know the noise and see the floor."""
    if len(screens) >= rules.most_screens:
        return True
    odd = any(len(group) % 2 for group in groups)
    if len(screens) < 2 + odd or sum(len(each.tests) for each in screens) < rules.least_values:
        return False
    first = screen(rules, rules.metrics[0], screens)
    return first.sees_floor


def _screening(rules: Rules, groups: Groups, number: int) -> Iterable[tuple[int, int]]:
    """Round ``number`` of random pairs in every group; from the start again, in another order, where every
    pair was there.
    """
    for index, group in enumerate(groups):
        if len(group) > 1:
            lap, place = divmod(number, turns(len(group)))
            rounds = matchings(len(group), f"{rules.seed} {index} {lap}")
            found = next(itertools.islice(rounds, place, None))
            yield from (pair(group[one], group[other]) for one, other in found)


def _is_of(test: PairTest, parts: tuple[int, ...], control: set[int]) -> bool:
    ends = {test.one, test.other}
    return ends == set(parts) if len(parts) > 1 else parts[0] in ends and bool((ends - {parts[0]}) & control)


def _centre(found: Screen, tested: RoundResult, control: set[int]) -> float | None:
    """What a healthy pair took in a round of confirmation: the median of its controls, and where these are
    few, at least what it took in screening. None where there are no controls, where they do not agree among
    themselves, or all together have moved by more than what is being looked for.
    """
    own = [value(test, found.metric) for test in tested.tests if {test.one, test.other} <= control]
    if not own:
        return None
    centre = float(np.median(own))
    stray = sum(abs(each - centre) > found.stray for each in own)
    moved = abs(centre - found.noise.base) > found.striking
    if moved or stray > _MOST_STRAY * len(own):
        return None
    return centre if len(own) >= _LEAST_CONTROLS else max(centre, found.noise.base)


def _confirming(
    rules: Rules, groups: Groups, history: Sequence[RoundResult], standing: Standing
) -> tuple[tuple[int, int], ...]:
    """Every suspect with a good partner, new to it where there is one; every slow pair again; and the good
    ones that are left among themselves.
    """
    generator = random.Random(f"{rules.seed} {len(history)}")
    met = Counter(pair(test.one, test.other) for tested in history for test in tested.tests)
    busy: set[int] = set()
    pairs: list[tuple[int, int]] = []
    partners = [(set(group), sorted(set(group) & set(standing.good))) for group in groups]
    behind = {part for leaf in standing.fenced for part in leaf}
    for leaf in standing.fenced:
        goes_out = len(by_stage(history)[1]) % 2 == 0  # and in the next round stays inside
        own = (
            _leaving(generator, leaf, standing.good, busy)
            if goes_out
            else _staying(generator, leaf, standing)
        )
        pairs += own
        busy |= {part for each in own for part in each}
    for candidate in standing.open:
        if candidate.leaf or not behind.isdisjoint(candidate.parts):
            continue
        if not busy.isdisjoint(candidate.parts):
            continue
        if len(candidate.parts) > 1:
            chosen = pair(*candidate.parts)
        else:
            (part,) = candidate.parts
            good = next(good for group, good in partners if part in group)
            free = [each for each in good if each not in busy]
            if not free:
                continue
            fresh = [each for each in free if not met[pair(part, each)]]
            chosen = pair(part, generator.choice(fresh or free))
        pairs.append(chosen)
        busy |= set(chosen)
    if not pairs:
        return ()
    for _, good in partners:
        rest = [each for each in good if each not in busy]
        generator.shuffle(rest)
        pairs += itertools.starmap(pair, zip(rest[::2], rest[1::2], strict=False))
    return tuple(pairs)


def _leaving(
    generator: random.Random, leaf: Leaf, good: Sequence[int], busy: set[int]
) -> list[tuple[int, int]]:
    """All parts of a switch at once with good ones elsewhere, so that what leads there is loaded."""
    free = [part for part in good if part not in busy]
    size = max(0, min(len(leaf), len(free) - 2 * _LEAST_CONTROLS)) or min(
        1, len(free)
    )  # the others are control
    return list(
        itertools.starmap(pair, zip(generator.sample(leaf, size), generator.sample(free, size), strict=True))
    )


def _staying(generator: random.Random, leaf: Leaf, standing: Standing) -> list[tuple[int, int]]:
    """The parts of a switch among themselves; who was slow there with one that was not."""
    asked = {part for each in standing.open if not each.leaf for part in each.parts}
    mates = generator.sample(leaf, len(leaf))
    mates.sort(key=lambda part: part not in asked)  # stable: those first that are asked after
    found = []
    while len(mates) > 1:
        part = mates.pop(0)
        mate = next((each for each in mates if each in standing.inside), mates[0])
        mates.remove(mate)
        found.append(pair(part, mate))
    return found
