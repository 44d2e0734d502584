"""Leaves no files of a launch's ranks and launcher in /dev/shm and /tmp.

MPI libraries, UCX and NCCL make files there that the ranks of a host open by name, and remove them once all
have; ranks that are killed in between leave them. A process of its own sees which files the launch's ranks
hold, and removes those when all ranks have ended: it outlives the front process, which may be killed too.
Hydra has a file in /tmp while its ranks run.
Files of others stay: only those go that a process of the launch was seen to hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from busbw.machine import processes

FOLDERS: Final = ("/dev/shm", "/tmp")
_MADE: Final = re.compile(r"mpich_(shm|vci|shar)_\w+|ucx_shm_posix_\w+|nccl-\w{6}|hydra_hwloc_xmlfile_\w+")
_IN_OPEN, _IN_CREATE = 0x20, 0x100  # inotify(7)
_LOOK_SECONDS: Final = 0.5
_ENDING_SECONDS: Final = 0.05
_LONGEST_END_SECONDS: Final = 30.0
_WAIT_SECONDS: Final = 5.0


class Sweeper:
    """The front process's end. What is left is gone when the context is left."""

    def __enter__(self) -> Self:
        self._process: subprocess.Popen[bytes] | None = None
        return self

    def follow(self, pids: Sequence[int]) -> None:
        """The processes that were started for the launch: they come first, and do not wait for this one."""
        self._process = subprocess.Popen(
            (sys.executable, "-m", "busbw.launch.sweeper"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the front process
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it was killed: the run goes on without
            self._process.stdin.write(" ".join(map(str, pids)).encode() + b"\n")
            self._process.stdin.flush()

    def finish(self) -> None:
        """The launch is over: what is left goes once its last process has ended."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()
        if self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_WAIT_SECONDS)


class _Family:
    """The processes of a launch, and the files in shared memory that they were seen to hold."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders
        self._pids: set[int] = set()
        self._files: dict[str, int] = {}  # path -> inode

    def take(self, pids: set[int]) -> None:
        """Processes and all that they start."""
        while pids:
            self._pids |= pids
            pids = {child for pid in pids for child in processes.children(pid)} - self._pids

    def look(self) -> bool:
        """Note who is there; whether anybody is."""
        self._pids = {pid for pid in self._pids if not processes.has_ended(pid)}
        self.take({child for pid in self._pids for child in processes.children(pid)} - self._pids)
        return bool(self._pids)

    def note_files(self) -> None:
        """Note the files that are held now."""
        for pid in self._pids:
            held = (path for folder in self._folders for path in processes.open_files(pid, folder))
            for path in held:
                if _MADE.fullmatch(Path(path).name):
                    with contextlib.suppress(OSError):
                        self._files[path] = Path(path).stat().st_ino

    def remove_files(self) -> None:
        """Remove what is left of them."""
        for path, inode in self._files.items():
            with contextlib.suppress(OSError):
                if Path(path).stat().st_ino == inode:
                    Path(path).unlink()


def _watch(folders: Sequence[str]) -> int | None:
    """An inotify descriptor for files that are made or opened there; None where there is none to be had."""
    c = ctypes.CDLL(None)
    fd = int(c.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    watched = [c.inotify_add_watch(fd, folder.encode(), _IN_CREATE | _IN_OPEN) for folder in folders]
    return None if fd < 0 or max(watched) < 0 else fd


def sweep(told: int, folders: Sequence[str] = FOLDERS) -> None:
    """Until ``told``, a descriptor of the process ids to follow, has ended, and they have."""
    family, new = _Family(folders), _watch(folders)
    sources = [told] if new is None else [told, new]
    pids = b""
    while told in sources:
        ready, _, _ = select.select(sources, [], [], _LOOK_SECONDS)
        if told in ready:
            data = os.read(told, 1 << 12)
            *lines, pids = (pids + data).split(b"\n")
            family.take({int(pid) for line in lines for pid in line.split()})
            sources = sources if data else [source for source in sources if source != told]
        _look(family, new, ready)
    deadline = time.monotonic() + _LONGEST_END_SECONDS
    while family.look() and time.monotonic() < deadline:
        ready, _, _ = select.select(sources, [], [], _ENDING_SECONDS)
        _look(family, new, ready)
    family.remove_files()


def _look(family: _Family, new: int | None, ready: Sequence[int]) -> None:
    """Look closely where a file has come into being or a process has; else only for who is there."""
    is_new = bool(ready)
    if new is not None and new in ready:
        is_new = any(_MADE.search(name) for name in _names(os.read(new, 1 << 16)))
    family.look()
    if is_new or new is None:
        family.note_files()


def _names(data: bytes) -> list[str]:
    """The names in inotify's events, with whatever stands between them."""
    return data.decode("latin-1").split("\0")


if __name__ == "__main__":
    sweep(sys.stdin.fileno())
