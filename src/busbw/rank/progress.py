"""This rank's progress page, which the watcher of its host reads: a rank that hangs cannot say how far it is.

There is one page a process, as there is one rank. It is memory without a name (memfd_create(2)), so nothing
is left of it whatever ends the process; the watcher gets it over the connection by which the rank is watched.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from busbw.errors import ExitCode
from busbw.model.progress import (
    CONTROL,
    CONTROL_AT,
    GOODBYE,
    HEAD_AT,
    KEEPS_HANGS,
    PAGE_BYTES,
    TEXTS,
    Page,
    Phase,
    encode,
    encode_head,
    encode_text,
    expected_s,
    limit_s,
)

VARIABLE: Final = "BUSBW_STALL"
STALL_SECONDS: Final = 30.0
_CALLS_BYTES: Final = 32


class _Own:
    """The page of this process; of a rank that nobody watches, in memory of its own."""

    def __init__(self, page: Page, memory: mmap.mmap | bytearray, stall_s: float) -> None:
        memory[:] = encode(page)
        self.page, self.memory, self.stall_s = page, memory, stall_s
        self.connection: socket.socket | None = None  # to the watcher
        self.asked = self.answered = 0
        self.measured: tuple[int, float] | None = None  # bytes of the last timed call, and its seconds

    def publish(self, page: Page) -> None:
        """Everything but the counts."""
        for name, (start, end) in TEXTS.items():
            if (text := getattr(page, name)) != getattr(self.page, name):
                self.memory[start:end] = encode_text(text, end - start)
        head = encode_head(page)
        self.memory[HEAD_AT : HEAD_AT + len(head)] = head
        self.page = page


_own = _Own(Page(0, 0, 0), bytearray(PAGE_BYTES), 0.0)
_keeps_hangs = False


def stall_seconds(text: str) -> float:
    """The setting as it reaches a rank before anything was parsed: seconds, ``off``, or nothing."""
    from busbw.errors import UsageError
    from busbw.units import parse_duration

    if text == "off":
        return 0.0
    try:
        return parse_duration(text, "--stall") if text else STALL_SECONDS
    except UsageError:
        return STALL_SECONDS  # rank 0 refuses it


def begin(rank: int, ranks: int | None, stall_s: float, reach: Callable[[int], socket.socket | None]) -> None:
    """Publish from now on, and have it watched: ``reach`` hands over the page (see ``watcher.begin``). A
    ``stall_s`` of 0 is for ever. A rank that cannot have a page (a sandbox) is not seen when others hang.
    """
    global _own, _keeps_hangs  # noqa: PLW0603 (a process is one rank)
    _keeps_hangs = stall_s <= 0
    if _own.connection is not None:
        return
    alone_s = 0.0 if ranks == 1 else stall_s
    page = Page(rank, ranks or 0, os.getpid(), limit_s=limit_s(alone_s, Phase.STARTING))
    try:
        fd = os.memfd_create("busbw-progress")
        os.ftruncate(fd, PAGE_BYTES)
        own = _Own(page, mmap.mmap(fd, PAGE_BYTES), alone_s)
        connection = reach(fd)
    except OSError:
        return
    os.close(fd)
    if connection is None:
        return
    _own, own.connection = own, connection
    threading.Thread(target=_leave_when_told, args=(connection,), name="busbw-progress", daemon=True).start()


def keeps_hangs() -> bool:
    """Whether a rank that says nothing is waited for, as for one in a debugger (--stall off)."""
    return _keeps_hangs


def end() -> None:
    """This rank has done its part: it may take what time it wants, but a process that is stopped before it
    has ended is still seen. The page stays, where calls are counted.
    """
    unlimited(phase=Phase.END)


def leave() -> None:
    """This rank leaves because others did not answer."""
    if _own.connection is not None:
        with contextlib.suppress(OSError):
            _own.connection.sendall(GOODBYE)


def phase(now: Phase, call_s: float = 0.0) -> None:
    """A new phase, which all ranks enter in the same order. ``call_s``: so long is a call of what is
    measured expected to take, or as many calls as end together.
    """
    note(phase=now, limit_s=limit_s(_own.stall_s, now, call_s))


def measuring(what: str, size_bytes: int) -> None:
    """The first calls of a case follow. Its calls are counted from 0."""
    _own.memory[:_CALLS_BYTES] = bytes(_CALLS_BYTES)
    limit = limit_s(_own.stall_s, Phase.WARMUP, expected_seconds(size_bytes))
    note(phase=Phase.WARMUP, visit=_own.page.visit + 1, what=what, limit_s=limit)


def expected_seconds(size_bytes: int) -> float:
    """How long a call of this size may well take, by the last one that was timed."""
    if _own.measured is None:
        return expected_s(size_bytes)
    before, took_s = _own.measured
    return took_s * max(1.0, size_bytes / max(1, before))


def timed(size_bytes: int, call_s: float) -> None:
    """What a call took: the next case's first one is expected to take about as long."""
    _own.measured = size_bytes, call_s


def note(**told: Any) -> None:  # noqa: ANN401 (fields of Page)
    """What has become known: how many ``ranks`` there are, the ``folder`` of the run (rank 0's, where nobody
    else closes its record), at which address NCCL answers questions (``ras``).
    """
    _own.publish(replace(_own.page, **told))


def unlimited(**told: Any) -> None:  # noqa: ANN401 (fields of Page)
    """What follows may take any time: others end what hangs."""
    note(limit_s=0.0 if _own.stall_s > 0 else KEEPS_HANGS, **told)


def counts_address() -> int | None:
    """Where the native loop counts its calls; None where nobody watches."""
    return None if _own.connection is None else ctypes.addressof(ctypes.c_char.from_buffer(_own.memory))


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Within, this rank waits for others in a control message."""
    own = _own
    own.asked += 1
    CONTROL.pack_into(own.memory, CONTROL_AT, own.asked, own.answered)
    yield
    own.answered += 1
    CONTROL.pack_into(own.memory, CONTROL_AT, own.asked, own.answered)


def _leave_when_told(connection: socket.socket) -> None:
    """The watcher has reported a stall: leave as one does who lost another rank."""
    with contextlib.suppress(OSError):
        if connection.recv(1):
            os._exit(ExitCode.RANK_FAILED)
