"""The pace of a hunt, from a few messages: how many make a sample, how long waits sleep, and whether a round
fits into its time, which is known before it is run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import ExitCode
from busbw.model.case import Case
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, Hunt
from busbw.rank.backends.base import Backend, Pairs, PreparedCase
from busbw.rank.measure import agreed_call_ns
from busbw.rank.world.base import RefusedTogether, World, gathered
from busbw.rank.world.mpi import MpiWorld
from busbw.units import format_duration, format_size

if TYPE_CHECKING:
    from busbw.rank.process import Deadline

LOOKS: Final = 2  # messages by which the pace is found
_WAYS: Final = {BANDWIDTH: 2, BOTH_WAYS: 1}  # how often a round sends what is sampled
_MOST_CALLS: Final = 1000
# A sleeping wait looks this often in a call: an error of 0.4 % at most, on all alike.
_LOOKS_A_CALL: Final = 256
LEAST_PAUSE_NS: Final = 50_000  # the kernel's own slack; a wait that would sleep less spins
_MOST_PAUSE_NS: Final = 1_000_000
SMALL_PAUSE_NS: Final = 20_000
_SPARE: Final = 2  # of the time that is proposed: small messages come on top, and paces differ


@dataclass(frozen=True)
class Pace:
    """Calls of a sample, and nanoseconds that a wait sleeps between looks; 0: it spins."""

    calls: int
    pause_ns: int


def pace_of(hunt: Hunt, call_ns: float, *, sleeps: bool, slowest: str) -> Pace:
    """From what a message takes in the ``slowest`` pair or group; ``sleeps``: waits always do. Raises
    RefusedTogether where a round takes too long.
    """
    calls = min(_MOST_CALLS, math.ceil(hunt.sample_ns / call_ns))
    refuse_long(hunt, calls, call_ns, slowest)
    pause_ns = min(_MOST_PAUSE_NS, round(call_ns / _LOOKS_A_CALL))
    if sleeps:
        return Pace(calls, max(pause_ns, SMALL_PAUSE_NS))
    is_long = hunt.wait == "auto" and pause_ns >= LEAST_PAUSE_NS
    return Pace(calls, pause_ns if is_long else 0)


def refuse_long(hunt: Hunt, calls: int, call_ns: float, slowest: str = "pair") -> None:
    """Raise RefusedTogether where a round takes longer than it may even if no part is slow. All ranks know
    the same pace, so all raise.
    """
    least_s = least_round_s(hunt, calls, call_ns)
    if least_s <= hunt.timeout_s:
        return
    took, limit, one = map(format_duration, (least_s, hunt.timeout_s, call_ns / 1e9))
    raise RefusedTogether(
        f"a round takes {took} or more, and --round-timeout is {limit}: {format_size(hunt.size_bytes)} takes"
        f" {one} in the slowest {slowest}",
        hint=f"give a smaller -b, or --round-timeout {round(_SPARE * least_s) + 1}s",
        exit_code=ExitCode.UNDECIDED,
    )


def least_round_s(hunt: Hunt, calls: int, call_ns: float) -> float:
    """Seconds that the large messages of the first round take: for the pace, as warm-up, in all samples."""
    ways = 1 if hunt.kind == "rails" else sum(_WAYS.get(metric, 0) for metric in hunt.rules.metrics)
    return (LOOKS + ways * (1 + hunt.samples * calls)) * call_ns / 1e9


class Messages:
    """The calls of a hunt, timed. ``sleeps``: waits always do. What it does is collective over the world."""

    def __init__(self, world: World, hunt: Hunt, backend: Backend, deadline: Deadline) -> None:
        self.world, self.hunt, self.backend, self.deadline = world, hunt, backend, deadline
        shares_cores = False
        if isinstance(world, MpiWorld):
            # Control traffic is not timed, and a rank that spins there takes a core from the ranks that test.
            shares_cores, world.sleeps = world.sleeps, True
        self.sleeps = hunt.wait == "sleep" or (hunt.wait == "auto" and shares_cores)

    @contextmanager
    def prepared(self, case: Case, pairs: Pairs, pause_ns: int) -> Iterator[PreparedCase]:
        """The case, ready for a while; between these pairs where it is a permute."""
        self.backend.pair_up(pairs, pause_ns)
        prepared = self.backend.prepare(case)
        try:
            yield prepared
        finally:
            prepared.close()

    def pace(self, case: Case, pairs: Pairs, slowest: str) -> Pace:
        """How many messages make a sample, and how long a wait may sleep: from a few."""
        with self.prepared(case, pairs, LEAST_PAUSE_NS if self.sleeps else 0) as prepared:
            self.world.barrier()
            call_ns = min(agreed_call_ns(prepared, self.world, 1) for _ in range(LOOKS))
        return pace_of(self.hunt, call_ns, sleeps=self.sleeps, slowest=slowest)

    def everyone(self, doing: str, measure: Callable[[], Any]) -> tuple[list[Any], float] | None:
        """A round, in which each rank does what ``doing`` says: what all have measured, and the seconds that
        it took, on rank 0; None elsewhere.
        """
        start_s = time.monotonic()
        with self.deadline.watch(self.hunt.timeout_s, doing):
            found = gathered(self.world, measure())
            # A rank that left early could not report that a round does not end, and would seem to hang.
            self.world.barrier()
        return None if found is None else (found, round(time.monotonic() - start_s, 4))

    def samples(self, prepared: PreparedCase, calls: int) -> list[float]:
        """Nanoseconds of a call on this rank, in each sample. Every sample begins behind a barrier of all
        ranks: of back-to-back samples, a rank that reads the clock late at the end of one makes the next look
        short.
        """
        prepared.run(0)
        found = []
        for _ in range(self.hunt.samples):
            self.world.barrier()
            found.append(float(prepared.time(0, 1, calls).elapsed_ns[0]) / calls)
        return found
