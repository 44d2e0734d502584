"""The world without MPI: rank and size from the launcher's environment, control traffic over TCP.

The channel is authenticated and encrypted by ZeroMQ CURVE with a key derived from the job's token. A rank
that dies is named within moments (closed connection) or, when its host vanishes, after eleven seconds
(heartbeat, but with --stall off). A stopped process does not answer either: its watcher names it before.
The measured traffic never comes here.
"""

from __future__ import annotations

import os
from dataclasses import replace
from queue import Empty
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import zmq

from busbw._version import __version__
from busbw.errors import BusbwError, LauncherMismatch, RankFailed, SiteError, UsageError
from busbw.rank.progress import asking, keeps_hangs
from busbw.rank.world import sockets
from busbw.rank.world.base import Member, Number, OnFailure, WorldKind, reducible, this_member
from busbw.rank.world.channel import Link, Loop, PeerLoop
from busbw.rank.world.channel_root import RootLoop
from busbw.rank.world.sockets import Timing
from busbw.rank.world.wire import Failed, Hello, Kind, Message, Op, Welcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from busbw.rank.world.identity import Identity

_REDUCTIONS = {
    ("max", "float64"): Op.MAX_FLOAT64,
    ("max", "int64"): Op.MAX_INT64,
    ("sum", "float64"): Op.SUM_FLOAT64,
    ("sum", "int64"): Op.SUM_INT64,
}
# What rank 0 collects of one reduction, from all ranks together: longer vectors go in several calls, so that
# its memory does not grow with ranks x samples. With 2,160 ranks that is 30 KiB of each, twice what the
# longest look of an adaptively sampled case needs.
HUB_BYTES = 1 << 26
# How long fail() waits for rank 0's answer, the proof that the others have been told.
_FAIL_ANSWER_S = 2.0


def connect(identity: Identity, on_failure: OnFailure, timing: Timing | None = None) -> NcclWorld:
    """Meet the other ranks at the root address; returns when all are there.

    ``timing`` defaults to ``Timing()`` with BUSBW_CONNECT_TIMEOUT (seconds); with --stall off nobody is lost
    by silence. Raises ``LauncherMismatch``
    where the ranks do not form one world, ``SiteError`` where rank 0 cannot listen or be reached,
    ``RankFailed`` where a rank dies or does not arrive; the message names it.
    """
    timing = timing or _timing(os.environ.get("BUSBW_CONNECT_TIMEOUT"))
    context: sockets.Context = zmq.Context()
    link = Link()
    try:
        hello, loop = _loop(context, identity, link, on_failure, timing)
    except BusbwError:
        context.term()
        link.close()
        raise
    loop.thread.start()
    return NcclWorld(context, link, loop, identity.launcher, hello)


