"""The fresh tests of a hunt, held against the controls of their rounds: what they say of parts, of switches
and of the paths between these.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from busbw.hunt.candidate import Bounds, Candidate, State, Told, bounds, weighed
from busbw.hunt.centres import LEAST_CONTROLS, centre_of, over_middle
from busbw.hunt.classes import Leaf
from busbw.hunt.field import Groups
from busbw.hunt.leaves import is_inside, leaves_it, of_round
from busbw.hunt.near import Near, near
from busbw.hunt.paths import LEAST_LEAVES, Path, is_between, slow_afresh, slow_paths
from busbw.hunt.screen import Screen, counts, lower_median
from busbw.model.hunt import PairTest, RoundResult, Rules, Stage, of_stage


class Judge:
    """Fresh tests by metric, against the centre of their rounds. Parts of ``fenced`` switches are no control,
    and are judged by tests among themselves; ``inside`` are those that passed there. ``caught``: parts that
    pass and are no control all the same. ``more`` suspects there are beside those that it finds ``wanted``.
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
        self._confirms, self._leaves, self.fenced = of_stage(history, Stage.CONFIRM), leaves, fenced
        self._behind, self._caught = {part for leaf in fenced for part in leaf}, caught
        self._decides = rules.metrics[0]
        self._doubted = {part for part in rules.doubted if part not in self._behind}
        self._group_of = {part: {*group} for group in groups for part in group}
        self.wanted = [(each, parts) for each in found for parts in self._wanted(each)]
        self.control = {each.metric: self._passing(each) - self._behind for each in found}
        self.good = {metric: tuple(sorted(control)) for metric, control in self.control.items()}
        self._best = frozenset(set.intersection(*self.control.values()) - self._doubted)
        self.paths = {each.metric: self._screened_paths(each, history) for each in found}
        self.centres = {each.metric: self._centres_of(each) for each in found}
        self._since = {key: since for each in found for key, since in self._afresh(each)}
        self.inside = frozenset(self._passed_inside(found[0]))
        self.wanted += [(each, (part,)) for each in found for part in self._slow_inside(each)]
        self._bounds: Bounds = bounds(rules, len(self.wanted) + more + sum(map(len, self.paths.values())))

    def _screened_paths(self, found: Screen, history: Sequence[RoundResult]) -> dict[Path, tuple[float, ...]]:
        """Slow paths between switches, where these are enough, by random pairs and by tests of switches."""
        if len(self._leaves) < LEAST_LEAVES:
            return {}
        return slow_paths(found, over_middle(found, of_stage(history, Stage.SWITCHES)), self._behind)

    def _centres_of(self, found: Screen, but_for: int | None = None) -> list[float | None]:
        """The centre of every round of fresh tests, without those of one part; see ``centre_of``."""
        control = self.control[found.metric] - {but_for}
        return [
            centre_of(found, tested, control, self.paths[found.metric], self._best)
            if counts(found.metric, tested) else None
            for tested in self._confirms
        ]  # fmt: skip

    def _rounds(self, found: Screen, centres: Sequence[float | None] | None = None) -> list[list[Told]]:
        """The fresh tests of every round, against its centre; none of a round that has none."""
        used = self.centres[found.metric] if centres is None else centres
        return [
            [(found.value(test) - centre, test) for test in tested.tests] if centre is not None else []
            for tested, centre in zip(self._confirms, used, strict=True)
        ]

    def _afresh(self, found: Screen) -> Iterable[tuple[tuple[str, Path], int]]:
        """Adds the paths that fresh tests alone were slow over, none of which is a control then. From which
        round on they are tested themselves.
        """
        if len(self._leaves) < LEAST_LEAVES:
            return
        known = self.paths[found.metric]
        late = slow_afresh(found, self._rounds(found), self._behind)
        for path in sorted(late.keys() - known.keys()):
            known[path], since = late[path]
            yield (found.metric, path), since
        if late:
            self.centres[found.metric] = self._centres_of(found)

    def _among(self, found: Screen) -> Iterable[Told]:
        """Tests among the parts of a fenced switch."""
        for told in self._rounds(found):
            yield from (own for own in told for leaf in self.fenced if is_inside(own[1], leaf))

    def _passed_inside(self, found: Screen) -> set[int]:
        passed = (test for residual, test in self._among(found) if residual <= found.cut)
        return {part for test in passed for part in (test.one, test.other)}

    def _slow_inside(self, found: Screen) -> list[int]:
        slow = (test for residual, test in self._among(found) if residual > found.cut)
        return sorted({part for test in slow for part in (test.one, test.other)})

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
        centres = None
        if len(parts) == 1 and parts[0] in self._doubts(found):
            control = undoubted(control, self._doubted, self._group_of[parts[0]])
            centres = self._centres_of(found, parts[0])
        own = (
            next((each for each in told if _is_of(each[1], parts, control)), None)
            for told in self._rounds(found, centres)
        )
        tests = [each for each in own if each and (found.metric, _path(found, each[1])) not in slow]
        screened = found.of_part[parts[0]] if len(parts) == 1 else (found.residuals[parts[0], parts[1]],)
        return self._weighed(found, tests, Candidate(parts, found.metric, screened))

    def switch(self, found: Screen, leaf: Leaf) -> Candidate:
        """A switch by the middle one of each round's tests that leave it: the middle one to each other
        switch, and of these the middle one, since one slow path may have most of the tests.
        """
        tests = []
        for told in self._rounds(found):
            by_path: dict[Path | None, list[Told]] = defaultdict(list)
            for each in told:
                if leaves_it(each[1], leaf, self.control[found.metric]):
                    by_path[_path(found, each[1])].append(each)
            if by_path:
                tests.append(_middle([_middle(own) for own in by_path.values()]))
        out = tuple(r for pair, r in found.residuals.items() if len(set(pair) & set(leaf)) == 1)
        return self._weighed(found, tests, Candidate(leaf, found.metric, out, leaf=True))

    def path(self, found: Screen, path: Path) -> tuple[Candidate | None, list[Candidate]]:
        """A path between two switches, and parts that are slow instead of it: where one part alone is all
        that passes of an end, it is in every test of the path, and its tests elsewhere tell.
        """
        of_path = self._over(found, path)
        ends = [self.control[found.metric].intersection(self._leaves[end]) for end in path]
        is_slow = any(residual > found.cut for residual, _ in of_path.fresh)
        if of_path.state is State.CLEARED or not (is_slow or (found.metric, path) in self._since):
            return of_path, []
        lone = [self._elsewhere(found, min(own), path) for own in ends if len(own) == 1]
        if slow := [each for each in lone if each.state is State.CONFIRMED]:
            return None, slow
        if left := tuple(each.parts[0] for each in lone if each.state is State.OPEN):
            return replace(of_path, state=State.OPEN, lone=left), []
        return of_path, []

    def _over(self, found: Screen, path: Path) -> Candidate:
        """A path by the middle one of each round's tests of it."""
        one, other = (self._leaves[end] for end in path)
        control = self.control[found.metric]
        since = self._since.get((found.metric, path), 0)
        rounds = (
            [each for each in told if is_between(each[1], one, other, control)]
            for told in self._rounds(found)[since:]
        )
        tests = [_middle(own) for own in rounds if own]
        screened = self.paths[found.metric][path]
        return self._weighed(found, tests, Candidate(one, found.metric, screened, leaf=True, beyond=other))

    def _elsewhere(self, found: Screen, part: int, path: Path) -> Candidate:
        """A part by its fresh tests over all but one path."""
        control = self.control[found.metric]
        tests = [
            each
            for each in itertools.chain.from_iterable(self._rounds(found))
            if _is_of(each[1], (part,), control) and _path(found, each[1]) != path
        ]
        return self._weighed(found, tests, Candidate((part,), found.metric, found.of_part[part]))

    def _weighed(self, found: Screen, tests: Sequence[Told], plain: Candidate) -> Candidate:
        is_doubted = not self._doubts(found).isdisjoint(plain.parts)
        return weighed(plain, found, tests, self._bounds, doubted=is_doubted)

    def near(self, found: Screen, parts: Sequence[Candidate], groups: Groups) -> Near:
        """Who of those that fresh tests confirmed is near another; behind a fence tests are inside."""
        effects = {
            each.parts[0]: lower_median([residual for residual, _ in each.fresh])
            for each in parts
            if each.metric == found.metric
            and each.state is State.CONFIRMED
            and len(each.parts) == 1
            and self._behind.isdisjoint(each.parts)
        }
        if not effects:
            return Near()
        group_of = {part: number for number, group in enumerate(groups) for part in group}
        return near(
            found,
            effects,
            [*itertools.chain.from_iterable(self._rounds(found))],
            self._bounds.for_it,
            lambda one, other: group_of[one] == group_of[other] and other not in self._behind,
        )


def undoubted(good: set[int], doubted: Collection[int], group: set[int]) -> set[int]:
    """Those parts of a group that may be partners of one that is doubted: who is not, where these are two or
    more, because one alone has nobody to be control with.
    """
    own = (good & group) - {*doubted}
    return own if len(own) > 1 else good & group


def _is_of(test: PairTest, parts: tuple[int, ...], control: set[int]) -> bool:
    ends = {test.one, test.other}
    return ends == set(parts) if len(parts) > 1 else parts[0] in ends and bool((ends - {parts[0]}) & control)


def _path(found: Screen, test: PairTest) -> Path | None:
    return found.classes.path(test.one, test.other)


def _middle(tests: Sequence[Told]) -> Told:
    """The middle one of a round's tests of one thing."""
    by_residual = dict(tests)
    middle = of_round([residual for residual, _ in tests])
    return middle, by_residual[middle]
