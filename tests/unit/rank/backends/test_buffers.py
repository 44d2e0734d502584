"""Layout of cases in a rank's buffers, and that the check sees every kind of damage, on real host memory."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from busbw.machine.native import core
from busbw.model.case import Case
from busbw.model.collective import COLLECTIVES, collective
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS, DataType, data_type, reduce_op
from busbw.plan.expand import Grid, expand
from busbw.rank.backends.base import Strays
from busbw.rank.backends.buffers import BAND_BYTES, BufferPair, CaseBuffers, checkable
from busbw.rank.backends.host_memory import HostMemory

PAIR_BYTES = 4096
RANKS = 4
ROOT = 1
SEED = 12345


def case_of(
    name: str, size_bytes: int, *, dtype: str = "float", op: str = "sum", in_place: bool = False
) -> Case:
    grid = Grid([collective(name)], [data_type(dtype)], [reduce_op(op)], [ROOT], [size_bytes])
    return expand(grid, RANKS, "mpi")[int(in_place)]


def laid_out(pair: BufferPair, case: Case, rank: int = ROOT, *, rotate: bool = True) -> CaseBuffers:
    overlap = case.row.in_place["mpi"] if case.in_place else None
    return CaseBuffers.of(pair, case, case.role(rank, RANKS), overlap, rotate=rotate)


def memory_at(address: int, size_bytes: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * size_bytes).from_address(address), np.uint8)


def deliver(buffers: CaseBuffers, seed: int, slot: int) -> None:
    """What a right collective would write."""
    case, shape = buffers.case, buffers.shape
    op = case.reduce_op
    pattern = core.pattern(seed, RANKS, case.data_type.number, op.number if op else 0)
    for part in case.row.receives(shape, buffers.role):
        region = core.Region(part.offset, part.count, part.first_index, part.holds, part.rank)
        core.fill(buffers.recv + slot * buffers.stride_bytes, pattern, region)


@pytest.mark.parametrize(
    ("size_bytes", "rotate", "slots", "stride"),
    [
        (1024, True, 4, 1024),
        (1000, True, 4, 1000),
        (2052, True, 1, 0),
        (4096, True, 1, 0),
        (1024, False, 1, 0),
    ],
)
def test_small_cases_rotate_through_the_whole_buffer(
    pair: BufferPair, size_bytes: int, rotate: bool, slots: int, stride: int
) -> None:
    buffers = laid_out(pair, case_of("all_reduce", size_bytes), rotate=rotate)
    assert (buffers.slots, buffers.stride_bytes) == (slots, stride)
    assert buffers.slots * size_bytes <= PAIR_BYTES


def test_a_case_of_no_bytes_has_one_slot_and_valid_addresses(pair: BufferPair) -> None:
    buffers = laid_out(pair, case_of("all_gather", 8))
    assert (buffers.case.size_bytes, buffers.slots, buffers.stride_bytes) == (0, 1, 0)
    buffers.load(SEED, 0)
    assert buffers.check(SEED, 0).wrong == 0


@pytest.mark.parametrize(
    ("name", "send_block", "recv_block"),
    [
        ("all_reduce", 0, 0),
        ("all_gather", 2, 0),  # a rank sends its own block of what it receives
        ("gather", 2, 0),
        ("scatter", 0, 2),  # and receives into its own block of what the root sends
        ("reduce_scatter", 0, 0),  # MPI puts the result at the start of the buffer
    ],
)
def test_in_place_both_ends_lie_in_the_receive_buffer(
    pair: BufferPair, name: str, send_block: int, recv_block: int
) -> None:
    case = case_of(name, 1024, in_place=True)
    buffers = laid_out(pair, case, rank=2)
    block_bytes = 1024 // RANKS
    assert buffers.send == pair.recv + send_block * block_bytes
    assert buffers.recv == pair.recv + recv_block * block_bytes
    apart = laid_out(pair, case_of(name, 1024), rank=2)
    assert (apart.send, apart.recv) == (pair.send, pair.recv)


@pytest.mark.parametrize("dtype", ["int8", "half", "double"])
@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in place"])
def test_unaligned_buffers_begin_at_that_element_and_keep_their_size(dtype: str, in_place: bool) -> None:
    type_bytes = data_type(dtype).size_bytes
    pair = BufferPair.allocate(HostMemory(), PAIR_BYTES, unalign=3)
    case = case_of("all_reduce", PAIR_BYTES, dtype=dtype, in_place=in_place)
    buffers = laid_out(pair, case)
    pair.warm(case, buffers.role)
    assert buffers.recv == pair.recv + 3 * type_bytes
    assert buffers.send == (pair.recv if in_place else pair.send) + 3 * type_bytes
    assert buffers.recv + PAIR_BYTES <= pair.recv + pair.allocated_bytes
    buffers.load(SEED, 0)
    deliver(buffers, SEED, 0)
    assert buffers.check(SEED, 0).wrong == 0
    pair.release()


@pytest.mark.parametrize("dtype", DATA_TYPES, ids=lambda row: row.name)
@pytest.mark.parametrize("name", [row.name for row in COLLECTIVES if row.sized])
def test_right_data_pass_and_untouched_output_is_wrong_everywhere(
    pair: BufferPair, name: str, dtype: DataType
) -> None:
    """Out of place, at the root: a call that writes nothing leaves the complement of what it should write."""
    buffers = laid_out(pair, case_of(name, 960, dtype=dtype.name))
    slot = buffers.slots - 1
    buffers.load(SEED, slot)
    untouched = buffers.check(SEED, slot)
    assert (untouched.wrong, untouched.first_offset) == (buffers.shape.recv_count, 0)
    deliver(buffers, SEED, slot)
    right = buffers.check(SEED, slot)
    assert (right.wrong, right.first_offset) == (0, -1)


def test_check_data_say_where_there_are_none() -> None:
    def mean_of(dtype: str) -> Case:
        return case_of("all_reduce", 960, dtype=dtype, op="avg")

    assert checkable(mean_of("int8"), 32)
    assert not checkable(mean_of("int8"), 1000)
    assert checkable(mean_of("int32"), 1000)


@pytest.mark.parametrize("op", REDUCE_OPS, ids=lambda row: row.name)
def test_a_rank_that_keeps_its_own_contribution_is_caught(pair: BufferPair, op: object) -> None:
    buffers = laid_out(pair, case_of("all_reduce", 960, op=op.name))  # type: ignore[attr-defined]
    buffers.load(SEED, 0)
    ctypes.memmove(buffers.recv, buffers.send, 960)
    assert buffers.check(SEED, 0).wrong > 0


@pytest.mark.parametrize("element", [0, 100, 239])
def test_one_wrong_element_is_found_where_it_lies(pair: BufferPair, element: int) -> None:
    buffers = laid_out(pair, case_of("all_reduce", 960))
    buffers.load(SEED, 2)
    deliver(buffers, SEED, 2)
    memory_at(buffers.recv + 2 * 960 + element * 4, 4)[3] ^= 1
    outcome = buffers.check(SEED, 2)
    assert (outcome.wrong, outcome.first_offset) == (1, element)


def test_a_slot_is_its_own(pair: BufferPair) -> None:
    buffers = laid_out(pair, case_of("all_reduce", 1024))
    for slot in range(buffers.slots):
        buffers.load(SEED + slot, slot)
        deliver(buffers, SEED + slot, slot)
    assert [buffers.check(SEED + slot, slot).wrong for slot in range(buffers.slots)] == [0] * 4
    assert len({buffers.check(SEED + slot, slot).digest for slot in range(buffers.slots)}) == 4


def test_loading_in_place_keeps_the_own_data_and_spoils_the_rest(pair: BufferPair) -> None:
    buffers = laid_out(pair, case_of("all_gather", 1024, dtype="int8", in_place=True), rank=1)
    buffers.load(SEED, 0)
    loaded = memory_at(buffers.recv, 1024).reshape(RANKS, 256).copy()
    deliver(buffers, SEED, 0)
    right = memory_at(buffers.recv, 1024).reshape(RANKS, 256)
    assert (loaded[1] == right[1]).all()
    assert (loaded[[0, 2, 3]] == ~right[[0, 2, 3]]).all()


# ---- beside the buffers --------------------------------------------------------------------------------


@pytest.mark.parametrize("unalign", [0, 3])
@pytest.mark.parametrize("backend", ["mpi", "nccl"])
def test_bands_lie_beside_what_a_call_may_write_and_within_the_memory(backend: str, unalign: int) -> None:
    pair = BufferPair.allocate(HostMemory(), PAIR_BYTES, unalign)
    try:
        ops = [reduce_op("sum"), reduce_op("mulsum")]
        for case in expand(Grid(COLLECTIVES, [data_type("int8")], ops, [ROOT], [1000]), RANKS, backend):
            if not case.applicable:
                continue
            overlap = case.row.in_place[backend] if case.in_place else None
            for rank in range(RANKS):
                look_at_bands(CaseBuffers.of(pair, case, case.role(rank, RANKS), overlap, rotate=True))
    finally:
        pair.release()


def look_at_bands(buffers: CaseBuffers) -> None:
    pair, last = buffers.pair, buffers.slots - 1
    for slots in ((0, last), (last, last)):
        for band in buffers._bands(*slots):
            start = max(start for start in pair.allocations if start <= band.address)
            assert band.address + BAND_BYTES <= start + pair.allocated_bytes
            assert band.address % buffers.case.data_type.size_bytes == 0
        buffers.guard(*slots)
        assert buffers.strays(*slots) == Strays()


@pytest.mark.parametrize("slot", [0, 3])
def test_a_byte_beside_a_buffer_is_found_with_its_distance(pair: BufferPair, slot: int) -> None:
    buffers = laid_out(pair, case_of("all_reduce", 1024))
    at = slot * buffers.stride_bytes
    for end, address in (
        ("past_recv", buffers.recv + at + 1024 + 15),
        ("before_recv", buffers.recv + at - 16),
        ("past_send", buffers.send + at + 1024 + 15),
        ("before_send", buffers.send + at - 16),
    ):
        buffers.guard(slot, slot)
        memory_at(address, 1)[0] ^= 0xFF
        assert buffers.strays(slot, slot) == Strays(**{end: 16})


@pytest.mark.parametrize("data", ["exact", "random", "all_ones"])
def test_a_changed_send_buffer_is_found(pair: BufferPair, data: str) -> None:
    case = case_of("all_reduce", 1024)
    buffers = CaseBuffers.of(pair, case, case.role(1, RANKS), None, rotate=True, data=data)
    buffers.load(SEED, 2)
    assert buffers.sent_changed(SEED, 2) == 0
    memory_at(buffers.send + 2 * buffers.stride_bytes + 5, 1)[0] ^= 1
    assert buffers.sent_changed(SEED, 2) == 1
