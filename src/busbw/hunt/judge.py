"""What the rounds of a hunt say so far: pure functions of the rounds that were run.

Fresh tests are held against the controls of their round, and add to a sequential probability ratio (Wald
1945). How much one may add against a part is bounded by how often tests of healthy parts were slow in this
hunt, and so that no single test can decide. Where it is known which parts share a switch, the switch is told
from its parts (``leaves``), and so is the path between two switches (``paths``).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import numpy as np

from busbw.hunt.classes import Classes, Leaf, classes
from busbw.hunt.leaves import across, inside, of_round, suspected
from busbw.hunt.near import Near, near
from busbw.hunt.paths import LEAST_LEAVES, Path, between, slow_afresh, slow_paths
from busbw.hunt.screen import Screen, counts, effect, lower_median, moved, screen, tells, value
from busbw.model.hunt import RESENT, SMALL, PairTest, RoundResult, Rules, Stage

Groups = tuple[tuple[int, ...], ...]
"""Parts by who can be tested with whom: all in one group, or the ranks of each host in one of its own."""

# A part of a pair alone: no third one tells which of the two it is.
LEAST_PARTS: Final = 4
LEAST_CONTROLS: Final = 3  # fewer can make a round look slower than it was, but not faster
_MOST_STRAY: Final = 0.25  # of a round's controls beyond the cut: more, and the round says nothing


class State(StrEnum):
    """How far a candidate came."""

    OPEN = "open"
    CONFIRMED = "confirmed"
    CLEARED = "cleared"
    UNMET = "unmet"  # slow with parts that passed, and not tested yet with all that may be near it
    NEAR = "near"  # slow with parts that passed, quick with others that are: paths are not alike


@dataclass(frozen=True)
class Candidate:
    """A part that was slow in screening, or a pair whose parts are not (then ``parts`` has two). ``screened``
    and ``fresh`` are residuals; ``evidence`` is the logarithm of the probability ratio of the fresh ones.
    ``leaf``: the parts are all that share a switch, which is what is meant; of each round it has one test.
    With ``beyond``, those of another switch, what is meant is the path between the two; ``lone`` are parts
    that are all that an end has, of which other tests have not yet told whether they are what is slow.
    """

    parts: tuple[int, ...]
    metric: str
    screened: tuple[float, ...]
    fresh: tuple[tuple[float, PairTest], ...]
    evidence: float
    state: State
    leaf: bool = False
    beyond: Leaf = ()
    lone: tuple[int, ...] = ()

    @property
    def effect(self) -> float:
        """How slow: the mean of the fresh residuals, of the screened ones where there is none."""
        own = [residual for residual, _ in self.fresh] or list(self.screened)
        return sum(own) / len(own)


@dataclass(frozen=True)
class Standing:
    """Where a hunt stands. ``good`` are parts that passed, by metric: whoever is late may still be control of
    bandwidth, and the partner of a suspect by it; ``void`` rounds were too restless to count. ``fenced`` are
    suspected switches, ``inside`` those of their parts that passed with another of the same switch. ``near``
    has, by metric, who is near whom; ``unlike`` are metrics by which too few pairs are alike to say what is
    slow; ``moved`` has, by metric, how many rounds of screening were left out, as they were slow as a whole.
    """

    screens: tuple[Screen, ...]
    candidates: tuple[Candidate, ...]
    good: Mapping[str, tuple[int, ...]]
    void: int
    fenced: tuple[Leaf, ...] = ()
    inside: frozenset[int] = frozenset()
    near: Mapping[str, Near] = field(default_factory=dict)
    unlike: tuple[str, ...] = ()
    moved: Mapping[str, int] = field(default_factory=dict)

    @property
    def good_by_all(self) -> tuple[int, ...]:
        """Parts that passed by every metric."""
        return tuple(sorted(set.intersection(*map(set, self.good.values()))))

    @property
    def mates(self) -> tuple[tuple[int, int], ...]:
        """Pairs that are to be tested before their parts are accused."""
        return tuple(dict.fromkeys(pair for each in self.near.values() for pair in each.wanted))

    @property
    def open(self) -> tuple[Candidate, ...]:
        """Those that need more tests, the slowest first: a pair when its parts were cleared by its metric."""
        cleared = {(each.metric, each.parts) for each in self.candidates if each.state is State.CLEARED}
        left = [
            each
            for each in self.candidates
            if each.state is State.OPEN
            and (each.leaf or len(each.parts) == 1 or all((each.metric, (p,)) in cleared for p in each.parts))
        ]
        return tuple(sorted(left, key=lambda each: -lower_median(each.screened)))


def by_stage(history: Sequence[RoundResult]) -> tuple[list[RoundResult], list[RoundResult]]:
    """The rounds of screening, and those of confirmation."""
    screens = [tested for tested in history if tested.round.stage is Stage.SCREEN]
    return screens, [tested for tested in history if tested.round.stage is Stage.CONFIRM]


def all_agree(standing: Standing) -> bool:
    """Whether there is a majority to compare with, by the metric that decides."""
    return standing.screens[0].agree


def stand(
    rules: Rules, groups: Groups, history: Sequence[RoundResult], leaves: Sequence[Leaf] = ()
) -> Standing:
    """What the rounds say; at least one of screening, with two tests."""
    judged, left_out = _screened(rules, history, leaves)
    found = tuple(each for each in judged if each is judged[0] or tells(each))
    shut = [(each, leaf) for each in found for leaf in suspected(each, leaves)]
    switches: list[Candidate] = []
    if shut:  # a switch that was cleared fences nobody
        suspects = tuple(dict.fromkeys(leaf for _, leaf in shut))
        first = _Judge(rules, groups, found, history, leaves, suspects, len(shut))
        switches = [first.switch(each, leaf) for each, leaf in shut]
    fenced = dict.fromkeys(each.parts for each in switches if each.state is not State.CLEARED)
    judge = _Judge(rules, groups, found, history, leaves, tuple(fenced), len(shut))
    if caught := judge.caught():
        judge = _Judge(rules, groups, found, history, leaves, tuple(fenced), len(shut), caught)
    switches = [judge.switch(each, leaf) for each, leaf in shut if leaf in fenced]
    paths = [(path, *judge.by_its_ends(each, path)) for each in found for path in judge.paths[each.metric]]
    switches += [each for _, each, _ in paths if each is not None]
    slow = {(each.metric, path) for path, each, _ in paths if each and each.state is State.CONFIRMED}
    ends = {(each.metric, each.parts): each for _, _, own in paths for each in own}
    parts = [
        judge.candidate(each, own, slow) for each, own in judge.wanted if not _is_told(each, own, switches)
    ]
    near_of = {each.metric: judge.near(each, parts, groups) for each in found}
    return Standing(
        found,
        (*switches, *(_met(each, near_of) for each in parts), *ends.values()),
        judge.good,
        judge.centres[found[0].metric].count(None),
        judge.fenced,
        judge.inside,
        near_of,
        tuple(each.metric for each in judged if each not in found),
        left_out,
    )


def _screened(
    rules: Rules, history: Sequence[RoundResult], leaves: Sequence[Leaf]
) -> tuple[tuple[Screen, ...], dict[str, int]]:
    """The screens of all metrics that two rounds or more say something of, and of the one that decides; and
    how many rounds do not count for a metric, since they moved as a whole. By the one that decides they do
    count: fresh tests will tell.
    """
    screens, _ = by_stage(history)
    found: list[Screen] = []
    left_out: dict[str, int] = {}
    for metric in rules.metrics:
        paths = _classes(metric, history, leaves)
        own = [each for each in screens if counts(metric, each)]
        if metric != rules.metrics[0] and len(own) > 1:
            out = moved(metric, effect(metric, rules.floors[metric]), own, paths)
            own = [each for place, each in enumerate(own) if place not in out]
            left_out |= {metric: len(out)} if out else {}
        if len(own) > 1 or metric == rules.metrics[0]:
            found.append(screen(rules, metric, own, paths))
    return tuple(found), left_out


def _classes(metric: str, history: Sequence[RoundResult], leaves: Sequence[Leaf]) -> Classes:
    """Of all rounds: what leads from switch to switch may have been crossed a few times only. Segments that
    are sent again are counted, and no path has its usual number.
    """
    told = [each for each in history if counts(metric, each)] if leaves and metric != RESENT else []
    return classes(
        leaves, [(test.one, test.other, value(test, metric)) for each in told for test in each.tests]
    )


def _is_told(found: Screen, parts: tuple[int, ...], switches: Sequence[Candidate]) -> bool:
    """Whether a pair is slow as all are of a path between two switches, unless that was cleared."""
    return len(parts) > 1 and any(
        each.beyond and each.state is not State.CLEARED and {*parts} <= {*each.parts, *each.beyond}
        and found.classes.crosses(*parts)
        for each in switches
    )  # fmt: skip


def _met(candidate: Candidate, near_of: Mapping[str, Near]) -> Candidate:
    """The candidate with what tests among suspects say. Where some parts are near one another, paths are not
    alike, and a slow path is no fault. Small messages take the same way by both of their metrics: who is near
    others by one of them, or was not tested with them yet, is not accused by the other.
    """
    own = near_of[candidate.metric]
    beside = [near_of[each] for each in SMALL if each in near_of] if candidate.metric in SMALL else [own]
    near_any = frozenset().union(*(each.parts for each in beside))
    untested = {part for each in beside for pair in each.wanted for part in pair if part in each.unmet}
    if candidate.state not in (State.CONFIRMED, State.OPEN):
        return candidate
    if near_any.intersection(candidate.parts) or (len(candidate.parts) > 1 and own.groups):
        return replace(candidate, state=State.NEAR)
    is_unmet = (own.unmet | untested).intersection(candidate.parts)
    return replace(candidate, state=State.UNMET) if is_unmet else candidate


class _Judge:
    """Fresh tests by metric, against the centre of their rounds. Parts of ``fenced`` switches are no control,
    and are judged by tests among themselves. ``caught``: parts that pass and are no control all the same.
    """

    def __init__(
        self,
        rules: Rules,
        groups: Groups,
        found: Sequence[Screen],
        history: Sequence[RoundResult],
        leaves: Sequence[Leaf],
        fenced: tuple[Leaf, ...],
        more: int,
        caught: frozenset[int] = frozenset(),
    ) -> None:
        confirms = by_stage(history)[1]
        self._confirms, self._leaves, self.fenced = confirms, leaves, fenced
        behind = {part for leaf in fenced for part in leaf}
        self._decides = rules.metrics[0]
        self._doubted = {part for part in rules.doubted if part not in behind}
        self._behind, self._caught = behind, caught
        self._group_of = {part: {*group} for group in groups for part in group}
        self.wanted = [(each, parts) for each in found for parts in self._wanted(each)]
        self.control = {each.metric: self._passing(each) - behind for each in found}
        self.good = {metric: tuple(sorted(control)) for metric, control in self.control.items()}
        self._best = frozenset(set.intersection(*self.control.values()) - self._doubted)
        met = [tested for tested in history if tested.round.stage is Stage.SWITCHES]
        self.paths = {
            each.metric: slow_paths(each, _over(each, met), behind)
            for each in found
        } if len(leaves) >= LEAST_LEAVES else {each.metric: {} for each in found}  # fmt: skip
        self.centres = {each.metric: self._centres_of(each) for each in found}
        self._since = self._afresh(found) if len(leaves) >= LEAST_LEAVES else {}
        own = [(each, *told) for each in found for told in self._among(each)]
        slow = {(each.metric, part) for each, _, test, residual in own if residual > each.cut
                for part in (test.one, test.other)}  # fmt: skip
        passed = {part for each, _, test, residual in own if each is found[0] and residual <= each.cut
                  for part in (test.one, test.other)}  # fmt: skip
        self.inside = frozenset(passed)
        self.wanted += [(each, (part,)) for each in found for part in sorted(behind)
                        if (each.metric, part) in slow]  # fmt: skip
        # However many are suspected, the chance that any healthy one is accused stays the same (Bonferroni).
        total = max(1, len(self.wanted) + more + sum(map(len, self.paths.values())))
        self._against = math.log((1 - rules.acquittal) * total / rules.accusation)
        self._for_it = math.log(rules.acquittal)

    def _centres_of(self, found: Screen, but_for: int | None = None) -> list[float | None]:
        """The centre of every round of fresh tests, without those of one part; see ``_centre``."""
        control = self.control[found.metric] - {but_for}
        return [
            _centre(found, tested, control, self.paths[found.metric], self._best)
            if counts(found.metric, tested) else None
            for tested in self._confirms
        ]  # fmt: skip

    def _afresh(self, found: Sequence[Screen]) -> dict[tuple[str, Path], int]:
        """Adds the paths that fresh tests alone were slow over, none of which is a control then. From which
        round on they are tested themselves.
        """
        since: dict[tuple[str, Path], int] = {}
        for each in found:
            rounds = [
                [(each.value(test) - centre, test) for test in tested.tests] if centre is not None else []
                for tested, centre in zip(self._confirms, self.centres[each.metric], strict=True)
            ]
            late = slow_afresh(each, rounds, self._behind)
            for path in sorted(late.keys() - self.paths[each.metric].keys()):
                self.paths[each.metric][path], since[each.metric, path] = late[path]
            if late:
                self.centres[each.metric] = self._centres_of(each)
        return since

    def _doubts(self, found: Screen) -> set[int]:
        """Parts that something else than this hunt spoke against, where the metric is the one that decides:
        small messages may say nothing for rounds on end.
        """
        return self._doubted.intersection(found.of_part) if found.metric == self._decides else set()

    def _accused(self, found: Screen) -> tuple[tuple[int, ...], ...]:
        """What screening accuses: suspects, both parts of a slow pair, and then the pair itself; but for
        whoever is behind a fence.
        """
        pairs = [pair for pair in found.slow_pairs if self._behind.isdisjoint(pair)]
        ends = itertools.chain((part for part in found.suspects if part not in self._behind), *pairs)
        return (*((part,) for part in dict.fromkeys(ends)), *pairs)

    def _wanted(self, found: Screen) -> Iterable[tuple[int, ...]]:
        """What is to be tested afresh by a metric. Who is doubted and not accused may still be a partner."""
        doubted = ((part,) for part in sorted(self._doubts(found)))
        return dict.fromkeys((*self._accused(found), *doubted))

    def _passing(self, found: Screen) -> set[int]:
        """Parts that a metric says nothing against. Where these are too few to be somebody's partner and
        control beside, those too that a slow path alone is held against: they passed with others.
        """
        accused = {part for parts in self._accused(found) for part in parts}
        good = set(found.of_part) - accused
        passed = set(found.of_part) - {*found.suspects}
        return (good if len(good) > LEAST_CONTROLS else passed) - self._caught

    def caught(self) -> frozenset[int]:
        """Who is doubted, passed, and was slow in a fresh test: no partner and no control from then on."""
        return frozenset(
            part
            for found, parts in self.wanted
            for part in parts
            if len(parts) == 1 and part in self._doubts(found) and part in self.control[found.metric]
            and any(residual > found.cut for residual, _ in self.candidate(found, parts).fresh)
        )  # fmt: skip

    def candidate(
        self, found: Screen, parts: tuple[int, ...], slow: Collection[tuple[str, Path]] = ()
    ) -> Candidate:
        """A part by its tests with good partners (behind a fence, with those that passed there), or a pair by
        its own. Who is doubted is held against tests without it. Tests over ``slow`` paths (metric, path) say
        nothing of a part.
        """
        leaf = next((set(leaf) for leaf in self.fenced if parts[0] in leaf), None)
        control = self.control[found.metric] if leaf is None else leaf & self.inside
        centres = self.centres[found.metric]
        if len(parts) == 1 and parts[0] in self._doubts(found):
            control = undoubted(control, self._doubted, self._group_of[parts[0]])
            centres = self._centres_of(found, parts[0])
        tests = []
        for tested, centre in zip(self._confirms, centres, strict=True):
            own = next((test for test in tested.tests if _is_of(test, parts, control)), None)
            if own is not None and (found.metric, found.classes.path(own.one, own.other)) in slow:
                continue
            if centre is not None and own is not None:
                tests.append((found.value(own) - centre, own))
        screened = found.of_part[parts[0]] if len(parts) == 1 else (found.residuals[parts[0], parts[1]],)
        return self._weighed(Candidate(parts, found.metric, screened, (), 0.0, State.OPEN), found, tests)

    def switch(self, found: Screen, leaf: Leaf) -> Candidate:
        """A switch by the middle one of each round's tests that leave it: the middle one to each other
        switch, and of these the middle one, since one slow path may have most of the tests.
        """
        tests = []
        for tested, centre in zip(self._confirms, self.centres[found.metric], strict=True):
            own = across(tested.tests, leaf, self.control[found.metric])
            if centre is not None and own:
                residuals = {found.value(test) - centre: test for test in own}
                by_path = defaultdict(list)
                for residual, test in residuals.items():
                    by_path[found.classes.path(test.one, test.other)].append(residual)
                middle = of_round([of_round(each) for each in by_path.values()])
                tests.append((middle, residuals[middle]))
        out = [r for pair, r in found.residuals.items() if len(set(pair) & set(leaf)) == 1]
        plain = Candidate(leaf, found.metric, tuple(out), (), 0.0, State.OPEN, leaf=True)
        return self._weighed(plain, found, tests)

    def path(self, found: Screen, path: Path) -> Candidate:
        """A path between two switches by the middle one of each round's tests of it."""
        one, other = (self._leaves[end] for end in path)
        tests = []
        rounds = [*zip(self._confirms, self.centres[found.metric], strict=True)]
        for tested, centre in rounds[self._since.get((found.metric, path), 0) :]:
            own = between(tested.tests, one, other, self.control[found.metric])
            if centre is not None and own:
                residuals = {found.value(test) - centre: test for test in own}
                middle = of_round(list(residuals))
                tests.append((middle, residuals[middle]))
        screened = self.paths[found.metric][path]
        plain = Candidate(one, found.metric, screened, (), 0.0, State.OPEN, leaf=True, beyond=other)
        return self._weighed(plain, found, tests)

    def by_its_ends(self, found: Screen, path: Path) -> tuple[Candidate | None, list[Candidate]]:
        """A path between two switches, and parts that are slow instead of it: where one part alone is all
        that passes of an end, it is in every test of the path, and its tests elsewhere tell.
        """
        of_path = self.path(found, path)
        control = self.control[found.metric]
        ends = [control.intersection(self._leaves[end]) for end in path]
        is_slow = any(residual > found.cut for residual, _ in of_path.fresh)
        if of_path.state is State.CLEARED or not (is_slow or (found.metric, path) in self._since):
            return of_path, []
        lone = [self._elsewhere(found, min(own), path) for own in ends if len(own) == 1]
        if slow := [each for each in lone if each.state is State.CONFIRMED]:
            return None, slow
        if left := tuple(each.parts[0] for each in lone if each.state is State.OPEN):
            return replace(of_path, state=State.OPEN, lone=left), []
        return of_path, []

    def _elsewhere(self, found: Screen, part: int, path: Path) -> Candidate:
        """A part by its fresh tests over all but one path."""
        control = self.control[found.metric]
        tests = [
            (found.value(test) - centre, test)
            for tested, centre in zip(self._confirms, self.centres[found.metric], strict=True)
            if centre is not None
            for test in tested.tests
            if _is_of(test, (part,), control) and found.classes.path(test.one, test.other) != path
        ]
        return self._weighed(
            Candidate((part,), found.metric, found.of_part[part], (), 0.0, State.OPEN), found, tests
        )

    def near(self, found: Screen, parts: Sequence[Candidate], groups: Groups) -> Near:
        """Who of those that fresh tests confirmed is near another; behind a fence tests are inside."""
        behind = {part for leaf in self.fenced for part in leaf}
        effects = {
            each.parts[0]: lower_median([residual for residual, _ in each.fresh])
            for each in parts
            if each.metric == found.metric
            and each.state is State.CONFIRMED
            and len(each.parts) == 1
            and behind.isdisjoint(each.parts)
        }
        if not effects:
            return Near()
        group_of = {part: number for number, group in enumerate(groups) for part in group}
        fresh = [
            (found.value(test) - centre, test)
            for tested, centre in zip(self._confirms, self.centres[found.metric], strict=True)
            if centre is not None
            for test in tested.tests
        ]
        return near(
            found,
            effects,
            fresh,
            self._for_it,
            lambda one, other: group_of[one] == group_of[other] and other not in behind,
        )

    def _among(self, found: Screen) -> Iterable[tuple[Leaf, PairTest, float]]:
        """Tests among the parts of a fenced switch, and what they took more than the controls."""
        for tested, centre in zip(self._confirms, self.centres[found.metric], strict=True):
            for leaf in self.fenced:
                if centre is not None:
                    for test in inside(tested.tests, leaf):
                        yield leaf, test, found.value(test) - centre

    def _weighed(self, plain: Candidate, found: Screen, tests: Sequence[tuple[float, PairTest]]) -> Candidate:
        """The candidate with so many of its fresh tests as it took to decide. One good test clears who was
        slow once; who was slow again and again, or is doubted, may be so now and then: it takes two good ones
        or more.
        """
        fresh: list[tuple[float, PairTest]] = []
        evidence, state = 0.0, State.OPEN
        is_slow_again = len(plain.screened) > 1 and lower_median(plain.screened) > found.cut
        is_slow_again = is_slow_again or not self._doubts(found).isdisjoint(plain.parts)
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


