"""A switch that is slow, or its links to the others: told from slow hosts by where its hosts are slow.

Through a slow uplink every host of a leaf switch is slow with hosts of other switches, and as good as any
with its own. So where nearly all tests that leave a switch were slow, none of its hosts is accused by such
tests: they are judged by tests among themselves, and the switch by fresh tests that leave it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from busbw.hunt.classes import Leaf
from busbw.hunt.screen import Screen, lower_median
from busbw.model.hunt import PairTest

_LEAST_LEAVES: Final = 2
_LEAST_MEMBERS: Final = 2
# Of the tests that leave a switch. A switch that is asked after in vain costs a round or two; of two switches
# the one cannot be told from the other, so that there has to be reason to ask.
_MOST_SLOW: Final = 0.5
_MOST_SLOW_OF_TWO: Final = 0.75

_Leaving = tuple[int, int, float]
"""A test that leaves a switch: its part there, the other one, and what it took more."""


def suspected(found: Screen, leaves: Sequence[Leaf]) -> tuple[Leaf, ...]:
    """Switches out of which nearly every test of screening was slow, whichever of its hosts made it."""
    if len(leaves) < _LEAST_LEAVES:
        return ()
    leaf_of = {part: leaf for leaf in leaves for part in leaf}
    left: dict[Leaf, list[_Leaving]] = defaultdict(list)
    for pair, residual in found.residuals.items():
        ends = [leaf_of.get(part, ()) for part in pair]
        if all(ends) and ends[0] != ends[1]:
            for (part, far), leaf in zip((pair, pair[::-1]), ends, strict=True):
                left[leaf].append((part, far, residual))
    most = _MOST_SLOW if len(leaves) > _LEAST_LEAVES else _MOST_SLOW_OF_TWO
    return tuple(leaf for leaf in leaves if _leaves_slowly(left[leaf], found.cut, most))


def _leaves_slowly(tests: Sequence[_Leaving], cut: float, most: float) -> bool:
    """Of several of its hosts, and to several: else it may be the one host that they were tested with."""
    slow = [(part, far) for part, far, residual in tests if residual > cut]
    several = all(len(set(ends)) >= _LEAST_MEMBERS for ends in zip(*slow, strict=True))
    return bool(slow) and several and len(slow) >= most * len(tests)


def leaves_it(test: PairTest, leaf: Leaf, control: set[int]) -> bool:
    """Whether it is a test between the switch and a part that passed."""
    ends = {test.one, test.other}
    return len(ends.intersection(leaf)) == 1 and not control.isdisjoint(ends.difference(leaf))


def is_inside(test: PairTest, leaf: Leaf) -> bool:
    """Whether it is a test among the parts of the switch."""
    return {test.one, test.other}.issubset(leaf)


def of_round(residuals: Sequence[float]) -> float:
    """What a round says of a switch: its middle test, so that neither a few slow hosts nor a few quick ones
    speak for it.
    """
    return lower_median(residuals)
