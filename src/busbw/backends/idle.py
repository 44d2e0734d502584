"""Cases without communication: one in which this rank takes no part, as it belongs to none of the groups."""

from __future__ import annotations

import sys

import numpy as np

from busbw.backends.base import CheckOutcome, Int64Array, Look


class WithoutData:
    """What cases that communicate nothing have alike; how long they take is theirs to say."""

    slots = 1
    max_calls = sys.maxsize
    calls_per_issue = 1

    def load(self, seed: int, slot: int) -> None:
        """No data."""

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """Nothing arrived, nothing can be wrong."""
        return CheckOutcome(0, -1, 0)

    def tensors(self, seed: int, slot: int, first_wrong: int) -> bytes:
        """No data."""
        del seed, slot, first_wrong
        return b""

    def run(self, slot: int, calls: int = 1) -> None:
        """Nothing."""

    def run_checked(self, seed: int, slot: int) -> CheckOutcome:
        """See PreparedCase."""
        self.run(slot)
        return self.check(seed, slot)

    def close(self) -> None:
        """Nothing."""


class IdleCase(WithoutData):
    """Issues nothing and takes no time; the looks say so, or they would be the fastest of all."""

    def __init__(self, calls_per_issue: int = 1) -> None:
        self.calls_per_issue = calls_per_issue

    def time(self, lead: int, samples: int, k: int) -> Look:
        """No time."""
        del lead, k
        none = np.zeros(samples, np.int64)
        return Look(none, none, took_part=False)

    def time_isolated(self, samples: int, delay_ns: Int64Array | None, *, barrier: bool) -> Look:
        """No time."""
        del delay_ns, barrier
        return self.time(0, samples, 1)

    def time_loop(self, calls: int) -> int:
        """No time."""
        del calls
        return 0
