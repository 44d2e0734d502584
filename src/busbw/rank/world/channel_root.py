"""Rank 0's end of the control channel: admits ranks, finishes their calls, and names the one that is lost."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import zmq

from busbw.model.plain import from_bytes, to_bytes
from busbw.rank.world.base import Member, Number, PeerFailure
from busbw.rank.world.channel import Loop, loss_reason
from busbw.rank.world.wire import Hello, Kind, Message, Op, Welcome, pack, unpack
from busbw.units import ranges

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


_REDUCTIONS: dict[Op, tuple[np.ufunc, DTypeLike]] = {
    Op.MAX_FLOAT64: (np.maximum, np.float64),
    Op.MAX_INT64: (np.maximum, np.int64),
    Op.SUM_FLOAT64: (np.add, np.float64),
    Op.SUM_INT64: (np.add, np.int64),
}


class OutOfStep(Exception):
    """A rank is in another call than the others, which is a programming error."""


class Hub:
    """Collects a contribution per rank and call. Ranks may be a gather ahead, never out of order."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rounds: dict[int, tuple[Op, dict[int, bytes]]] = {}  # by call: the parts of each rank
        self._last_finished = 0

    def contribute(self, rank: int, op: Op, call: int, body: bytes) -> Message | None:
        """Add a contribution; the outcome if it was the last one missing. Raises ``OutOfStep``."""
        theirs, parts = self._rounds.setdefault(call, (op, {}))
        same_length = op not in _REDUCTIONS or len(body) == len(next(iter(parts.values()), body))
        if call <= self._last_finished or theirs is not op or not same_length:
            raise OutOfStep(f"called {op.name} with {len(body)} bytes (call {call}), as no other rank did")
        parts[rank] = body
        # A broadcast needs its root only.
        if op is not Op.BROADCAST and len(parts) < self._size:
            return None
        del self._rounds[call]
        self._last_finished = call
        return _outcome(op, call, parts)


def _outcome(op: Op, call: int, parts: dict[int, bytes]) -> Message:
    if op is Op.BROADCAST:
        return Message(Kind.RESULT, parts[0], op, call)
    if op is Op.GATHER:
        return Message(Kind.RESULT, b"", op, call, tuple(parts[rank] for rank in sorted(parts)))
    if op is Op.BARRIER:
        return Message(Kind.RESULT, b"", op, call)
    dtype = _REDUCTIONS[op][1]
    rows = np.stack([np.frombuffer(parts[rank], dtype=dtype) for rank in sorted(parts)])
    return Message(Kind.RESULT, reduce_rows(op, rows).tobytes(), op, call)


def reduce_rows(op: Op, rows: NDArray[Number]) -> NDArray[Number]:
    """The reduction over [rank, value]. In rank order, so that a sum of doubles repeats to the last bit."""
    reduced: NDArray[Number] = _REDUCTIONS[op][0].reduce(rows, axis=0)
    return reduced


@dataclass
class _Peer:
    """A rank that said hello. ``present``: neither left nor lost."""

    routing_id: bytes
    fd: int
    hello: Hello
    present: bool = True


