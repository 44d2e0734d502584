"""Tables of counts: what every rank sends is what the others receive, at every size."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.model.counts import (
    BYTES,
    CountTable,
    Exchange,
    busiest_elements,
    gathered_elements,
    gathered_part,
    own_part,
)
from busbw.plan.router import skew_table, spread_table

ranks_and_rows = st.integers(1, 5).flatmap(
    lambda ranks: st.tuples(
        st.just(ranks),
        st.lists(
            st.lists(st.integers(0, 50), min_size=ranks, max_size=ranks), min_size=ranks, max_size=ranks
        ),
    )
)


def table_of(ranks: int, rows: list[list[int]], unit: str = "elements") -> CountTable:
    send = tuple(map(tuple, rows))
    whole = max(*map(sum, send), *(sum(row[target] for row in send) for target in range(ranks)), 1)
    return CountTable("test", ranks, send, whole, unit)


def require_matching(parts: list[Exchange]) -> None:
    for me, part in enumerate(parts):
        for peer, other in enumerate(parts):
            assert part.send_counts[peer] == other.recv_counts[me]
            assert other.source_offsets[me] == part.send_offsets[peer]
        for counts, offsets in ((part.send_counts, part.send_offsets), (part.recv_counts, part.recv_offsets)):
            ends = sorted(
                (offset, offset + count) for count, offset in zip(counts, offsets, strict=True) if count
            )
            assert all(end <= start for (_, end), (start, _) in pairwise(ends))


@given(ranks_and_rows, st.integers(0, 10_000), st.sampled_from([1, 2, 4, 8]))
def test_senders_and_receivers_agree_at_every_size(
    table: tuple[int, list[list[int]]], elements: int, type_bytes: int
) -> None:
    ranks, rows = table
    counts = table_of(ranks, rows)
    parts = [own_part(counts, elements, type_bytes, rank) for rank in range(ranks)]
    require_matching(parts)
    busiest = busiest_elements(counts, elements, type_bytes)
    assert busiest == max(max(sum(part.send_counts), sum(part.recv_counts)) for part in parts)
    assert busiest <= elements
    assert all(max(part.send_extent, part.recv_extent) <= elements for part in parts)


def test_a_table_is_met_exactly_at_its_own_size() -> None:
    counts = table_of(2, [[3, 5], [7, 11]])
    assert counts.size_bytes(4) == 4 * 18
    assert [own_part(counts, 18, 4, rank).send_counts for rank in (0, 1)] == [(3, 5), (7, 11)]
    assert own_part(counts, 18, 4, 1).recv_counts == (5, 11)
    assert own_part(counts, 18, 4, 1).source_offsets == (3, 7)


def test_offsets_of_a_file_scale_with_the_counts_and_may_leave_gaps() -> None:
    offsets = {"send_offsets": ((0, 8), (0, 8)), "recv_offsets": ((6, 0), (6, 0))}
    counts = CountTable("test", 2, ((4, 4), (4, 4)), 8, extent=12, **offsets)
    part = own_part(counts, 16, 4, 1)
    assert (part.send_counts, part.send_offsets) == ((8, 8), (0, 16))
    assert (part.recv_offsets, part.source_offsets) == ((12, 0), (16, 16))
    assert (part.send_extent, part.recv_extent) == (24, 20)
    assert counts.buffer_bytes(64) == 96


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_a_spread_gives_every_rank_the_same_total(ranks: int, spread: float) -> None:
    table = spread_table(spread, ranks)
    parts = [own_part(table, 4096, 4, rank) for rank in range(ranks)]
    require_matching(parts)
    assert len({sum(part.send_counts) for part in parts} | {sum(part.recv_counts) for part in parts}) == 1
    assert all(count % 4 == 0 for part in parts for count in part.send_counts)  # 16 bytes


@given(st.integers(2, 12), st.floats(1, 12))
def test_a_skew_gives_rank_0_its_multiple_of_the_mean(ranks: int, skew: float) -> None:
    skew = min(skew, ranks)
    table = skew_table(skew, "alltoallv", ranks)
    parts = [own_part(table, 2**24 * ranks, 1, rank) for rank in range(ranks)]
    received = [sum(part.recv_counts) for part in parts]
    assert received[0] == max(received)
    assert received == sorted(received, reverse=True)
    assert received[0] * ranks / sum(received) == pytest.approx(skew, rel=1e-3)
    assert busiest_elements(table, 2**24 * ranks, 1) == received[0]


def test_a_skew_of_an_all_gatherv_is_of_what_ranks_give() -> None:
    table = skew_table(2.0, "all_gatherv", 4)
    parts = [gathered_part(table, 2**20, 1, rank) for rank in range(4)]
    given_counts = [part.send_counts[0] for part in parts]
    assert given_counts[0] * 4 / sum(given_counts) == pytest.approx(2.0, rel=1e-3)
    assert {part.recv_counts for part in parts} == {tuple(given_counts)}
    assert gathered_elements(table, 2**20, 1) == sum(given_counts)


def test_a_matrix_of_bytes_is_cut_to_whole_elements_and_16_bytes() -> None:
    counts = CountTable("test", 2, ((32, 48), (16, 64)), 112, BYTES, align_bytes=16)
    assert own_part(counts, 28, 4, 0).send_counts == (8, 12)
    assert own_part(counts, 14, 4, 0).send_counts == (4, 4)


@pytest.mark.parametrize(
    ("spread", "ranks", "size_bytes", "moved"),
    # As AlltoAllvGetPeerBytesDistanceWeighted of nccl-tests 2.19.6 computes it, in doubles.
    [(0.3, 5, 1024, 912), (0.3, 6, 16384, 16272), (1.0, 4, 1024, 1008), (0.0, 4, 1024, 1024)],
)
def test_generated_traffic_is_that_of_nccl_tests_to_the_byte(
    spread: float, ranks: int, size_bytes: int, moved: int
) -> None:
    table = spread_table(spread, ranks)
    assert busiest_elements(table, size_bytes // 4, 4) * 4 == moved
    parts = [own_part(table, size_bytes // 4, 4, rank) for rank in range(ranks)]
    for me, part in enumerate(parts):
        assert sum(part.send_counts) == sum(part.recv_counts) == moved // 4
        assert [other.send_counts[me] for other in parts] == list(part.recv_counts)
