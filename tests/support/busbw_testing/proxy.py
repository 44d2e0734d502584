"""A proxy before a server on this machine, whose connections a test refuses, cuts or freezes."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Passes TCP connections on to a port; close it at the end. ``refuses`` holds of new ones."""

    def __init__(self, port: int) -> None:
        self.refuses = False
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket, threading.Event]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """End all connections that there are."""
        for here, there, _ in self._pairs:
            _end(here, there)

    def freeze(self) -> None:
        """Pass nothing on any more, on the connections that there are, and let neither side know."""
        for _, _, frozen in self._pairs:
            frozen.set()

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                if self.refuses:
                    here.close()
                    continue
                there = socket.create_connection(("127.0.0.1", self._port))
                frozen = threading.Event()
                self._pairs.append((here, there, frozen))
                for source, target in ((here, there), (there, here)):
                    threading.Thread(target=_pump, args=(source, target, frozen), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket, frozen: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            if frozen.is_set():
                return
            target.sendall(data)
    if not frozen.is_set():
        _end(source, target)


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
