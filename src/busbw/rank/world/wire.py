"""The messages of the control channel: one fixed head, then a body in frames: mostly a dataclass of this
page as JSON (``model.plain``). Pure.

A body travels in frames of 1 MiB: ZeroMQ counts every whole frame as a sign of life, so a long gather over a
slow link is not mistaken for a silent host.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from busbw.rank.world.base import Member

FRAME_BYTES = 1 << 20
_HEAD = struct.Struct("<BBQ")


class Kind(IntEnum):
    """What a message is for; the comment says who sends it and what its body holds."""

    HELLO = 1  # rank -> 0: Hello
    SEEN = 2  # 0 -> rank: rank 0's member
    WELCOME = 3  # 0 -> rank: Welcome
    REFUSED = 4  # 0 -> rank: text; this process has no place in the world
    PART = 5  # rank -> 0: its contribution to a collective call
    RESULT = 6  # 0 -> rank: the outcome of a collective call
    FAIL = 7  # rank -> 0: text; this rank cannot go on
    FAILED = 8  # 0 -> rank: PeerFailure; the world has ended
    GOT = 9  # rank -> 0: FAILED was read
    BYE = 10  # both: leaves in good order


class Op(IntEnum):
    """The collective calls, with the element type of the reductions."""

    BARRIER = 1
    BROADCAST = 2
    GATHER = 3
    MAX_FLOAT64 = 4
    MAX_INT64 = 5
    SUM_FLOAT64 = 6
    SUM_INT64 = 7


@dataclass(frozen=True, slots=True)
class Message:
    """``call`` numbers the collective calls of a rank from 1; 0 in messages that are not about a call.
    ``parts`` are the outcome of a gather, in rank order, which stays on rank 0.
    """

    kind: Kind
    body: bytes = b""
    op: Op = Op.BARRIER
    call: int = 0
    parts: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class Hello:
    """What a rank says first. ``local_rank`` is None where no launcher gives it; rank 0 then counts. The
    other fields stay for ever: other versions must be able to refuse it.
    """

    version: str
    size: int
    rank: int
    host: str
    pid: int
    local_rank: int | None = None

    @property
    def member(self) -> Member:
        return Member(self.rank, self.host, self.pid, -1 if self.local_rank is None else self.local_rank)


@dataclass(frozen=True, slots=True)
class Welcome:
    """The world is complete."""

    members: tuple[Member, ...]


def pack(message: Message) -> list[bytes | memoryview]:
    """The frames of a message."""
    head = _HEAD.pack(message.kind, message.op, message.call)
    body = memoryview(message.body)
    return [head, *(body[start : start + FRAME_BYTES] for start in range(0, len(body), FRAME_BYTES))]


def unpack(frames: Sequence[bytes]) -> Message:
    """The message in ``frames``."""
    kind, op, call = _HEAD.unpack(frames[0])
    return Message(Kind(kind), b"".join(frames[1:]), Op(op), call)
