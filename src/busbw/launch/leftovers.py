"""Removes what killed ranks left in /dev/shm.

MPI libraries, UCX and NCCL make files there that the ranks of a host open by name. The names go once all
ranks have them (``rank.world.shared_memory``); ranks that are killed before leave them.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Final

from busbw.machine import processes

FOLDER: Final = "/dev/shm"
_BETWEEN_SECONDS: Final = 0.2
_MADE: Final = re.compile(r"mpich_(shm|vci|shar)_\w+|ucx_shm_posix_\w+|nccl-\w{6}")


def remove_leftovers(since_s: float, folder: str = FOLDER) -> None:
    """Remove this user's files that were made since then (seconds since the epoch) and that no process holds:
    those of other launches are held. A process is between opening a file and mapping it when it is looked at,
    so a second look decides.
    """
    with contextlib.suppress(OSError):
        made = {str(path) for path in Path(folder).iterdir() if _is_ours(path, since_s)}
        for again in (False, True):
            if again and made:
                time.sleep(_BETWEEN_SECONDS)
            for pid in processes.every() if made else ():
                made -= processes.open_files(pid, folder)
        for path in made:
            Path(path).unlink(missing_ok=True)


def _is_ours(path: Path, since_s: float) -> bool:
    status = path.lstat()
    is_new = status.st_uid == os.getuid() and status.st_ctime >= since_s
    return is_new and _MADE.fullmatch(path.name) is not None
