"""What this host's kernel shows of a launch's processes: which ranks they are, and which ended first.
Launchers name the wrong rank, or none; a rank that dies while Python starts says nothing at all.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import selectors
import signal
import socket
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Final

from busbw.errors import BusbwError
from busbw.launch.agent import Watch
from busbw.launch.observed import Story
from busbw.machine import processes
from busbw.rank.world.identity import identify

_STARTING_SECONDS: Final = 0.02  # a rank's first moments are short


class Witness:
    """Sees the processes of a launch from outside. ``address`` is where its ranks report."""

    def __init__(self, ranks: int) -> None:
        self.address = f"busbw-front-{secrets.token_hex(8)}"
        self.someone_ended = False  # without a goodbye
        self.ranks: dict[int, int] = {}  # process id -> rank
        self._expected = frozenset(range(ranks))
        self._roots: tuple[int, ...] = ()
        self._first_dead: int | None = None  # the first of those that had reported
        self._missing: tuple[int, ...] = ()  # ranks that had not reported then
        self._left: set[int] = set()  # with a goodbye
        self._launchers: set[int] = set()  # processes that start ranks
        self._names: dict[int, str] = {}  # of those that have started others: a rank is none before its exec
        self._had_ranks = False  # when the first of all ended
        self._handles: dict[int, int] = {}  # pidfd -> process id
        self._ended: list[int] = []  # process ids, in the order of their ends
        self._ends = select.epoll()
        self._selector = selectors.DefaultSelector()
        self._watch = Watch(self.address, self._selector, self._take_end)

    def follow(self, pids: Sequence[int], *, are_ranks: bool) -> None:
        """The processes that were started for the launch: its ranks in their order, or a launcher."""
        self._roots = tuple(pids)
        for rank, pid in enumerate(pids):
            self._take_process(pid, rank if are_ranks else None)

    @property
    def idle_seconds(self) -> float:
        """How long to wait for the next look: closely while ranks start, hardly ever while they measure."""
        return 0.2 if self.is_complete else _STARTING_SECONDS

    @property
    def first_dead(self) -> int | None:
        """The rank that ended first and without a goodbye: ranks report theirs a moment before a launcher
        hears of it, and of those that had not reported yet the kernel knows.
        """
        ended = (self.ranks[pid] for pid in self._ended if pid in self.ranks)
        by_kernel = next((rank for rank in ended if rank not in self._left), None)
        if self._first_dead is None or (self._missing and by_kernel is not None):
            return by_kernel
        return self._first_dead

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks of which nothing was seen when the first ended: one of them may be the cause."""
        absent = self._missing if self.someone_ended else sorted(self._expected) if self._ended else ()
        return tuple(rank for rank in absent if rank not in self.ranks.values())

    @property
    def lost_launcher(self) -> str:
        """The name of the launcher's process that ended before any of its ranks; empty where none did."""
        pid = next(iter(self._ended), None)
        is_it = pid is not None and pid not in self.ranks and self._had_ranks
        return self._names.get(pid or 0, "") if is_it else ""

    def hear(self, pid: int, rank: int) -> None:
        """A rank says which process it is: under a profiler it is not the one that the launcher started."""
        if pid not in self.ranks:
            self._take_process(pid, rank)

    def look(self) -> None:
        """Take what has happened until now."""
        self._watch.drain()
        if not self.is_complete:
            self._find_ranks()
        for fd, _ in self._ends.poll(0):
            self._ends.unregister(fd)
            self._had_ranks = self._had_ranks or (not self._ended and bool(self.ranks))
            self._ended.append(self._handles[fd])

    def add_to(self, story: Story) -> Story:
        """The story with what was seen."""
        return replace(
            story,
            someone_ended=self.someone_ended,
            all_left=self._left >= self._expected,
            first_dead=self.first_dead,
            missing=self.missing,
            pids=dict(self.ranks),
            lost_launcher=self.lost_launcher,
        )

    def end_first_rank(self, seconds: float) -> None:
        """Ask rank 0 to end, and give it so long to close its record: a launcher ends all with the first."""
        fd = next((fd for fd, pid in self._handles.items() if self.ranks.get(pid) == 0), None)
        if fd is None:
            return
        gone = select.poll()
        gone.register(fd, select.POLLIN)
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(fd, signal.SIGTERM)
            signal.pidfd_send_signal(fd, signal.SIGCONT)  # a stopped process would not hear it
            gone.poll(seconds * 1e3)

    def end_ranks(self) -> None:
        """Kill the ranks that are left. Their launcher sees it, and removes its own files."""
        self._kill(self.ranks)

    def close(self) -> None:
        """Kill what is left, since a launcher that was killed ends nobody, and stop listening."""
        self._kill(self._handles.values())
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        self._ends.close()
        for fd in self._handles:
            os.close(fd)

    def _kill(self, pids: Container[int]) -> None:
        for fd, pid in self._handles.items():
            if pid in pids and pid not in self._ended:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)

    @property
    def is_complete(self) -> bool:
        """Whether all ranks' processes are known."""
        return not self._launchers or len(set(self.ranks.values())) == len(self._expected)

    def _find_ranks(self) -> None:
        """Below the launcher's processes; what a rank starts is the rank's own."""
        waiting = list(self._roots)
        while waiting:
            parent = waiting.pop()
            children = processes.children(parent)
            if children and (name := processes.name(parent)):
                self._names[parent] = name
            for pid in children:
                if pid in self.ranks:
                    continue
                self._take_process(pid, _rank_of(processes.environ(pid), self._expected))
                waiting += [] if pid in self.ranks else [pid]

    def _take_process(self, pid: int, rank: int | None) -> None:
        """A process of the launch; it becomes a rank when it has a rank's variables."""
        if pid not in self._handles.values():
            try:
                fd = os.pidfd_open(pid)
            except OSError:  # it has ended, or the kernel is older than 5.3
                return
            self._handles[fd] = pid
            self._ends.register(fd, select.EPOLLIN)
        if rank is None:
            self._launchers.add(pid)
        else:
            self._launchers.discard(pid)
            self.ranks[pid] = rank

    def _take_end(self, *, gone: int, died: bool) -> None:
        if not died:
            self._left.add(gone)
        elif not self.someone_ended:
            self.someone_ended, self._first_dead = True, gone
            self._missing = tuple(sorted(self._expected - self._watch.came))


def _rank_of(environ: Mapping[str, str], expected: frozenset[int]) -> int | None:
    """The rank that its launcher's variables make of a process; None for one of the launcher's own."""
    try:
        identity = identify(environ)
    except BusbwError:
        return None
    return identity.rank if identity is not None and identity.rank in expected else None
