"""A process beside the ranks of a host that sees when nothing moves any more: a rank that is stopped, or
waits for ever, cannot.

The first rank that looks for it starts it, by a fork, before CUDA and MPI start. Each rank hands over its
progress page with its connection. Once no page has changed for as long as all of them allow, the watcher
reports what it sees, leaves the watchers of other hosts the time to do the same, and ends its ranks: those
that can are asked to leave, the others are killed. It ends with the last rank.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from busbw.errors import SiteError
from busbw.machine.look import ask_ras, look
from busbw.machine.processes import STOPPED_SECONDS, cpu_seconds, is_stopped, name, state, waits_in
from busbw.model.hang import HostSeen, ProcessSeen
from busbw.model.progress import PAGE_BYTES, HostStill, Page, Phase, RankHere, decode, moving_part

NAME: Final = "busbw-watcher"
Tell = Callable[[HostStill], None]

_LISTEN_FD: Final = 3
_TRIES: Final = 100
_AGAIN_SECONDS: Final = 0.01
# Nobody has come since the start.
_ALONE_SECONDS: Final = 10.0
_LONGEST_LOOK_SECONDS: Final = 1.0
_SHORTEST_LOOK_SECONDS: Final = 0.1
_LOOKS: Final = 20  # within the shortest time in which anything has to move
# After its report a watcher lets the other hosts' ranks live for so long: their watchers report too.
_OTHERS_SECONDS: Final = 5.0
_LEAVE_SECONDS: Final = 1.0
_FACTS_SECONDS: Final = 8.0
_PEER: Final = struct.Struct("3i")  # process, user, group: unix(7)


def reach(page_fd: int, tell: Tell) -> socket.socket | None:
    """This rank's connection to the watcher of its host, which has its page from now on; None where there is
    none to be had. ``tell`` is called in the watcher's process with what it reports.
    """
    address = _address(os.environ)
    for _ in range(_TRIES):
        _start(address, tell)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(address)
            socket.send_fds(connection, [b"."], [page_fd])
        except OSError:  # the other rank that starts it does not listen yet
            connection.close()
            time.sleep(_AGAIN_SECONDS)
        else:
            return connection
    return None


def _address(environ: os._Environ[str]) -> str:
    """In the abstract name space (unix(7)): the same for all ranks of a launch on a host, and no others'.
    Ranks of one launcher are children of one process.
    """
    launch = environ.get("BUSBW_FRONT") or environ.get("BUSBW_JOB") or str(os.getppid())
    return f"\0busbw-progress-{os.getuid()}-{Path('/proc/self/ns/pid').readlink()}-{launch}"


def _start(address: str, tell: Tell) -> None:
    """Start the watcher unless another rank has."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(address)
        except OSError:
            return
        listener.listen(socket.SOMAXCONN)
        if os.fork() == 0:
            _live(listener.fileno(), tell)


def _live(listen_fd: int, tell: Tell) -> None:
    """The watcher's whole life; never returns."""
    try:
        os.setsid()  # Ctrl-C and the launcher's kill are for the ranks
        Path("/proc/self/comm").write_text(NAME)  # as ps and top have it, beside its command line
        os.dup2(listen_fd, _LISTEN_FD)
        os.closerange(_LISTEN_FD + 1, os.sysconf("SC_OPEN_MAX"))  # the launcher's sockets show a rank's end
        with socket.socket(fileno=_LISTEN_FD) as listener:
            _Watcher(listener, tell).watch()
    finally:
        os._exit(0)


def with_facts(still: HostStill) -> HostStill:
    """And what bash can find out on this host within some seconds: stacks, connections, links, the kernel's
    log, NCCL's own answer. As it is where there is no bash.
    """
    pids = [each.page.pid for each in still.ranks if not each.is_gone]
    address = next((each.page.ras for each in still.ranks if each.page.ras), "")
    found, ras = HostSeen(), tuple[str, ...]()
    with contextlib.suppress(SiteError):
        found = look((), pids, _FACTS_SECONDS)
    with contextlib.suppress(SiteError):
        ras = ask_ras((), address, 1, _FACTS_SECONDS) if address else ras
    ranks = []
    for each in still.ranks:
        more = found.processes.get(each.page.pid, each.process)
        process = replace(each.process, stack=more.stack, kernel=more.kernel, unanswered=more.unanswered)
        ranks.append(replace(each, process=process))
    return replace(still, ranks=tuple(ranks), links=found.links, log=found.log, ras=ras)


@dataclass
class _Rank:
    """A rank that was here. ``cpu_s`` is what it had used when it was last seen to move."""

    connection: socket.socket
    pid: int
    memory: mmap.mmap
    cpu_s: float = 0.0
    has_left: bool = False

    @property
    def page(self) -> Page:
        """What it publishes now."""
        return decode(self.memory[:])

    def look(self) -> RankHere:
        """Everything that can be seen of it from outside."""
        page = self.page
        if self.has_left:
            return RankHere(page, ProcessSeen(""), is_gone=page.phase is not Phase.END)
        process = ProcessSeen(state(self.pid), name(self.pid), waits_in(self.pid))
        return RankHere(page, process, round(cpu_seconds(self.pid) - self.cpu_s, 3))


