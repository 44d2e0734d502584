"""What a test is held against: the usual time of a healthy pair in the same round."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from busbw.hunt.candidate import Told
from busbw.hunt.paths import Path
from busbw.hunt.screen import Screen, counts, lower_median
from busbw.model.hunt import RoundResult

LEAST_CONTROLS: Final = 3  # fewer can make a round look slower than it was, but not faster
_MOST_STRAY: Final = 0.25  # of a round's controls beyond the cut: more, and the round says nothing


def centre_of(
    found: Screen, tested: RoundResult, control: set[int], slow: Collection[Path], best: Collection[int]
) -> float | None:
    """What a healthy pair took in a round of confirmation: the median of its controls, but for those over
    paths that are suspected (``slow``); of the ``best`` parts where these have any. Where they are few, at
    least what such a pair took in screening. None where there are none, where they do not agree among
    themselves, or all together have moved by more than what is being looked for.
    """
    tests = [
        test
        for test in tested.tests
        if {test.one, test.other} <= control
        and (test.one, test.other) not in found.slow_pairs
        and found.classes.path(test.one, test.other) not in slow
    ]
    if not tests:
        return None
    certain = [test for test in tests if {test.one, test.other} <= {*best}]
    own = [found.value(test) for test in certain or tests]
    centre = float(np.median(own))
    stray = sum(abs(each - centre) > found.stray for each in own)
    moved = abs(centre - found.noise.base) > found.striking
    if moved or stray > _MOST_STRAY * len(own):
        return None
    return centre if len(own) >= LEAST_CONTROLS else max(centre, found.noise.base)


def over_middle(found: Screen, rounds: Sequence[RoundResult]) -> list[Told]:
    """Tests of rounds in which everybody was tested, and what they took over the middle one of their round;
    but for rounds that moved as a whole. One or two tests are no whole: the slow path may be most of them.
    """
    told = []
    for tested in rounds:
        if counts(found.metric, tested) and tested.tests:
            values = [found.value(test) for test in tested.tests]
            centre = lower_median(values)
            if len(values) < LEAST_CONTROLS:
                centre = min(centre, found.noise.base)
            if abs(centre - found.noise.base) <= found.striking:
                told += [(each - centre, test) for each, test in zip(values, tested.tests, strict=True)]
    return told
