"""The control channel without MPI: one thread owns the sockets, the main thread talks to it over queues.

Rank 0 runs ``channel_root.RootLoop``, every other rank ``channel_peer.PeerLoop``. The thread sleeps in poll()
except when a message passes, so it takes nothing from the measurement; liveness is ZeroMQ's own heartbeat,
answered by its C thread even while Python is inside a long native call.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import zmq

from busbw.world.wire import Failed, Op

if TYPE_CHECKING:
    from busbw.world.base import Member, OnFailure, PeerFailure
    from busbw.world.hub import Outcome
    from busbw.world.sockets import Connection


@dataclass(frozen=True, slots=True)
class Timing:
    """The channel's waiting times. A silent host is reported after at most the sum of the two heartbeat
    times.
    """

    connect_s: float = 60.0
    heartbeat_interval_s: float = 1.0
    heartbeat_timeout_s: float = 5.0
    # How long rank 0 lets the others confirm that they read the cause before it may leave itself.
    tell_s: float = 0.5
    leave_s: float = 10.0
    linger_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Welcome:
    """The world is complete."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Contribute:
    """The main thread takes part in a collective call."""

    op: Op
    call: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Fail:
    """The main thread cannot go on."""

    message: str


@dataclass(frozen=True, slots=True)
class Leave:
    """The main thread is done."""


Command = Contribute | Fail | Leave


class Link:
    """Two queues between the main thread and the channel thread, and a pipe that wakes its poll()."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[Welcome | Outcome | Failed] = SimpleQueue()
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self.wake_fd, self._wake_write_fd = os.pipe()
        os.set_blocking(self.wake_fd, False)

    def post(self, command: Command) -> None:
        """Hand a command to the channel thread."""
        self._commands.put(command)
        os.write(self._wake_write_fd, b"\0")

    def take(self) -> list[Command]:
        """All commands posted so far, in order."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_fd, 4096)
        commands = []
        while not self._commands.empty():
            commands.append(self._commands.get())
        return commands

    def close(self) -> None:
        os.close(self.wake_fd)
        os.close(self._wake_write_fd)


class Loop(ABC):
    """What the two kinds of channel thread share: poll, then commands, messages, lost connections and
    deadlines.
    """

    def __init__(self, connection: Connection, link: Link, on_failure: OnFailure, timing: Timing) -> None:
        self._connection = connection
        self._socket = connection.socket
        self._link = link
        self._on_failure = on_failure
        self._timing = timing
        self._deadline: float | None = None
        self._done = False
        self.thread = threading.Thread(target=self._run, name="busbw-control", daemon=True)

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            # A defect here must not leave the main thread waiting for ever.
            self._link.inbox.put(Failed(self._own_failure(f"the control channel broke: {error!r}")))
            raise
        finally:
            self._connection.close(self._timing.linger_s)

    def _loop(self) -> None:
        poller = zmq.Poller()
        for source in (self._socket, self._connection.monitor, self._link.wake_fd):
            poller.register(source, zmq.POLLIN)
        while not self._has_left():
            poller.poll(self._poll_timeout_ms())
            for command in self._link.take():
                self._obey(command)
            if self._has_left():
                return  # rank 0 leaves with the last goodbye: its end is no loss to those that said it
            self._receive_all()
            if self._connection_lost():
                # A last message (BYE, FAILED) may stand between the data and the loss: read it before
                # judging.
                self._receive_all()
                self._judge_lost()
            self._check_time(time.monotonic())

    def _has_left(self) -> bool:
        return self._done

    def _poll_timeout_ms(self) -> int | None:
        if self._deadline is None:
            return None
        return max(0, int((self._deadline - time.monotonic()) * 1000) + 1)

    def _disconnected_fds(self) -> list[int]:
        """File descriptors of connections that ended since the last look."""
        fds = []
        while event := self._connection.next_event():
            if event[0] == zmq.EVENT_DISCONNECTED:
                fds.append(event[1])
        return fds

    def _deliver(self, failed: Failed, *, tell: bool) -> None:
        """Give the failure to ``on_failure`` (unless the main thread caused it) and to the main thread."""
        try:
            if tell and not failed.mismatch:
                self._on_failure(failed.failure)
        finally:
            self._link.inbox.put(failed)

    @abstractmethod
    def _own_failure(self, reason: str) -> PeerFailure: ...
    @abstractmethod
    def _obey(self, command: Command) -> None: ...
    @abstractmethod
    def _receive_all(self) -> None: ...
    @abstractmethod
    def _connection_lost(self) -> bool: ...
    @abstractmethod
    def _judge_lost(self) -> None: ...
    @abstractmethod
    def _check_time(self, now: float) -> None: ...


def loss_reason(member: Member, here: str, timing: Timing, proc: str = "/proc") -> str:
    """What can be said about a rank whose connection ended without a farewell.

    ZeroMQ does not tell a closed connection from a silent one; for a process of this host the kernel does. A
    dying process closes its connections a moment before it is gone, hence the second looks.
    """
    silence = f"has not answered for {timing.heartbeat_timeout_s:g} s"
    if member.host == here:
        for _ in range(_LOOKS):
            state = _process_state(member.pid, proc)
            if state in _ENDED:
                return f"the process ended (pid {member.pid})"
            if state in _STOPPED:
                return f"the process is stopped and {silence} (pid {member.pid})"
            time.sleep(_LOOK_INTERVAL_S)
    return (
        f"the connection ended without a farewell (pid {member.pid}): the process ended,"
        f" or the host or its network {silence}"
    )


_LOOKS, _LOOK_INTERVAL_S = 20, 0.005
_STOPPED, _ENDED = ("t", "T"), ("Z", "X", "")


def _process_state(pid: int, proc: str) -> str:
    """The kernel's letter for the process, empty where there is none."""
    try:
        # The state follows the command's name, which may hold anything but ends at the last bracket.
        return Path(proc, str(pid), "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
