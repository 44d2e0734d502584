"""MPICH's files in /dev/shm: whether there is room for them, and that none is left.

MPICH (4.2 to 5.0) gives the ranks of a host one file, from MPI_Init to MPI_Finalize; ranks that are killed
leave it. A file without a name lives on as long as somebody has it open, so the name goes once all have.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError
from busbw.machine import processes
from busbw.units import format_approximate_size

if TYPE_CHECKING:
    from busbw.rank.world.identity import Identity

FOLDER: Final = "/dev/shm"
_MADE: Final = re.compile(r"mpich_(shm|vci)_\w+")
# Measured with MPICH 5.0.2 and its UCX: two ranks with 16 MiB, or eight with 24 MiB, die of SIGBUS or SIGSEGV
# in MPI_Init or later; they take 5.2 MiB each while they measure.
BYTES_A_RANK: Final = 5 * 2**20
BYTES_BESIDE: Final = 14 * 2**20


def require(identity: Identity | None, folder: str = FOLDER) -> None:
    """Raises SiteError on the first rank of a host, which makes the files, where they do not fit."""
    ranks = identity.local_size if identity is not None else None
    if identity is None or ranks is None or ranks < 2 or identity.local_rank != 0:
        return
    try:
        found = os.statvfs(folder)
    except OSError:  # MPICH finds another place
        return
    free_bytes, needed_bytes = found.f_bavail * found.f_frsize, BYTES_BESIDE + ranks * BYTES_A_RANK
    if free_bytes >= needed_bytes:
        return
    raise SiteError(
        f"too little shared memory: MPI needs {format_approximate_size(needed_bytes)} in {folder} for"
        f" {ranks} ranks on this host, and {format_approximate_size(free_bytes)} are free",
        hint=f"remove what ended programs left in {folder}, give a container more (--shm-size),"
        " or start fewer ranks",
    )


def remove_own_files(folder: str = FOLDER) -> None:
    """Take the names off the files that this rank shares with the others of its host. Call it once all of
    them have opened the files.
    """
    for path in processes.open_files(os.getpid(), folder):
        if _MADE.fullmatch(Path(path).name):
            with contextlib.suppress(OSError):
                Path(path).unlink()
