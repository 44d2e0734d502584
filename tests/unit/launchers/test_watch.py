from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from busbw.launchers.watch import RankWatch
from busbw.world.watched import report_to


@pytest.fixture
def watch() -> Iterator[RankWatch]:
    """Watches three ranks."""
    with contextlib.closing(RankWatch(3)) as watch, watch:
        yield watch


def connect(watch: RankWatch, *ranks: int) -> list[socket.socket]:
    connections = [report_to(watch.address, rank) for rank in ranks]
    until(lambda: len(watch._awaited) == 3 - len(ranks))
    return [connection for connection in connections if connection is not None]


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not what() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert what()


@pytest.mark.parametrize("order", [(1, 2, 0), (2, 0, 1), (0, 1, 2)])
def test_the_first_of_several_that_ended_is_named(watch: RankWatch, order: tuple[int, ...]) -> None:
    connections = connect(watch, 0, 1, 2)
    assert not watch.someone_ended
    for rank in order:
        connections[rank].close()
    until(lambda: watch.someone_ended)
    assert watch.first_dead == order[0]


def test_a_goodbye_is_no_death(watch: RankWatch) -> None:
    first, second, third = connect(watch, 0, 1, 2)
    first.send(b".")
    first.close()
    until(lambda: len(watch._connections) == 2)
    assert not watch.someone_ended
    second.close()
    until(lambda: watch.someone_ended)
    assert watch.first_dead == 1
    third.close()


def test_while_a_rank_is_missing_the_name_is_of_those_that_were_there(watch: RankWatch) -> None:
    first, second = connect(watch, 0, 1)
    first.close()
    until(lambda: watch.someone_ended)
    assert (watch.first_dead, watch.missing) == (0, (2,))
    second.close()
