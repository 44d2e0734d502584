from __future__ import annotations

import itertools

import numpy as np
import pytest

from busbw.rank.world.channel_root import Hub, OutOfStep, number_local_ranks
from busbw.rank.world.wire import Hello, Kind, Message, Op


def test_local_ranks_are_counted_where_the_launcher_is_silent() -> None:
    hosts = ["h1", "h2", "h1", "h2", "h1"]
    hellos = [Hello("1", 5, rank, host, 100 + rank, None) for rank, host in enumerate(hosts)]
    assert [member.local_rank for member in number_local_ranks(hellos)] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_sum_of_doubles_does_not_depend_on_who_comes_first(order: tuple[int, ...]) -> None:
    values = [0.1, 1e16, -1e16]
    hub = Hub(3)
    outcomes = [hub.contribute(rank, Op.SUM_FLOAT64, 1, np.array([values[rank]]).tobytes()) for rank in order]
    assert outcomes[:2] == [None, None]
    assert outcomes[2] is not None
    assert np.frombuffer(outcomes[2].body)[0] == (values[0] + values[1]) + values[2]


def test_integers_beyond_the_doubles_stay_exact() -> None:
    hub = Hub(2)
    large = 2**53 + 1
    hub.contribute(0, Op.MAX_INT64, 1, np.array([large]).tobytes())
    outcome = hub.contribute(1, Op.MAX_INT64, 1, np.array([large - 1]).tobytes())
    assert outcome is not None
    assert np.frombuffer(outcome.body, dtype=np.int64).tolist() == [large]


def test_gather_is_in_rank_order_and_ranks_may_be_ahead() -> None:
    hub = Hub(2)
    assert hub.contribute(1, Op.GATHER, 1, b"one") is None
    assert hub.contribute(1, Op.BARRIER, 2, b"") is None
    assert hub.contribute(0, Op.GATHER, 1, b"zero") == Message(
        Kind.RESULT, b"", Op.GATHER, 1, (b"zero", b"one")
    )
    assert hub.contribute(0, Op.BARRIER, 2, b"") == Message(Kind.RESULT, b"", Op.BARRIER, 2)


def test_broadcast_needs_the_root_only() -> None:
    assert Hub(1000).contribute(0, Op.BROADCAST, 1, b"plan") == Message(Kind.RESULT, b"plan", Op.BROADCAST, 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((Op.BARRIER, b""), (Op.MAX_FLOAT64, b"")),
        ((Op.MAX_FLOAT64, bytes(8)), (Op.MAX_FLOAT64, bytes(16))),
        ((Op.BROADCAST, b""), (Op.BARRIER, b"")),  # which is over when rank 0 has said it
    ],
)
def test_a_rank_in_another_call_is_refused(first: tuple[Op, bytes], second: tuple[Op, bytes]) -> None:
    hub = Hub(3)
    hub.contribute(0, first[0], 1, first[1])
    said = f"{second[0].name} with {len(second[1])} bytes .call 1"
    with pytest.raises(OutOfStep, match=said):
        hub.contribute(2, second[0], 1, second[1])
