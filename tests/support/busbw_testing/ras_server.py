"""A server that speaks the protocol of NCCL's RAS and replays an answer.

python -m busbw_testing.ras_server ANSWER_FILE PORT
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw_testing.namespaces import Hosts

ANSWERS = Path(__file__).parents[2] / "data" / "nccl_ras"
COMMANDS = b"CLIENT PROTOCOL 2\nTIMEOUT 3\nSET FORMAT json\nVERBOSE STATUS\n"


class Ras:
    """Answers as NCCL does; ``silent`` connections first get no answer, as those of a stopped process."""

    def __init__(self, answer: bytes, silent: int = 0, port: int = 0) -> None:
        self.answer, self.silent, self.asked = answer, silent, 0
        self._held: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def start(self) -> None:
        """Serve beside the caller."""
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        """Until it is closed."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.asked += 1
            if self.asked <= self.silent:
                self._held.append(connection)
                continue
            with connection:
                said = b""
                while not said.endswith(COMMANDS) and (more := connection.recv(4096)):
                    said += more
                takes_json = (
                    b"OK" if self.answer.startswith(b"{") else b"ERROR: Unknown command SET FORMAT json"
                )
                connection.sendall(b"SERVER PROTOCOL 2\nOK\n" + takes_json + b"\n" + self.answer)

    def close(self) -> None:
        """End it; nothing listens any more."""
        self._socket.close()
        for each in self._held:
            each.close()


def answer_of(kind: str, pid: int, host: str = "127.0.0.1", version: str = "2.28.9") -> bytes:
    """An answer whose late rank is this process, of 2 H200 with NCCL 2.28.9; of another version as its source
    (src/ras/client_support.cc) differs: text before 2.28.7, of which 2.24 has one number for all operations,
    and from 2.29 on the comma.
    """
    numbers = tuple(map(int, version.split(".")))
    form = "json" if numbers >= (2, 28, 7) else "txt"
    text = (ANSWERS / f"2.28.9-{kind}.{form}").read_text().replace("2.28.9", version)
    if numbers >= (2, 29):
        text = text.replace('"nvml_dev": 1\n', '"nvml_dev": 1,\n')
    if numbers < (2, 26):
        text = text.replace("different AllReduce operation", "different collective operation")
    for old in ("2142", "2070"):
        text = text.replace(f'"pid": {old}', f'"pid": {pid}').replace(f"process {old} ", f"process {pid} ")
        text = text.replace(f"Process {old} ", f"Process {pid} ")
    return text.replace("192.0.2.2", host).encode()


@contextmanager
def stopped_job(hosts: Hosts, first: str, late: str, folder: Path) -> Iterator[tuple[int, str]]:
    """NCCL's RAS on the host ``first`` tells of a job whose other rank is a stopped process of ``late``: its
    id and address. ``folder`` is seen by all hosts.
    """
    stopped = "sleep 300 >/dev/null 2>&1 & sleep 1; kill -STOP $!; echo $!"
    pid, address = int(hosts.run(late, "bash", "-c", stopped).stdout), hosts.address(late)
    answer = folder / "answer.json"
    answer.write_bytes(answer_of("stop", pid, address))
    words = [sys.executable, __file__, answer, "28028"]
    with subprocess.Popen(hosts.command(first, words), start_new_session=True) as server:
        try:
            yield pid, address
        finally:
            hosts.run(first, "pkill", "-f", "ras_server.py")
            hosts.run(late, "kill", "-KILL", str(pid))
            server.wait(20)


if __name__ == "__main__":
    Ras(Path(sys.argv[1]).read_bytes(), port=int(sys.argv[2])).serve()
