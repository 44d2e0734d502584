from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.model.sample import SampleFlag
from busbw.rank.descheduled import CoreClock, flag_lost

MS = 1_000_000
START = CoreClock(5 * MS, 3 * MS, 5 * MS, 9 * MS)
LOST = int(SampleFlag.DESCHEDULED)


def later(wall: int, cpu: int, raw: int | None = None, boot: int | None = None) -> CoreClock:
    """After so much time on each clock; those that are not named agree with the wall."""
    return CoreClock(
        START.wall_ns + wall,
        START.cpu_ns + cpu,
        START.raw_ns + (wall if raw is None else raw),
        START.boot_ns + (wall if boot is None else boot),
    )


@pytest.mark.parametrize(
    ("wall", "cpu", "lost"),
    [
        (10 * MS, 10 * MS, 0),
        (10 * MS, 6 * MS, 4 * MS),
        (10 * MS, 10 * MS - 199_999, 0),  # an interrupt
        (10 * MS, 10 * MS - 200_000, 200_000),
        (10 * MS, 10 * MS + 50_000, 0),  # clocks of different grain
        (0, 0, 0),
    ],
)
def test_time_without_a_core_is_wall_time_beyond_the_threads_own(wall: int, cpu: int, lost: int) -> None:
    assert later(wall, cpu).lost_since(START) == lost


@pytest.mark.parametrize(
    ("clock", "stepped"),
    [
        (later(100 * MS, 0), False),
        (later(100 * MS, 0, raw=100 * MS + 50_000), False),  # NTP steers by 500 ppm
        (later(100 * MS, 0, raw=100 * MS + 1_200_001), True),
        (later(100 * MS, 0, raw=100 * MS + 1_199_999), False),
        (later(100 * MS, 0, raw=98 * MS), True),
        (later(100 * MS, 0, boot=60_000 * MS), True),  # suspended for a minute
        (later(100 * MS, 0, boot=100 * MS - 2 * MS), True),
        (later(10_000 * MS, 0, raw=10_000 * MS + 15 * MS), False),
        (later(10_000 * MS, 0, raw=10_000 * MS + 25 * MS), True),
    ],
)
def test_clocks_that_disagree_have_stepped(clock: CoreClock, stepped: bool) -> None:
    assert clock.stepped_since(START) is stepped


def test_the_real_clocks_agree_and_see_a_sleep() -> None:
    """The one test with this machine's clocks: a sleeping thread has no core."""
    before = CoreClock.now()
    time.sleep(0.05)
    after = CoreClock.now()
    assert 40 * MS < after.lost_since(before) <= after.wall_ns - before.wall_ns
    assert not after.stepped_since(before)
    assert replace(after, boot_ns=after.boot_ns + 500 * MS).stepped_since(before)


@pytest.mark.parametrize(
    ("lost_ms", "flagged"),
    [
        (0.1, []),  # too little to be a time slice
        (0.25, []),  # every excess is longer than what was lost: slow by themselves
        (4.0, [1]),  # 4 ms explain sample 1 and not the 9 ms of sample 3
        (9.0, [3]),
        (13.0, [1, 3]),
        (13.5, [1, 3, 5]),
        (1000.0, [1, 3, 5]),  # the others are no longer than the median by a tenth of a millisecond
    ],
)
def test_a_sample_is_flagged_where_the_loss_explains_it(lost_ms: float, flagged: list[int]) -> None:
    elapsed_ms = np.array([1.0, 5.0, 1.05, 10.0, 1.0, 1.4, 1.0, 0.95, 1.0])
    flags = flag_lost((elapsed_ms * 1e6).astype(np.int64), round(lost_ms * 1e6))
    assert np.flatnonzero(flags).tolist() == flagged
    assert set(flags.tolist()) <= {0, LOST}


def test_a_genuine_tail_is_not_blamed_for_a_time_slice() -> None:
    elapsed = np.full(320, 1_000, np.int64)
    elapsed[10:30] = 15_000  # slow by itself
    elapsed[100] = 8_000_000  # the slice
    assert np.flatnonzero(flag_lost(elapsed, 8_100_000)).tolist() == [100]


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=40), st.integers(1, 10**10))
def test_flagged_samples_are_explained_by_the_loss(elapsed: list[int], lost: int) -> None:
    times = np.array(elapsed, np.int64)
    hit = flag_lost(times, lost) != 0
    if hit.any():
        median = float(np.median(times))
        assert times[hit].min() >= 1.1 * median
        # No more is taken away than was lost, but for what the two measurements may differ by.
        assert (times[hit] - median).sum() <= lost + 100_000
