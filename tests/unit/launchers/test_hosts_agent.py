"""What a host's agent sees of the ends of its ranks."""

from __future__ import annotations

import json
import os
import selectors
import socket
import threading
from collections.abc import Iterator

import pytest

from busbw.launchers.hosts_agent import Watch
from busbw.world.watched import report_to


@pytest.fixture
def address() -> str:
    return f"busbw-test-{os.getpid()}"


@pytest.fixture
def watch(address: str) -> Iterator[Watch]:
    with selectors.DefaultSelector() as selector:
        found = Watch(address, selector)
        yield found
        for connection in list(selector.get_map().values()):
            assert isinstance(connection.fileobj, socket.socket)
            connection.fileobj.close()


def connected(address: str, rank: int) -> socket.socket:
    found = report_to(address, rank)
    assert found is not None
    return found


def told(capsys: pytest.CaptureFixture[str]) -> list[tuple[int, bool, bool]]:
    lines = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    return [(line["gone"], line["said"], line["swept"]) for line in lines]


def test_ends_in_their_order(watch: Watch, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    ranks = [connected(address, rank) for rank in (4, 5, 6)]
    watch.drain()
    ranks[1].close()
    watch.drain()
    ranks[2].sendall(b".")
    watch.is_swept = True
    ranks[0].close()
    ranks[2].close()
    watch.drain_all()
    first, *others = told(capsys)
    assert first == (5, False, False)
    assert sorted(others) == [(4, False, True), (6, True, True)]


def test_a_connection_that_closes_late_is_waited_for(
    watch: Watch, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rank that was killed may have lost its environment and not yet its connections."""
    rank = connected(address, 2)
    watch.drain()
    closing = threading.Timer(0.2, rank.close)
    closing.start()
    watch.drain_all()
    closing.join()
    assert told(capsys) == [(2, False, False)]


def test_a_connection_that_stays_is_not_waited_for_long(
    watch: Watch, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with connected(address, 2):
        watch.drain()
        watch.drain_all()
        assert told(capsys) == []
