"""Every way to make one time of the ranks', against plain numpy on the matrix of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from busbw_testing.ranks import on_ranks

from busbw.model.sample import SampleFlag
from busbw.rank.backends.base import Look
from busbw.rank.reduce_samples import Across, Grouping, across_ranks
from busbw.rank.world.clock import GlobalClock
from busbw.rank.world.clock_model import Line

RANKS, SAMPLES = 5, 40
ELAPSED = np.random.default_rng(1).integers(900, 2**40, (RANKS, SAMPLES))
ISSUE = np.random.default_rng(2).integers(1, 900, (RANKS, SAMPLES))
# As clocks that count from each machine's start: far apart, and one of them fast by 100 ppm.
OFFSETS = np.array([0, 5 * 10**12, -(10**9), 7, 123_456_789])
DRIFTS = (0.0, 1e-4, -3e-5, 0.0, 1e-6)
ENTRY = 10**13 + np.random.default_rng(3).integers(0, 10**6, (RANKS, SAMPLES))


def clock(rank: int) -> GlobalClock:
    line = Line(10**13 - int(OFFSETS[rank]), int(OFFSETS[rank]), DRIFTS[rank])
    return GlobalClock(line, 0, 100.0, 50.0, 1e-8, tuple(range(RANKS)))


def reduced(time: str = "max", *, flags: Any = None, clocks: bool = False, entries: bool = True) -> Across:
    """The one result of all ranks."""

    def live(world: Any) -> Across:
        rank = world.rank
        own = np.zeros(SAMPLES, np.int64) if flags is None else flags[rank]
        look = Look(ELAPSED[rank], ISSUE[rank], ENTRY[rank] if entries else None)
        return across_ranks(look, own, time, world, clock(rank) if clocks else None)

    results = on_ranks(RANKS, live)
    for other in results[1:]:
        for name in ("worst", "best", "issue", "flags", "headline", "skew"):
            assert (getattr(other, name) == getattr(results[0], name)).all(), name
    return results[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("max", ELAPSED.max(axis=0)),
        ("loop", ELAPSED.max(axis=0)),
        ("min", ELAPSED.min(axis=0)),
        ("last", ELAPSED.min(axis=0)),
        ("avg", ELAPSED.sum(axis=0) // RANKS),
        ("rank0", ELAPSED[0]),
        ("span", ELAPSED.max(axis=0)),  # without synchronised clocks nothing better is known
    ],
)
def test_the_headline_is_what_was_asked_for(time: str, expected: np.ndarray) -> None:
    across = reduced(time)
    assert across.headline.tolist() == expected.tolist()
    assert across.worst.tolist() == ELAPSED.max(axis=0).tolist()
    assert across.best.tolist() == ELAPSED.min(axis=0).tolist()
    assert across.issue.tolist() == ISSUE.max(axis=0).tolist()
    assert across.skew.tolist() == [-1] * SAMPLES
    assert len(across) == SAMPLES


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("max", ELAPSED[:3].max(axis=0)),
        ("min", ELAPSED[:3].min(axis=0)),
        ("avg", ELAPSED[:3].sum(axis=0) // 3),
        ("loop-avg", ELAPSED[:3].sum(axis=0) // 3),
    ],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_ranks_with_nothing_to_do_are_in_no_time(time: str, expected: np.ndarray, *, grouped: bool) -> None:
    """A permute of three of five ranks: what the other two take is no time of it, mean or minimum."""

    def live(world: Any) -> Across:
        elapsed = ELAPSED[world.rank] if world.rank < 3 else np.full(SAMPLES, 40)
        look = Look(elapsed, elapsed, took_part=world.rank < 3)
        place = Grouping((tuple(range(RANKS)),), 0, world.rank) if grouped else None
        return across_ranks(look, np.zeros(SAMPLES, np.int64), time, world, None, place)

    for across in on_ranks(RANKS, live):
        assert across.headline.tolist() == expected.tolist()
        assert across.best.tolist() == ELAPSED[:3].min(axis=0).tolist()


def test_ranks_with_nothing_to_do_are_not_in_the_span() -> None:
    def live(world: Any, present: int) -> Across:
        entry = ENTRY[world.rank] if world.rank < present else np.full(SAMPLES, 7)
        look = Look(ELAPSED[world.rank], ISSUE[world.rank], entry, took_part=world.rank < present)
        return across_ranks(look, np.zeros(SAMPLES, np.int64), "span", world, clock(world.rank))

    found = on_ranks(RANKS, lambda world: live(world, 3))[0]
    alone = on_ranks(3, lambda world: live(world, 3))[0]
    assert found.headline.tolist() == alone.headline.tolist()
    assert found.skew.tolist() == alone.skew.tolist()


@pytest.mark.parametrize("time", ["span", "max"])
def test_span_and_skew_are_on_the_common_clock(time: str) -> None:
    across = reduced(time, clocks=True)
    entry = np.stack([clock(rank).to_global(ENTRY[rank]) for rank in range(RANKS)])
    left = np.stack([clock(rank).to_global(ENTRY[rank] + ELAPSED[rank]) for rank in range(RANKS)])
    span = left.max(axis=0) - entry.min(axis=0)
    assert across.skew.tolist() == (entry.max(axis=0) - entry.min(axis=0)).tolist()
    assert across.headline.tolist() == (span if time == "span" else ELAPSED.max(axis=0)).tolist()
    # The clocks matter: without their offsets it would be another number.
    assert (across.skew > 10**9).all()


def test_every_flag_that_any_rank_raised_is_kept_apart() -> None:
    every = (SampleFlag.DESCHEDULED, SampleFlag.THROTTLED, SampleFlag.CLOCK_STEP, SampleFlag.MISSED_START)
    flags = np.random.default_rng(4).integers(0, 16, (RANKS, SAMPLES))
    flags[:, 0] = 0
    flags[:4, 1], flags[4, 1] = [int(flag) for flag in every], 0
    across = reduced(flags=flags)
    assert across.flags.tolist() == np.bitwise_or.reduce(flags, axis=0).tolist()
    assert across.flags[:2].tolist() == [0, 15]


@pytest.mark.parametrize(("time", "messages"), [("max", 1), ("span", 1), ("avg", 2), ("rank0", 2)])
def test_a_look_costs_one_reduction_and_no_more_than_one_message_beside_it(time: str, messages: int) -> None:
    def live(world: Any) -> list[str]:
        look = Look(ELAPSED[world.rank], ISSUE[world.rank], ENTRY[world.rank])
        across_ranks(look, np.zeros(SAMPLES, np.int64), time, world, clock(world.rank))
        return list(world.calls)

    calls = on_ranks(RANKS, live)
    assert all(len(own) == messages for own in calls)
