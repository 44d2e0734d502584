"""The exchange of clock readings between two ranks, over MPI point to point.

Persistent requests and a loop of MPI_Test: from Python that takes half the time of blocking Send and Recv.
The child asks as often as it likes and says when it has enough, so the parent has nothing to decide.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import numpy as np

from busbw.world.clock_model import Exchanges, Line

if TYPE_CHECKING:
    from mpi4py import MPI

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
        self._say(_REST)
        self._resting = True
        time.sleep(pause_s)

    def enough(self) -> None:
        """The child's last word."""
        self._say(_ENOUGH)

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

    def _say(self, word: int) -> None:
        self._out[0] = word
        self._send.Start()
        self._send.Wait()

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
