"""The path between two switches: slow in tests between these two, whichever of their parts make them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from busbw.hunt.classes import Leaf
from busbw.hunt.screen import Screen, lower_median
from busbw.model.hunt import PairTest

Path = tuple[int, int]
"""The numbers of two switches."""

LEAST_LEAVES: Final = 3  # of two switches, the path between them is all that leaves either
MOST_ROUNDS: Final = 4  # in which every switch is tested with every other, as far as that goes


def slow_paths(
    found: Screen, more: Iterable[tuple[float, PairTest]], apart: Iterable[int]
) -> dict[Path, tuple[float, ...]]:
    """Paths whose tests were slow, both of two or most of more, and those of a pair that is slow though its
    parts pass with others, with the residuals. ``more`` are tests (residual, test) beside those in random
    pairs; those with parts that are suspected themselves, or ``apart``, say nothing of a path.
    """
    left_out = {*found.suspects, *apart}
    tests: dict[Path, list[float]] = defaultdict(list)
    told = [*found.residuals.items(), *(((test.one, test.other), residual) for residual, test in more)]
    for ends, residual in told:
        path = found.classes.path(*ends)
        if path is not None and left_out.isdisjoint(ends):
            tests[path].append(residual)
    of_pairs = {found.classes.path(*ends) for ends in found.slow_pairs if left_out.isdisjoint(ends)}
    return {
        path: tuple(own)
        for path, own in tests.items()
        if path in of_pairs or lower_median(own) > (found.cut if len(own) > 1 else found.stray)
    }


def slow_afresh(
    found: Screen, rounds: Sequence[Sequence[tuple[float, PairTest]]], apart: Iterable[int]
) -> dict[Path, tuple[tuple[float, ...], int]]:
    """Paths that fresh tests of parts found slow, both of two or most of more, with the residuals and the
    number of rounds until then: later ones are the path's own evidence. Else as in ``slow_paths``.
    """
    left_out = {*found.suspects, *apart}
    tests: dict[Path, list[float]] = defaultdict(list)
    slow: dict[Path, tuple[tuple[float, ...], int]] = {}
    for number, told in enumerate(rounds, 1):
        for residual, test in told:
            path = found.classes.path(test.one, test.other)
            if path is not None and left_out.isdisjoint((test.one, test.other)):
                tests[path].append(residual)
        for path, own in tests.items():
            if len(own) > 1 and lower_median(own) > found.cut:
                slow.setdefault(path, (tuple(own), number))
    return slow


def is_between(test: PairTest, one: Leaf, other: Leaf, control: set[int]) -> bool:
    """Whether it is a test between good parts of the two switches."""
    ends = {test.one, test.other}
    return ends <= control and all(len(ends.intersection(leaf)) == 1 for leaf in (one, other))
