"""Commands in running containers, as a kubelet serves them: a websocket with channels, v4.channel.k8s.io.

A byte before each message tells whose it is: 0 input, 1 output, 2 errors, 3 the command's Status at its end.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import select
import signal
import ssl
import struct
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

PROTOCOL = "v4.channel.k8s.io"
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_CHUNK_BYTES = 1 << 15


@dataclass(frozen=True)
class Entry:
    """How a container is entered: the words before a command, and its variables."""

    words: tuple[str, ...]
    environ: Mapping[str, str]


def upgrade(handler: Any) -> bool:
    """Answer a request for a websocket; False where it was none of ours."""
    key = handler.headers.get("Sec-WebSocket-Key")
    if PROTOCOL not in (handler.headers.get("Sec-WebSocket-Protocol") or "") or not key:
        handler.send_response(400)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return False
    accept = base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()
    handler.send_response(101)
    for name, value in (
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", accept),
        ("Sec-WebSocket-Protocol", PROTOCOL),
    ):
        handler.send_header(name, value)
    handler.end_headers()
    handler.close_connection = True
    return True


def serve(connection: ssl.SSLSocket, entry: Entry, words: list[str]) -> None:
    """Run the command until it ends, or the other side leaves: then its input ends, and nothing else. In one
    thread: a TLS connection may not be read and written at once.
    """
    try:
        process = subprocess.Popen(
            [*entry.words, *words],
            env=dict(entry.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            # The kubelet itself blocks some signals.
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ()),  # noqa: PLW1509
        )
    except OSError as error:
        _send(connection, _BINARY, b"\x03" + _status(str(error), None))
        return
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    channels = {process.stdout.fileno(): b"\x01", process.stderr.fileno(): b"\x02"}
    with contextlib.suppress(OSError, EOFError):
        received = b""
        while channels:
            everything = [connection, *channels]
            ready = [connection] if connection.pending() else select.select(everything, (), ())[0]
            for fd in channels.keys() & set(ready):
                if data := os.read(fd, _CHUNK_BYTES):
                    _send(connection, _BINARY, channels[fd] + data)
                else:
                    del channels[fd]
            if connection in ready:
                received = _feed(connection, received + _received(connection), process.stdin)
        code = process.wait()
        _send(connection, _BINARY, b"\x03" + _status("", code if code >= 0 else 128 - code))
        _send(connection, _CLOSE, struct.pack("!H", 1000))
    with contextlib.suppress(OSError):
        process.stdin.close()
    threading.Thread(target=_drain, args=(process,), daemon=True).start()


def _drain(process: subprocess.Popen[bytes]) -> None:
    """Nobody hears what it says any more."""
    assert process.stdout is not None
    assert process.stderr is not None
    other = threading.Thread(target=process.stderr.read, daemon=True)
    other.start()
    process.stdout.read()
    other.join()
    process.wait()


def _send(connection: ssl.SSLSocket, kind: int, data: bytes) -> None:
    size = len(data)
    head = bytes([0x80 | kind])
    head += bytes([size]) if size < 126 else struct.pack("!BH", 126, size)
    connection.settimeout(60)
    connection.sendall(head + data)


def _received(connection: ssl.SSLSocket) -> bytes:
    """What there is; nothing where TLS had something to say for itself. Raises EOFError at the end."""
    connection.settimeout(0.01)
    try:
        data = connection.recv(_CHUNK_BYTES)
    except TimeoutError:
        return b""
    if not data:
        raise EOFError
    return data


def _feed(connection: ssl.SSLSocket, received: bytes, stdin: IO[bytes]) -> bytes:
    """Do what whole messages say; the rest is left. Raises EOFError where one is the last."""
    while (found := _message(received)) is not None:
        kind, data, size = found
        received = received[size:]
        if kind == _CLOSE:
            raise EOFError
        if kind == _PING:
            _send(connection, _PONG, data)
        elif data[:1] == b"\0":
            with contextlib.suppress(BrokenPipeError):
                stdin.write(data[1:])
                stdin.flush()
    return received


def _message(received: bytes) -> tuple[int, bytes, int] | None:
    """A message as a client sends it, masked and in one piece: kind, data and length of all; None for half
    a one.
    """
    if len(received) < 2:
        return None
    size, at = received[1] & 0x7F, 2
    if size >= 126:
        at += 2 if size == 126 else 8
        size = int.from_bytes(received[2:at], "big")
    mask, start = received[at : at + 4], at + 4
    if len(received) < start + size:
        return None
    data = bytes(byte ^ mask[number % 4] for number, byte in enumerate(received[start : start + size]))
    return received[0] & 0x0F, data, start + size


def _status(message: str, code: int | None) -> bytes:
    if code == 0:
        return json.dumps({"metadata": {}, "status": "Success"}).encode()
    causes = [] if code is None else [{"reason": "ExitCode", "message": str(code)}]
    status = {"metadata": {}, "status": "Failure", "message": message or f"exit code {code}"}
    return json.dumps({**status, "reason": "NonZeroExitCode", "details": {"causes": causes}}).encode()
