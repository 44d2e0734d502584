"""Which tests to make next: pure functions of the rounds that were run.

Everybody is screened in random pairs. Who was slow there is a suspect and no more: what accused it is not
used again. Suspects are tested afresh with parts that passed, one new partner a round, while the others are
tested among themselves as the control of that round, and then with each other (``near``). Where switches are
known and nobody was found, every switch is tested with every other. ``judge`` says what came of it.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from busbw.hunt.candidate import Candidate, State
from busbw.hunt.centres import LEAST_CONTROLS
from busbw.hunt.classes import Leaf
from busbw.hunt.field import Groups
from busbw.hunt.judge import undoubted
from busbw.hunt.near import MOST_MATES
from busbw.hunt.paths import LEAST_LEAVES, MOST_ROUNDS
from busbw.hunt.screen import screen
from busbw.hunt.standing import LEAST_PARTS, Standing, all_agree, stand
from busbw.model.hunt import Round, RoundResult, Rules, Stage, of_stage
from busbw.planning.rounds import leaf_pairs, matchings, pair, turns

_A_PAIR: Final = 2  # parts
_OVER_PATH: Final = 3  # tests of a path between two switches in one round


def next_round(
    rules: Rules, groups: Groups, history: Sequence[RoundResult], leaves: Sequence[Leaf] = ()
) -> Round | None:
    """The round to run now; None where the hunt is over, or there is nobody to pair. ``leaves``: the parts on
    each switch, where that is known.
    """
    if sum(map(len, groups)) < LEAST_PARTS or all(len(group) < 2 for group in groups):
        return None  # whatever came of it, it would not tell who is slow
    screens, confirms = (of_stage(history, stage) for stage in (Stage.SCREEN, Stage.CONFIRM))
    if not confirms and not _is_screened(rules, groups, screens):
        return Round(len(history), Stage.SCREEN, tuple(_screening(rules, groups, len(screens))))
    standing = stand(rules, groups, history, leaves)
    if not all_agree(standing):
        return None
    is_asked = standing.open and len(confirms) < rules.most_confirms
    is_met = standing.mates and len(confirms) < rules.most_confirms + MOST_MATES
    if (is_asked or is_met) and (pairs := _confirming(rules, groups, history, standing, leaves)):
        return Round(len(history), Stage.CONFIRM, pairs)
    return _of_switches(history, standing, leaves)


def _of_switches(history: Sequence[RoundResult], standing: Standing, leaves: Sequence[Leaf]) -> Round | None:
    """The next round of switches with each other, where these are known and nothing was found."""
    found = {State.CONFIRMED, State.OPEN, State.UNMET} & {each.state for each in standing.candidates}
    if found or standing.fenced or len(leaves) < LEAST_LEAVES:
        return None
    done = len(of_stage(history, Stage.SWITCHES))
    good = set(standing.good_by_all)
    rounds = leaf_pairs([[part for part in leaf if part in good] for leaf in leaves])[:MOST_ROUNDS]
    return Round(len(history), Stage.SWITCHES, rounds[done]) if done < len(rounds) else None


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


def _confirming(
    rules: Rules,
    groups: Groups,
    history: Sequence[RoundResult],
    standing: Standing,
    leaves: Sequence[Leaf],
) -> tuple[tuple[int, int], ...]:
    """Every suspect with a good partner, new to it where there is one, and of a switch that is; every slow
    pair again; who was confirmed with each other; and the good ones that are left among themselves.
    """
    generator = random.Random(f"{rules.seed} {len(history)}")
    pairing = _Pairing(generator, groups, history, standing, leaves, frozenset(rules.doubted))
    goes_out = len(of_stage(history, Stage.CONFIRM)) % 2 == 0  # and in the next round stays inside
    for leaf in standing.fenced:
        pairing.add(*(pairing.leaving(leaf) if goes_out else pairing.staying(leaf)))
    behind = {part for leaf in standing.fenced for part in leaf}
    for candidate in pairing.by_turns(standing.open):
        if candidate.beyond:
            pairing.add(*pairing.over_path(candidate))
        elif not candidate.leaf and behind.isdisjoint(candidate.parts):
            pairing.add(*pairing.afresh(candidate))
    for mates in standing.mates:
        pairing.add(mates)
    return (*pairing.pairs, *pairing.rest()) if pairing.pairs else ()


class _Pairing:
    """Pairs of one round as they are chosen: who is in one of them is ``busy``."""

    def __init__(
        self,
        generator: random.Random,
        groups: Groups,
        history: Sequence[RoundResult],
        standing: Standing,
        leaves: Sequence[Leaf],
        doubted: frozenset[int],
    ) -> None:
        self._generator, self._standing, self._doubted = generator, standing, doubted
        self._groups = [set(group) for group in groups]
        self._good = sorted(standing.good_by_all)
        self._met = Counter(pair(test.one, test.other) for tested in history for test in tested.tests)
        self._done = len(of_stage(history, Stage.CONFIRM))
        self._leaf_of = {part: number for number, leaf in enumerate(leaves) for part in leaf}
        self.pairs: list[tuple[int, int]] = []
        self.busy: set[int] = set()

    def add(self, *pairs: tuple[int, int]) -> None:
        """Take them up, but for those with parts that are busy."""
        for each in pairs:
            if self.busy.isdisjoint(each):
                self.pairs.append(each)
                self.busy |= set(each)

    def by_turns(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Suspects, the slowest first, and then those that are only doubted, another of them first in every
        round: where not all can be tested at once, none waits for ever.
        """
        good = self._standing.good
        doubted = [
            each
            for each in candidates
            if each.parts[0] in self._doubted and each.parts[0] in good.get(each.metric, ())
        ]
        first = self._done % len(doubted) if doubted else 0
        return [*(each for each in candidates if each not in doubted), *doubted[first:], *doubted[:first]]

    def _free(self, parts: Sequence[int]) -> list[int]:
        return [part for part in parts if part not in self.busy]

    def afresh(self, candidate: Candidate) -> list[tuple[int, int]]:
        """A slow pair again, or a suspect with a good partner: a new one, and on those switches that it was
        tested with least, where switches are known, because one slow path is not all that its tests go over.
        """
        if len(candidate.parts) > 1:
            return [pair(*candidate.parts)]
        (part,) = candidate.parts
        group = next(group for group in self._groups if part in group)
        passing = group.intersection(self._standing.good[candidate.metric]) - {part}
        # Whoever passes by every metric tells most, who is doubted least.
        if part in self._doubted:
            passing = undoubted(passing, self._doubted, group)
        best = passing.intersection(self._good)
        free = next(
            filter(None, (self._free(sorted(own)) for own in (best - self._doubted, best, passing))), []
        )
        if not free or part in self.busy or not self._leaves_control(group, candidate):
            return []
        fresh = [each for each in free if not self._met[pair(part, each)]] or free
        if part in self._leaf_of:
            times = Counter(self._leaf_of.get(sum(ends) - part) for ends in self._met if part in ends)
            least = min(times[self._leaf_of.get(each)] for each in fresh)
            fresh = [each for each in fresh if times[self._leaf_of.get(each)] == least]
        return [pair(part, self._generator.choice(fresh))]

    def _leaves_control(self, group: set[int], candidate: Candidate) -> bool:
        """Whether two good parts are left to be the round's control, once one of this group has a suspect for
        a partner: a round without says nothing. Who has to wait is tested in another round. Where there can
        be two that nobody doubts, it takes these. A part that is itself good, as it is only doubted, is not
        left.
        """
        good = set(self._standing.good[candidate.metric]) - {*candidate.parts}
        certain = good - self._doubted
        for own in self._groups:
            partner = own is group
            own_good = good & own if len(certain & own) - partner < _A_PAIR else certain & own
            if len(self._free(sorted(own_good))) - partner >= _A_PAIR:
                return True
        return not self.pairs and not self._doubted.intersection(candidate.parts)

    def over_path(self, candidate: Candidate) -> list[tuple[int, int]]:
        """A few parts of two switches with each other, those first that went over that path least. A lone one
        with a part of a third switch, by turns, until that has told which of the two is slow.
        """
        if candidate.lone and self._done % 2 == 0 and (apart := self._elsewhere(candidate)):
            return apart
        ends = [self._free([part for part in leaf if part in self._good])
                for leaf in (candidate.parts, candidate.beyond)]  # fmt: skip
        free = len(self._free(self._good))
        size = min(_OVER_PATH, *map(len, ends), max(1, free // 2 - LEAST_CONTROLS))
        path = {self._leaf_of[candidate.parts[0]], self._leaf_of[candidate.beyond[0]]}
        over = [each for each in self._met if {self._leaf_of.get(part) for part in each} == path]
        times = Counter(part for each in over for part in each)
        for own in ends:
            self._generator.shuffle(own)
            own.sort(key=lambda part: times[part])
        return list(itertools.starmap(pair, zip(ends[0][:size], ends[1][:size], strict=True)))

    def _elsewhere(self, candidate: Candidate) -> list[tuple[int, int]]:
        ends = {*candidate.parts, *candidate.beyond}
        others = self._free([part for part in self._good if part not in ends])
        chosen = self._generator.sample(others, min(len(candidate.lone), len(others)))
        return list(itertools.starmap(pair, zip(self._free(candidate.lone), chosen, strict=False)))

    def leaving(self, leaf: Leaf) -> list[tuple[int, int]]:
        """All parts of a switch at once with good ones elsewhere, so that what leads there is loaded."""
        free = self._free(self._good)
        # The others are control.
        size = max(0, min(len(leaf), len(free) - 2 * LEAST_CONTROLS)) or min(1, len(free))
        chosen = self._generator.sample(leaf, size), self._generator.sample(free, size)
        return list(itertools.starmap(pair, zip(*chosen, strict=True)))

    def staying(self, leaf: Leaf) -> list[tuple[int, int]]:
        """The parts of a switch among themselves; who was slow there with one that was not."""
        asked = {part for each in self._standing.open if not each.leaf for part in each.parts}
        mates = self._generator.sample(leaf, len(leaf))
        mates.sort(key=lambda part: part not in asked)  # stable: those first that are asked after
        found = []
        while len(mates) > 1:
            part = mates.pop(0)
            mate = next((each for each in mates if each in self._standing.inside), mates[0])
            mates.remove(mate)
            found.append(pair(part, mate))
        return found

    def rest(self) -> list[tuple[int, int]]:
        """Who is left among themselves: those first that pass by every metric, and then those that pass by
        some, whose tests are control for that.
        """
        some = set().union(*self._standing.good.values()) - set(self._good)
        found: list[tuple[int, int]] = []
        for group in self._groups:
            free = [self._free(sorted(group & each)) for each in (set(self._good), some)]
            for each in free:
                self._generator.shuffle(each)
                each.sort(key=lambda part: part in self._doubted)  # stable
            order = [*free[0], *free[1]]
            found += itertools.starmap(pair, zip(order[::2], order[1::2], strict=False))
        return found
