"""How far each rank has come, as it publishes it, and what was seen of the ranks of a host where nothing
moved any more.

A page is one piece of shared memory of one rank (little endian; ``PAGE_VERSION`` says which layout):

======  =====================================================================================
offset  what
======  =====================================================================================
0       calls entered, enqueued and completed, and the mode of calls: four u64, written by the
        native loop on a cache line of their own
64      control messages asked for and answered: two u64
128     version, rank, ranks, process id, phase, visit: six u32; the limit in seconds: f64
160     what is measured: u16 length, UTF-8
448     where NCCL answers questions (RAS), once it may be asked: u16 length, UTF-8
512     the run folder, on rank 0, where nobody else closes its record: u16 length, UTF-8
======  =====================================================================================
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from busbw.model.hang import LinkSeen, ProcessSeen

PAGE_VERSION: Final = 1
PAGE_BYTES: Final = 4096
GOODBYE: Final = b"."  # to who watches a rank: it leaves, and said why where that was needed
CALLS_AT: Final = 0
CONTROL_AT: Final = 64
HEAD_AT: Final = 128
# A page's texts, each from one offset to the other.
TEXTS: Final = {"what": (160, 448), "ras": (448, 512), "folder": (512, PAGE_BYTES)}
_CALLS: Final = struct.Struct("<4Q")
CONTROL: Final = struct.Struct("<2Q")
_HEAD: Final = struct.Struct("<6Id")
_LENGTH: Final = struct.Struct("<H")
_MOVES: Final = struct.Struct("<3Q")

# How much longer than a timed call everything else may take: libraries are loaded, ranks join, connections
# are made in the first call of an operation, and checks read all data.
OTHER_FACTOR: Final = 3
# A call that takes so many times as long as expected does not come back.
EXPECTED_FACTOR: Final = 20
KEEPS_HANGS: Final = -1.0  # a limit: those who asked for it look themselves
# What a call that was never timed is expected to carry at least, in bytes/s.
_SLOWEST_BYTES_S: Final = 200e6


class Phase(IntEnum):
    """What a rank is doing."""

    STARTING = 0
    JOINING = 1
    COMMUNICATOR = 2
    WARMUP = 3
    CHECK = 4
    TIMING = 5
    END = 6


PHASE_WORDS: Final = {
    Phase.STARTING: "the start",
    Phase.JOINING: "the meeting of all ranks",
    Phase.COMMUNICATOR: "the creation of the communicator",
    Phase.WARMUP: "the first calls",
    Phase.CHECK: "the check",
    Phase.TIMING: "the timing",
    Phase.END: "the end",
}


class CallMode(IntEnum):
    """What a rank does with calls that have returned. Of a stream's calls it knows what is complete only
    while it waits for the stream.
    """

    ISSUES = 0
    BLOCKS = 1
    WAITS_FOR_STREAM = 2


@dataclass(frozen=True)
class Page:
    """What one rank publishes. Calls are counted within ``what``; where they block, what has returned is
    complete. ``visit`` counts the cases since the start, each pass of one. ``limit_s``: nothing may move for
    so long now; 0 is for ever while no process is stopped, ``KEEPS_HANGS`` is for ever. ``folder`` is rank
    0's, where its host's watcher closes the record.
    """

    rank: int
    ranks: int
    pid: int
    phase: Phase = Phase.STARTING
    visit: int = 0
    limit_s: float = 0.0
    what: str = ""
    entered: int = 0
    enqueued: int = 0
    completed: int = 0
    mode: CallMode = CallMode.BLOCKS
    asked: int = 0
    answered: int = 0
    ras: str = ""
    folder: str = ""

    @property
    def done(self) -> int:
        """Calls that are known to be complete."""
        return self.enqueued if self.mode is CallMode.BLOCKS else self.completed

    @property
    def in_call(self) -> bool:
        """Whether it waits for a call to return, or for a stream."""
        if self.mode is CallMode.WAITS_FOR_STREAM:
            return self.completed < self.enqueued
        return self.entered > self.enqueued

    @property
    def in_control(self) -> bool:
        """Whether it waits for a control message."""
        return self.asked > self.answered

    @property
    def waits(self) -> bool:
        """Whether it waits for others, in whatever."""
        connects = self.phase in (Phase.JOINING, Phase.COMMUNICATOR)
        return self.in_call or self.in_control or connects


def encode(page: Page) -> bytes:
    """The page as it lies in memory."""
    data = bytearray(PAGE_BYTES)
    _CALLS.pack_into(data, CALLS_AT, page.entered, page.enqueued, page.completed, page.mode)
    CONTROL.pack_into(data, CONTROL_AT, page.asked, page.answered)
    data[HEAD_AT : HEAD_AT + _HEAD.size] = encode_head(page)
    for name, (start, end) in TEXTS.items():
        data[start:end] = encode_text(getattr(page, name), end - start)
    return bytes(data)


def encode_head(page: Page) -> bytes:
    """The part at ``HEAD_AT``."""
    numbers = (page.rank, page.ranks, page.pid, page.phase, page.visit)
    return _HEAD.pack(PAGE_VERSION, *numbers, page.limit_s)


def encode_text(text: str, most: int) -> bytes:
    """A text of a page, in all of its ``most`` bytes."""
    data = text.encode()[: most - _LENGTH.size]
    return (_LENGTH.pack(len(data)) + data).ljust(most, b"\0")


def decode(data: bytes) -> Page:
    """Raises ValueError for a page of another layout."""
    version, rank, ranks, pid, phase, visit, limit_s = _HEAD.unpack_from(data, HEAD_AT)
    if version != PAGE_VERSION:
        raise ValueError(f"a progress page of version {version}, where {PAGE_VERSION} is known")
    entered, enqueued, completed, mode = _CALLS.unpack_from(data, CALLS_AT)
    asked, answered = CONTROL.unpack_from(data, CONTROL_AT)
    texts = {}
    for name, (start, _) in TEXTS.items():
        (length,) = _LENGTH.unpack_from(data, start)
        texts[name] = data[start + _LENGTH.size : start + _LENGTH.size + length].decode(errors="replace")
    return Page(
        rank,
        ranks,
        pid,
        Phase(phase),
        visit,
        limit_s,
        entered=entered,
        enqueued=enqueued,
        completed=completed,
        mode=CallMode(mode),
        asked=asked,
        answered=answered,
        **texts,
    )


def moving_part(data: bytes) -> bytes:
    """What changes whenever the rank gets on."""
    return data[CALLS_AT : CALLS_AT + _MOVES.size] + data[CONTROL_AT : HEAD_AT + _HEAD.size]


def limit_s(stall_s: float, phase: Phase, expected_s: float = 0.0) -> float:
    """For how long nothing may move: the setting, more where the phase has none of the timed calls, and at
    least ``EXPECTED_FACTOR`` times what a call is expected to take. A setting of 0 keeps hangs.
    """
    if stall_s <= 0:
        return KEEPS_HANGS
    own_s = stall_s if phase is Phase.TIMING else stall_s * OTHER_FACTOR
    return max(own_s, EXPECTED_FACTOR * expected_s)


def expected_s(size_bytes: int) -> float:
    """How long a call that was never timed may well take, on slow networks too."""
    return size_bytes / _SLOWEST_BYTES_S


@dataclass(frozen=True)
class RankHere:
    """A rank as the watcher of its host saw it. ``cpu_s`` is the CPU time that it used while nothing moved;
    ``is_gone``: its process has ended, and it had not said goodbye.
    """

    page: Page
    process: ProcessSeen
    cpu_s: float = 0.0
    is_gone: bool = False


@dataclass(frozen=True)
class HostStill:
    """The ranks of a host of which none has moved for ``quiet_s``, 0 where one of them has just ended within
    a case; ``links`` and ``log`` as in HostSeen; ``ras`` is what NCCL answered.
    """

    host: str
    quiet_s: float
    ranks: tuple[RankHere, ...]
    links: tuple[LinkSeen, ...] = ()
    log: tuple[str, ...] = ()
    ras: tuple[str, ...] = ()
