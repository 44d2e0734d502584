"""What NCCL chose for a call, as reported to its profiler plugin and in its log of one untimed call.

The plugin (2.23 on) is the native core, loaded only where that is asked for, and asked for events only while
the call runs. Where the profiler does not report it, rank 0 of a communicator writes it with NCCL_DEBUG=INFO
and NCCL_DEBUG_SUBSYS=TUNING. A line a call would slow timed calls down, so the log is on for one call and off
again: ncclResetDebugInit, exported from 2.24 on, reads the variables anew.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from busbw.machine.native import profiler
from busbw.machine.native.core import LIBRARY_PATH
from busbw.machine.native.nccl import NcclLibrary
from busbw.model.choice import Choice
from busbw.model.tuning_line import tuning_lines
from busbw.rank.backends.nccl_variables import exchanged, lent

RESET: Final = "ncclResetDebugInit"
_LEVEL, _SUBSYSTEM, _FILE = "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"
VARIABLE: Final = "NCCL_PROFILER_PLUGIN"
T = TypeVar("T")
# Not the kernels' own events (64): those cost a timed kernel something, and a proxy operation.
_MASK: Final = profiler.COLLECTIVE | profiler.TRANSFER | profiler.CALL | profiler.ENGINE_COPIES


def choice_in(text: str) -> Choice | None:
    """What the last line of NCCL's log about it says; None where there is no such line."""
    lines = tuning_lines(text)
    return lines[-1].choice if lines else None


def logged(nccl: NcclLibrary, environ: MutableMapping[str, str], call: Callable[[], None]) -> Choice | None:
    """What NCCL's log, which is on for this one, says about ``call``; ``environ`` is this process's. Where
    the log cannot be read anew, or a file of the user's would be begun anew with it, nothing is read.
    """
    if not nccl.has(RESET) or _FILE in environ:
        call()
        return None
    reset = ctypes.CFUNCTYPE(None)(nccl.address(RESET))
    with tempfile.TemporaryDirectory(prefix="busbw-") as folder:
        log = Path(folder) / "nccl.log"
        try:
            with exchanged(environ, {_LEVEL: "INFO", _SUBSYSTEM: "TUNING", _FILE: str(log)}):
                reset()
                call()
        finally:
            reset()
        return choice_in(log.read_text(errors="replace")) if log.is_file() else None


def joined(of_profiler: Choice | None, of_log: Choice | None) -> Choice | None:
    """One choice of two that were told of the same call. The profiler's counts; its first three versions do
    not give the channels, which the log does.
    """
    if of_profiler is None or of_log is None:
        return of_profiler or of_log
    if of_profiler.channels is None and of_profiler.words == of_log.words:
        return replace(of_profiler, source=f"{of_profiler.source}, log", channels=of_log.channels)
    return of_profiler


def offered(environ: MutableMapping[str, str]) -> AbstractContextManager[object]:
    """While a communicator is made: NCCL loads the native core as its plugin. The user's own stays (``none``
    too); ``environ`` is this process's.
    """
    return lent(environ, VARIABLE, str(LIBRARY_PATH))


def profiled(call: Callable[[], T]) -> tuple[Choice | None, T]:
    """What NCCL tells its profiler of an untimed call, None where it tells nothing; and the call's result."""
    version = profiler.version()
    if not version:
        return None, call()
    profiler.watch(_MASK)
    try:
        result = call()
    finally:
        profiler.watch(0)
    events, told = profiler.events()
    return choice_of(events, version, told), result


def choice_of(events: Sequence[profiler.NcclEvent], version: int, told: int) -> Choice | None:
    """What the events of one call show. Kernels for symmetric memory have no events before NCCL 2.31."""
    done = [event for event in events if event.kind != profiler.CALL]
    if not done:
        return None
    first = next((event for event in done if event.kind != profiler.TRANSFER), done[0])
    kernel = first.kernel.decode()
    special = "SYMMETRIC" if kernel else "COPY ENGINE" if first.kind == profiler.ENGINE_COPIES else ""
    # Where there were more events than are kept, the first are gone, and the numbers are not known.
    transfers = [event for event in done if event.kind == profiler.TRANSFER and told == len(events)]
    return Choice(
        source=f"profiler v{version}",
        algorithm=special or first.algorithm.decode(),
        protocol=first.protocol.decode(),
        kernel=kernel,
        functions=tuple(dict.fromkeys(event.function.decode() for event in done)),
        tasks=len(done) if told == len(events) else None,
        channels=_most(event.channels for event in done),
        warps=_most(event.warps for event in done),
        peers=len({event.peer for event in transfers} - {transfers[0].rank}) if transfers else None,
        sequence=first.sequence if first.kind != profiler.TRANSFER else None,
    )


def _most(numbers: Iterator[int]) -> int | None:
    most = max(numbers)
    return most if most >= 0 else None
