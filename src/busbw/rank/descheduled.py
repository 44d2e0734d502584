"""How long this rank's thread was without a core while it was timing.

A timing loop never sleeps: MPI polls, and the wait for a GPU polls. So wall time beyond the thread's own CPU
time is time in which somebody else had the core (or the process was stopped), whatever the kernel reports.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from busbw.model.sample import SampleFlag
from busbw.rank.backends.base import Int64Array

# Interrupts and clock ticks take microseconds; a time slice of another process takes milliseconds.
LEAST_NS: Final = 200_000
# NTP steers by 500 ppm at most; reading four clocks one after another takes microseconds.
STEP_NS: Final = 1_000_000
STEP_SHARE: Final = 0.002
_TRIES: Final = 5
_QUICK_NS: Final = 50_000
# A sample that lost its core is longer than the others by what was lost; smaller excesses are noise.
_LEAST_EXCESS: Final = 0.1
_LEAST_EXCESS_NS: Final = 100_000
# The loss is measured from outside the loop, an excess against the median: they agree to about this.
_SLACK_NS: Final = 100_000


@dataclass(frozen=True)
class CoreClock:
    """One reading of the host's clocks, in nanoseconds. ``raw_ns`` is not steered by NTP, ``boot_ns`` goes on
    while the machine is suspended; over a look all agree with ``wall_ns``, or the wall clock cannot be
    trusted.
    """

    wall_ns: int
    cpu_ns: int
    raw_ns: int
    boot_ns: int

    @staticmethod
    def now() -> CoreClock:
        """The clocks of the calling thread; the quickest of a few tries, as they are read in turn."""
        best, least_ns = None, 0
        for _ in range(_TRIES):
            wall_ns = time.monotonic_ns()
            found = CoreClock(
                wall_ns,
                time.thread_time_ns(),
                time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW),
                time.clock_gettime_ns(time.CLOCK_BOOTTIME),
            )
            took_ns = time.monotonic_ns() - wall_ns
            if best is None or took_ns < least_ns:
                best, least_ns = found, took_ns
            if took_ns < _QUICK_NS:
                break
        assert best is not None
        return best

    def lost_since(self, earlier: CoreClock) -> int:
        """Nanoseconds without a core since then; 0 where it was too little to be sure."""
        lost = (self.wall_ns - earlier.wall_ns) - (self.cpu_ns - earlier.cpu_ns)
        return lost if lost >= LEAST_NS else 0

    def stepped_since(self, earlier: CoreClock) -> bool:
        """Whether the wall clock ran otherwise than the others: a suspended or migrated machine."""
        wall = self.wall_ns - earlier.wall_ns
        others = (self.raw_ns - earlier.raw_ns, self.boot_ns - earlier.boot_ns)
        return any(abs(wall - other) > STEP_NS + STEP_SHARE * wall for other in others)


def flag_lost(elapsed_ns: Int64Array, lost_ns: int) -> Int64Array:
    """Flags of a look's samples on a rank that had no core for ``lost_ns`` of it.

    The longest first, a sample is flagged where the loss that is left explains all that it took longer than
    the median; one that is longer than that was slow by itself and stays. What is left in the end was lost
    beside the samples.
    """
    flags = np.zeros(len(elapsed_ns), np.int64)
    median = float(np.median(elapsed_ns))
    excess = elapsed_ns - median
    unexplained = float(lost_ns)
    for i in np.argsort(-excess, kind="stable"):
        if unexplained < LEAST_NS or excess[i] < max(_LEAST_EXCESS_NS, _LEAST_EXCESS * median):
            break
        if excess[i] <= unexplained + _SLACK_NS:
            flags[i] = SampleFlag.DESCHEDULED
            unexplained -= float(excess[i])
    return flags
