"""Which rank of this host ended first, seen from outside.

Launchers name a process when a rank dies, but not always the one that did: MPICH's hydra (5.0) names the
first rank it then killed itself where one died before MPI_Init.
"""

from __future__ import annotations

import os
import re
import select
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_RANK: Final = re.compile(rb"(?:^|\0)(?:PMI_RANK|OMPI_COMM_WORLD_RANK|PMIX_RANK)=(\d+)(?:\0|$)")
_DEEPEST: Final = 3  # launcher, its daemon on this host, ranks


class RankWatch:
    """Watches the ranks below a launcher's process, on this host. Look often until they are connected."""

    def __init__(self, launcher_pid: int, ranks: int, proc: Path = _PROC) -> None:
        self._launcher_pid = launcher_pid
        self._ranks = ranks
        self._proc = proc
        self._poll = select.epoll()
        self._watched: dict[int, int] = {}  # file descriptor of the process -> rank

    def look(self) -> None:
        """Find the ranks that have been started since the last look."""
        if len(self._watched) == self._ranks:
            return
        known = set(self._watched.values())
        for pid in _descendants(self._launcher_pid, self._proc, _DEEPEST):
            rank = self._rank_of(pid)
            if rank is not None and rank not in known:
                try:
                    fd = os.pidfd_open(pid)
                except OSError:  # gone meanwhile, or a kernel before 5.3
                    continue
                self._watched[fd] = rank
                self._poll.register(fd, select.EPOLLIN)

    def first_dead(self) -> int | None:
        """The rank that ended first, None where none did or none was found; epoll keeps the order."""
        ready = self._poll.poll(0)
        return self._watched[ready[0][0]] if ready else None

    def close(self) -> None:
        """Forget the processes."""
        self._poll.close()
        for fd in self._watched:
            os.close(fd)
        self._watched.clear()

    def _rank_of(self, pid: int) -> int | None:
        try:
            match = _RANK.search((self._proc / str(pid) / "environ").read_bytes())
        except OSError:
            return None
        return int(match[1]) if match else None


def _descendants(pid: int, proc: Path, depth: int) -> list[int]:
    found: list[int] = []
    level = [pid]
    for _ in range(depth):
        level = [child for parent in level for child in _children(parent, proc)]
        found += level
    return found


def _children(pid: int, proc: Path) -> list[int]:
    try:
        return [int(word) for word in (proc / str(pid) / "task" / str(pid) / "children").read_text().split()]
    except OSError:
        return []
