"""No communication at all: exact, scripted times for tests of everything that comes after measuring."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from busbw.machine.native.core import Rounds
from busbw.model.case import Case
from busbw.rank.backends.base import Backend, Identity, Int64Array, Look, WithoutData

# The scripted time of one call: a latency, and a bandwidth of 100 bytes a nanosecond (100 GB/s).
LATENCY_NS = 1000
BYTES_PER_NS = 100


class NullCase(WithoutData):
    """A case whose every call takes LATENCY_NS + size / BYTES_PER_NS, to the nanosecond."""

    def __init__(self, case: Case) -> None:
        self.call_ns = LATENCY_NS + case.size_bytes // BYTES_PER_NS

    def time(self, lead: int, samples: int, k: int) -> Look:
        """The scripted times; no rank is late where calls are single."""
        elapsed = np.full(samples, k * self.call_ns, np.int64)
        return Look(elapsed, elapsed)

    def time_isolated(self, samples: int, delay_ns: Int64Array | None, *, barrier: bool) -> Look:
        return self.time(0, samples, 1)

    def time_loop(self, calls: int) -> int:
        return calls * self.call_ns


class NullBackend(Backend):
    """The scripted backend."""

    name = "null"
    timing_cost_ns = 10.0
    max_samples_per_look = 4096
    identity = Identity(library="null", version="1", path="", device="scripted times")

    def prepare(self, case: Case) -> NullCase:
        return NullCase(case)

    def together(
        self, prepared: Sequence[NullCase], calls: Sequence[int], slot: int, lead: int, rounds: int
    ) -> Rounds:
        """The scripted times: all begin at 0, and none is slowed down by the others."""
        elapsed = [[k * case.call_ns] * rounds for case, k in zip(prepared, calls, strict=True)]
        end = np.array(elapsed, np.int64)
        return Rounds(np.zeros_like(end), end, end)
