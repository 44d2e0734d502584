"""The world without MPI: rank and size from the launcher's environment, control traffic over TCP, but
barriers and reductions over memory where all ranks share some (``board``).

The channel is authenticated and encrypted by ZeroMQ CURVE with a key derived from the job's token. A rank
that dies is named within moments (closed connection) or, when its host vanishes, after eleven seconds
(heartbeat, but with --stall off). A stopped process does not answer either: its watcher names it before.
The measured traffic never comes here.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from queue import Empty
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import zmq

from busbw._version import __version__
from busbw.errors import BusbwError, LauncherMismatch, RankFailed, UsageError
from busbw.rank.progress import asking, keeps_hangs
from busbw.rank.world import sockets
from busbw.rank.world.base import (
    Member,
    Number,
    OnFailure,
    PeerFailure,
    WorldKind,
    reducible,
    this_member,
)
from busbw.rank.world.board import MOST_NUMBERS, Board, share
from busbw.rank.world.channel import Link, Loop, PeerLoop
from busbw.rank.world.channel_root import RootLoop, reduce_rows
from busbw.rank.world.sockets import Timing
from busbw.rank.world.wire import Hello, Kind, Message, Op, Welcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from busbw.rank.world.identity import Identity

# What rank 0 collects of one reduction, from all ranks together: longer vectors go in several calls, so that
# its memory does not grow with ranks x samples. With 2,160 ranks that is 30 KiB of each, twice what the
# longest look of an adaptively sampled case needs.
HUB_BYTES = 1 << 26
_NOTHING = np.empty(0, np.int64)
# How long fail() waits for rank 0's answer, the proof that the others have been told.
_FAIL_ANSWER_S = 2.0


def connect(identity: Identity, on_failure: OnFailure, timing: Timing | None = None) -> NcclWorld:
    """Meet the other ranks at the root address; returns when all are there.

    ``timing`` defaults to ``Timing()`` with BUSBW_CONNECT_TIMEOUT (seconds); with --stall off nobody is lost
    by silence. Raises ``LauncherMismatch``
    where the ranks do not form one world, ``SiteError`` where rank 0 cannot listen or be reached,
    ``RankFailed`` where a rank dies or does not arrive; the message names it.
    """
    if timing is None:
        timing = Timing(connect_s=_connect_timeout_s(os.environ.get("BUSBW_CONNECT_TIMEOUT")))
        timing = replace(timing, heartbeat_interval_s=0.0) if keeps_hangs() else timing
    context: sockets.Context = zmq.Context()
    link = Link()
    try:
        hello = _hello(identity)
        if hello.rank == 0:
            connection = sockets.listen(context, identity, hello.size, timing)
        else:
            connection = sockets.join(context, identity, f"rank {hello.rank} on {hello.host}", timing)
    except BusbwError:
        context.term()
        link.close()
        raise
    end: type[Loop] = RootLoop if hello.rank == 0 else PeerLoop
    loop = end(connection, link, on_failure, timing, hello)
    loop.thread.start()
    world = NcclWorld(context, link, loop, identity.launcher, hello)
    try:
        world.board = share(world)
    except BusbwError:
        world.close()
        raise
    return world


def chunk_elements(size: int) -> int:
    """How many numbers of 8 bytes one call of a reduction carries at most, among ``size`` ranks."""
    return max(1, HUB_BYTES // (8 * size))


def _connect_timeout_s(text: str | None) -> float:
    if not text:
        return Timing().connect_s
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"BUSBW_CONNECT_TIMEOUT={text!r} is not a time", hint="give seconds, such as 120")
    return seconds


def _hello(identity: Identity) -> Hello:
    if identity.size is None:
        raise LauncherMismatch(
            f"{identity.launcher} does not say how many ranks there are, and there is no MPI to ask",
            hint="use --world mpi, or set BUSBW_RANK and BUSBW_WORLD_SIZE",
        )
    if not identity.root_host:
        raise LauncherMismatch(
            f"{identity.launcher} does not say where rank 0 is, and there is no MPI to ask",
            hint="set BUSBW_ROOT=host:port to an address of rank 0's host, the same for every rank",
        )
    me = this_member(identity.rank, 0)
    return Hello(__version__, identity.size, me.rank, me.host, me.pid, identity.local_rank)


class NcclWorld:
    """The ranks of one token; see ``base.World`` for the contract. Main thread only, ``fail`` included."""

    def __init__(self, context: sockets.Context, link: Link, loop: Loop, launcher: str, hello: Hello) -> None:
        self._context = context
        self._link = link
        self._loop = loop
        self._calls = 0
        self._failed: PeerFailure | None = None
        self._closed = False
        self.board: Board | None = None
        self.kind: WorldKind = "nccl"
        self.rank = hello.rank
        self.size = hello.size
        self.launcher = launcher
        self._host = hello.host
        welcome = link.inbox.get()
        if not isinstance(welcome, Welcome):
            self.close()
            self._take_failure(welcome)
        self.members: tuple[Member, ...] = welcome.members

    def barrier(self) -> None:
        if self.board is not None:
            self._meet(self.board, Op.BARRIER, _NOTHING)
        else:
            self._call(Op.BARRIER, b"")

    def broadcast(self, data: bytes | None) -> bytes:
        return self._call(Op.BROADCAST, data or b"").body

    def max(self, values: NDArray[Number]) -> NDArray[Number]:
        return self._reduce("MAX", values)

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        return self._reduce("SUM", values)

    def gather(self, data: bytes) -> list[bytes] | None:
        if self.rank == 0:
            return list(self._call(Op.GATHER, data).parts or ())
        with asking():  # counted as on rank 0, which waits for it
            self._contribute(Op.GATHER, data)
        return None

    def fail(self, message: str) -> NoReturn:
        error = RankFailed(message, rank=self.rank, host=self._host)
        if self._failed is None and not self._closed:
            self._link.post(Message(Kind.FAIL, message.encode()))
            with contextlib.suppress(Empty):
                self._failed = self._next_failure(_FAIL_ANSWER_S)
        raise error

    def close(self) -> None:
        """Leave. Rank 0 stays until all have left, 10 s at most; a rank that dies meanwhile is reported."""
        if self._closed:
            return
        self._closed = True
        self._link.post(Message(Kind.BYE))
        self._loop.thread.join()
        self._context.term()
        self._link.close()

    def _reduce(self, name: str, values: NDArray[Number]) -> NDArray[Number]:
        send = reducible(values)
        flat, op = send.reshape(-1), Op[f"{name}_{send.dtype.name.upper()}"]
        step = chunk_elements(self.size) if self.board is None else MOST_NUMBERS
        # One call even for nothing: a rank that gives a value where others give none is out of step.
        starts = range(0, max(1, flat.size), step)
        parts = [self._reduce_part(op, flat[start : start + step]) for start in starts]
        return np.concatenate(parts).reshape(send.shape)

    def _reduce_part(self, op: Op, values: NDArray[Number]) -> NDArray[Number]:
        if self.board is not None:
            return reduce_rows(op, self._meet(self.board, op, values))
        return np.frombuffer(self._call(op, values.tobytes()).body, values.dtype)

    def _meet(self, at: Board, op: Op, values: NDArray[Number]) -> NDArray[Number]:
        """The values of each rank, [rank, value]. The channel still brings what has become of the others."""
        self._begin()
        with asking():
            # News are no message of a later call: for that, all would have come.
            if not at.meet(self._calls, op, values, self._link.inbox.empty):
                self._take_failure(self._link.inbox.get())
            calls = at.calls()
            if (calls != calls[0]).any():  # a defect: a rank that differs from rank 0 says so, all hear it
                if (calls[self.rank] != calls[0]).any():
                    self.fail(f"called {op.name} (call {self._calls}), as rank 0 did not")
                self._take_failure(self._next_failure())
        return at.values(values)

    def _begin(self) -> None:
        """The next call."""
        self._calls += 1
        if self._failed is not None:
            self._take_failure(self._failed)

    def _contribute(self, op: Op, body: bytes) -> None:
        self._begin()
        if op is not Op.BROADCAST or self.rank == 0:
            self._link.post(Message(Kind.PART, body, op, self._calls))

    def _call(self, op: Op, body: bytes) -> Message:
        self._contribute(op, body)
        with asking():
            event = self._link.inbox.get()
        if not isinstance(event, Message):
            self._take_failure(event)
        if event.op is not op or event.call != self._calls:
            self.fail(f"called {op.name} (call {self._calls}), as rank 0 did not")
        return event

    def _next_failure(self, timeout_s: float | None = None) -> PeerFailure:
        """What the channel reports next of a rank. Raises Empty where it reports nothing in time."""
        while not isinstance(event := self._link.inbox.get(timeout=timeout_s), PeerFailure):
            pass
        return event

    def _take_failure(self, event: Welcome | Message | PeerFailure) -> NoReturn:
        assert isinstance(event, PeerFailure), "what else comes is the answer to a call"
        self._failed = event
        if event.mismatch:
            hint = "start every rank once, from the same environment, with one BUSBW_TOKEN a job"
            raise LauncherMismatch(event.reason, hint=hint, rank=event.rank, host=event.host)
        raise RankFailed(str(event), rank=event.rank, host=event.host)
