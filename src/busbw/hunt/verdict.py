"""What a hunt concludes: who is slow, by how much, on what evidence, and what it could not have seen."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import numpy as np

from busbw.errors import ExitCode
from busbw.hunt.decide import LEAST_PARTS
from busbw.hunt.evidence import Evidence, judge
from busbw.hunt.field import Groups
from busbw.hunt.noise import LEAST_LEAVES, Bools, Leaf, counts, effect, loss
from busbw.model.hunt import BANDWIDTH, LATENCY, QUICKEST, RESENT, RoundResult, Rules

_WITHIN: Final = 2.2 * 1.2533  # standard errors in a 95 % interval (t of 10 degrees), of a median, not a mean
_ONE_SIDED: Final = 1.645
_MOST_PATHS: Final = 8  # that are named: more, and it is no fault of single paths
_MOST_RANKED: Final = 10
_SLOWEST: Final = 0.7  # of the greatest loss: directions and lanes that lost less are not what is measured


class Decision(StrEnum):
    """How a hunt ended."""

    HEALTHY = "healthy"
    SLOW = "slow"
    UNDECIDED = "undecided"


def exit_code(decisions: Iterable[Decision]) -> ExitCode:
    """Of several fields or stages: one that is slow counts more than one where nothing could be decided."""
    found = set(decisions)
    if Decision.SLOW in found:
        return ExitCode.BAD_VERDICT
    return ExitCode.OK if found == {Decision.HEALTHY} else ExitCode.UNDECIDED


@dataclass(frozen=True)
class Suspect:
    """A part, or the paths between two parts or two groups of them (``parts`` and ``beyond``).

    ``loss`` is a share: of bandwidth what is missing, of latency by what it is longer; of resent segments
    the number over those of the others. ``low`` and ``high`` are its 95 % interval. ``slow_tests`` of its
    ``tests`` with parts that are not slow were slow. ``direction`` is ``sends`` or ``receives`` where only
    one of them is slow, ``lanes`` the lanes that are slow where others are not: the loss is theirs then.
    ``also`` is its loss by other metrics that say the same of it. ``leaf``: the parts are all that share a
    switch. ``confirmed`` is False of paths that may be built so.
    """

    parts: tuple[int, ...]
    metric: str
    loss: float
    low: float
    high: float
    tests: int
    slow_tests: int
    confirmed: bool = True
    direction: str = ""
    lanes: tuple[int, ...] = ()
    also: dict[str, float] = field(default_factory=dict)
    leaf: bool = False
    beyond: tuple[int, ...] = ()
    weight: float = 0.0  # of its loss, in units of what is worth naming


@dataclass(frozen=True)
class HuntVerdict:
    """``suspects`` are confirmed, ``open`` are groups of paths that may be built so; the slowest first.
    ``reason`` says why nothing could be decided. ``resolution`` is the least loss that would have been seen,
    ``noise`` the standard deviation of one test, by metric; ``tested`` of ``pairs`` pairs were tested.
    ``stalled_rounds`` are those whose late messages say nothing, because cores were fought for. ``ranking``
    has (part, loss) by the metric that decides, the parts that lost most first: a lower median over a part's
    tests, and no accusation. ``unobserved`` are metrics that were asked for and of which no tests say
    anything, ``unlike`` those whose tests scatter too much to say what is slow. ``near`` has, by metric,
    pairs of groups of parts with slow paths between them and quick ones within: how a fabric is built.
    ``longer`` is, by metric, what tests between switches took more than those within one, as ``loss``;
    ``fast`` the share of tests that were faster than the usual again and again, by more than the noise.
    """

    decision: Decision
    suspects: tuple[Suspect, ...]
    open: tuple[Suspect, ...]
    reason: str
    resolution: dict[str, float]
    noise: dict[str, float]
    rounds: int
    tested: int
    pairs: int
    stalled_rounds: int = 0
    ranking: tuple[tuple[int, float], ...] = ()
    unobserved: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()
    near: dict[str, tuple[tuple[Leaf, Leaf], ...]] = field(default_factory=dict)
    longer: dict[str, float] = field(default_factory=dict)
    fast: float = 0.0


def conclude(
    rules: Rules, groups: Groups, history: Sequence[RoundResult], leaves: Sequence[Leaf] = ()
) -> HuntVerdict:
    """The verdict of all rounds of a hunt; ``leaves`` as in next_round."""
    parts = sum(map(len, groups))
    pairs = sum(len(group) * (len(group) - 1) // 2 for group in groups)
    tested = len({(test.one, test.other) for each in history for test in each.tests})
    asked = [judge(rules, each, groups, history, leaves) for each in rules.metrics]
    judged = [each for each in asked if each is not None]
    if parts < LEAST_PARTS or not judged or judged[0].metric != rules.metrics[0]:
        reason = f"{parts} parts: it takes {LEAST_PARTS} to say which part of a slow pair is slow"
        return HuntVerdict(Decision.UNDECIDED, (), (), reason, {}, {}, len(history), tested, pairs)
    seen = {each.metric for each in judged}
    first, telling = judged[0], [each for each in judged if each is judged[0] or each.tells]
    named, near = _suspects(telling, history, leaves)
    suspects = tuple(each for each in named if each.confirmed)
    left = tuple(each for each in named if not each.confirmed)
    reason = "" if suspects else _undecided(rules, first, left)
    return HuntVerdict(
        Decision.SLOW if suspects else Decision.UNDECIDED if reason else Decision.HEALTHY,
        suspects,
        left,
        reason,
        {each.metric: _resolution(each) for each in telling},
        {each.metric: each.noise.sigma for each in telling},
        len(history),
        tested,
        pairs,
        sum(not counts(LATENCY, each) for each in history) if LATENCY in rules.metrics else 0,
        _ranking(first),
        tuple(each for each in rules.metrics if each not in seen),
        tuple(each.metric for each in judged if each not in telling),
        near,
        {e.metric: loss(e.metric, e.tests.longer) for e in telling if e.tests.longer > e.floor / 2},
        0.0 if _is_hidden(rules, first) else first.fast,
    )  # fmt: skip


def _resolution(found: Evidence) -> float:
    """The least loss of which surely no part and no tested path has more."""
    if not found.open.any() or found.metric == RESENT:
        return loss(found.metric, found.floor, found.noise.base)
    count = np.bincount(found.tests.pair)
    mean = np.bincount(found.tests.pair, found.noise.excess) / count
    most = mean + _ONE_SIDED * found.noise.sigma / np.sqrt(count)
    return loss(found.metric, max(found.floor, float(most[found.open].max())))


def _is_hidden(rules: Rules, found: Evidence) -> bool:
    """Whether noise hides the loss that was asked for."""
    return found.floor > effect(found.metric, rules.floors[found.metric])


def _undecided(rules: Rules, found: Evidence, left: Sequence[Suspect]) -> str:
    asked = f"{rules.floors[found.metric]:.1%}"
    if _is_hidden(rules, found):
        return f"noise hides what is below {loss(found.metric, found.floor):.1%}, and {asked} was asked for"
    if left:
        return "paths differ, which may be how the fabric is built"
    if found.fast:
        how = "are repeatedly faster than the rest: there are two kinds of parts or paths"
        return f"{found.fast:.0%} of tests {how}"
    if len(_paths(found.pairs(found.slow))) > _MOST_PATHS:
        return f"{int(found.slow.sum())} slow paths join parts that are quick with others: paths differ"
    if found.open.any():
        many, of = int(found.open.sum()), len(found.open)
        return f"{many} of {of} tested paths are neither clearly quick nor clearly slow by {asked}"
    return ""


def _ranking(found: Evidence) -> tuple[tuple[int, float], ...]:
    tests = {part: found.of_part(part) for part in range(found.tests.parts)}
    middles = [(part, _middle(found, own)) for part, own in tests.items() if own.any()]
    ranked = sorted(middles, key=lambda each: -each[1])[:_MOST_RANKED]
    return tuple((part, loss(found.metric, middle, found.noise.base)) for part, middle in ranked)


def _middle(found: Evidence, own: Bools) -> float:
    """The lower median: of two tests both have to be slow."""
    values = np.sort(found.noise.excess[own])
    return float(values[(len(values) - 1) // 2])


def _suspects(
    judged: Sequence[Evidence], history: Sequence[RoundResult], leaves: Sequence[Leaf]
) -> tuple[list[Suspect], dict[str, tuple[tuple[Leaf, Leaf], ...]]]:
    """Who is slow, one for each part or path by the metric by which it lost most, and by them in order; and
    the groups between which small messages are slow.
    """
    slow = {part for each in judged for own in _parts(each, leaves) for part in own}
    # Two ranks that share a core for a whole hunt are late with each other alone, and no link is to blame.
    crowded = not any(counts(LATENCY, each) for each in history)
    by_ends: dict[tuple[Leaf, Leaf], list[Suspect]] = defaultdict(list)
    near: dict[str, tuple[tuple[Leaf, Leaf], ...]] = {}
    for found in judged:
        paths = _paths([pair for pair in found.pairs(found.slow) if slow.isdisjoint(pair)])
        if found.metric == QUICKEST and crowded:
            paths = {}
        faults = {ends for ends in paths if _is_fault(found.metric, ends, leaves)}
        if found.metric != BANDWIDTH and (built := tuple(ends for ends in paths if ends not in faults)):
            near[found.metric] = built
        own = [_of_parts(found, each, history) for each in _parts(found, leaves)]
        known = found.tests.ends.T.tolist()
        for ends, pairs in paths.items() if len(paths) <= _MOST_PATHS else ():
            if ends in faults or found.metric == BANDWIDTH:
                chosen = np.isin(found.tests.pair, [known.index(list(pair)) for pair in pairs])
                one = _suspect(found, chosen, ends[0], leaf=any(end in leaves for end in ends))
                own.append(replace(one, beyond=ends[1], confirmed=ends in faults))
        worth = loss(found.metric, found.floor, found.noise.base)
        for suspect in own:  # healthy parts may differ for good: what is surely less is not named
            if 2 * suspect.high - suspect.loss >= worth:
                by_ends[suspect.parts, suspect.beyond].append(suspect)
    named = []
    for several in by_ends.values():
        most, *others = sorted(several, key=lambda each: -each.weight)
        named.append(replace(most, also={each.metric: each.loss for each in others}))
    return sorted(named, key=lambda each: -each.weight), near


def _parts(found: Evidence, leaves: Sequence[Leaf]) -> list[tuple[int, ...]]:
    """The slow parts; those of a known switch together, where all of them are slow with most others, whether
    or not they are quick with each other.
    """
    slow = set(np.flatnonzero(found.slow_parts).tolist())
    bad = slow.union(np.flatnonzero(found.disputed).tolist())
    whole = [leaf for leaf in leaves if len(leaf) > 1 and bad.issuperset(leaf)]
    return [*whole, *((part,) for part in sorted(slow.difference(*whole)))]


def _is_fault(metric: str, ends: tuple[Leaf, Leaf], leaves: Sequence[Leaf]) -> bool:
    """Whether slow paths are a fault and no matter of how the fabric is built, as between groups of parts;
    what all paths between known switches take longer is taken off before.
    """
    fewest, most = sorted(map(len, ends))
    if metric != BANDWIDTH:
        return most == 1
    return fewest == 1 or (len(leaves) >= LEAST_LEAVES and all(end in leaves for end in ends))


def _paths(pairs: Sequence[tuple[int, int]]) -> dict[tuple[Leaf, Leaf], list[tuple[int, int]]]:
    """Slow pairs by groups: parts that are slow with the same others are one."""
    slow_with: Mapping[int, set[int]] = defaultdict(set)
    for one, other in pairs:
        slow_with[one].add(other)
        slow_with[other].add(one)
    alike: dict[frozenset[int], list[int]] = defaultdict(list)
    for part in sorted(slow_with):
        alike[frozenset(slow_with[part])].append(part)
    group_of = {part: tuple(own) for own in alike.values() for part in own}
    found: dict[tuple[Leaf, Leaf], list[tuple[int, int]]] = defaultdict(list)
    for one, other in pairs:
        ends = sorted((group_of[one], group_of[other]))
        found[ends[0], ends[1]].append((one, other))
    return found


def _of_parts(found: Evidence, parts: tuple[int, ...], history: Sequence[RoundResult]) -> Suspect:
    own = np.any([found.of_part(part) for part in parts], axis=0)
    if len(parts) > 1:
        inside = np.isin(found.tests.one, parts) & np.isin(found.tests.other, parts)
        return _suspect(found, own & ~inside if (own & ~inside).any() else own, parts, leaf=True)
    side = _slow_side(found, history, parts[0]) if found.metric == BANDWIDTH else None
    return _suspect(found, own, parts, side=side)


def _suspect(
    found: Evidence, own: Bools, parts: tuple[int, ...], *, side: _Side | None = None, leaf: bool = False
) -> Suspect:
    middle, sigma, count = _middle(found, own), found.noise.sigma, int(own.sum())
    if side is not None:
        middle, sigma = side.effect, max(sigma, side.sigma)
    half = _WITHIN * sigma / math.sqrt(count)
    low, most_likely, high = (
        loss(found.metric, middle + shift, found.noise.base) for shift in (-half, 0.0, half)
    )
    slow = int((found.noise.excess[own] > found.noise.cut).sum())
    told = (side.direction, side.lanes) if side is not None else ("", ())
    weight = middle / found.floor
    return Suspect(
        parts, found.metric, most_likely, low, high, count, slow, True, *told, leaf=leaf, weight=weight
    )


@dataclass(frozen=True)
class _Side:
    """What is slow of a part: ``effect`` is the logarithm of its times over those of healthy ones, ``sigma``
    its standard deviation in one test; ``direction`` is ``sends`` or ``receives`` where only one of them is
    slow, ``lanes`` the lanes that are slow where others are not.
    """

    effect: float
    sigma: float
    direction: str
    lanes: tuple[int, ...]


def _slow_side(found: Evidence, history: Sequence[RoundResult], part: int) -> _Side | None:
    """By the middle of each direction and lane of its tests. None where all of them are slow alike.

    Rules compare the slowest lane of the slower direction, whatever is slow of a part. Of healthy pairs that
    is the longest of several noisy times, of a part that only sends slowly it is one of them: against each
    other they would show too small a loss.
    """
    tests = [test for each in history if counts(BANDWIDTH, each) for test in each.tests]
    times = np.log([test.times_ns[BANDWIDTH] for test in tests])
    over = times - (found.tests.values - found.noise.excess)[:, None, None]
    over = np.where((found.tests.other == part)[:, None, None], over[:, ::-1], over)
    own = over[found.of_part(part)]
    is_of_others = (found.tests.one != part) & (found.tests.other != part)
    passed = over[(found.noise.excess <= found.noise.cut) & is_of_others]
    if not len(passed):
        return None
    middle = np.median(own, axis=0) - passed.mean(axis=(0, 1))
    slowest = middle > max(found.noise.cut, _SLOWEST * float(middle.max()))
    if slowest.all() or not slowest.any():
        return None
    usual = float(passed[:, slowest].max(axis=1).mean())
    took = own[:, slowest].max(axis=1)
    slow = middle > found.noise.cut
    sends, receives = (bool(way.any()) for way in slow)
    direction = "" if sends == receives else "sends" if sends else "receives"
    of_lane = slow.any(axis=0)
    lanes = () if of_lane.all() else tuple(np.flatnonzero(of_lane).tolist())
    return _Side(float(np.median(took)) - usual, float(took.std()), direction, lanes)
