"""Parts that are slow now and then: cleared by fresh tests, and yet slow in more tests than chance makes."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Final

from busbw.hunt.candidate import Candidate
from busbw.hunt.screen import Screen

# The share of healthy hunts that may speak so of any part: no accusation, but no "healthy" either.
_BY_CHANCE: Final = 0.1


def slow_tests(candidate: Candidate, found: Screen, slow: Set[int]) -> tuple[list[float], int]:
    """Residuals of the slow tests of a part, and the number of its tests; but for those with ``slow`` parts,
    which explain themselves.
    """
    tests = [
        residual
        for pair, residual in found.residuals.items()
        if candidate.parts[0] in pair and slow.isdisjoint(pair)
    ] + [residual for residual, _ in candidate.fresh]
    return [residual for residual in tests if residual > found.stray], len(tests)


def is_flapping(candidate: Candidate, found: Screen, slow: Set[int]) -> bool:
    """Whether so many slow tests are more than chance makes of any one of all parts, as often as it disturbs
    the tests of the others.
    """
    own, tests = slow_tests(candidate, found, slow)
    apart = {candidate.parts[0], *slow}
    others = [residual > found.stray for pair, residual in found.residuals.items() if apart.isdisjoint(pair)]
    chance = (sum(others) + 0.5) / (len(others) + 1)  # of none among many it is no certainty (Jeffreys)
    at_least = sum(
        math.comb(tests, count) * chance**count * (1 - chance) ** (tests - count)
        for count in range(len(own), tests + 1)
    )
    return len(own) > 1 and at_least * len(found.of_part) < _BY_CHANCE
