"""No communication at all: exact, scripted times for tests of everything that comes after measuring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from busbw.backends.base import CheckOutcome, Identity, Look
from busbw.model.case import Case

if TYPE_CHECKING:
    from busbw.world.base import World

# The scripted time of one call: a latency, and a bandwidth of 100 bytes a nanosecond (100 GB/s).
LATENCY_NS = 1000
BYTES_PER_NS = 100


class NullCase:
    """A case whose every call takes LATENCY_NS + size / BYTES_PER_NS, to the nanosecond."""

    slots = 1

    def __init__(self, case: Case) -> None:
        self._call_ns = LATENCY_NS + case.size_bytes // BYTES_PER_NS

    def load(self, seed: int, slot: int) -> None:
        """Nothing moves, so nothing is loaded."""

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """Nothing moved, so nothing can be wrong."""
        return CheckOutcome(0, -1, 0)

    def run(self, slot: int, calls: int = 1) -> None:
        """Nothing."""

    def time(self, lead: int, samples: int, k: int) -> Look:
        """The scripted times."""
        elapsed = np.full(samples, k * self._call_ns, np.int64)
        return Look(elapsed, elapsed)

    def close(self) -> None:
        """Nothing."""


class NullBackend:
    """The scripted backend."""

    name = "null"
    timing_cost_ns = 10.0
    max_samples_per_look = 4096
    identity = Identity(library="null", version="1", path="", device="scripted times")

    def connect(self, world: World) -> None:
        """Nobody to connect to."""

    def prepare(self, case: Case) -> NullCase:
        """A scripted case."""
        return NullCase(case)

    def interrupt(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing to release."""
