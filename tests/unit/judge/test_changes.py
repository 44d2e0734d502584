"""What changed with a level: the likeliest place where anything did, and both where two are as likely."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from busbw.judge.levels import changes_of
from busbw.model import history
from busbw.model.history import Change, Launch, Point

BEFORE, AFTER = 60, 6
STEADY = np.random.default_rng(3).normal(0.0, 0.02, BEFORE + AFTER)


def found(first: float, driver: int) -> Change:
    """Of a loss of 6 % whose ``first`` launch is slower by so much; the library changes with it, and at
    another launch the driver.
    """
    logs = STEADY.copy()
    logs[BEFORE:] = first, *(STEADY[BEFORE + 1 :] / 4 + 0.06)
    logs[BEFORE - 1] = 0.0
    points = [Point(at, at, math.exp(log)) for at, log in enumerate(logs)]

    def launches(numbers: Sequence[int]) -> Mapping[int, Launch]:
        return {
            number: Launch("", "", history.Testbed("", {}, {}), "", {}, explains(number))
            for number in numbers
        }

    def explains(at: int) -> dict[str, str]:
        return {"version": "2.28" if at >= BEFORE else "2.27", "driver": "570" if at >= driver else "560"}

    (change,) = changes_of(points, (), 0, launches)
    return change


@pytest.mark.parametrize(
    ("first", "driver", "explained"),
    [
        (0.06, BEFORE + 1, {"version 2.27 -> 2.28"}),
        (0.03, BEFORE + 1, {"version 2.27 -> 2.28", "driver 560 -> 570"}),  # a launch between the levels
        (0.0, 40, {"version 2.27 -> 2.28"}),  # nothing changed at the likeliest place, but beside it
    ],
)
def test_what_changed_with_the_level_is_named(first: float, driver: int, explained: set[str]) -> None:
    change = found(first, driver)
    assert set(change.explained) == explained
    assert change.at == BEFORE
