"""Which tests to make next, and what they say so far: pure functions of the rounds that were run.

Everybody is screened in random pairs. Who was slow there is a suspect and no more: what accused it is not
used again. Suspects are tested afresh with parts that passed, one new partner a round, while the others are
tested among themselves as the control of that round. Each fresh test adds to a sequential probability ratio
(Wald 1945). How much it may add against a part is bounded by how often tests of healthy parts were slow in
this hunt, and so that no single test can decide.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from busbw.hunt.screen import Screen, lower_median, screen, value
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
    """

    parts: tuple[int, ...]
    metric: str
    screened: tuple[float, ...]
    fresh: tuple[tuple[float, PairTest], ...]
    evidence: float
    state: State

    @property
    def effect(self) -> float:
        """How slow: the mean of the fresh residuals, of the screened ones where there is none."""
        own = [residual for residual, _ in self.fresh] or list(self.screened)
        return sum(own) / len(own)


@dataclass(frozen=True)
class Standing:
    """Where a hunt stands. ``good`` are parts that passed and may be the partner of a suspect; ``void``
    rounds were too restless to count.
    """

    screens: tuple[Screen, ...]
    candidates: tuple[Candidate, ...]
    good: tuple[int, ...]
    void: int

    @property
    def open(self) -> tuple[Candidate, ...]:
        """Those that need more tests, the slowest first: a pair when its parts were cleared."""
        cleared = {each.parts for each in self.candidates if each.state is State.CLEARED}
        left = [
            each
            for each in self.candidates
            if each.state is State.OPEN and (len(each.parts) == 1 or all((p,) in cleared for p in each.parts))
        ]
        return tuple(sorted(left, key=lambda each: -lower_median(each.screened)))


def next_round(rules: Rules, groups: Groups, history: Sequence[RoundResult]) -> Round | None:
    """The round to run now; None where the hunt is over, or there is nobody to pair."""
    if all(len(group) < 2 for group in groups):
        return None
    screens, confirms = by_stage(history)
    if not confirms and not _is_screened(rules, groups, screens):
        return Round(len(history), Stage.SCREEN, tuple(_screening(rules, groups, len(screens))))
    standing = stand(rules, history)
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


def stand(rules: Rules, history: Sequence[RoundResult]) -> Standing:
    """What the rounds say; at least one of screening, with two tests."""
    screens, confirms = by_stage(history)
    found = tuple(screen(rules, metric, screens) for metric in rules.metrics)
    wanted = [(each, parts) for each in found for parts in _wanted(each)]
    accused = {part for _, parts in wanted for part in parts}
    good = tuple(sorted(part for part in found[0].of_part if part not in accused))
    control = set(good) or set(found[0].of_part) - {part for _, parts in wanted for part in parts[:1]}
    centres = {each.metric: [_centre(each, tested, control) for tested in confirms] for each in found}
    # However many are suspected, the chance that any healthy one is accused stays the same (Bonferroni).
    against = math.log((1 - rules.acquittal) * max(1, len(wanted)) / rules.accusation)
    for_it = math.log(rules.acquittal)
    candidates = [
        _candidate(
            (against, for_it), each, parts, control, list(zip(confirms, centres[each.metric], strict=True))
        )
        for each, parts in wanted
    ]
    return Standing(found, tuple(candidates), good, centres[found[0].metric].count(None))


def _wanted(found: Screen) -> Iterable[tuple[int, ...]]:
    """What one metric wants tested afresh: suspects, both parts of a slow pair, and then the pair itself."""
    ends = itertools.chain(found.suspects, *found.slow_pairs)
    return (*((part,) for part in dict.fromkeys(ends)), *found.slow_pairs)


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


def _candidate(
    bounds: tuple[float, float],
    found: Screen,
    parts: tuple[int, ...],
    control: set[int],
    confirms: Sequence[tuple[RoundResult, float | None]],
) -> Candidate:
    """Judge the fresh tests of a part (with a good partner), or of that very pair, each against the centre of
    its round.
    """
    against, for_it = bounds
    fresh: list[tuple[float, PairTest]] = []
    evidence = 0.0
    state = State.OPEN
    for tested, centre in confirms:
        own = next((test for test in tested.tests if _is_of(test, parts, control)), None)
        if centre is None or own is None or state is not State.OPEN:
            continue
        residual = value(own, found.metric) - centre
        fresh.append((residual, own))
        ratio = found.smallest * (residual - found.smallest / 2) / found.sigma**2
        evidence += min(ratio, -math.log(found.chance), against / 2)
        if evidence >= against * (1 - 1e-9) and len(fresh) > 1:
            state = State.CONFIRMED
        elif evidence <= for_it:
            state = State.CLEARED
    screened = found.of_part[parts[0]] if len(parts) == 1 else (found.residuals[parts[0], parts[1]],)
    return Candidate(parts, found.metric, screened, tuple(fresh), evidence, state)


def _is_of(test: PairTest, parts: tuple[int, ...], control: set[int]) -> bool:
    ends = {test.one, test.other}
    return ends == set(parts) if len(parts) > 1 else parts[0] in ends and bool(ends & control)


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
    for candidate in standing.open:
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
