"""What changed with a level: the likeliest place where anything did, and both where two are as likely."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

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


def test_the_version_that_changed_there_is_named_alone() -> None:
    change = found(0.06, BEFORE + 1)
    assert (change.at, change.explained) == (BEFORE, ("version 2.27 -> 2.28",))


def test_a_launch_between_the_levels_leaves_both() -> None:
    assert set(found(0.03, BEFORE + 1).explained) == {"version 2.27 -> 2.28", "driver 560 -> 570"}


def test_where_nothing_changed_at_the_likeliest_place_the_one_beside_it_is_taken() -> None:
    change = found(0.0, 40)
    assert (change.at, change.explained) == (BEFORE, ("version 2.27 -> 2.28",))
