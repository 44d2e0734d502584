"""Paths that are not alike though nothing is broken: between switches a test may take longer than within one.

Where it is known which parts share a switch, a test is compared with those of its own class: what a test
between switches takes longer, as a class, is taken off before anything is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from busbw.hunt.noise import surely_more

Leaf = tuple[int, ...]
"""The parts on one lowest switch."""

_LEAST_MEMBERS: Final = 2  # what a part alone on its switch takes longer may be its own fault
_LEAST_TESTS: Final = 2


@dataclass(frozen=True)
class Classes:
    """``leaf_of`` has the number of the switch of each part, where it is known; ``longer`` is the logarithm
    of what tests between switches take over those within one, 0 where that may be chance.
    """

    leaf_of: dict[int, int] = field(default_factory=dict)
    longer: float = 0.0

    def of(self, one: int, other: int) -> float:
        """What a pair takes longer because of its class."""
        return self.longer if self.crosses(one, other) else 0.0

    def crosses(self, one: int, other: int) -> bool:
        """Whether a pair is known to be of two switches."""
        ends = self.leaf_of.get(one), self.leaf_of.get(other)
        return None not in ends and ends[0] != ends[1]

    def path(self, one: int, other: int) -> tuple[int, int] | None:
        """The numbers of the two switches of a pair, the lower first; None within one, or where unknown."""
        if not self.crosses(one, other):
            return None
        lower, upper = sorted((self.leaf_of[one], self.leaf_of[other]))
        return lower, upper


def classes(leaves: Sequence[Leaf], tested: Iterable[tuple[int, int, float]]) -> Classes:
    """The classes of paths among ``leaves``, from tests (part, part, logarithm of what it took)."""
    leaf_of = {part: number for number, leaf in enumerate(leaves) for part in leaf}
    known = Classes(leaf_of)
    if len(leaves) < 2:
        return known
    within: list[float] = []
    between: list[float] = []
    for one, other, took in tested:
        if known.crosses(one, other):
            if all(len(leaves[leaf_of[part]]) >= _LEAST_MEMBERS for part in (one, other)):
                between.append(took)
        elif one in leaf_of and other in leaf_of:
            within.append(took)
    if min(len(within), len(between)) < _LEAST_TESTS:
        return known
    return Classes(leaf_of, surely_more(np.array(between), np.array(within)))


UNKNOWN: Final = Classes()
"""Where nothing is known of switches, all paths are of one class."""
