"""The control channel without MPI: one thread owns the sockets, the main thread talks to it over queues.

Rank 0 runs ``channel_root.RootLoop``, every other rank ``PeerLoop``. The thread sleeps in poll()
except when a message passes, so it takes nothing from the measurement; liveness is ZeroMQ's own heartbeat,
answered by its C thread even while Python is inside a long native call.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from abc import ABC, abstractmethod
from queue import SimpleQueue

import zmq

from busbw.machine import processes
from busbw.model.plain import from_bytes, to_bytes
from busbw.rank.world.base import Member, OnFailure, PeerFailure
from busbw.rank.world.sockets import Connection, Timing
from busbw.rank.world.wire import Hello, Kind, Message, Welcome, pack, unpack


class Link:
    """Two queues between the main thread and the channel thread, and a pipe that wakes its poll()."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[Welcome | Message | PeerFailure] = SimpleQueue()
        self._wishes: SimpleQueue[Message] = SimpleQueue()
        self.wake_fd, self._wake_write_fd = os.pipe()
        os.set_blocking(self.wake_fd, False)

    def post(self, wish: Message) -> None:
        """What the main thread wants, as a message to rank 0: PART, FAIL or BYE."""
        self._wishes.put(wish)
        os.write(self._wake_write_fd, b"\0")

    def take(self) -> list[Message]:
        """All that was posted so far, in order."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_fd, 4096)
        wishes = []
        while not self._wishes.empty():
            wishes.append(self._wishes.get())
        return wishes

    def close(self) -> None:
        os.close(self.wake_fd)
        os.close(self._wake_write_fd)


class Loop(ABC):
    """What both kinds of channel thread share: poll, then wishes, messages, lost connections, deadlines."""

    def __init__(
        self, connection: Connection, link: Link, on_failure: OnFailure, timing: Timing, hello: Hello
    ) -> None:
        self._connection = connection
        self._socket = connection.socket
        self._link = link
        self._on_failure = on_failure
        self._timing = timing
        self._hello = hello
        self._deadline: float | None = None
        self._done = False
        self._lost = set[int]()  # ranks whose connection has ended, until that is judged
        self.thread = threading.Thread(target=self._run, name="busbw-control", daemon=True)
        self._prepare()

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            # A defect here must not leave the main thread waiting for ever.
            self._link.inbox.put(self._failure(f"the control channel broke: {error!r}"))
            raise
        finally:
            self._connection.close(self._timing.linger_s)

    def _loop(self) -> None:
        poller, socket = zmq.Poller(), self._connection.socket
        for source in (socket, self._connection.monitor, self._link.wake_fd):
            poller.register(source, zmq.POLLIN)
        while not self._done:
            timeout_ms: int | None = None
            if self._deadline is not None:
                timeout_ms = max(0, int((self._deadline - time.monotonic()) * 1000) + 1)
            ready = dict(poller.poll(timeout_ms))
            for wish in self._link.take() if self._link.wake_fd in ready else ():
                self._obey(wish)
            if self._has_left():
                return  # rank 0 leaves with the last goodbye: its end is no loss to those that said it
            if socket in ready:
                self._receive_all()
            if self._connection.monitor in ready:
                self._note_lost()
            if self._lost:
                # A last message (BYE, FAILED) may stand between the data and the loss: read it before
                # judging.
                self._receive_all()
                for rank in sorted(self._lost):
                    self._judge_lost(rank)
                self._lost.clear()
            self._check_time(time.monotonic())

    def _has_left(self) -> bool:
        return self._done

    def _receive_all(self) -> None:
        while True:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            self._take(frames)

    def _failure(self, reason: str, *, mismatch: bool = False) -> PeerFailure:
        """Of this rank."""
        return PeerFailure(self._hello.rank, self._hello.host, reason, mismatch)

    def _note_lost(self) -> None:
        """Which connections have ended since the last look."""
        while event := self._connection.next_event():
            if event[0] == zmq.EVENT_DISCONNECTED:
                self._lost |= self._ranks_at(event[1])

    def _deliver(self, failure: PeerFailure, *, tell: bool) -> None:
        """Give the failure to ``on_failure`` (unless the main thread caused it) and to the main thread."""
        try:
            if tell and not failure.mismatch:
                self._on_failure(failure)
        finally:
            self._link.inbox.put(failure)

    @abstractmethod
    def _prepare(self) -> None: ...
    @abstractmethod
    def _obey(self, wish: Message) -> None: ...
    @abstractmethod
    def _take(self, frames: list[zmq.Frame]) -> None: ...
    @abstractmethod
    def _ranks_at(self, fd: int) -> set[int]: ...
    @abstractmethod
    def _judge_lost(self, rank: int) -> None: ...
    @abstractmethod
    def _check_time(self, now: float) -> None: ...


def loss_reason(member: Member, here: str, timing: Timing, proc: str = "/proc") -> str:
    """What can be said about a rank whose connection ended without a farewell.

    ZeroMQ does not distinguish a closed connection from a silent one; for a process of this host the kernel
    does. A dying process closes its connections a moment before it is gone, hence the second looks. The
    watcher names one that is stopped.
    """
    if member.host == here:
        for _ in range(_LOOKS):
            if processes.has_ended(member.pid, proc):
                return f"the process ended (pid {member.pid})"
            time.sleep(_LOOK_INTERVAL_S)
    return (
        f"the connection ended without a farewell (pid {member.pid}): the process ended,"
        f" or the host or its network has not answered for {timing.heartbeat_timeout_s:g} s"
    )


_LOOKS, _LOOK_INTERVAL_S = 20, 0.005


class PeerLoop(Loop):
    """See ``channel.Loop``. ``connection`` is past the handshake: rank 0 holds the same token."""

    def _prepare(self) -> None:
        self._root = Member(0, "", 0, 0)
        self._ended = self._own_fault = False
        self._send(Message(Kind.HELLO, to_bytes(self._hello)))

    def _obey(self, wish: Message) -> None:
        self._own_fault = self._own_fault or wish.kind is Kind.FAIL
        self._done = wish.kind is Kind.BYE
        if not self._ended:  # after it the cause is in the inbox already
            self._send(wish)

    def _take(self, frames: list[zmq.Frame]) -> None:
        message = unpack([frame.bytes for frame in frames])
        if message.kind is Kind.RESULT:
            self._link.inbox.put(message)
        elif message.kind is Kind.SEEN:
            self._root = from_bytes(Member, message.body)
        elif message.kind is Kind.WELCOME:
            self._link.inbox.put(from_bytes(Welcome, message.body))
        elif message.kind is Kind.FAILED:
            self._send(Message(Kind.GOT))
            self._end(from_bytes(PeerFailure, message.body), tell=not self._own_fault)
        elif message.kind is Kind.REFUSED:
            self._end(self._failure(message.body.decode(), mismatch=True), tell=False)
        elif message.kind is Kind.BYE:
            self._end(PeerFailure(0, self._root.host, "left the world before this rank did"), tell=False)

    def _ranks_at(self, fd: int) -> set[int]:
        return {0}

    def _judge_lost(self, rank: int) -> None:
        if not self._ended:
            reason = loss_reason(self._root, self._hello.host, self._timing)
            self._end(PeerFailure(rank, self._root.host, reason), tell=not self._own_fault)

    def _end(self, failure: PeerFailure, *, tell: bool) -> None:
        if self._ended:
            return
        self._ended = True
        # The I/O thread sends the confirmation; give it the processor before on_failure may end the process.
        time.sleep(0.01)
        self._deliver(failure, tell=tell)

    def _check_time(self, now: float) -> None:
        """Rank 0 keeps the deadlines; once the connection stands this end has none."""

    def _send(self, message: Message) -> None:
        try:
            self._socket.send_multipart(pack(message), zmq.NOBLOCK)
        except zmq.ZMQError:
            self._lost.add(0)
