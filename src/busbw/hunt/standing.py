"""Where a hunt stands: what the rounds that were run say so far, as pure functions of them.

Where it is known which parts share a switch, the switch is told from its parts (``leaves``), and so is the
path between two switches (``paths``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from busbw.hunt.candidate import Candidate, State
from busbw.hunt.classes import Classes, Leaf, classes
from busbw.hunt.field import Groups
from busbw.hunt.judge import Judge
from busbw.hunt.leaves import suspected
from busbw.hunt.near import Near
from busbw.hunt.screen import Screen, counts, effect, lower_median, moved, screen, tells, value
from busbw.model.hunt import RESENT, SMALL, RoundResult, Rules, Stage, of_stage

# A part of a pair alone: no third one tells which of the two it is.
LEAST_PARTS: Final = 4


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
        first = Judge(rules, groups, found, history, leaves, suspects, len(shut))
        switches = [first.switch(each, leaf) for each, leaf in shut]
    fenced = dict.fromkeys(each.parts for each in switches if each.state is not State.CLEARED)
    judge = Judge(rules, groups, found, history, leaves, tuple(fenced), len(shut))
    if caught := judge.caught():
        judge = Judge(rules, groups, found, history, leaves, tuple(fenced), len(shut), caught)
    switches = [judge.switch(each, leaf) for each, leaf in shut if leaf in fenced]
    paths = [(path, *judge.path(each, path)) for each in found for path in judge.paths[each.metric]]
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
    screens = of_stage(history, Stage.SCREEN)
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
