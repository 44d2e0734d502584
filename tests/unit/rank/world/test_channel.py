"""A rank's end of the channel, with a connection that ends at the worst moment."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from busbw.rank.world.base import PeerFailure
from busbw.rank.world.channel import Link, PeerLoop
from busbw.rank.world.sockets import Timing
from busbw.rank.world.wire import Hello, Kind, Message, unpack


@pytest.fixture
def pairs() -> Iterator[list[Any]]:
    """Two connected pairs of sockets: ours and rank 0's, the monitor and who reads it."""
    context = zmq.Context()
    sockets = [context.socket(zmq.PAIR) for _ in range(4)]
    for number in (0, 2):
        sockets[number].bind(f"inproc://{number}")
        sockets[number + 1].connect(f"inproc://{number}")
    yield sockets
    for socket in sockets:
        socket.close(0)
    context.term()


def test_rank_0_gone_right_after_the_goodbye_is_no_failure(pairs: list[Any]) -> None:
    """Rank 0 leaves with the last goodbye, which may be before this rank's thread has turned round."""
    ours, root, monitor, _ = pairs
    events = [(zmq.EVENT_DISCONNECTED, 1)]
    connection = SimpleNamespace(
        socket=ours,
        monitor=monitor,
        next_event=lambda: events.pop() if events else None,
        close=lambda _: None,
    )
    failures: list[PeerFailure] = []
    link = Link()
    hello = Hello("0", 2, 1, "here", 1, 0)
    loop = PeerLoop(connection, link, failures.append, Timing(), hello)  # type: ignore[arg-type]
    link.post(Message(Kind.BYE))
    loop.thread.start()
    loop.thread.join(10)
    assert not loop.thread.is_alive()
    assert failures == []
    kinds = [unpack(root.recv_multipart(zmq.NOBLOCK)).kind for _ in range(2)]
    assert kinds == [Kind.HELLO, Kind.BYE]
    link.close()
