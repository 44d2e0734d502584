"""The catalogue against values computed by hand from the sources of nccl-tests 2.19."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.model.collective import COLLECTIVES, Collective, Holds, Region, Shape, collective
from busbw.model.datatype import DATA_TYPES

GIB = 2**30
rows = st.sampled_from(COLLECTIVES)
ranks_counts = st.integers(min_value=1, max_value=300)
element_counts = st.integers(min_value=0, max_value=2**34)
type_sizes = st.sampled_from(sorted({row.size_bytes for row in DATA_TYPES}))


def shape(name: str, size_bytes: int, ranks: int, type_bytes: int = 4) -> Shape:
    return collective(name).shape(size_bytes // type_bytes, ranks, type_bytes)


@pytest.mark.parametrize(
    ("name", "ranks", "factor"),
    [
        ("all_reduce", 1, 0.0),
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 1, 0.0),
        ("all_gather", 2, 0.5),
        ("all_gather", 8, 0.875),
        ("sendrecv", 1, 1.0),
        ("sendrecv", 8, 1.0),
    ],
)
def test_bus_bandwidth_factors(name: str, ranks: int, factor: float) -> None:
    assert collective(name).busbw_factor(ranks) == factor


@pytest.mark.parametrize(
    ("name", "requested_bytes", "ranks", "type_bytes", "count", "size_bytes"),
    [
        ("all_reduce", GIB, 8, 4, 2**28, GIB),
        ("all_reduce", 8, 3, 4, 2, 8),
        ("all_reduce", 7, 2, 4, 1, 4),
        ("all_reduce", 3, 2, 4, 0, 0),
        ("sendrecv", 1000, 3, 8, 125, 1000),
        # Shares of all_gather are multiples of 16 bytes, so that small sizes print as 0.
        ("all_gather", 8, 2, 4, 0, 0),
        ("all_gather", 31, 2, 1, 0, 0),
        ("all_gather", 32, 2, 4, 4, 32),
        ("all_gather", 32, 2, 1, 16, 32),
        ("all_gather", 100, 3, 4, 8, 96),
        ("all_gather", 1024, 1, 8, 128, 1024),
        # nccl-tests prints 1073710080 for 1 GiB on 2160 ranks.
        ("all_gather", GIB, 2160, 4, 124272, 1073710080),
    ],
)
def test_counts_and_sizes(
    name: str, requested_bytes: int, ranks: int, type_bytes: int, count: int, size_bytes: int
) -> None:
    got = shape(name, requested_bytes, ranks, type_bytes)
    assert (got.call_count, got.size_bytes(type_bytes)) == (count, size_bytes)


def test_size_is_the_larger_of_sent_and_received() -> None:
    gathered = shape("all_gather", 4096, 4)
    assert (gathered.send_count, gathered.recv_count) == (256, 1024)
    assert gathered.size_bytes(4) == 4096


def test_what_all_reduce_sends_and_receives() -> None:
    row, counts = collective("all_reduce"), shape("all_reduce", 40, 4)
    assert row.sends(counts, 3, 4) == (Region(Holds.CONTRIBUTION, 3, 0, 10),)
    assert row.receives(counts, 3, 4) == (Region(Holds.REDUCED, 0, 0, 10),)


def test_what_all_gather_sends_and_receives() -> None:
    row, counts = collective("all_gather"), shape("all_gather", 48, 3)
    assert row.sends(counts, 2, 3) == (Region(Holds.MOVED, 2, 0, 4),)
    assert row.receives(counts, 2, 3) == (
        Region(Holds.MOVED, 0, 0, 4),
        Region(Holds.MOVED, 1, 4, 4),
        Region(Holds.MOVED, 2, 8, 4),
    )
    assert counts.in_place_stride == 4


def test_sendrecv_is_a_ring() -> None:
    row, counts = collective("sendrecv"), shape("sendrecv", 16, 3)
    assert row.sends(counts, 0, 3) == (Region(Holds.MOVED, 0, 0, 4),)
    assert [row.receives(counts, rank, 3)[0].rank for rank in range(3)] == [2, 0, 1]


def test_aliased_buffers_are_undefined_for_sendrecv_only() -> None:
    assert {row.name for row in COLLECTIVES if not row.in_place_on} == {"sendrecv"}


def test_names_and_numbers_are_unique() -> None:
    assert len({row.name for row in COLLECTIVES}) == len(COLLECTIVES)
    assert len({row.number for row in COLLECTIVES}) == len(COLLECTIVES)


def test_an_unknown_collective_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'allreduce'") as refused:
        collective("allreduce")
    assert "all_reduce, all_gather, sendrecv" in refused.value.hint


@given(rows, st.integers(min_value=1, max_value=100_000))
def test_no_bus_carries_more_than_twice_the_data(row: Collective, ranks: int) -> None:
    assert 0 <= row.busbw_factor(ranks) < 2


@given(rows, element_counts, ranks_counts, type_sizes)
def test_nothing_is_larger_than_requested(
    row: Collective, elements: int, ranks: int, type_bytes: int
) -> None:
    counts = row.shape(elements, ranks, type_bytes)
    assert max(counts.send_count, counts.recv_count) <= elements
    assert min(counts.call_count, counts.send_count, counts.recv_count) >= 0


@given(rows, st.integers(min_value=0, max_value=2**34), st.integers(1, 64), type_sizes, st.data())
def test_received_regions_tile_the_buffer(
    row: Collective, elements: int, ranks: int, type_bytes: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, ranks - 1))
    counts = row.shape(elements, ranks, type_bytes)
    for regions, count in (
        (row.sends(counts, rank, ranks), counts.send_count),
        (row.receives(counts, rank, ranks), counts.recv_count),
    ):
        following = 0
        for region in sorted(regions, key=lambda region: region.offset):
            assert region.offset == following
            assert 0 <= region.rank < ranks
            following += region.count
        assert following == count


@given(rows, element_counts, ranks_counts, type_sizes)
def test_in_place_data_lie_inside_the_receive_buffer(
    row: Collective, elements: int, ranks: int, type_bytes: int
) -> None:
    if row.in_place_on:
        counts = row.shape(elements, ranks, type_bytes)
        assert (ranks - 1) * counts.in_place_stride + counts.send_count <= counts.recv_count