def chunk_elements(size: int) -> int:
    """How many numbers of 8 bytes one call of a reduction carries at most, among ``size`` ranks."""
    return max(1, HUB_BYTES // (8 * size))


def _timing(connect_timeout: str | None) -> Timing:
    timing = Timing(connect_s=_connect_timeout_s(connect_timeout))
    return replace(timing, heartbeat_interval_s=0.0) if keeps_hangs() else timing


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


def _loop(
    context: sockets.Context, identity: Identity, link: Link, on_failure: OnFailure, timing: Timing
) -> tuple[Hello, Loop]:
    hello = _hello(identity)
    if hello.rank == 0:
        connection = sockets.listen(context, identity, hello.size, timing)
        return hello, RootLoop(connection, link, on_failure, timing, hello)
    connection = sockets.join(context, identity, f"rank {hello.rank} on {hello.host}", timing)
    return hello, PeerLoop(connection, link, on_failure, timing, hello)


class NcclWorld:
    """The ranks of one token; see ``base.World`` for the contract. Main thread only, ``fail`` included."""

    def __init__(self, context: sockets.Context, link: Link, loop: Loop, launcher: str, hello: Hello) -> None:
        self._context = context
        self._link = link
        self._loop = loop
        self._calls = 0
        self._failed: Failed | None = None
        self._closed = False
        self.kind: WorldKind = "nccl"
        self.rank = hello.rank
        self.size = hello.size
        self.launcher = launcher
        self._host = hello.host
        try:
            self.members = self._await_welcome()
        except BusbwError:
            self.close()
            raise

    def barrier(self) -> None:
        self._call(Op.BARRIER, b"")

    def broadcast(self, data: bytes | None) -> bytes:
        if self.rank == 0 and data is None:
            raise ValueError("rank 0 has to give the data that it broadcasts")
        return self._call(Op.BROADCAST, data or b"").body

    def max(self, values: NDArray[Number]) -> NDArray[Number]:
        return self._reduce("max", values)

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        return self._reduce("sum", values)

    def gather(self, data: bytes) -> list[bytes] | None:
        if self.rank == 0:
            return list(self._call(Op.GATHER, data).parts or ())
        self._calls += 1
        self._raise_if_failed()
        with asking():  # counted as on rank 0, which waits for it
            self._link.post(Message(Kind.PART, data, Op.GATHER, self._calls))
        return None

    def fail(self, message: str) -> NoReturn:
        error = RankFailed(message, rank=self.rank, host=self._host)
        if self._failed is None and not self._closed:
            self._link.post(Message(Kind.FAIL, message.encode()))
            try:
                while not isinstance(event := self._link.inbox.get(timeout=_FAIL_ANSWER_S), Failed):
                    pass
                self._failed = event
            except Empty:
                pass
        raise error

    def close(self) -> None:
        """Leave. Rank 0 stays until the others have left, at most 10 s; a rank that dies meanwhile is
        reported.
        """
        if self._closed:
            return
        self._closed = True
        self._link.post(Message(Kind.BYE))
        self._loop.thread.join()
        self._context.term()
        self._link.close()

    def _await_welcome(self) -> tuple[Member, ...]:
        event = self._link.inbox.get()
        if not isinstance(event, Welcome):
            self._take_failure(event)
        return event.members

    def _reduce(self, name: str, values: NDArray[Number]) -> NDArray[Number]:
        send = reducible(values)
        flat = send.astype(send.dtype.newbyteorder("<"), copy=False).reshape(-1)
        op, step = _REDUCTIONS[name, send.dtype.name], chunk_elements(self.size)
        # One call even for nothing: a rank that gives a value where others give none is out of step.
        starts = range(0, max(1, flat.size), step)
        bodies = [self._call(op, flat[start : start + step].tobytes()).body for start in starts]
        received = np.frombuffer(b"".join(bodies), dtype=flat.dtype)
        return received.astype(send.dtype).reshape(send.shape)

    def _call(self, op: Op, body: bytes) -> Message:
        self._calls += 1
        self._raise_if_failed()
        if op is not Op.BROADCAST or self.rank == 0:
            self._link.post(Message(Kind.PART, body, op, self._calls))
        with asking():
            event = self._link.inbox.get()
        if not isinstance(event, Message):
            self._take_failure(event)
        if event.op is not op or event.call != self._calls:
            theirs = f"rank 0 finished {event.op.name} (call {event.call})"
            self.fail(f"called {op.name} (call {self._calls}) where {theirs}")
        return event

    def _take_failure(self, event: Welcome | Message | Failed) -> NoReturn:
        if not isinstance(event, Failed):
            raise TypeError(f"unexpected event {event!r}")
        self._failed = event
        raise self._error(event)

    def _raise_if_failed(self) -> None:
        if self._closed:
            raise SiteError("the world is closed")
        if self._failed is not None:
            raise self._error(self._failed)

    @staticmethod
    def _error(failed: Failed) -> BusbwError:
        failure = failed.failure
        if failed.mismatch:
            hint = "start every rank once, from the same environment, with one BUSBW_TOKEN a job"
            return LauncherMismatch(failure.reason, hint=hint, rank=failure.rank, host=failure.host)
        return RankFailed(str(failure), rank=failure.rank, host=failure.host)
