"""What a hunt concludes: who is slow, by how much, on what evidence, and what it could not have seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from busbw.hunt.candidate import Candidate, State
from busbw.hunt.classes import Leaf
from busbw.hunt.field import Groups
from busbw.hunt.flapping import is_flapping, slow_tests
from busbw.hunt.paths import LEAST_LEAVES
from busbw.hunt.screen import Screen, counts, lower_median
from busbw.hunt.side import slow_side
from busbw.hunt.standing import LEAST_PARTS, Standing, stand
from busbw.model.hunt import LATENCY, RoundResult, Rules, Stage, of_stage

# Standard errors of a 95 % interval whose tests go on until they decide, by how many there were: Pocock's
# constants (Biometrika 64, 1977) for 1, 2, ... looks. 1.96 held the loss in 92 % of simulated hunts.
_WITHIN: Final = (1.960, 2.178, 2.289, 2.361, 2.413, 2.453, 2.485, 2.512)
_SURELY: Final = 3.0  # standard deviations: 1 in 700 of parts that lost just what is worth naming
# Of all pairs in screening, slow ones that no slow part explains: more, and something else is the matter.
_MOST_UNEXPLAINED: Final = 0.1
_MOST_RANKED: Final = 10


class Decision(StrEnum):
    """How a hunt ended."""

    HEALTHY = "healthy"
    SLOW = "slow"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Suspect:
    """A part (or the path between two) that fresh tests confirmed, or could not (``confirmed`` False).

    ``loss`` is a share: of bandwidth what is missing, of latency by what it is longer; of resent segments
    the number over those of the others. ``low`` and ``high`` are its 95 % interval. ``partners`` are the
    parts of its fresh tests. ``direction`` is ``sends`` or ``receives`` where only one of them is slow,
    ``lanes`` the lanes that are slow where others are not: the loss is theirs then. ``also`` is its loss by
    other metrics that say the same of it: what is late and loses packets, say. ``slow_fresh`` of its
    ``fresh`` tests were slow. ``leaf``: meant is the switch that the parts share; ``passed_inside`` of them
    were as quick as others among themselves. ``beyond``: those of another switch, and meant is the path
    between the two. ``flapping``: its fresh tests cleared it, and yet it was slow in
    so many of all its tests as chance does not make: ``slow_tests`` of ``tests``. The loss is theirs, and the
    interval from the least to the greatest. ``doubted``: no test of this hunt speaks against it, and what was
    to be found out is not.
    """

    parts: tuple[int, ...]
    metric: str
    loss: float
    low: float
    high: float
    partners: tuple[int, ...]
    slow_screens: int
    screens: int
    confirmed: bool
    direction: str = ""
    lanes: tuple[int, ...] = ()
    also: dict[str, float] = field(default_factory=dict)
    leaf: bool = False
    passed_inside: int = 0
    fresh: int = 0
    slow_fresh: int = 0
    flapping: bool = False
    slow_tests: int = 0
    tests: int = 0
    beyond: Leaf = ()
    doubted: bool = False


@dataclass(frozen=True)
class Verdict:
    """``suspects`` are confirmed, ``open`` are not; the slowest first. ``reason`` says why nothing could be
    decided. ``resolution`` is the least loss that would have been seen, ``noise`` the standard deviation of
    one test, by metric; ``tested`` of ``pairs`` pairs were tested at least once. ``stalled_rounds`` are those
    whose late messages say nothing, because cores were fought for. ``ranking`` has (part, loss) by the metric
    that decides, the parts that lost most first: a lower median over a part's tests, and no accusation.
    ``unobserved`` are metrics that were asked for and of which no two rounds say anything, ``unlike`` those
    by which too few tests are alike to say what is slow. ``near`` are, by metric, groups of parts that are
    slow with all others and quick among themselves: paths are not alike. ``moved`` has, by metric, the rounds
    of random pairs that did not count, since all their tests were slow. ``longer`` is, by metric, what tests
    between switches took more than those within one, as ``loss``. ``acquitted`` has (part, fresh
    tests, slow ones among them) of those that were doubted before the hunt, and passed.
    """

    decision: Decision
    suspects: tuple[Suspect, ...]
    open: tuple[Suspect, ...]
    reason: str
    resolution: dict[str, float]
    noise: dict[str, float]
    rounds: int
    void_rounds: int
    tested: int
    pairs: int
    stalled_rounds: int = 0
    ranking: tuple[tuple[int, float], ...] = ()
    unobserved: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()
    near: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    longer: dict[str, float] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    acquitted: tuple[tuple[int, int, int], ...] = ()


def conclude(
    rules: Rules, groups: Groups, history: Sequence[RoundResult], leaves: Sequence[Leaf] = ()
) -> Verdict:
    """The verdict of all rounds of a hunt; ``leaves`` as in next_round."""
    parts = sum(map(len, groups))
    pairs = sum(len(group) * (len(group) - 1) // 2 for group in groups)
    tested = {(test.one, test.other) for each in history for test in each.tests}
    if parts < LEAST_PARTS or sum(len(each.tests) for each in of_stage(history, Stage.SCREEN)) < 2:
        reason = f"{parts} parts: it takes {LEAST_PARTS} to tell which one of a slow pair it is"
        return Verdict(Decision.UNDECIDED, (), (), reason, {}, {}, len(history), 0, len(tested), pairs)
    standing = stand(rules, groups, history, leaves)
    suspects = _suspects(standing, State.CONFIRMED)
    left = (*_suspects(standing, State.OPEN), *_suspects(standing, State.UNMET))
    left = tuple(_as_doubted(rules, standing, each) for each in left if not _is_explained(each, suspects))
    left += _flapping(standing, {part for each in (*suspects, *left) for part in each.parts})
    reason = "" if suspects else _undecided(rules, standing, left, leaves)
    seen = {each.metric for each in standing.screens}
    decision = Decision.SLOW if suspects else Decision.UNDECIDED if reason else Decision.HEALTHY
    return Verdict(
        decision,
        suspects,
        left,
        reason,
        {each.metric: each.loss(each.smallest) for each in standing.screens},
        {each.metric: each.noise.sigma for each in standing.screens},
        len(history),
        standing.void,
        len(tested),
        pairs,
        sum(not counts(LATENCY, each) for each in history),
        _ranking(standing),
        tuple(each for each in rules.metrics if each not in (*standing.unlike, *seen)),
        standing.unlike,
        {metric: each.groups for metric, each in standing.near.items() if each.groups},
        {each.metric: each.loss(each.classes.longer) for each in standing.screens if each.classes.longer},
        dict(standing.moved),
        _acquitted(rules, standing, {part for each in (*suspects, *left) for part in each.parts}),
    )


def _is_explained(path: Suspect, by: Sequence[Suspect]) -> bool:
    """Whether it is a path that is slow as all are of a part that was confirmed; between switches, of the
    parts that one end has.
    """
    slow = {
        part
        for each in by
        if len(each.parts) == 1 and path.metric in (each.metric, *each.also)
        for part in each.parts
    }
    if path.beyond:
        return slow.issuperset(path.parts) or slow.issuperset(path.beyond)
    return len(path.parts) > 1 and not path.leaf and not slow.isdisjoint(path.parts)


def _as_doubted(rules: Rules, standing: Standing, suspect: Suspect) -> Suspect:
    """The suspect, told as doubted where it is no more: neither random pairs nor fresh tests accuse it."""
    first = standing.screens[0]
    accused = {*first.suspects, *(part for pair in first.slow_pairs for part in pair)}
    is_doubted = len(suspect.parts) == 1 and suspect.parts[0] in rules.doubted
    is_only = suspect.metric == first.metric and not suspect.slow_fresh and accused.isdisjoint(suspect.parts)
    return replace(suspect, doubted=is_doubted and is_only)


def _acquitted(rules: Rules, standing: Standing, slow: set[int]) -> tuple[tuple[int, int, int], ...]:
    """Who was doubted and cleared, and is not ``slow`` by anything else; with how many fresh tests it had,
    and slow ones among them.
    """
    doubted, cut = {(part,) for part in rules.doubted if part not in slow}, standing.screens[0].cut
    return tuple(
        (each.parts[0], len(each.fresh), sum(residual > cut for residual, _ in each.fresh))
        for each in standing.candidates
        if each.metric == rules.metrics[0] and each.state is State.CLEARED and each.parts in doubted
    )


def _ranking(standing: Standing) -> tuple[tuple[int, float], ...]:
    first = standing.screens[0]
    tests = {part: list(own) for part, own in first.of_part.items()}
    for each in standing.candidates:
        if each.metric == first.metric and len(each.parts) == 1:
            tests[each.parts[0]] += [residual for residual, _ in each.fresh]
    ranked = sorted(((part, lower_median(own)) for part, own in tests.items()), key=lambda each: -each[1])
    return tuple((part, first.loss(middle)) for part, middle in ranked[:_MOST_RANKED])


def _undecided(rules: Rules, standing: Standing, left: tuple[Suspect, ...], leaves: Sequence[Leaf]) -> str:
    first = standing.screens[0]
    if not first.agree:
        return "the pairs do not agree: too few are alike to say what is normal"
    if near := standing.near[first.metric].parts:
        return f"paths are not alike: {len(near)} parts are slow with the others and not among themselves"
    if len(leaves) < LEAST_LEAVES and first.classes.longer > first.floor:
        lost = f"{first.loss(first.classes.longer):.1%}"
        return f"what goes between the two switches lost {lost}, and two do not tell which one it is"
    suspected = {part for suspect in left for part in (*suspect.parts, *suspect.beyond)}
    unexplained = sum(
        residual > first.striking and suspected.isdisjoint(pair) for pair, residual in first.residuals.items()
    )
    if unexplained > _MOST_UNEXPLAINED * len(first.residuals):
        return f"{unexplained} of {len(first.residuals)} pairs are slow though their parts pass with others"
    if left:
        return _left_open(left)
    if not first.sees_floor:
        seen, floor = first.loss(first.smallest), rules.floors[first.metric]
        return f"noise hides what is below {seen:.1%}, and {floor:.1%} was asked for"
    return ""


def _left_open(left: Sequence[Suspect]) -> str:
    """What became of suspects that nothing was decided of."""
    flapping = sum(each.flapping for each in left)
    doubted = sum(each.doubted for each in left)
    untested = sum(not each.fresh and not each.doubted for each in left)
    said = {
        "suspected, neither confirmed nor cleared by their fresh tests": len(left)
        - flapping
        - untested
        - doubted,
        "suspected, with nobody left that passes to test them with": untested,
        "suspected, slow in some of their tests and not in others": flapping,
        "doubted before the hunt, and not cleared": doubted,
    }
    return "; ".join(f"{count} {how}" for how, count in said.items() if count)


def _flapping(standing: Standing, slow: set[int]) -> tuple[Suspect, ...]:
    """Parts that were cleared, and yet slow more often than by chance; ``slow`` are the suspected ones."""
    screens = {each.metric: each for each in standing.screens}
    found: dict[tuple[int, ...], Suspect] = {}
    for candidate in standing.candidates:
        screen = screens[candidate.metric]
        is_near = bool(standing.near[candidate.metric].groups)  # what is slow then is where paths differ
        is_other = candidate.state is State.CLEARED and len(candidate.parts) == 1 and not is_near
        if is_other and slow.isdisjoint(candidate.parts) and is_flapping(candidate, screen, slow):
            own, tests = slow_tests(candidate, screen, slow)
            low, middle, high = (screen.loss(each) for each in (min(own), sum(own) / len(own), max(own)))
            suspect = replace(_suspect(candidate, screen), loss=middle, low=low, high=high)
            suspect = replace(
                suspect, flapping=True, slow_tests=len(own), tests=tests, direction="", lanes=()
            )
            found.setdefault(candidate.parts, suspect)
    return tuple(found.values())


def _suspects(standing: Standing, state: State) -> tuple[Suspect, ...]:
    """One for each part or pair, by the metric that lost most, in units of what is worth naming, and by them
    in order; a pair with a slow part is not one more.
    """
    screens = {each.metric: each for each in standing.screens}
    found: dict[tuple[int, ...], list[tuple[float, Suspect]]] = {}
    for candidate in standing.candidates:
        if candidate.state is not state:
            continue
        if state is State.CONFIRMED and _is_less_than_worth(candidate, screens[candidate.metric]):
            continue
        own = _suspect(candidate, screens[candidate.metric])
        if candidate.leaf:
            inside = 0 if candidate.beyond else len(standing.inside & set(candidate.parts))
            own = replace(own, leaf=True, beyond=candidate.beyond, passed_inside=inside)
        weight = candidate.effect / screens[candidate.metric].floor
        found.setdefault((*candidate.parts, *candidate.beyond), []).append((weight, own))
    named = []
    for group in found.values():
        (weight, most), *others = sorted(group, key=lambda each: -each[0])
        named.append((weight, replace(most, also={each.metric: each.loss for _, each in others})))
    return tuple(suspect for _, suspect in sorted(named, key=lambda each: -each[0]))


def _is_less_than_worth(candidate: Candidate, found: Screen) -> bool:
    """Whether what was lost is surely less than what is worth naming: healthy parts may differ for good. A
    fresh test is held against the middle of its round's controls, which of few parts are as noisy as it is.
    """
    side = slow_side(candidate, found)
    controls = max(1, len(found.of_part) // 2 - 1)
    error = side.sigma * math.sqrt((1 + 1 / controls) / max(1, len(candidate.fresh)))
    return side.effect + _SURELY * error < found.floor


def _suspect(candidate: Candidate, found: Screen) -> Suspect:
    side = slow_side(candidate, found)
    looks = max(1, len(candidate.fresh))
    half = _WITHIN[min(looks, len(_WITHIN)) - 1] * side.sigma / math.sqrt(looks)
    low, middle, high = (found.loss(side.effect + shift) for shift in (-half, 0.0, half))
    partners = tuple(
        test.other if test.one == candidate.parts[0] else test.one for _, test in candidate.fresh
    )
    return Suspect(
        candidate.parts,
        found.metric,
        middle,
        low,
        high,
        partners if len(candidate.parts) == 1 else (),
        sum(residual > found.cut for residual in candidate.screened),
        len(candidate.screened),
        candidate.state is State.CONFIRMED,
        side.direction,
        side.lanes,
        fresh=len(candidate.fresh),
        slow_fresh=sum(residual > found.cut for residual, _ in candidate.fresh),
    )
