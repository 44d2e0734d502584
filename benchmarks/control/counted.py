"""Rank 0's end of the TCP control channel with its traffic counted, as of simulated ranks.

Counted is what rank 0 hands to ZeroMQ and gets from it: every frame of every message, without the routing id,
which does not leave the process. Simulated ranks say hello and then contribute to every collective call what
rank 0 contributes (to a broadcast nothing), as the packed frames that real ones would send. Rank 0's side is
the real one (NcclWorld, RootLoop, Hub, wire) except for the sockets and the thread. So frames and bytes are
exact for any number of ranks, and the time is that of rank 0's Python alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from queue import SimpleQueue
from typing import Any

import zmq

from busbw._version import __version__
from busbw.model.plain import to_bytes
from busbw.rank.world.channel_root import RootLoop
from busbw.rank.world.nccl import NcclWorld
from busbw.rank.world.sockets import Timing
from busbw.rank.world.wire import Hello, Kind, Message, Op, pack


@dataclass(frozen=True)
class Traffic:
    """Messages, their frames, and bytes of the frames' content."""

    messages: int = 0
    frames: int = 0
    content_bytes: int = 0

    def __sub__(self, before: Traffic) -> Traffic:
        return Traffic(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))

    def plus(self, frame_bytes: Sequence[int]) -> Traffic:
        """With one message more, of frames of these lengths."""
        nbytes = self.content_bytes + sum(frame_bytes)
        return Traffic(self.messages + 1, self.frames + len(frame_bytes), nbytes)


class CountingSocket:
    """A ROUTER whose messages are counted, both ways."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 (a zmq.Socket or what stands for one)
        self._inner = inner
        self.received = Traffic()
        self.sent = Traffic()

    def recv_multipart(self, *arguments: Any, **named: Any) -> list[Any]:  # noqa: ANN401
        """See zmq.Socket; the first frame is the routing id."""
        frames: list[Any] = self._inner.recv_multipart(*arguments, **named)
        self.received = self.received.plus([len(frame) for frame in frames[1:]])
        return frames

    def send_multipart(self, frames: Sequence[Any], *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        """See zmq.Socket; the first frame is the routing id."""
        self._inner.send_multipart(frames, *arguments, **named)
        self.sent = self.sent.plus([len(frame) for frame in frames[1:]])


class _Frame:
    """What pyzmq gives for a frame that is received without a copy."""

    def __init__(self, content: bytes | memoryview, fd: int) -> None:
        self._content = content
        self._fd = fd

    def __len__(self) -> int:
        return len(self._content)

    @property
    def bytes(self) -> bytes:
        # A copy, as of a real frame: every rank's contribution takes its own memory.
        return bytes(bytearray(self._content))

    def get(self, _option: int) -> int:
        """The connection's descriptor, the one thing that is asked for."""
        return self._fd


class _Peers:
    """In place of a ROUTER: what all other ranks have sent and rank 0 has not read yet."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: deque[tuple[int, list[bytes | memoryview]]] = deque()

    def say(self, rank: int, message: Message) -> None:
        self._waiting.append((rank, pack(message)))

    def contribute(self, part: Message) -> None:
        frames = pack(part)
        self._waiting.extend((rank, frames) for rank in range(1, self._size))

    def recv_multipart(self, _flags: int, *, copy: bool) -> list[_Frame]:
        assert not copy
        if not self._waiting:
            raise zmq.Again
        rank, frames = self._waiting.popleft()
        return [_Frame(frame, fd=rank) for frame in (rank.to_bytes(5, "little"), *frames)]

    def send_multipart(self, frames: Sequence[bytes]) -> None:
        """They need not read what they are told: they have no decisions to make."""


@dataclass(frozen=True)
class _Connection:
    socket: Any
    monitor: None = None

    def next_event(self) -> None:
        """No connection is ever lost."""


class _Thread:
    def join(self) -> None:
        """There is none: the loop works when something is posted."""


class _Link:
    """In place of the queues between the main thread and the channel's."""

    def __init__(self, peers: _Peers) -> None:
        self.inbox: SimpleQueue[Any] = SimpleQueue()
        self.loop: Any = None
        self._peers = peers

    def post(self, wish: Message) -> None:
        if wish.kind is Kind.BYE:
            return
        # A broadcast needs its root only.
        if wish.kind is Kind.PART and wish.op is not Op.BROADCAST:
            self._peers.contribute(wish)
        self.loop._obey(wish)
        self.loop._receive_all()

    def close(self) -> None:
        """Nothing to close."""


class _Context:
    def term(self) -> None:
        """Nothing to end."""


def simulated_world(size: int, *, counted: bool = True) -> tuple[NcclWorld, CountingSocket]:
    """Rank 0 of a world with ``size`` - 1 simulated ranks, eight a host, and what it has counted so far.

    Not ``counted``, so that the count takes no time, the traffic stays 0.
    """
    peers = _Peers(size)
    socket = CountingSocket(peers)
    link: Any = _Link(peers)
    connection: Any = _Connection(socket if counted else peers)
    hellos = [
        Hello(__version__, size, rank, f"node{rank // 8:04}", 10_000 + rank, rank % 8) for rank in range(size)
    ]
    loop: Any = RootLoop(connection, link, print, Timing(), hellos[0])
    loop.thread = _Thread()
    link.loop = loop
    for hello in hellos[1:]:
        peers.say(hello.rank, Message(Kind.HELLO, to_bytes(hello)))
    loop._receive_all()
    context: Any = _Context()
    return NcclWorld(context, link, loop, "simulated", hellos[0]), socket
