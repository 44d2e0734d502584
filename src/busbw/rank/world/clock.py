"""One clock for all ranks of an MPI world, and how wrong it may be.

``CLOCK_MONOTONIC`` counts from each machine's start, at each machine's rate; steps of the wall clock do not
touch it. Ranks of one machine share it. One rank of each machine learns its offset and drift against rank 0's
clock, over a tree; then its error is measured anew, directly against rank 0. See docs/concepts/clocks.md.

    clock = synchronise(world)
    ... measure, keep local readings ...
    check = recheck(world, clock)       # what the readings since then are worth: max of both error_ns
    if check.renew:
        clock = synchronise(world)
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from busbw.rank.world.clock_model import (
    IDENTITY,
    Exchanges,
    Int64Array,
    Line,
    Offset,
    children_of,
    fit,
    leaders_of,
    offset,
    parent_of,
    path_drift_error,
)

if TYPE_CHECKING:
    from mpi4py import MPI

    from busbw.rank.world.mpi import MpiWorld

ReadNs = Callable[[], int]
"""Reads this rank's local clock, in ns."""


# The world's communicator carries collectives otherwise, which have no tags.
_TAG = 1
_ANSWER, _REST, _ENOUGH = 1, 2, 0
# An exchange is spun for, this long: more than a round trip inside a cluster. All other waits (for a turn in
# the tree, between bursts) are slept through, because where ranks outnumber cores they would disturb those
# that measure.
_SPIN_S = 5e-3
_POLL_INTERVAL_S = 250e-6


class Pair:
    """This rank's end of the exchange with ``peer``; both ends exist for the same time."""

    def __init__(self, comm: MPI.Intracomm, peer: int, read_ns: ReadNs) -> None:
        self._read_ns = read_ns
        # Reading an element through the view takes a third of the time that the array takes.
        self._out = np.zeros(1, dtype=np.int64).data
        self._in = np.zeros(1, dtype=np.int64).data
        self._send = comm.Send_init(self._out, peer, _TAG)
        self._receive = comm.Recv_init(self._in, peer, _TAG)
        self._resting = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._send.Free()
        self._receive.Free()

    def burst(self, count: int, least: int, limit_s: float) -> Exchanges:
        """The child's side: up to ``count`` exchanges, and only ``least`` once ``limit_s`` is over.

        The limit is counted by the machine's clock, which is not the one under test, and from the first
        answer: before it the parent may be busy with others.
        """
        readings = [self._ask()]
        until = time.monotonic() + limit_s
        while len(readings) < count and (len(readings) < least or time.monotonic() < until):
            readings.append(self._ask())
        sent, answered, received = np.array(readings, dtype=np.int64).T
        return Exchanges(sent, answered, received)

    def rest(self, pause_s: float) -> None:
        """The child's side: both ends sleep."""
        self.say(_REST)
        self._resting = True
        time.sleep(pause_s)

    def say(self, word: int) -> None:
        """The child's side: something that is not answered."""
        self._out[0] = word
        self._send.Start()
        self._send.Wait()

    def answer(self, line: Line) -> None:
        """The parent's side: answer with global time, ``line`` of the local one, until told to stop."""
        self._receive.Start()
        while True:
            self._wait()
            word = self._in[0]
            if word == _ANSWER:
                self._out[0] = line.at(self._read_ns())
                self._send.Start()
                self._receive.Start()
                self._send.Wait()
            elif word == _REST:
                self._resting = True
                self._receive.Start()
            else:
                return

    def _ask(self) -> tuple[int, int, int]:
        self._out[0] = _ANSWER
        self._receive.Start()
        sent_ns = self._read_ns()
        self._send.Start()
        self._wait()
        received_ns = self._read_ns()
        self._send.Wait()
        return sent_ns, self._in[0], received_ns

    def _wait(self) -> None:
        arrived, give_way = self._receive.Test, os.sched_yield
        until = 0.0 if self._resting else time.monotonic() + _SPIN_S
        while not arrived():
            if time.monotonic() < until:
                # Both ends may have been put on one core: without it, that takes a time slice each way (3 ms
                # instead of 10 us).
                give_way()
            else:
                time.sleep(_POLL_INTERVAL_S)
        self._resting = False


