from __future__ import annotations

import pytest

from busbw.world.channel_root import number_local_ranks, rank_ranges
from busbw.world.wire import Hello


@pytest.mark.parametrize(
    ("ranks", "text"), [([5], "5"), ([1, 2, 3, 7], "1-3, 7"), ([1, 3], "1, 3"), ([8, 9], "8-9")]
)
def test_rank_ranges(ranks: list[int], text: str) -> None:
    assert rank_ranges(ranks) == text


def test_local_ranks_are_counted_where_the_launcher_is_silent() -> None:
    hosts = ["h1", "h2", "h1", "h2", "h1"]
    hellos = [Hello("1", 5, rank, host, 100 + rank, None) for rank, host in enumerate(hosts)]
    assert [member.local_rank for member in number_local_ranks(hellos)] == [0, 0, 1, 1, 2]


def test_local_rank_of_the_launcher_is_believed() -> None:
    hellos = [Hello("1", 2, rank, "h1", 100 + rank, 1 - rank) for rank in range(2)]
    assert [member.local_rank for member in number_local_ranks(hellos)] == [1, 0]
