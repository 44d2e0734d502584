"""Layout of cases in a rank's buffers, and that the check sees every kind of damage, on real host memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

from busbw._native import core
from busbw.backends.buffers import BufferPair, CaseBuffers
from busbw.backends.host_memory import HostMemory
from busbw.model.case import Case
from busbw.model.collective import COLLECTIVES, Holds, collective
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS, data_type, reduce_op
from busbw.planning.expand import Grid, expand

PAIR_BYTES = 4096
RANKS = 3
SEED = 12345


@pytest.fixture
def pair() -> Iterator[BufferPair]:
    pair = BufferPair.allocate(HostMemory(), PAIR_BYTES)
    yield pair
    pair.release()


def case_of(
    name: str, size_bytes: int, *, dtype: str = "float", op: str = "sum", in_place: bool = False
) -> Case:
    grid = Grid([collective(name)], [data_type(dtype)], [reduce_op(op)], [0], [size_bytes])
    return expand(grid, RANKS, "mpi")[int(in_place)]


def laid_out(pair: BufferPair, case: Case, rank: int = 1, *, rotate: bool = True) -> CaseBuffers:
    return CaseBuffers.of(pair, case, rank, RANKS, rotate=rotate)


def memory_at(address: int, size_bytes: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * size_bytes).from_address(address), np.uint8)


def deliver(buffers: CaseBuffers, seed: int, slot: int) -> None:
    """What a right collective would write."""
    case, shape = buffers.case, buffers.shape
    op = case.reduce_op
    pattern = core.pattern(seed, RANKS, case.data_type.number, op.number if op else 0)
    for part in case.row.receives(shape, buffers.rank, RANKS):
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


def test_even_a_buffer_of_no_bytes_is_allocated() -> None:
    pair = BufferPair.allocate(HostMemory(), 0)
    assert 0 not in (pair.send, pair.recv)
    pair.release()


def test_in_place_data_start_at_the_ranks_own_share(pair: BufferPair) -> None:
    gathered = laid_out(pair, case_of("all_gather", 960, in_place=True), rank=2)
    assert gathered.send == pair.recv + 2 * 320
    reduced = laid_out(pair, case_of("all_reduce", 960, in_place=True), rank=2)
    assert reduced.send == reduced.recv == pair.recv
    assert laid_out(pair, case_of("all_gather", 960)).send == pair.send


@pytest.mark.parametrize("dtype", DATA_TYPES, ids=lambda row: row.name)
@pytest.mark.parametrize("name", [row.name for row in COLLECTIVES])
def test_right_data_pass_and_untouched_output_does_not(pair: BufferPair, name: str, dtype: object) -> None:
    buffers = laid_out(pair, case_of(name, 960, dtype=dtype.name))  # type: ignore[attr-defined]
    slot = buffers.slots - 1
    buffers.load(SEED, slot)
    untouched = buffers.check(SEED, slot)
    # Data of one byte that were moved can equal the poison by chance, one in 256.
    assert untouched.wrong > 0.98 * buffers.shape.recv_count
    assert untouched.first_offset < 4
    deliver(buffers, SEED, slot)
    right = buffers.check(SEED, slot)
    assert (right.wrong, right.first_offset) == (0, -1)


def test_right_data_of_an_earlier_check_do_not_pass(pair: BufferPair) -> None:
    buffers = laid_out(pair, case_of("all_reduce", 960))
    deliver(buffers, SEED, 0)
    buffers.load(SEED, 0)
    assert buffers.check(SEED, 0).wrong == buffers.shape.recv_count


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


def test_blocks_in_the_wrong_order_are_caught(pair: BufferPair) -> None:
    buffers = laid_out(pair, case_of("all_gather", 960))
    buffers.load(SEED, 0)
    deliver(buffers, SEED, 0)
    blocks = memory_at(buffers.recv, 960).reshape(3, 320)
    blocks[[0, 1]] = blocks[[1, 0]]
    assert buffers.check(SEED, 0).wrong > 100


def test_data_of_another_check_do_not_pass(pair: BufferPair) -> None:
    buffers = laid_out(pair, case_of("sendrecv", 960))
    deliver(buffers, SEED, 0)
    assert buffers.check(SEED + 1, 0).wrong > 0


def test_a_slot_is_its_own(pair: BufferPair) -> None:
    buffers = laid_out(pair, case_of("all_reduce", 1024))
    for slot in range(buffers.slots):
        buffers.load(SEED + slot, slot)
        deliver(buffers, SEED + slot, slot)
    assert [buffers.check(SEED + slot, slot).wrong for slot in range(buffers.slots)] == [0] * 4
    assert len({buffers.check(SEED + slot, slot).digest for slot in range(buffers.slots)}) == 4


def test_loading_in_place_keeps_the_own_data_and_poisons_the_rest(pair: BufferPair) -> None:
    buffers = laid_out(pair, case_of("all_gather", 960, dtype="int8", in_place=True), rank=1)
    buffers.load(SEED, 0)
    blocks = memory_at(buffers.recv, 960).reshape(3, 320)
    assert (blocks[[0, 2]] == 0xFF).all()
    assert not (blocks[1] == 0xFF).all()


def test_warm_data_are_finite(pair: BufferPair) -> None:
    case = case_of("all_reduce", 960, dtype="float")
    pair.warm(case, 1, RANKS)
    for address in (pair.send, pair.recv):
        values = memory_at(address, PAIR_BYTES).view(np.float32)
        assert np.isfinite(values).all()
        assert (np.abs(values[values != 0]) >= np.finfo(np.float32).tiny).all()


def test_regions_mean_the_same_to_python_and_to_the_native_core() -> None:
    assert [(kind.name, kind.value) for kind in Holds] == [("CONTRIBUTION", 0), ("REDUCED", 1), ("MOVED", 2)]
