"""Parts that are near one another: slow with everybody else, and quick among themselves.

Whoever is behind another switch than most are is slow with every part that passes, and nothing is wrong with
it. All its tests with those are across the same path, so that more of them say nothing new. What tells it
from a slow part is a test with another suspect: two slow parts are slow with each other too. So nobody is
accused who was not tested so.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.hunt.screen import Screen
from busbw.model.hunt import PairTest
from busbw.planning.rounds import pair

# Other suspects with whom a part was tested, while nobody is known to be near anybody: enough.
MOST_MATES: Final = 5


@dataclass(frozen=True)
class Near:
    """By one metric: the ``groups`` of suspects that are quick among themselves; the pairs that are
    ``wanted`` to be tested; and who is ``unmet``: not tested yet with everybody that may be near it, or
    alone and no slower than the groups are.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    wanted: tuple[tuple[int, int], ...] = ()
    unmet: frozenset[int] = frozenset()

    @property
    def parts(self) -> frozenset[int]:
        """Everybody of a group."""
        return frozenset(itertools.chain.from_iterable(self.groups))


def near(
    found: Screen,
    effects: Mapping[int, float],
    fresh: Sequence[tuple[float, PairTest]],
    acquittal: float,
    can_meet: Callable[[int, int], bool],
) -> Near:
    """Who of the slow parts (``effects`` has by how much) is near another, by their ``fresh`` tests
    (residual, test) with each other and with parts that they were quick with in screening. ``acquittal`` is
    the logarithm of the probability that takes; it takes two tests.
    """
    evidence = _evidence(found, effects, fresh, acquittal)
    mates = {
        part: {other for other in _perhaps_near(found, part, effects) if can_meet(part, other)}
        for part in effects
    }
    group_of = _groups([each for each, value in evidence.items() if value <= acquittal])
    is_any = bool(group_of)
    wanted: list[tuple[int, int]] = []
    unmet: set[int] = set()
    for part, others in mates.items():
        own = group_of.get(part, frozenset({part}))
        left = _unsettled(own, others, group_of, evidence)
        settled = sum(evidence.get(pair(part, other), 0.0) > 0 for other in others)
        if not left or (not is_any and settled >= MOST_MATES):
            continue
        wanted += [pair(part, other) for other in left]
        if part not in group_of:
            unmet.add(part)
    # Where paths are not alike, one alone and no slower may have neighbours that nobody suspects.
    usual = max((effects[part] for part in group_of if part in effects), default=-math.inf) + found.cut
    unmet |= {part for part in effects if part not in group_of and effects[part] <= usual}
    groups = tuple(sorted(tuple(sorted(each)) for each in set(group_of.values())))
    order = sorted(dict.fromkeys(wanted), key=lambda each: (evidence.get(each, 0.0), each))
    return Near(groups, tuple(order), frozenset(unmet))


def _evidence(
    found: Screen, effects: Mapping[int, float], fresh: Sequence[tuple[float, PairTest]], acquittal: float
) -> dict[tuple[int, int], float]:
    """By pair, the logarithm of the probability ratio of being slow together to being quick."""
    evidence: dict[tuple[int, int], float] = defaultdict(float)
    for residual, test in fresh:
        slow = [effects[part] for part in (test.one, test.other) if part in effects]
        if slow:
            most = max(found.smallest, min(slow))
            ratio = most * (residual - most / 2) / found.sigma**2
            evidence[pair(test.one, test.other)] += max(min(ratio, -acquittal), acquittal / 2)
    return evidence


def _perhaps_near(found: Screen, part: int, effects: Mapping[int, float]) -> set[int]:
    """The other slow parts, and whom it was quick with in random pairs."""
    quick = {
        sum(ends) - part
        for ends, residual in found.residuals.items()
        if part in ends and residual <= found.cut
    }
    return (quick | set(effects)) - {part}


def _unsettled(
    own: frozenset[int],
    others: set[int],
    group_of: Mapping[int, frozenset[int]],
    evidence: Mapping[tuple[int, int], float],
) -> list[int]:
    """Whom a group has to be tested with: of every other group one, with whom no member was slow yet."""
    left: dict[frozenset[int], int] = {}
    for other in sorted(others - own):
        group = group_of.get(other, frozenset({other}))
        if not any(evidence.get(pair(one, two), 0.0) > 0 for one in own for two in group):
            left.setdefault(group, other)
    return list(left.values())


def _groups(pairs: Sequence[tuple[int, int]]) -> dict[int, frozenset[int]]:
    """The group of each part that is near another, whose parts are near one another by any chain of pairs."""
    group_of: dict[int, frozenset[int]] = {}
    for one, other in pairs:
        both = group_of.get(one, frozenset({one})) | group_of.get(other, frozenset({other}))
        group_of.update(dict.fromkeys(both, both))
    return group_of
