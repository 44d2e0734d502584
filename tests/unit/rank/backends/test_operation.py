"""An operation beside a case: how many calls it has, and how much of the case's time it fills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from busbw_testing.ranks import on_ranks, scripted

from busbw.model.neighbour import Neighbour
from busbw.rank.backends.base import IdleCase
from busbw.rank.backends.null import NullBackend
from busbw.rank.backends.operation import Accompanied, OperationBeside
from busbw.stats.ratio import p99_ratio


def beside(world: Any) -> OperationBeside:
    """Its backend is not asked for anything here."""
    return OperationBeside(Neighbour("alltoall:ranks=2-3", "alltoall", ranks=(2, 3)), NullBackend(), world)


def test_its_calls_last_longer_than_the_cases_on_all_ranks() -> None:
    """A call of the case takes 2 us on ranks 0 and 1, one of the neighbour 0.5 us on rank 2."""

    def live(world: Any) -> int:
        own = beside(world)
        assert own.calls(10) == 10  # nothing is known yet
        call_ns, span_ns = ((2000.0, 0.0), (20e3, 0.0)) if world.rank < 2 else ((0.0, 500.0), (0.0, 5e3))
        own.learn(call_ns, span_ns)
        return own.calls(10)

    assert on_ranks(3, live) == [48] * 3  # 1.2 x 10 x 2 / 0.5


def test_ranks_of_the_case_and_of_the_neighbour_run_their_own() -> None:
    def live(world: Any) -> tuple[bool, bool]:
        own = scripted(lambda call: 1000.0) if world.rank == 0 else IdleCase()
        theirs = IdleCase() if world.rank == 0 else scripted(lambda call: 1000.0)
        look = Accompanied(own, theirs, beside(world)).time(2, 5, 2)
        assert (own if world.rank == 0 else theirs).log == [
            ("time", 2, 5, 2) if world.rank == 0 else ("time", 0, 1, 12)
        ]
        return look.took_part, len(look.elapsed_ns) == 5

    assert on_ranks(2, live) == [(True, True), (False, True)]


def test_p99_of_samples_that_are_twice_as_long_is_twice_as_long() -> None:
    generator = np.random.default_rng(1)
    rounds = [generator.lognormal(0, 0.3, 60) for _ in range(10)]
    ratio, low, high = p99_ratio([2 * each for each in rounds], rounds)
    assert (ratio, low, high) == pytest.approx((2.0, 2.0, 2.0))
    other = [generator.lognormal(0, 0.3, 60) for _ in range(10)]
    ratio, low, high = p99_ratio(other, rounds)
    assert low < 1 < high
    assert low < ratio < high
    assert p99_ratio(rounds[:4], rounds[:4]) == ()  # 240 samples have no p99
