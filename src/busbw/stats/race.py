"""When an arm of a race is out: slower than the fastest by more than chance, in every turn that it had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# By how much slower an arm has to be in each of its turns, by their number. One that is as fast as the
# fastest is lost where a turn is off by so much; then another arm of its speed is left, so no race has a
# false winner by it.
PASSES: Final = (0.10, 0.05, 0.03)  # of one round, which lie within a second of each other
LAUNCHES: Final = (0.30, 0.15, 0.10)


def is_out(own: Sequence[float], fastest: Sequence[float], margins: Sequence[float]) -> bool:
    """Whether an arm with these times, a turn each, is out against the fastest one's in the same turns."""
    turns = min(len(own), len(fastest))
    margin = margins[min(turns, len(margins)) - 1]
    return turns > 0 and all(own[i] > fastest[i] * (1 + margin) for i in range(turns))
