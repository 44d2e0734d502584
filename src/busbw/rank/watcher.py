"""A process beside the ranks of a host that sees what they cannot say: that nothing moves any more, and which
of them ended first.

The first rank that looks for it starts it, by a fork, before CUDA and MPI start. Each rank hands over its
progress page with its connection. Once no page has changed for as long as all of them allow, the watcher
reports what it sees, leaves the watchers of other hosts the time to do the same, and ends its ranks: those
that can are asked to leave, the others are killed. It ends with the last rank.

Launchers end all ranks when one dies, and not all leave rank 0 the time to say why: MPICH's hydra sends
SIGKILL within a millisecond. A launcher learns of a death by the connections that it closes, as the watcher
does, so the first that closes is known before the launcher's kill can close the others. Where no front
process judges, the watcher gives rank 0's record its end.
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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from busbw.errors import BusbwError, RankFailed, SiteError
from busbw.machine import processes
from busbw.machine.processes import STOPPED_SECONDS, cpu_seconds, is_stopped
from busbw.model.event import Emit, EventKind, error_event, event, now_utc, stall_event
from busbw.model.hang import HostSeen, ProcessSeen
from busbw.model.progress import PAGE_BYTES, HostStill, Page, Phase, RankHere, decode, moving_part
from busbw.rank import progress
from busbw.rank.process import emit
from busbw.rank.world.identity import Identity, identify
from busbw.rank.world.watched import FRONT_VARIABLE, JOB_VARIABLE, Watched, closed_first

NAME: Final = "busbw-watcher"

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
ENDED: Final = "ended first, and the launcher ended the others"
_PEER: Final = struct.Struct("3i")  # process, user, group: unix(7)


def begin(identity: Identity, stall_s: float, tell: Emit) -> None:
    """Publish this rank's progress from now on, and have it watched: the first rank of a host that comes here
    starts the watcher, by a fork, so no other thread may run yet, and no library of GPUs or MPI. ``tell`` is
    called in the watcher's process with what it reports. A ``stall_s`` of 0 is for ever.
    """
    progress.begin(identity.rank, identity.size, stall_s, lambda page_fd: _reach(page_fd, tell))


def say_hello(rank: int) -> Watched:
    """A rank whose events a front process reads: it is here, and that one sees its end from now on."""
    watched = Watched(rank, os.environ)
    emit(event(EventKind.HELLO, rank=rank, pid=os.getpid(), host=socket.gethostname()))
    return watched


def exit_code(code: int) -> int:
    """A front process judges: a rank that ran to its end exits 0, and no engine starts the ranks again."""
    return 0 if code in (0, 1, 3) else code


def _reach(page_fd: int, tell: Emit) -> socket.socket | None:
    """The connection to this host's watcher, which has the page from now on; None where there is none."""
    address = _address(os.environ)
    for _ in range(_TRIES):
        _start(address, tell)
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(address)
                socket.send_fds(connection, [b"."], [page_fd])
                return closed_first(connection)
            except OSError:  # the other rank that starts it does not listen yet
                time.sleep(_AGAIN_SECONDS)
    return None


def _address(variables: os._Environ[str]) -> str:
    """In the abstract name space (unix(7)): the same for all ranks of a launch on a host, and no others'."""
    launch = variables.get(FRONT_VARIABLE) or variables.get(JOB_VARIABLE) or str(launcher())
    return f"\0busbw-progress-{os.getuid()}-{Path('/proc/self/ns/pid').readlink()}-{launch}"


def launcher() -> int:
    """The process whose children the ranks of a launch are: the next one above that is not this rank's own,
    as a script or a profiler around it is, which has the rank's variables too.
    """
    own, pid = _rank_of(dict(os.environ)), os.getppid()
    while own is not None and _rank_of(processes.environ(pid)) == own:
        pid = processes.parent(pid)
    return pid


def _rank_of(variables: Mapping[str, str]) -> tuple[str, int] | None:
    try:
        found = identify(variables)
    except BusbwError:
        return None
    return None if found is None else (found.launcher, found.rank)


