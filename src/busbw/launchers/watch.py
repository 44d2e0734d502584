"""Which rank of this host ended first, seen from outside.

Launchers name a process when a rank dies, but not always the one that did: MPICH's hydra (5.0) may name one
that it then killed itself. So every rank connects to the front process at its first line and says goodbye
before it leaves; of the connections that close without a goodbye, the first is the cause of the others.
"""

from __future__ import annotations

import contextlib
import secrets
import select
import socket
import threading
from typing import Final, Self

ADDRESS_VARIABLE: Final = "BUSBW_FRONT"
_RANK_BYTES: Final = 4
_LOOK_SECONDS: Final = 0.1


class RankWatch:
    """Listens from the start; watches from entering, which must follow the last fork of this process."""

    def __init__(self, ranks: int) -> None:
        # In the abstract name space (unix(7)): nothing to clean up after a kill.
        self.address = f"busbw-front-{secrets.token_hex(8)}"
        self.someone_ended = False  # without a goodbye
        self.first_dead: int | None = None  # the first of those that were there
        self.missing: tuple[int, ...] = ()  # ranks that were not there when it ended: one may be the cause
        self._awaited = set(range(ranks))
        self._connections: dict[int, tuple[int, socket.socket]] = {}  # file descriptor -> rank
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"\0{self.address}")
        self._listener.listen(max(ranks, socket.SOMAXCONN))
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="busbw-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._leaving.set()
        self._thread.join()

    def close(self) -> None:
        """Stop listening."""
        self._poll.close()
        self._listener.close()
        for _, connection in self._connections.values():
            connection.close()

    def _watch(self) -> None:
        while not self._leaving.is_set():
            ready = [fd for fd, _ in self._poll.poll(_LOOK_SECONDS)]
            missing = tuple(sorted(self._awaited))
            if self._listener.fileno() in ready:
                self._accept()
            for fd in ready:
                if fd in self._connections:
                    self._take_end(fd, missing)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        said = b""
        with contextlib.suppress(OSError):
            said = connection.recv(_RANK_BYTES, socket.MSG_WAITALL)
        if len(said) < _RANK_BYTES:  # it died in between: no name for it, nor for those that follow it
            connection.close()
            return
        rank = int.from_bytes(said, "little")
        self._connections[connection.fileno()] = rank, connection
        self._poll.register(connection, select.EPOLLIN)
        self._awaited.discard(rank)

    def _take_end(self, fd: int, missing: tuple[int, ...]) -> None:
        rank, connection = self._connections.pop(fd)
        self._poll.unregister(fd)
        with connection:
            said_goodbye = _read(connection)
        if not said_goodbye and not self.someone_ended:
            self.first_dead, self.missing = rank, missing
            self.someone_ended = True


def _read(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1)
    except OSError:
        return b""
