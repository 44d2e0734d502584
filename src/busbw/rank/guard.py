"""A process beside rank 0 of a joined run that outlives it for a moment, and gives the record its end.

Launchers end all ranks when one dies, and not all leave rank 0 the time to say why: MPICH's hydra sends
SIGKILL within a millisecond. Where busbw started the ranks its front process judges; under somebody else's
launcher there is nobody, so rank 0 forks this process before it has threads or an MPI library. It sleeps
until connections close: rank 0's pipe, and a socket of every other rank on this host. The launcher learns
of a death in the same way, so the first that closes is known before the launcher's kill can close the others.
Over several hosts it sees the ranks of its own, and says no more than that.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.machine.processes import is_stopped
from busbw.rank.world.watched import RANK_BYTES, closed_first

if TYPE_CHECKING:
    from busbw.errors import RankFailed
    from busbw.model.event import Emit

_PIPE_FD: Final = 3
_LISTEN_FD: Final = 4


class Guard:
    """Rank 0's end. Without a folder to guard, the process ends with rank 0 and says nothing.

    ``tell`` takes the error as an event where a front process, and no person, reads rank 0's output.
    """

    def __init__(self, tell: Emit | None = None) -> None:
        # In the abstract name space (unix(7)): nothing to clean up after a kill.
        self.address = f"busbw-guard-{secrets.token_hex(8)}"
        self.host = socket.gethostname()
        read_fd, write_fd = os.pipe()
        self._write_fd = closed_first(write_fd)
        os.close(write_fd)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0{self.address}")
            listener.listen(socket.SOMAXCONN)
            self._pid = os.fork()
            if self._pid == 0:
                _live(read_fd, listener.fileno(), tell)
        os.close(read_fd)

    def watch(self, folder: str, hosts: int = 1) -> None:
        """From now on there is a record. ``hosts`` is how many the ranks are on."""
        with contextlib.suppress(BrokenPipeError):  # the guard was killed: the run goes on without
            os.write(self._write_fd, f"{hosts} {folder}\n".encode())

    def dismiss(self) -> None:
        """The record is closed."""
        os.close(self._write_fd)
        os.waitpid(self._pid, 0)


def _live(read_fd: int, listen_fd: int, tell: Emit | None) -> None:
    """The guard's whole life; never returns."""
    try:
        os.setsid()  # Ctrl-C and the launcher's kill are for the ranks
        # Among the descriptors of rank 0 is the launcher's own socket: held open, it would hide rank 0's
        # death. Both are copied out of the way first, since either may have the other's new number.
        pipe, listener = os.dup(read_fd), os.dup(listen_fd)
        os.dup2(pipe, _PIPE_FD)
        os.dup2(listener, _LISTEN_FD)
        os.closerange(_LISTEN_FD + 1, os.sysconf("SC_OPEN_MAX"))
        _guard(tell)
    finally:
        os._exit(0)


def _guard(tell: Emit | None) -> None:
    with os.fdopen(_PIPE_FD, "rb") as pipe:
        hosts, _, folder = pipe.readline().decode().rstrip("\n").partition(" ")
        if not folder:
            return
        rank, host = _first_dead(_PIPE_FD, _LISTEN_FD), socket.gethostname()
        words = describe_first_dead(rank, host, int(hosts))
        if is_stopped(os.getppid()):
            words = f"rank 0 on {host} is stopped, and the others waited for it"
        pipe.read()  # returns when rank 0 is gone
    error = _close_record(Path(folder), words)
    if error is not None and tell is not None:
        from busbw.model.event import error_event

        alone = int(hosts) == 1
        error.rank, error.host = rank if alone else None, host
        tell(error_event(error, peer_lost=not alone))


def _first_dead(pipe_fd: int, listen_fd: int) -> int:
    """The rank of this host that ended first. When we look several may have; epoll keeps the order."""
    ranks = {pipe_fd: 0}
    connections = []
    with socket.socket(fileno=listen_fd) as listener, select.epoll() as watch:
        watch.register(pipe_fd, select.EPOLLIN)
        watch.register(listen_fd, select.EPOLLIN)
        while True:
            for fd, _ in watch.poll():
                if fd == pipe_fd or (fd in ranks and not os.read(fd, 1)):
                    return ranks[fd]
                if fd in ranks:  # it waited in vain, and said goodbye: it is not the cause
                    watch.unregister(fd)
                    if is_stopped(os.getppid()):
                        return 0
                    continue
                connection, _ = listener.accept()
                said = connection.recv(RANK_BYTES, socket.MSG_WAITALL)
                connections.append(connection)
                ranks[connection.fileno()] = int.from_bytes(said, "little")
                watch.register(connection, select.EPOLLIN)


def describe_first_dead(rank: int, host: str, hosts: int) -> str:
    """The error that closes the record: with several hosts the first death may have been on another one."""
    if hosts == 1:
        return f"rank {rank} on {host} ended first, and the launcher ended the others"
    return f"a rank ended, and the launcher ended the others; the first to end on {host} was rank {rank}"


def _close_record(folder: Path, error: str) -> RankFailed | None:
    """Give the record its end; None where rank 0 had time for its own last words."""
    from busbw.errors import RankFailed
    from busbw.model.event import now_utc
    from busbw.model.record import RunStatus
    from busbw.record.close import close, read_status

    if read_status(folder) is not RunStatus.RUNNING:
        return None
    hint = "the launcher's own message says how it ended; finished cases are in the record"
    close(folder, RunStatus.FAILED, now_utc(), error=error, hint=hint)
    print(  # noqa: T201 (rank 0, whose job it is, is dead)
        f"error: {error}\nhint: {hint}\n# record   {folder}", file=sys.stderr, flush=True
    )
    return RankFailed(error, hint=hint)
