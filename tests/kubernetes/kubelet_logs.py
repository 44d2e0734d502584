"""What a kubelet does with its containers' output: lines with their times, kept and served over HTTPS.

The file has the lines as the API gives them with `timestamps`: time in nanoseconds, a space, the text.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import http.server
import os
import re
import ssl
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

_LOOK_SECONDS = 0.05
LogOf = Callable[[str, str, str], tuple[Path, Callable[[], bool]] | None]


class Writer:
    """A pipe whose lines are written to a file, each behind its time. Complete when the block is left."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._read, self._write = os.pipe()
        self._thread = threading.Thread(target=self._copy, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._write)
        self._thread.join()
        self._file.close()

    def fileno(self) -> int:
        """What the container writes to."""
        return self._write

    def _copy(self) -> None:
        with os.fdopen(self._read, "rb") as lines:
            for line in lines:
                seconds, nanoseconds = divmod(time.time_ns(), 10**9)
                stamp = dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")
                self._file.write(f"{stamp}.{nanoseconds:09}Z ".encode() + line)
                self._file.flush()


def _chosen(line: bytes, query: dict[str, list[str]]) -> bytes:
    """A line as the query wants it, empty where it does not want it."""
    stamp, _, text = line.partition(b" ")
    since = query.get("sinceTime", [""])[0]
    if since and stamp[:19].decode() < since[:19]:
        return b""
    return line if query.get("timestamps") == ["true"] else text


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET /containerLogs/NAMESPACE/POD/CONTAINER."""

    protocol_version = "HTTP/1.1"
    log_of: LogOf

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        url = urllib.parse.urlparse(self.path)
        match = re.fullmatch(r"/containerLogs/([^/]+)/([^/]+)/([^/]+)", url.path)
        found = type(self).log_of(*match.groups()) if match else None
        if found is None or not found[0].exists():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):  # the reader left
            self._stream(*found, urllib.parse.parse_qs(url.query))

    def _stream(self, path: Path, complete: Callable[[], bool], query: dict[str, list[str]]) -> None:
        follow = query.get("follow") == ["true"]
        with path.open("rb") as file:
            while True:
                done = complete()  # before reading: nothing is lost at the end
                rest = b""
                for line in file:
                    rest = b"" if line.endswith(b"\n") else line
                    if not rest or done:
                        self._chunk(_chosen(line, query))
                file.seek(-len(rest), os.SEEK_CUR)
                if done or not follow:
                    break
                time.sleep(_LOOK_SECONDS)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *arguments: Any) -> None:
        """A reader that left is no error."""


def serve(folder: Path, port: int, log_of: LogOf) -> None:
    """Answers in threads, from now on."""
    certificate, key = folder / "kubelet.crt", folder / "kubelet.key"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kubelet"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*words, *files], check=True, capture_output=True)
    server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"log_of": staticmethod(log_of)}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