VALID_NS = 10_000_000_000
"""A line is used for 10 s: oscillators and NTP's frequency corrections change in tens of seconds."""

# The slope's error falls with the length of the fit and with the root of the points. Idle, the middle of a
# burst scatters by some 40 ns: 32 points over 0.25 s give a slope to 0.1 ppm, which is 1 us after 10 s.
_FIT_POINTS, _LEAST_POINTS = 32, 6
_FIT_S = 0.25
_BURST, _LEAST_IN_BURST, _BURST_S = 50, 3, 10e-3
# The published bound comes from here, and rank 0 does it with one machine after another.
_CHECK, _LEAST_IN_CHECK, _CHECK_S = 100, 5, 20e-3

_LINE = struct.Struct("<qqdd")


@dataclass(frozen=True, slots=True)
class GlobalClock:
    """This rank's way from its local clock to rank 0's, in ns.

    ``error_ns`` bounds the difference to rank 0's clock for every rank of the world, at the moment of
    ``made_ns`` (local time), as re-measured after the fit; it is equal on all ranks, so two ranks' times
    differ by at most twice that. ``own_error_ns`` is this rank's part. ``drift_error`` (1e-6 is 1 ppm) is how
    fast the bound may grow until ``recheck`` says how it did. ``leader_of[r]`` is the rank whose clock rank r
    shares.
    """

    line: Line
    made_ns: int
    error_ns: float
    own_error_ns: float
    drift_error: float
    leader_of: tuple[int, ...]

    def to_global(self, local_ns: Int64Array) -> Int64Array:
        """Rank 0's clock at the given local readings (int64, any shape)."""
        return self.line.of(local_ns)

    def promised_ns(self, local_ns: int) -> float:
        """What this rank's error should not exceed at a local time, if its clock runs evenly."""
        return self.own_error_ns + self.drift_error * abs(local_ns - self.made_ns)


@dataclass(frozen=True, slots=True)
class Recheck:
    """A re-measurement of a clock's error, equal on all ranks.

    ``error_ns`` bounds every rank's error now; with evenly running clocks the errors between two checks are
    bounded by the larger of both. ``excess_ns`` > 0: a clock stepped or changed its rate, and was at least
    that much beyond what it promised. ``rank`` has that clock, or else the largest error.
    """

    error_ns: float
    excess_ns: float
    rank: int
    expired: bool

    @property
    def renew(self) -> bool:
        return self.expired or self.excess_ns > 0


def synchronise(
    world: MpiWorld, read_ns: ReadNs = time.monotonic_ns, *, separate: bool = False
) -> GlobalClock:
    """A clock that agrees with rank 0's on every rank. Collective; a quarter of a second for each doubling of
    the machines.

    ``read_ns`` is the local clock, and must be the one whose readings are converted later. With ``separate``
    every rank counts as a machine of its own, for tests.
    """
    source = f"rank {world.rank}" if separate else clock_source(world.rank)
    leader_of = leaders_of(_everyone(world, hashlib.sha256(source.encode()).digest()))
    leaders = sorted(set(leader_of))
    own = _climb(world, leaders, read_ns)
    packed = _LINE.pack(own.origin_ns, own.offset_ns, own.drift, own.drift_error)
    lines = [Line(*_LINE.unpack(each)) for each in _everyone(world, packed)]
    line = lines[leader_of[world.rank]]
    drift_errors = [lines[leader].drift_error for leader in leaders]
    found = _against_root(world, leaders, line, read_ns)
    errors = _gather_to_all(world, [found.error_ns if found else 0.0])[:, 0]
    return GlobalClock(
        line=line,
        # Ranks that share a leader's clock were measured with it, a moment ago.
        made_ns=found.at_ns if found else read_ns(),
        error_ns=float(errors.max()),
        own_error_ns=float(errors[leader_of[world.rank]]),
        drift_error=max(path_drift_error(place, drift_errors) for place in range(len(leaders))),
        leader_of=leader_of,
    )


