"""Processes of this host as the kernel shows them (proc(5)). A process that has ended has no state, no name,
no children and no variables; nor has one of another user variables.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from busbw.machine.loader import mapped_files
from busbw.machine.sysfs import read_text

PROC = "/proc"
# Stopped by a signal. A debugger's stop ("t") counts where something has gone wrong, and ends nothing.
# A process that is stopped for longer does not come back by itself.
STOPPED_SECONDS = 6.0
_STOPPED, _TRACED, _ENDED = "T", "t", ("Z", "X", "")


def every() -> tuple[int, ...]:
    """All processes that are there."""
    return tuple(int(path.name) for path in Path(PROC).iterdir() if path.name.isdigit())


def state(pid: int, proc: str = PROC) -> str:
    """The kernel's letter for the process, empty where there is none."""
    return next(iter(_stat(pid, proc)), "")


def _stat(pid: int, proc: str = PROC) -> list[str]:
    """What follows the command's name, which may hold anything but ends at the last bracket."""
    return read_text(Path(proc, str(pid), "stat")).rpartition(")")[2].split()


def is_stopped(pid: int, *, traced: bool = True) -> bool:
    """Whether somebody has stopped the process; ``traced``: a debugger too."""
    return state(pid) in ((_STOPPED, _TRACED) if traced else (_STOPPED,))


def has_ended(pid: int, proc: str = PROC) -> bool:
    """Whether there is no such process any more."""
    return state(pid, proc) in _ENDED


def name(pid: int) -> str:
    """The name of its program, cut by the kernel to 15 characters."""
    return read_text(Path(PROC, str(pid), "comm"))


def waits_in(pid: int) -> str:
    """The kernel's function that its main thread waits in; empty where it runs, or that is not said."""
    found = read_text(Path(PROC, str(pid), "wchan"))
    return "" if found == "0" else found


def cpu_seconds(pid: int) -> float:
    """The CPU time that it has used so far."""
    fields = _stat(pid)
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def parent(pid: int) -> int:
    """The process that started it, or took it over; 0 where there is none."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def children(pid: int) -> tuple[int, ...]:
    """The processes that it started and that are there."""
    threads = Path(PROC, str(pid), "task")
    try:
        texts = [read_text(thread / "children") for thread in threads.iterdir()]
    except OSError:
        return ()
    return tuple(int(child) for text in texts for child in text.split())


def environ(pid: int) -> dict[str, str]:
    """The variables that it was started with."""
    try:
        words = Path(PROC, str(pid), "environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(word).partition("=") for word in words)
    return {key: value for key, sign, value in pairs if sign}


def open_files(pid: int, folder: str) -> set[str]:
    """The files of a folder that it holds open or has mapped; those that were removed have no name there."""
    found = set()
    with contextlib.suppress(OSError):  # it has ended
        for entry in Path(PROC, str(pid), "fd").iterdir():
            with contextlib.suppress(OSError):  # it closed this one meanwhile
                found.add(str(entry.readlink()))
    found |= set(mapped_files(Path(PROC, str(pid), "maps")))
    return {path for path in found if path.startswith(f"{folder}/") and not path.endswith(" (deleted)")}