def _start(address: str, tell: Emit) -> None:
    """Start the watcher unless another rank has."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(address)
        except OSError:
            return
        listener.listen(socket.SOMAXCONN)
        if os.fork() == 0:
            _live(listener.fileno(), tell)


def _live(listen_fd: int, tell: Emit) -> None:
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
    from busbw.machine.look import ask_ras, look  # ranks that do not stand still can do without

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


def first_dead(rank: int, how: str, host: str, *, is_only_host: bool) -> RankFailed:
    """The error that closes a record: with several hosts the first death may have been on another one."""
    words = f"rank {rank} on {host} {how}"
    if not is_only_host and how == ENDED:
        words = f"a rank ended, and the launcher ended the others; the first to end on {host} was rank {rank}"
    hint = "the launcher's own message says how it ended; finished cases are in the record"
    return RankFailed(words, hint=hint, rank=rank if is_only_host else None, host=host)


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
        pid = self.pid
        process = ProcessSeen(processes.state(pid), processes.name(pid), processes.waits_in(pid))
        return RankHere(page, process, round(cpu_seconds(self.pid) - self.cpu_s, 3))


class _Watcher:
    """The ranks of one launch on one host."""

    def __init__(self, listener: socket.socket, tell: Emit) -> None:
        self._listener, self._tell = listener, tell
        self._ranks: dict[int, _Rank] = {}
        self._poll = select.epoll()
        self._poll.register(listener, select.EPOLLIN)
        self._began_s = self._moved_s = time.monotonic()
        self._last: list[bytes] = []
        self._is_quiet = self._has_reported = self._ends_ranks = False
        self._blamed: tuple[int, str] | None = None  # the rank that ended first, and how

    def watch(self) -> None:
        """Until the ranks have left, or do not move and are ended."""
        while not self._is_over():
            limit_s = self._limit_seconds()
            wanted_s = limit_s / _LOOKS if limit_s > 0 else _LONGEST_LOOK_SECONDS
            self._take(min(_LONGEST_LOOK_SECONDS, max(_SHORTEST_LOOK_SECONDS, wanted_s)))
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
        """The longest that a rank allows: the others wait for it. Not above 0 is for ever."""
        limits = [rank.page.limit_s for rank in self._alive()] or [0.0]
        return max(limits) if min(limits) > 0 else min(limits)

    def _is_still(self, quiet_s: float) -> bool:
        """Whether that is longer than the ranks allow, or than a stop by itself lasts."""
        limit_s = self._limit_seconds()
        if 0 < limit_s <= quiet_s:
            return True
        is_long = quiet_s >= STOPPED_SECONDS and limit_s >= 0
        return is_long and any(is_stopped(rank.pid, traced=False) for rank in self._alive())

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
        self._blamed = self._blamed or self._to_blame(rank)
        if not self._has_reported and Phase.WARMUP <= rank.page.phase < Phase.END:
            self._report(self._seen(0.0))
        if rank.page.folder:
            self._close(Path(rank.page.folder))

    def _to_blame(self, gone: _Rank) -> tuple[int, str] | None:
        """Beside a stopped rank, those that are gone have left because it did not answer."""
        stopped = (rank.page.rank for rank in self._alive() if is_stopped(rank.pid))
        if (rank := next(stopped, None)) is not None:
            return rank, "is stopped, and the others waited for it"
        said = b""  # where it has ended in good order, or because others did not answer
        with contextlib.suppress(OSError):
            said = gone.connection.recv(1, socket.MSG_DONTWAIT)
        return None if said or gone.page.phase is Phase.END else (gone.page.rank, ENDED)

    def _close(self, folder: Path) -> None:
        """Rank 0 has ended: give its record its end, unless it stalled: whoever hears of that closes it."""
        from busbw.model.record import RunStatus
        from busbw.record.arrive import remove_scratch
        from busbw.record.close import close, read_status

        if not self._ends_ranks and read_status(folder) is RunStatus.RUNNING:
            rank, how = self._blamed or (0, ENDED)
            error = first_dead(rank, how, socket.gethostname(), is_only_host=self._has_all())
            close(folder, RunStatus.FAILED, now_utc(), error=error.message, hint=error.hint)
            told = {**error_event(error, peer_lost=error.rank is None), "folder": str(folder)}
            with contextlib.suppress(OSError):  # nobody reads it any more
                self._tell(told)
        remove_scratch(folder)

    def _has_all(self) -> bool:
        """Whether all ranks of the launch are on this host."""
        return len(self._ranks) >= max(rank.page.ranks for rank in self._ranks.values())

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
            self._tell(stall_event(still))

    def _end(self) -> None:
        self._ends_ranks = True
        if not self._has_all():
            self._take(_OTHERS_SECONDS)
        for rank in self._alive():
            with contextlib.suppress(OSError):
                rank.connection.sendall(b".")
        self._take(_LEAVE_SECONDS)
        for rank in self._alive():
            with contextlib.suppress(OSError):
                os.kill(rank.pid, signal.SIGKILL)
        self._take(_LEAVE_SECONDS)