class _Watcher:
    """The ranks of one launch on one host."""

    def __init__(self, listener: socket.socket, tell: Tell) -> None:
        self._listener, self._tell = listener, tell
        self._ranks: dict[int, _Rank] = {}
        self._poll = select.epoll()
        self._poll.register(listener, select.EPOLLIN)
        self._began_s = self._moved_s = time.monotonic()
        self._last: list[bytes] = []
        self._is_quiet = self._has_reported = False

    def watch(self) -> None:
        """Until the ranks have left, or do not move and are ended."""
        while not self._is_over():
            self._take(self._look_seconds())
            quiet_s = self._quiet_seconds()
            if self._alive() and self._is_still(quiet_s):
                self._report(with_facts(self._seen(round(quiet_s, 1))))
                self._end()
                return

    def _alive(self) -> list[_Rank]:
        return [rank for rank in self._ranks.values() if not rank.has_left]

    def _is_over(self) -> bool:
        if not self._ranks:
            return time.monotonic() - self._began_s > _ALONE_SECONDS
        return not self._alive()

    def _limit_seconds(self) -> float:
        """The longest that a rank allows: the others wait for it. 0 is for ever."""
        limits = [rank.page.limit_s for rank in self._alive()]
        return max(limits, default=0.0) if all(limits) else 0.0

    def _is_still(self, quiet_s: float) -> bool:
        """Whether that is longer than the ranks allow, or than a stop by itself lasts."""
        if 0 < self._limit_seconds() <= quiet_s:
            return True
        return quiet_s >= STOPPED_SECONDS and any(
            is_stopped(rank.pid, traced=False) for rank in self._alive()
        )

    def _look_seconds(self) -> float:
        limit_s = self._limit_seconds()
        wanted_s = limit_s / _LOOKS if limit_s else _LONGEST_LOOK_SECONDS
        return min(_LONGEST_LOOK_SECONDS, max(_SHORTEST_LOOK_SECONDS, wanted_s))

    def _quiet_seconds(self) -> float:
        """For how long nothing has moved."""
        now_s, parts = time.monotonic(), [moving_part(rank.memory[:]) for rank in self._ranks.values()]
        if parts != self._last:
            self._last, self._moved_s, self._is_quiet = parts, now_s, False
        elif not self._is_quiet:
            self._is_quiet = True
            for rank in self._alive():
                rank.cpu_s = cpu_seconds(rank.pid)
        return now_s - self._moved_s

    def _take(self, seconds: float) -> None:
        """Ranks that come and leave, for so long."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0 and not self._is_over():
            for fd, _ in self._poll.poll(left_s):
                if fd == _LISTEN_FD:
                    self._accept()
                else:
                    self._poll.unregister(fd)
                    self._note_end(self._ranks[fd])

    def _note_end(self, rank: _Rank) -> None:
        """Where the first ends within a case, what all are in is reported at once: its library may have ended
        it for what another one did, and the launcher ends all.
        """
        rank.has_left = True
        if not self._has_reported and Phase.WARMUP <= rank.page.phase < Phase.END:
            self._report(self._seen(0.0))

    def _accept(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            connection, _ = self._listener.accept()
            connection.settimeout(_LEAVE_SECONDS)
            _, found, _, _ = socket.recv_fds(connection, 1, 1)
            size = _PEER.size
            pid, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
            if not found or user != os.getuid():
                connection.close()
                return
            memory = mmap.mmap(found[0], PAGE_BYTES, prot=mmap.PROT_READ)
            os.close(found[0])
            self._ranks[connection.fileno()] = _Rank(connection, pid, memory, cpu_seconds(pid))
            self._poll.register(connection, select.EPOLLIN | select.EPOLLHUP)

    def _seen(self, quiet_s: float) -> HostStill:
        seen = sorted((rank.look() for rank in self._ranks.values()), key=lambda each: each.page.rank)
        return HostStill(socket.gethostname(), quiet_s, tuple(seen))

    def _report(self, still: HostStill) -> None:
        self._has_reported = True
        with contextlib.suppress(OSError):  # nobody reads it any more
            self._tell(still)

    def _end(self) -> None:
        if len(self._ranks) < max(rank.page.ranks for rank in self._ranks.values()):
            self._take(_OTHERS_SECONDS)
        for rank in self._alive():
            with contextlib.suppress(OSError):
                rank.connection.sendall(b".")
        self._take(_LEAVE_SECONDS)
        for rank in self._alive():
            with contextlib.suppress(OSError):
                os.kill(rank.pid, signal.SIGKILL)
