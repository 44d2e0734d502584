"""Keeps MPICH's start-up messages below the line length of Slurm's PMI server.

srun's plugin ``pmi2`` also serves PMI-1, which MPICH's wheels speak. It allows values of 1,024 characters,
but reads a request as one piece of at most 1,024 bytes, ``cmd=put`` and the key included (``MAX_READLINE`` in
Slurm's ``mpi/pmi2/pmi1.c``; seen with 22.05). MPICH over UCX publishes 4,096 bytes for every node's address,
in values of that greatest length: the end of each is lost, and where it meets the next request, that is lost
too. Ranks then fail in MPI_Init with an address that makes no sense, or wait in it for ever.

So while MPI starts, a child process stands between the library and Slurm, and lowers the length in the
server's one answer that tells it. After that the library talks to Slurm itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping

# Leaves 128 bytes for the rest of a request: 42 of its own words, a name of two 32-bit numbers, a key of 64.
LONGEST_VALUE = 896
_MAXES = re.compile(rb"(?<=\bvallen_max=)\d+")
_CHUNK_BYTES = 65536


@contextlib.contextmanager
def bounded_requests(environ: Mapping[str, str]) -> Iterator[None]:
    """While inside, requests to a PMI server of Slurm stay within what it reads; elsewhere this does nothing.

    ``environ`` is the rank's: ``PMI_FD`` is the descriptor of its server.
    """
    number = environ.get("PMI_FD", "")
    if "SLURM_PROCID" not in environ or not number.isdecimal():
        yield
        return
    pmi, server = int(number), os.dup(int(number))
    library, relay = socket.socketpair()
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(relay.fileno()), str(server)],
        pass_fds=(relay.fileno(), server),
    )
    os.dup2(library.fileno(), pmi)
    library.close()
    relay.close()
    try:
        yield
    finally:
        os.dup2(server, pmi)  # closes the library's end, and the relay ends
        os.close(server)
        child.wait()


def relay_until_closed(library: int, server: int) -> None:
    """Pass requests and answers on until either descriptor is closed."""
    answer = b""
    while True:
        ready, _, _ = select.select([library, server], [], [])
        if library in ready:
            if not (request := os.read(library, _CHUNK_BYTES)):
                return
            _write(server, request)
        if server in ready:
            if not (piece := os.read(server, _CHUNK_BYTES)):
                return
            answer += piece
            whole, answer = answer[: answer.rfind(b"\n") + 1], answer[answer.rfind(b"\n") + 1 :]
            _write(library, _MAXES.sub(lambda value: b"%d" % min(int(value[0]), LONGEST_VALUE), whole))


def _write(to: int, text: bytes) -> None:
    while text:
        text = text[os.write(to, text) :]


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        relay_until_closed(int(sys.argv[1]), int(sys.argv[2]))
