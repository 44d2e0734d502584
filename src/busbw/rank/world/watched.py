"""A rank's connection to the process that watches the ranks of its host: it shows when the rank ends, and
whether it took its leave before.

Launchers do not always name the rank that died (MPICH's hydra may name one that it killed then, Open MPI's
mpirun one that aborted over the loss), so a process that starts ranks looks itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import resource
import socket
from collections.abc import Mapping
from typing import Final

from busbw.model.progress import GOODBYE

RANK_BYTES: Final = 4
_HIGH_FD: Final = 1016  # with some more above it
# In the environment of every process of a job on hosts: its name. What carries it is ended with the job.
JOB_VARIABLE: Final = "BUSBW_JOB"
FRONT_VARIABLE: Final = "BUSBW_FRONT"  # where a front process on this host listens


def watch_address(job: str) -> str:
    """Where the agents of a job on hosts listen, each on its own, in the abstract name space (unix(7))."""
    return f"busbw-watch-{job}"


class Watched:
    """This rank, seen by the front process that started it, or by its host's agent, where there is one: keep
    it for as long as the rank lives.
    """

    def __init__(self, rank: int, environ: Mapping[str, str]) -> None:
        job = environ.get(JOB_VARIABLE, "")
        address = environ.get(FRONT_VARIABLE) or (watch_address(job) if job else "")
        self._connection: socket.socket | None = None
        if address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
                # Where it cannot be had (a container of its own), nobody names the rank.
                connection.connect(f"\0{address}")
                connection.sendall(rank.to_bytes(RANK_BYTES, "little"))
                self._connection = closed_first(connection)

    def leave(self) -> None:
        """Goodbye: this rank ends by itself, and says why where that is needed; or it was told to end."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.sendall(GOODBYE)


def closed_first(connection: socket.socket) -> socket.socket:
    """A copy that the kernel closes before the other descriptors of a process that ends: before those by
    which its launcher learns of the end. Linux closes them from the highest down (task_work is a stack).
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = _HIGH_FD if most == resource.RLIM_INFINITY else min(_HIGH_FD, most - 8)
    try:
        return socket.socket(fileno=fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, high))
    except OSError:  # taken
        return socket.socket(fileno=fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, 0))
