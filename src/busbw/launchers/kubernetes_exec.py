"""Runs a command in a container, as ``kubectl exec -i`` does: what ssh is to a host.

    python -m busbw.launchers.kubernetes_exec CONTEXT NAMESPACE POD CONTAINER WORD...

Standard input, output and error are the command's, and so is the exit code; 255 where the container cannot be
reached, or not any more. The protocol is ``v4.channel.k8s.io``: a byte before each message tells whose it is.
It cannot say that the input has ended, so the connection ends then, and with it the command's input.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import websocket

from busbw.errors import SiteError
from busbw.launchers.kubernetes_api import Api

_CHUNK_BYTES: Final = 1 << 16
_STDIN, _STDOUT, _STDERR, _STATUS = range(4)
# A cluster that falls silent is taken for lost after their product, as hosts are (hosts_ssh). What is said
# all the time also keeps proxies from ending a connection on which a launch is quiet.
ALIVE_SECONDS: Final = 5.0
ALIVE_COUNT: Final = 6
_UNREACHABLE: Final = 255
_LOOK_SECONDS: Final = 0.5
_HALF_SECONDS: Final = 0.05
_SEND_SECONDS: Final = 30.0


class _Session:
    """One command's connection. In one thread: Python's TLS connections may not be read and written at once
    (before 3.13).
    """

    def __init__(self, socket: Any) -> None:  # noqa: ANN401 (websocket's, untyped)
        self._socket = socket
        self._code: int | None = None
        self._has_input = True
        self._heard_s = self._asked_s = time.monotonic()

    def run(self) -> int:
        """Pass everything on, until the command has ended. Raises SiteError where the connection did."""
        try:
            while self._code is None:
                self._keep_alive()
                self._turn()
        except (websocket.WebSocketException, OSError) as error:
            raise SiteError(f"the connection ended: {error}", hint="") from error
        return self._code

    def _turn(self) -> None:
        """Take what there is on either side."""
        both = [self._socket.sock, *([0] if self._has_input else [])]
        pending = getattr(self._socket.sock, "pending", lambda: 0)  # of TLS alone
        ready = both[:1] if pending() else select.select(both, (), (), _LOOK_SECONDS)[0]
        if self._socket.sock in ready:
            self._hear()
        if 0 in ready and self._code is None:
            data = os.read(0, _CHUNK_BYTES)
            self._socket.settimeout(_SEND_SECONDS)
            if data:
                self._socket.send_binary(bytes([_STDIN]) + data)
            else:  # the command's input ends with the connection
                self._has_input = False
                self._socket.shutdown()
                raise OSError("nobody listens any more")

    def _hear(self) -> None:
        # What woke us may be TLS's own, and no message: it is not waited for. A half one is kept.
        self._socket.settimeout(_HALF_SECONDS)
        try:
            kind, data = self._socket.recv_data(control_frame=True)
        except websocket.WebSocketTimeoutException:
            return
        self._heard_s = time.monotonic()
        if kind == websocket.ABNF.OPCODE_CLOSE:
            raise OSError("the cluster closed it")
        if kind in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT) and data:
            self._take(data[0], data[1:])
            self._heard_s = time.monotonic()  # whoever reads our output may have kept us

    def _take(self, channel: int, data: bytes) -> None:
        if channel == _STATUS:
            self._code = exit_code(data)
        elif channel in (_STDOUT, _STDERR):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(channel, rest) :]

    def _keep_alive(self) -> None:
        now_s = time.monotonic()
        if now_s - self._heard_s > ALIVE_SECONDS * ALIVE_COUNT:
            raise OSError(f"nothing was heard for {ALIVE_SECONDS * ALIVE_COUNT:.0f} s")
        if now_s - self._asked_s > ALIVE_SECONDS:
            self._asked_s = now_s
            self._socket.settimeout(_SEND_SECONDS)
            self._socket.ping()


def exit_code(data: bytes) -> int:
    """The command's, by the Status that ends its connection. Raises SiteError where it could not start."""
    try:
        status = json.loads(data)
        if status.get("status") == "Success":
            return 0
        for cause in (status.get("details") or {}).get("causes") or []:
            if cause.get("reason") == "ExitCode":
                return int(cause["message"])
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise SiteError(f"the cluster said {data[:200]!r} of the command's end", hint="") from error
    raise SiteError(str(status.get("message") or "the command did not start"), hint="")


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    context, namespace, pod, container, *words = arguments
    try:
        return _Session(Api(context, namespace).execute(pod, container, words)).run()
    except SiteError as error:
        sys.stderr.write(f"{error.message}\n")
        return _UNREACHABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
