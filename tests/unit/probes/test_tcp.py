"""What this process's own TCP sockets sent again, and nobody else's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.probes.tcp import Resent, resent_by_socket, resent_since

ELSEWHERE = """
import socket
held = socket.create_server(("127.0.0.1", 0))
print(flush=True)
input()
"""


def test_the_sockets_of_this_process_are_counted_and_stay_as_they_were() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(type=socket.SOCK_DGRAM) as datagrams,
    ):
        one.setblocking(False)
        counted = resent_by_socket()
        assert counted is not None
        inodes = [os.fstat(each.fileno()).st_ino for each in (server, one, other, local, datagrams)]
        assert [inode in counted for inode in inodes] == [True, True, True, False, False]
        assert not one.getblocking()
        one.send(b"still open")
        assert other.recv(64) == b"still open"


def test_the_sockets_of_other_processes_are_not() -> None:
    before = resent_by_socket()
    words = [sys.executable, "-c", ELSEWHERE]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert resent_by_socket() == before
        other.communicate(b"\n")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({1: 5, 2: 7}, {1: 8, 2: 7}, 3),
        ({1: 5}, {1: 5, 9: 4}, 4),  # new
        ({1: 5, 2: 7}, {1: 6}, 1),  # one was closed
        ({1: 5}, {1: 2}, 2),  # a new one has its inode
        ({}, {}, 0),
        (None, {1: 5}, None),
        ({1: 5}, None, None),
    ],
)
def test_what_was_sent_again_between_two_looks(
    before: Resent | None, after: Resent | None, expected: int | None
) -> None:
    assert resent_since(before, after) == expected


def test_where_the_system_does_not_say_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("busbw.probes.tcp._OPEN", tmp_path / "none")
    assert resent_by_socket() is None


def test_a_kernel_that_knows_no_counter_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)):
        monkeypatch.setattr("socket.TCP_INFO", 9999)
        assert resent_by_socket() is None
