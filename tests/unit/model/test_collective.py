"""The catalogue against values computed by hand from the sources of nccl-tests 2.19."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.model.collective import (
    COLLECTIVES,
    Collective,
    Holds,
    InPlace,
    Region,
    Role,
    Shape,
    collective,
    unsupported,
)
from busbw.model.datatype import DATA_TYPES

GIB = 2**30
rows = st.sampled_from(COLLECTIVES)
element_counts = st.integers(min_value=0, max_value=2**34)
type_sizes = st.sampled_from(sorted({row.size_bytes for row in DATA_TYPES}))


def shape(name: str, size_bytes: int, ranks: int, type_bytes: int = 4) -> Shape:
    return collective(name).shape(size_bytes // type_bytes, ranks, type_bytes)


@pytest.mark.parametrize(
    ("name", "ranks", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 1, 0.0),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 1, 0.0),
        ("reduce_scatter", 8, 0.875),
        ("alltoall", 8, 0.875),
        ("gather", 8, 0.875),
        ("scatter", 8, 0.875),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
        ("hypercube", 8, 1.0),
        ("sendrecv", 8, 1.0),
    ],
)
def test_bus_bandwidth_factors(name: str, ranks: int, factor: float) -> None:
    assert collective(name).busbw_factor(ranks) == factor


@pytest.mark.parametrize(
    ("name", "requested_bytes", "ranks", "type_bytes", "count", "size_bytes"),
    [
        ("all_reduce", GIB, 8, 4, 2**28, GIB),
        ("all_reduce", 7, 2, 4, 1, 4),
        ("all_reduce", 3, 2, 4, 0, 0),
        ("sendrecv", 1000, 3, 8, 125, 1000),
        # Shares of all_gather are multiples of 16 bytes, so that small sizes print as 0.
        ("all_gather", 8, 2, 4, 0, 0),
        ("all_gather", 32, 2, 4, 4, 32),
        ("all_gather", 100, 3, 4, 8, 96),
        ("all_gather", 1024, 1, 8, 128, 1024),
        ("reduce_scatter", 100, 3, 4, 8, 96),
        ("alltoall", 100, 3, 4, 8, 96),
        ("gather", 100, 3, 4, 8, 96),
        ("scatter", 100, 3, 4, 8, 96),
        ("hypercube", 100, 2, 4, 12, 96),
        ("barrier", GIB, 3, 4, 0, 0),
        # nccl-tests prints 1073710080 for 1 GiB on 2160 ranks.
        ("all_gather", GIB, 2160, 4, 124272, 1073710080),
    ],
)
def test_counts_and_sizes(
    name: str, requested_bytes: int, ranks: int, type_bytes: int, count: int, size_bytes: int
) -> None:
    got = shape(name, requested_bytes, ranks, type_bytes)
    assert (got.call_count, got.size_bytes(type_bytes)) == (count, size_bytes)


# [elements sent, elements received, elements a rank's block has, elements of algbw] of 64 floats on 4 ranks.
COUNTS = {
    "all_reduce": (64, 64, 64, 64),
    "all_gather": (16, 64, 16, 64),
    "reduce_scatter": (64, 16, 16, 64),
    "alltoall": (64, 64, 16, 64),
    "broadcast": (64, 64, 64, 64),
    "reduce": (64, 64, 64, 64),
    "gather": (16, 64, 16, 64),
    "scatter": (64, 16, 16, 64),
    "sendrecv": (64, 64, 64, 64),
    "hypercube": (16, 64, 16, 48),  # nccl-tests counts the three blocks that a rank does not have
    "alltoallv": (64, 64, 16, 64),
    "all_gatherv": (16, 64, 16, 64),
    "permute": (64, 64, 64, 64),
    "barrier": (0, 0, 0, 0),
}


def test_the_catalogue_is_that_of_nccl_tests_and_nccom_test_and_a_barrier() -> None:
    assert sorted(row.name for row in COLLECTIVES) == sorted(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_a_small_case(name: str) -> None:
    got = shape(name, 256, 4)
    assert (got.send_count, got.recv_count, got.block_count, got.algbw_count) == COUNTS[name]


MOVED, REDUCED, CONTRIBUTION = Holds.MOVED, Holds.REDUCED, Holds.CONTRIBUTION
ALL_BLOCKS = tuple(Region(MOVED, owner, owner * 4, 4) for owner in range(3))


@pytest.mark.parametrize(
    ("name", "rank", "sent", "received"),
    # 48 bytes of floats on 3 ranks, root 1: whole buffers of 12 elements, blocks of 4.
    [
        ("all_reduce", 2, (Region(CONTRIBUTION, 2, 0, 12),), (Region(REDUCED, 0, 0, 12),)),
        ("all_gather", 2, (Region(MOVED, 2, 0, 4),), ALL_BLOCKS),
        ("reduce_scatter", 2, (Region(CONTRIBUTION, 2, 0, 12),), (Region(REDUCED, 0, 0, 4, 8),)),
        ("reduce_scatter", 0, (Region(CONTRIBUTION, 0, 0, 12),), (Region(REDUCED, 0, 0, 4, 0),)),
        (
            "alltoall",
            2,
            (Region(MOVED, 2, 0, 12),),
            tuple(Region(MOVED, at, at * 4, 4, 8) for at in range(3)),
        ),
        ("broadcast", 1, (Region(MOVED, 1, 0, 12),), (Region(MOVED, 1, 0, 12),)),
        ("broadcast", 2, (), (Region(MOVED, 1, 0, 12),)),
        ("reduce", 1, (Region(CONTRIBUTION, 1, 0, 12),), (Region(REDUCED, 0, 0, 12),)),
        ("reduce", 2, (Region(CONTRIBUTION, 2, 0, 12),), ()),
        ("gather", 1, (Region(MOVED, 1, 0, 4),), ALL_BLOCKS),
        ("gather", 2, (Region(MOVED, 2, 0, 4),), ()),
        ("scatter", 1, (Region(MOVED, 1, 0, 12),), (Region(MOVED, 1, 0, 4, 4),)),
        ("scatter", 2, (), (Region(MOVED, 1, 0, 4, 8),)),
        ("sendrecv", 0, (Region(MOVED, 0, 0, 12),), (Region(MOVED, 2, 0, 12),)),
        ("sendrecv", 2, (Region(MOVED, 2, 0, 12),), (Region(MOVED, 1, 0, 12),)),
        ("hypercube", 2, (Region(MOVED, 2, 0, 4),), ALL_BLOCKS),
        ("permute", 2, (Region(MOVED, 2, 0, 12),), (Region(MOVED, 1, 0, 12),)),
        ("all_gatherv", 2, (Region(MOVED, 2, 0, 4),), ALL_BLOCKS),
        ("barrier", 2, (), ()),
    ],
)
def test_what_buffers_hold_before_and_after(
    name: str, rank: int, sent: tuple[Region, ...], received: tuple[Region, ...]
) -> None:
    row, counts, role = collective(name), shape(name, 48, 3), Role(rank, 3, 1)
    assert (row.sends(counts, role), row.receives(counts, role)) == (sent, received)


@pytest.mark.parametrize("ranks", range(1, 70))
def test_only_hypercube_refuses_and_only_what_is_no_power_of_two(ranks: int) -> None:
    refusing = {row.name for row in COLLECTIVES if row.refuses(ranks)}
    assert refusing == (set() if ranks in (1, 2, 4, 8, 16, 32, 64) else {"hypercube"})
    if refusing:
        assert collective("hypercube").refuses(ranks).startswith(f"{ranks} ranks: ")


def test_names_and_numbers_are_unique() -> None:
    assert len({row.name for row in COLLECTIVES}) == len(COLLECTIVES)
    assert len({row.number for row in COLLECTIVES}) == len(COLLECTIVES)


def test_an_unknown_collective_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'frobnicate'") as refused:
        collective("frobnicate")
    assert refused.value.hint == f"use one of: {', '.join(row.name for row in COLLECTIVES)}"


def test_only_reductions_of_16_bit_integers_on_nccl_are_known_not_to_exist() -> None:
    for row, dtype in product(COLLECTIVES, DATA_TYPES):
        assert not unsupported("mpi", row, dtype)
        assert not unsupported("null", row, dtype)
        reason = unsupported("nccl", row, dtype)
        assert bool(reason) is (row.reducing and dtype.name in ("int16", "uint16")), (row.name, dtype.name)
        assert not reason or "16-bit integers" in reason


@st.composite
def calls(draw: st.DrawFn) -> tuple[Collective, Shape, Role]:
    """A collective with counts, and the part that a rank plays in it."""
    row, ranks = draw(rows), draw(st.integers(1, 64))
    role = Role(draw(st.integers(0, ranks - 1)), ranks, draw(st.integers(0, ranks - 1)))
    return row, row.shape(draw(element_counts), ranks, draw(type_sizes)), role


@given(calls())
def test_regions_tile_the_buffers(call: tuple[Collective, Shape, Role]) -> None:
    """All of a buffer is accounted for, once; or nothing of it, where a rank's part has none."""
    row, counts, role = call
    part_sends = not row.rooted or role.is_root or row.name in ("reduce", "gather")
    part_receives = not row.rooted or role.is_root or row.name in ("broadcast", "scatter")
    for regions, count in (
        (row.sends(counts, role), counts.send_count if part_sends else 0),
        (row.receives(counts, role), counts.recv_count if part_receives else 0),
    ):
        following = 0
        for region in sorted(regions, key=lambda region: region.offset):
            assert region.offset == following
            assert 0 <= region.rank < role.ranks
            following += region.count
        assert following == count


@given(calls())
def test_what_is_received_was_sent(call: tuple[Collective, Shape, Role]) -> None:
    """Every element that a rank must get is one that its owner brings to the call."""
    row, counts, role = call
    for region in row.receives(counts, role):
        owners = range(role.ranks) if region.holds is Holds.REDUCED else (region.rank,)
        for owner in owners:
            brought = row.sends(counts, Role(owner, role.ranks, role.root))
            assert all(sent.rank == owner for sent in brought)
            assert region.first_index + region.count <= sum(sent.count for sent in brought)


@given(calls(), st.sampled_from(["mpi", "nccl", "null"]))
def test_in_place_data_lie_inside_the_other_buffer(
    call: tuple[Collective, Shape, Role], backend: str
) -> None:
    row, counts, role = call
    own_block = role.rank * counts.block_count
    match row.in_place.get(backend):
        case InPlace.SEND_WITHIN_RECV:
            assert own_block + counts.send_count <= counts.recv_count
        case InPlace.RECV_WITHIN_SEND:
            assert own_block + counts.recv_count <= counts.send_count