class RootLoop(Loop):
    """See ``channel.Loop``. ``hello`` is what rank 0 would say about itself: the others have to match it."""

    def _prepare(self) -> None:
        self._hub = Hub(self._hello.size)
        self._peers: dict[int, _Peer] = {}
        self._ranks: dict[bytes, int] = {}
        self._welcomed = self._leaving = self._delivered = False
        self._failed: PeerFailure | None = None
        self._unconfirmed: set[int] = set()
        self._deadline = time.monotonic() + self._timing.connect_s

    def _obey(self, wish: Message) -> None:
        if wish.kind is not Kind.BYE:
            self._hear(0, wish)
            return
        self._leaving = True
        if self._failed is None:
            self._deadline = time.monotonic() + self._timing.leave_s

    # ---- messages

    def _take(self, frames: list[zmq.Frame]) -> None:
        routing_id, message = frames[0].bytes, unpack([frame.bytes for frame in frames[1:]])
        if message.kind is Kind.HELLO:
            fd = int(frames[-1].get(zmq.SRCFD))
            self._admit(_Peer(routing_id, fd, from_bytes(Hello, message.body)))
        elif (rank := self._ranks.get(routing_id)) is not None:
            self._hear(rank, message)

    def _hear(self, rank: int, message: Message) -> None:
        if message.kind is Kind.PART:
            self._contribute(rank, message)
        elif message.kind is Kind.FAIL:
            self._begin_failure(PeerFailure(rank, self._host_of(rank), message.body.decode()))
        elif message.kind is Kind.GOT:
            self._unconfirmed.discard(rank)
        elif message.kind is Kind.BYE:
            self._peers[rank].present = False

    def _contribute(self, rank: int, message: Message) -> None:
        if self._failed is not None:
            return
        try:
            outcome = self._hub.contribute(rank, message.op, message.call, message.body)
        except OutOfStep as error:
            self._begin_failure(PeerFailure(rank, self._host_of(rank), str(error)))
            return
        if outcome is None:
            return
        if outcome.parts is None:
            self._send_all(outcome)
        self._link.inbox.put(outcome)

    def _host_of(self, rank: int) -> str:
        return self._hello.host if rank == 0 else self._peers[rank].hello.host

    # ---- admission

    def _admit(self, peer: _Peer) -> None:
        # A new connection may have the descriptor of a lost one: settle old losses before it is known under
        # it.
        self._note_lost()
        if refusal := self._refusal(peer.hello):
            self._send(peer, Message(Kind.REFUSED, refusal.encode()))
            if not self._welcomed and self._failed is None:
                self._begin_failure(PeerFailure(peer.hello.rank, peer.hello.host, refusal, mismatch=True))
            return
        if self._failed is not None:
            self._send(peer, Message(Kind.FAILED, to_bytes(self._failed)))
            return
        self._peers[peer.hello.rank] = peer
        self._ranks[peer.routing_id] = peer.hello.rank
        self._send(peer, Message(Kind.SEEN, to_bytes(self._hello.member)))
        if len(self._peers) == self._hello.size - 1:
            self._welcomed, self._deadline = True, None
            hellos = [self._hello, *(self._peers[rank].hello for rank in sorted(self._peers))]
            welcome = Welcome(number_local_ranks(hellos))
            self._send_all(Message(Kind.WELCOME, to_bytes(welcome)))
            self._link.inbox.put(welcome)

    def _refusal(self, hello: Hello) -> str:
        """Why this process has no place in the world, naming both sides; empty if it has one."""
        ours = self._hello
        newcomer = f"rank {hello.rank} on {hello.host} (pid {hello.pid})"
        if hello.version != ours.version:
            return f"{newcomer} runs busbw {hello.version}, rank 0 on {ours.host} runs busbw {ours.version}"
        if hello.size != ours.size:
            return (
                f"{newcomer} was started as one of {hello.size}, rank 0 on {ours.host} as one of {ours.size}"
            )
        holder = ours if hello.rank == 0 else None
        if hello.rank in self._peers:
            holder = self._peers[hello.rank].hello
        if holder is None:
            return ""
        return f"{newcomer} was started twice: the first is on {holder.host} (pid {holder.pid})"

    # ---- losses and the end

    def _ranks_at(self, fd: int) -> set[int]:
        return {rank for rank, peer in self._peers.items() if peer.present and peer.fd == fd}

    def _judge_lost(self, rank: int) -> None:
        peer = self._peers[rank]
        if not peer.present:
            return
        peer.present = False
        self._unconfirmed.discard(rank)
        reason = loss_reason(peer.hello.member, self._hello.host, self._timing)
        self._begin_failure(PeerFailure(rank, peer.hello.host, reason))

    def _begin_failure(self, failure: PeerFailure) -> None:
        """Tell every rank that is left; ``_check_time`` delivers it here once they have read it."""
        if self._failed is not None:
            return
        self._failed = failure
        self._unconfirmed = {rank for rank, peer in self._peers.items() if peer.present}
        self._send_all(Message(Kind.FAILED, to_bytes(failure)))
        # With no rank left to inform, the deadline is now: the next turn of the loop delivers.
        self._deadline = time.monotonic() + (self._timing.tell_s if self._unconfirmed else 0.0)

    def _check_time(self, now: float) -> None:
        late = self._deadline is not None and now >= self._deadline
        if self._failed is not None and not self._delivered:
            if not late and self._unconfirmed:
                return
            self._deadline = None
            self._delivered = True
            self._deliver(self._failed, tell=self._failed.rank != 0)
        if self._leaving:
            if late or self._failed is not None or not any(peer.present for peer in self._peers.values()):
                self._send_all(Message(Kind.BYE))
                self._done = True
        elif late and not self._welcomed and self._failed is None:
            missing = [rank for rank in range(1, self._hello.size) if rank not in self._peers]
            reason = (
                f"{len(missing)} of {self._hello.size} ranks did not arrive within"
                f" {self._timing.connect_s:g} s: {ranges(missing).replace(',', ', ')}"
            )
            self._begin_failure(PeerFailure(missing[0], "", reason))

    # ---- sending

    def _send_all(self, message: Message) -> None:
        frames = pack(message)
        for peer in self._peers.values():
            if peer.present:
                self._send(peer, frames)

    def _send(self, peer: _Peer, message: Message | list[bytes | memoryview]) -> None:
        frames = pack(message) if isinstance(message, Message) else message
        # A rank that has just gone is reported by the monitor, not here.
        with contextlib.suppress(zmq.ZMQError):
            self._socket.send_multipart([peer.routing_id, *frames])


def number_local_ranks(hellos: list[Hello]) -> tuple[Member, ...]:
    """Members in rank order; local ranks that no launcher told are counted per host in that order."""
    seen: dict[str, int] = {}
    members = []
    for hello in hellos:
        count = seen.get(hello.host, 0)
        seen[hello.host] = count + 1
        told = hello.local_rank is not None
        members.append(hello.member if told else replace(hello.member, local_rank=count))
    return tuple(members)