def undoubted(good: set[int], doubted: Collection[int], group: set[int]) -> set[int]:
    """Those parts of a group that may be partners of one that is doubted: who is not, where these are two or
    more, because one alone has nobody to be control with.
    """
    own = (good & group) - {*doubted}
    return own if len(own) > 1 else good & group


def _is_of(test: PairTest, parts: tuple[int, ...], control: set[int]) -> bool:
    ends = {test.one, test.other}
    return ends == set(parts) if len(parts) > 1 else parts[0] in ends and bool((ends - {parts[0]}) & control)


def _over(found: Screen, rounds: Sequence[RoundResult]) -> list[tuple[float, PairTest]]:
    """Tests of rounds in which everybody was tested, and what they took over the middle one of their round;
    but for rounds that moved as a whole. One or two tests are no whole: the slow path may be most of them.
    """
    told = []
    for tested in rounds:
        if counts(found.metric, tested) and tested.tests:
            values = [found.value(test) for test in tested.tests]
            centre = lower_median(values)
            if len(values) < LEAST_CONTROLS:
                centre = min(centre, found.noise.base)
            if abs(centre - found.noise.base) <= found.striking:
                told += [(each - centre, test) for each, test in zip(values, tested.tests, strict=True)]
    return told


def _centre(
    found: Screen, tested: RoundResult, control: set[int], slow: Collection[Path], best: Collection[int]
) -> float | None:
    """What a healthy pair took in a round of confirmation: the median of its controls, but for those over
    paths that are suspected (``slow``); of the ``best`` parts where these have any. Where they are few, at
    least what such a pair took in screening. None where there are none, where they do not agree among
    themselves, or all together have moved by more than what is being looked for.
    """
    tests = [
        test
        for test in tested.tests
        if {test.one, test.other} <= control
        and (test.one, test.other) not in found.slow_pairs
        and found.classes.path(test.one, test.other) not in slow
    ]
    if not tests:
        return None
    certain = [test for test in tests if {test.one, test.other} <= {*best}]
    own = [found.value(test) for test in certain or tests]
    centre = float(np.median(own))
    stray = sum(abs(each - centre) > found.stray for each in own)
    moved = abs(centre - found.noise.base) > found.striking
    if moved or stray > _MOST_STRAY * len(own):
        return None
    return centre if len(own) >= LEAST_CONTROLS else max(centre, found.noise.base)
