"""The relay between MPICH and Slurm's PMI server, with this test as both."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from busbw.rank.world.pmi_relay import LONGEST_VALUE, bounded_requests

# What Slurm's server reads at once (MAX_READLINE in its mpi/pmi2/pmi1.c).
SERVER_READS = 1024


@dataclass
class Server:
    """Answers as Slurm does: each read is taken for one request."""

    end: socket.socket
    requests: list[bytes] = field(default_factory=list)

    def until_the_rank_leaves(self) -> None:
        """It may leave with an answer unread, or before it is written."""
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            self.serve()

    def serve(self) -> None:
        while request := self.end.recv(SERVER_READS):
            self.requests.append(request)
            maxes = b"cmd=maxes rc=0 kvsname_max=256 keylen_max=256 vallen_max=1024\n"
            self.end.sendall(maxes if request == b"cmd=get_maxes\n" else b"cmd=put_result rc=0\n")


@pytest.fixture
def server() -> Iterator[tuple[Server, int]]:
    """The server, and the descriptor that a rank would find in PMI_FD."""
    ours, theirs = socket.socketpair()
    serving = Server(ours)
    thread = threading.Thread(target=serving.until_the_rank_leaves)
    thread.start()
    fd = theirs.detach()
    yield serving, fd
    os.close(fd)
    thread.join(5)
    ours.close()


def ask(fd: int, request: bytes) -> bytes:
    os.write(fd, request)
    return os.read(fd, 4096)


def put(length: int) -> bytes:
    """The longest request around a value of this length: both numbers of the name have 32 bits."""
    return b"cmd=put kvsname=4294967295.4294967295 key=%s value=%s\n" % (b"k" * 64, b"v" * length)


def test_values_are_kept_so_short_that_a_request_is_read_at_once(server: tuple[Server, int]) -> None:
    serving, fd = server
    with bounded_requests({"PMI_FD": str(fd), "SLURM_PROCID": "0"}):
        answer = ask(fd, b"cmd=get_maxes\n")
        assert answer == b"cmd=maxes rc=0 kvsname_max=256 keylen_max=256 vallen_max=896\n"
        assert ask(fd, put(LONGEST_VALUE)) == b"cmd=put_result rc=0\n"
        assert serving.requests[-1] == put(LONGEST_VALUE)
    # Afterwards nothing stands between them.
    assert ask(fd, b"cmd=get_maxes\n").endswith(b"vallen_max=1024\n")


@pytest.mark.parametrize("environ", [{"SLURM_PROCID": "0"}, {"PMI_FD": "{fd}"}, {"PMI_FD": "port"}])
def test_other_launchers_are_left_alone(server: tuple[Server, int], environ: dict[str, str]) -> None:
    _, fd = server
    with bounded_requests({name: value.format(fd=fd) for name, value in environ.items()}):
        assert ask(fd, b"cmd=get_maxes\n").endswith(b"vallen_max=1024\n")


def test_a_server_that_goes_away_ends_the_relay() -> None:
    ours, theirs = socket.socketpair()
    fd = theirs.detach()
    with bounded_requests({"PMI_FD": str(fd), "SLURM_PROCID": "0"}):
        ours.close()
        assert os.read(fd, 10) == b""
    os.close(fd)