def recheck(world: MpiWorld, clock: GlobalClock, read_ns: ReadNs = time.monotonic_ns) -> Recheck:
    """Measure the clock's error again, directly against rank 0, one machine after another. Collective; about
    a millisecond for each machine.
    """
    found = _against_root(world, sorted(set(clock.leader_of)), clock.line, read_ns)
    error_ns = float(found.error_ns) if found else 0.0
    excess_ns = found.excess_ns(clock.promised_ns(found.at_ns)) if found else 0.0
    expired = float(read_ns() > clock.made_ns + VALID_NS)
    return worst_of(_gather_to_all(world, [error_ns, excess_ns, expired]))


def worst_of(table: npt.NDArray[np.float64]) -> Recheck:
    """The finding for the world; ``table`` has a row (error_ns, excess_ns, expired) for each rank."""
    error_ns, excess_ns, expired = table.max(axis=0)
    # A far machine may have a larger error than the one whose clock is broken.
    blamed = table[:, 1] if excess_ns > 0 else table[:, 0]
    return Recheck(float(error_ns), float(excess_ns), int(blamed.argmax()), expired=bool(expired))


def clock_source(rank: int, root: str = "/") -> str:
    """What ranks that share ``CLOCK_MONOTONIC`` have in common: a kernel's start, its clock source and the
    time namespace, which may have an offset of its own.

    Host names do not show it: network namespaces and containers have their own. Where the kernel does not
    say, a text that no other rank has; the rank then learns its clock as on another machine.
    """
    try:
        boot = Path(root, "proc/sys/kernel/random/boot_id").read_text()
        source = Path(root, "sys/devices/system/clocksource/clocksource0/current_clocksource").read_text()
        namespace = Path(root, "proc/self/ns/time").readlink()
    except OSError:
        return f"rank {rank}"
    return f"{boot.strip()} {source.strip()} {namespace}"


def _climb(world: MpiWorld, leaders: list[int], read_ns: ReadNs) -> Line:
    """Learn the global time from the parent in the tree, then answer the children with it."""
    if world.rank not in leaders:
        return IDENTITY
    place = leaders.index(world.rank)
    line = IDENTITY
    if place > 0:
        with Pair(world.comm, leaders[parent_of(place)], read_ns) as pair:
            line = fit(_bursts(pair))
            pair.say(_ENOUGH)
    for child in children_of(place, len(leaders)):
        _answer(world, leaders[child], line, read_ns)
    return line


def _bursts(pair: Pair) -> list[Exchanges]:
    """The points of one fit, spread over ``_FIT_S``; over slow links or busy cores fewer, and longer."""
    # The first waits until the parent is free, however long that takes.
    bursts = [pair.burst(_BURST, _LEAST_IN_BURST, _BURST_S)]
    until = time.monotonic() + _FIT_S
    while time.monotonic() < until or len(bursts) < _LEAST_POINTS:
        pair.rest(_FIT_S / _FIT_POINTS)
        bursts.append(pair.burst(_BURST, _LEAST_IN_BURST, _BURST_S))
    return bursts


def _against_root(world: MpiWorld, leaders: list[int], line: Line, read_ns: ReadNs) -> Offset | None:
    """What is known now of this rank's error; None for rank 0 and for those that share a leader's clock.

    Not over the tree: its errors would add up in the bound.
    """
    if world.rank == 0:
        for leader in leaders[1:]:
            _answer(world, leader, IDENTITY, read_ns)
        return None
    if world.rank not in leaders:
        return None
    with Pair(world.comm, 0, read_ns) as pair:
        burst = pair.burst(_CHECK, _LEAST_IN_CHECK, _CHECK_S)
        pair.say(_ENOUGH)
    return offset(burst, line)


def _answer(world: MpiWorld, peer: int, line: Line, read_ns: ReadNs) -> None:
    with Pair(world.comm, peer, read_ns) as pair:
        pair.answer(line)


def _gather_to_all(world: MpiWorld, row: list[float]) -> npt.NDArray[np.float64]:
    """Every rank's row, shape (ranks, columns), on every rank."""
    rows = _everyone(world, np.array(row, dtype=np.float64).tobytes())
    return np.array([np.frombuffer(each, dtype=np.float64) for each in rows])


def _everyone(world: MpiWorld, own: bytes) -> list[bytes]:
    """Every rank's bytes, as many of each, on every rank."""
    parts = world.gather(own)
    told = world.broadcast(None if parts is None else b"".join(parts))
    return [told[at : at + len(own)] for at in range(0, len(told), len(own))]
