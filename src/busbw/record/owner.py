"""Who writes a run folder: one front process at a time, on this host or on another that sees the folder.

The lock goes with its process however that ends, so that another one can go on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from pathlib import Path
from typing import IO, Self

from busbw.record.folder import OWNER_FILE, WRITER_FILE


class Owner:
    """The right to write one run folder, from ``take`` to leaving."""

    def __init__(self, folder: Path, file: Path = OWNER_FILE) -> None:
        self._path = folder / file
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __del__(self) -> None:
        self.__exit__()

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def take(self) -> bool:
        """Whether the folder is ours now. Raises OSError where the lock's file cannot be written."""
        file = self._path.open("a+")  # never replaced: its lock is that of this file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        except OSError:
            pass  # a file system that knows no locks (ENOLCK, ENOTSUP, ENOSYS): nobody is kept out
        self._file = file
        with contextlib.suppress(OSError):  # a full disk: the lock counts, the name is for people
            file.truncate(0)
            file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}) + "\n")
            file.flush()
        return True

    def who(self) -> str:
        """Whose the folder is, as far as they said."""
        try:
            said = json.loads(self._path.read_text())
            return f"process {said['pid']} on {said['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"


def is_owned(folder: Path, lock: Path = OWNER_FILE) -> bool:
    """Whether somebody follows the run now, or holds another lock in its folder."""
    try:
        with (folder / lock).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def is_abandoned(folder: Path) -> bool:
    """Whether rank 0, which wrote the folder, is known to be gone. False on another host than its own, whose
    locks may not be seen here, and where the file system has none.
    """
    try:
        with (folder / WRITER_FILE).open() as file:
            if json.load(file)["host"] != socket.gethostname():
                return False
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True
