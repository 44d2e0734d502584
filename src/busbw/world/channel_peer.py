"""Every other rank's end of the control channel."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import zmq

from busbw.world.base import Member, PeerFailure
from busbw.world.channel import Command, Contribute, Fail, Link, Loop, Timing, Welcome, loss_reason
from busbw.world.hub import Outcome
from busbw.world.wire import (
    Failed,
    Hello,
    Kind,
    Message,
    decode_failed,
    decode_members,
    encode_hello,
    pack,
    unpack,
)

if TYPE_CHECKING:
    from busbw.world.base import OnFailure
    from busbw.world.sockets import Connection


class PeerLoop(Loop):
    """See ``channel.Loop``. ``connection`` is past the handshake: rank 0 holds the same token."""

    def __init__(
        self, connection: Connection, link: Link, on_failure: OnFailure, timing: Timing, hello: Hello
    ) -> None:
        super().__init__(connection, link, on_failure, timing)
        self._hello = hello
        self._root = Member(0, "", 0, 0)
        self._lost = False
        self._ended = False
        self._own_fault = False
        self._send(Message(Kind.HELLO, encode_hello(hello)))

    def _own_failure(self, reason: str) -> PeerFailure:
        return PeerFailure(self._hello.rank, self._hello.host, reason)

    def _obey(self, command: Command) -> None:
        if isinstance(command, Contribute):
            # Only the root contributes to a broadcast; after the end the cause is in the inbox already.
            if not self._ended:
                self._send(Message(Kind.PART, command.body, command.op, command.call))
        elif isinstance(command, Fail):
            self._own_fault = True
            if not self._ended:
                self._send(Message(Kind.FAIL, command.message.encode()))
        else:
            if not self._ended:
                self._send(Message(Kind.BYE))
            self._done = True

    def _receive_all(self) -> None:
        while True:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._hear(unpack(frames))

    def _hear(self, message: Message) -> None:
        if message.kind is Kind.RESULT:
            self._link.inbox.put(Outcome(message.op, message.call, message.body))
        elif message.kind is Kind.SEEN:
            (self._root,) = decode_members(message.body)
        elif message.kind is Kind.WELCOME:
            self._link.inbox.put(Welcome(decode_members(message.body)))
        elif message.kind is Kind.FAILED:
            self._send(Message(Kind.GOT))
            self._end(decode_failed(message.body), tell=not self._own_fault)
        elif message.kind is Kind.REFUSED:
            self._end(Failed(self._own_failure(message.body.decode()), mismatch=True), tell=False)
        elif message.kind is Kind.BYE:
            self._end(Failed(self._root_failure("left the world before this rank did")), tell=False)

    def _connection_lost(self) -> bool:
        # Read the monitor even when the loss is known: an unread event would keep poll() from sleeping.
        self._lost = bool(self._disconnected_fds()) or self._lost
        return self._lost and not self._ended

    def _judge_lost(self) -> None:
        if not self._ended:
            reason = loss_reason(self._root, self._hello.host, self._timing)
            self._end(Failed(self._root_failure(reason)), tell=not self._own_fault)

    def _root_failure(self, reason: str) -> PeerFailure:
        return PeerFailure(0, self._root.host, reason)

    def _end(self, failed: Failed, *, tell: bool) -> None:
        if self._ended:
            return
        self._ended = True
        # The I/O thread sends the confirmation; give it the processor before on_failure may end the process.
        time.sleep(0.01)
        self._deliver(failed, tell=tell)

    def _check_time(self, now: float) -> None:
        """Rank 0 keeps the deadlines; once the connection stands this end has none."""

    def _send(self, message: Message) -> None:
        try:
            self._socket.send_multipart(pack(message), zmq.NOBLOCK)
        except zmq.ZMQError:
            self._lost = True
