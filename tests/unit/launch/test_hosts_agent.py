"""What a host's agent sees of the ends of its ranks."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from collections.abc import Iterator

import pytest

from busbw.launch.agent import Watch
from busbw.launch.witness import Witness
from busbw.rank.world.watched import FRONT_VARIABLE, Watched

Ends = list[tuple[int, bool]]  # of a rank, and whether it died


@pytest.fixture
def address() -> str:
    return f"busbw-test-{os.getpid()}"


@pytest.fixture
def ends() -> Ends:
    return []


@pytest.fixture
def watch(address: str, ends: Ends) -> Iterator[Watch]:
    with selectors.DefaultSelector() as selector:
        yield Watch(address, selector, lambda **end: ends.append((end["gone"], end["died"])))
        for connection in list(selector.get_map().values()):
            assert isinstance(connection.fileobj, socket.socket)
            connection.fileobj.close()


def connected(address: str, rank: int) -> socket.socket:
    found = Watched(rank, {FRONT_VARIABLE: address})._connection
    assert found is not None
    return found


def test_ends_in_their_order(watch: Watch, address: str, ends: Ends) -> None:
    ranks = [connected(address, rank) for rank in (4, 5, 6)]
    watch.drain()
    ranks[1].close()
    watch.drain()
    ranks[2].sendall(b".")
    watch.is_swept = True
    ranks[0].close()
    ranks[2].close()
    watch.drain(are_gone=True)
    first, *others = ends
    assert first == (5, True)
    assert sorted(others) == [(4, False), (6, False)]


def test_a_connection_that_closes_late_is_waited_for(watch: Watch, address: str, ends: Ends) -> None:
    """A rank that was killed may have lost its environment and not yet its connections."""
    rank = connected(address, 2)
    watch.drain()
    closing = threading.Timer(0.2, rank.close)
    closing.start()
    watch.drain(are_gone=True)
    closing.join()
    assert ends == [(2, True)]


def test_a_connection_that_stays_is_not_waited_for_long(watch: Watch, address: str, ends: Ends) -> None:
    with connected(address, 2):
        watch.drain()
        watch.drain(are_gone=True)
        assert ends == []


def test_the_first_of_several_that_ended_unseen_is_named() -> None:
    with contextlib.closing(Witness(3)) as front:
        ranks = [connected(front.address, rank) for rank in range(3)]
        front.look()
        assert not front.someone_ended
        for rank in (1, 2, 0):
            ranks[rank].close()
        front.look()
        assert (front.first_dead, front.missing) == (1, ())


def test_while_a_rank_is_missing_the_name_is_of_those_that_were_there() -> None:
    with contextlib.closing(Witness(3)) as front:
        leaves, dies = connected(front.address, 0), connected(front.address, 1)
        leaves.sendall(b".")
        leaves.close()
        front.look()
        assert not front.someone_ended
        dies.close()
        front.look()
        assert (front.someone_ended, front.first_dead, front.missing) == (True, 1, (2,))
