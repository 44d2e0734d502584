from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator

import pytest

from busbw.rank.world.watched import RANK_BYTES, Watched, watch_address


@pytest.fixture
def job() -> str:
    return f"busbw-test-{secrets.token_hex(4)}"


@pytest.fixture
def agent(job: str) -> Iterator[socket.socket]:
    """Listens as the agent of a host does."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{watch_address(job)}")
        listener.listen()
        listener.settimeout(10)
        yield listener


@pytest.mark.parametrize("goodbye", [b"", b"."])
def test_the_agent_hears_the_number_and_how_the_rank_ended(
    agent: socket.socket, job: str, goodbye: bytes
) -> None:
    watched = Watched(258, {"BUSBW_JOB": job})
    connection, _ = agent.accept()
    with connection:
        connection.settimeout(10)
        assert int.from_bytes(connection.recv(RANK_BYTES), "little") == 258
        if goodbye:
            watched.leave()
        assert watched._connection is not None
        watched._connection.close()
        assert connection.recv(8) == goodbye


def test_a_rank_that_nobody_watches_or_whose_agent_is_gone_goes_on(job: str, agent: socket.socket) -> None:
    for environ in ({}, {"BUSBW_JOB": "none"}):
        Watched(0, environ).leave()
    watched = Watched(0, {"BUSBW_JOB": job})
    agent.accept()[0].close()
    watched.leave()
    assert watched._connection is not None
    watched._connection.close()
