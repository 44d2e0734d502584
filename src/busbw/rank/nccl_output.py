"""What NCCL writes of itself while it connects: its log, and its topology and graphs in XML.

The log is read without a file and without taking the user's own away. NCCL writes to NCCL_DEBUG_FILE, which
is set to a pipe of this process for as long as NCCL reads its settings; a thread drains the pipe. It sleeps
unless NCCL writes, which it does while it connects, not in timed calls.

Topology and graphs: NCCL's rank 0 writes them while its communicator is made, to the files that two variables
name (NCCL 2.31: init.cc, ncclTopoDumpGraphs; which rank: NCCL_TOPO_DUMP_FILE_RANK and
NCCL_GRAPH_DUMP_FILE_RANK, 0). All ranks must have NCCL_TOPO_DUMP_FILE or none: with it a rank finds out the
topology once more, which the ranks of a host exchange (init.cc, initTransportsRank), so that rank 0 alone
would wait for the others for ever.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Final

from busbw.model.finding import Finding, Severity
from busbw.rank.backends.nccl_variables import exchanged
from busbw.record.folder import NCCL_FILES

_LEVEL, _PARTS, _FILE = "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"
# The parts that report networks, plugins and connections. TUNING writes a line for every call, so not that.
_OUR_PARTS: Final = "INIT,ENV,NET,GRAPH"
_FULL_LEVELS: Final = ("INFO", "TRACE")
_PIPES: Final = "/proc/self/fd/"
_MARK: Final = b"busbw: so far\n"
# The thread needs a moment; a rank that does not hear is a finding, not a failure.
_PATIENCE_SECONDS: Final = 1.0
_MOST_BYTES: Final = 4 << 20  # 2,160 ranks with 32 channels write less
_DUMP_VARIABLES: Final = ("NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE")


class NcclEar:
    """Made before NCCL's first call; ``lines`` are asked for once it is connected."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._environ = environ
        self._level = environ.get(_LEVEL, "").upper()
        self._own_file = environ.get(_FILE, "") if self._level in _FULL_LEVELS else ""
        # NCCL opens the file for warnings too: those lines go there from here.
        self._warnings_file = environ.get(_FILE, "") if self._level == "WARN" else ""
        self._lent = contextlib.ExitStack()
        self._heard = bytearray()
        self._marked = threading.Event()
        self._write_fd = -1
        if not self._own_file and not environ.get(_FILE, "").startswith(_PIPES):
            self._listen()

    def lines(self) -> list[str]:
        """What NCCL wrote so far, and its settings as they were before."""
        self._lent.close()
        if self._own_file:
            path = Path(_expanded(self._own_file))
            # A terminal or a pipe of the user's is not ours to read, and would wait for ever.
            return path.read_text(errors="replace").splitlines() if path.is_file() else []
        if self._write_fd >= 0:
            os.write(self._write_fd, _MARK)
            self._marked.wait(_PATIENCE_SECONDS)
        return self._heard.decode(errors="replace").splitlines()

    def _listen(self) -> None:
        read_fd, self._write_fd = os.pipe()
        ours = {_FILE: f"{_PIPES}{self._write_fd}"}
        if self._level not in _FULL_LEVELS:
            ours |= {_LEVEL: "INFO", _PARTS: _OUR_PARTS}
        self._lent.enter_context(exchanged(self._environ, ours))
        threading.Thread(target=self._drain, args=(read_fd,), name="busbw-nccl-log", daemon=True).start()

    def _drain(self, read_fd: int) -> None:
        """Until the process ends: NCCL must never find the pipe full."""
        shown_fd = self._shown_fd()
        for line in _lines(read_fd):
            if line == _MARK:
                self._marked.set()
                continue
            if not self._marked.is_set() and len(self._heard) < _MOST_BYTES:
                self._heard += line
            if self._is_wanted(line):
                with contextlib.suppress(OSError):
                    os.write(shown_fd, line)

    def _shown_fd(self) -> int:
        """Where the user's own setting shows lines: the file that it names, else standard output."""
        if self._warnings_file and not self._warnings_file.startswith(_PIPES):
            with contextlib.suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                return os.open(_expanded(self._warnings_file), flags, 0o666)
        return sys.stdout.fileno()

    def _is_wanted(self, line: bytes) -> bool:
        """Whether the user's own setting would have shown the line."""
        if self._level in _FULL_LEVELS:
            return True
        return (self._level == "WARN" and b"NCCL WARN" in line) or (
            self._level in ("WARN", "VERSION") and b"NCCL version" in line
        )


def _lines(fd: int) -> Iterator[bytes]:
    rest = b""
    while data := os.read(fd, 1 << 16):
        *whole, rest = (rest + data).split(b"\n")
        yield from (line + b"\n" for line in whole)


def _expanded(path: str) -> str:
    """As NCCL names the file (debug.cc): %h is the host up to its first dot, %p the process, %% a percent."""
    host, process = socket.gethostname().partition(".")[0], str(os.getpid())
    return "%".join(part.replace("%h", host).replace("%p", process) for part in path.split("%%"))


class NcclDump:
    """Made on every rank before NCCL's first call; ``finish`` once it is connected. ``folder`` is the run's
    on rank 0 and None elsewhere. A file that the user's own variable names is copied.
    """

    def __init__(self, environ: MutableMapping[str, str], folder: Path | None) -> None:
        both = zip(_DUMP_VARIABLES, NCCL_FILES, strict=True)
        self._files = {} if folder is None else {name: folder / file for name, file in both}
        self._users = {name: environ[name] for name in _DUMP_VARIABLES if name in environ}
        for path in self._files.values():
            path.parent.mkdir(exist_ok=True)
        self._lent = contextlib.ExitStack()
        ours = {name: str(self._files.get(name, os.devnull)) for name in _DUMP_VARIABLES}
        self._lent.enter_context(exchanged(environ, ours | self._users))

    def finish(self) -> tuple[Finding, ...]:
        """What NCCL did not write, on rank 0. The variables are as they were before."""
        self._lent.close()
        missing = []
        for name, path in self._files.items():
            try:
                if name in self._users:
                    shutil.copyfile(self._users[name], path)
                path.stat()
            except OSError as error:
                claim = f"NCCL wrote no {path.name} ({name}: {error.strerror})"
                hint = f"unset {name}_RANK, or set it to 0"
                missing.append(Finding(Severity.WARNING, claim, hint=hint, check="nccl-topology"))
        return tuple(missing)
