"""What --save-wrong keeps of a check that failed."""

from __future__ import annotations

import ctypes
import io
from typing import Any

import numpy as np
import pytest

from busbw.model.case import Case
from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.plan.expand import Grid, expand
from busbw.rank.backends import parts as call_parts
from busbw.rank.backends import values
from busbw.rank.backends.buffers import BufferPair, CaseBuffers, HostData
from busbw.rank.backends.parts import CheckedParts, saved_tensors

RANKS, RANK, SEED, SLOT = 4, 2, 99, 1
DATA = (values.EXACT, "random", "all_ones")


def case_of(name: str, size_bytes: int = 1024, coalesce: tuple[int, ...] = ()) -> Case:
    rows = [collective(name)]
    grid = Grid(rows, [data_type("float")], [reduce_op("sum")], [0], [size_bytes], coalesce=coalesce)
    return expand(grid, RANKS, "mpi")[0]


def laid_out(pair: BufferPair, case: Case, data: str) -> CaseBuffers:
    return CaseBuffers.of(pair, case, case.role(RANK, RANKS), None, rotate=True, data=data)


def words(address: int, count: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint32 * count).from_address(address), np.uint32)


def deliver(buffers: CaseBuffers, seed: int, slot: int) -> None:
    """What a right call writes."""
    case, at = buffers.case, slot * buffers.stride_bytes
    for region in case.row.receives(buffers.shape, buffers.role):
        if buffers.data == values.EXACT:
            made = call_parts._made(buffers, seed, [region], 0, buffers.shape.recv_count)
            begin, end = region.offset * 4, (region.offset + region.count) * 4
            buffers.pair.memory.write(buffers.recv + at + begin, made[begin:end])
        else:
            HostData(buffers.pair.memory, buffers.source(seed)).write(buffers.recv + at, [region])


def archive(content: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(content)) as found:
        return {name: found[name] for name in found.files}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", ["all_reduce", "all_gather"])
def test_what_was_received_differs_from_what_was_expected_where_it_is_wrong(
    pair: BufferPair, name: str, data: str
) -> None:
    buffers = laid_out(pair, case_of(name), data)
    buffers.load(SEED, SLOT)
    deliver(buffers, SEED, SLOT)
    assert buffers.check(SEED, SLOT).wrong == 0
    words(buffers.recv + SLOT * buffers.stride_bytes, 256)[70] ^= 0x40000000
    outcome = buffers.check(SEED, SLOT)
    assert (outcome.wrong, outcome.first_offset) == (1, 70)
    kept = archive(saved_tensors(buffers, SEED, SLOT, outcome.first_offset))
    assert np.flatnonzero(kept["received"] != kept["expected"]).tolist() == [70]
    assert kept["received"][70] == kept["expected"][70] ^ 0x40000000
    own = words(buffers.send + SLOT * buffers.stride_bytes, buffers.shape.send_count)
    assert (kept["sent"] == own).all()
    assert (int(kept["start"]), int(kept["first_wrong"]), int(kept["seed"])) == (0, 70, SEED)
    assert (str(kept["dtype"]), int(kept["rank_in_group"])) == ("float", RANK)
    assert str(kept["case"]).startswith(f"{name} ")


def test_of_a_large_buffer_the_elements_around_the_first_wrong_one_are_kept(
    pair: BufferPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_parts, "KEPT_ELEMENTS", 16)
    buffers = laid_out(pair, case_of("all_gather"), values.EXACT)
    buffers.load(SEED, 0)
    deliver(buffers, SEED, 0)
    words(buffers.recv, 256)[70] += 1
    kept = archive(saved_tensors(buffers, SEED, 0, 70))
    assert int(kept["start"]) == 62
    assert np.flatnonzero(kept["received"] != kept["expected"]).tolist() == [8]
    assert (kept["received"] == words(buffers.recv, 256)[62:78]).all()
    assert len(kept["sent"]) == 2  # a rank sends 64 elements of 256: those from 62 on
    near_the_end = archive(saved_tensors(buffers, SEED, 0, 254))
    assert (int(near_the_end["start"]), len(near_the_end["received"])) == (246, 10)


def test_of_parallel_parts_the_one_with_the_first_wrong_element_is_kept(pair: BufferPair) -> None:
    case = case_of("all_reduce", coalesce=(1, 3))
    checked = CheckedParts()
    checked.whole = CaseBuffers.of(pair, case, case.role(RANK, RANKS), None, rotate=True)
    parts = checked.whole.parts
    checked.load(SEED, 0)
    for number, part in enumerate(parts):
        deliver(part, (SEED + (number << 57)) % 2**64, 0)
    assert checked.check(SEED, 0).wrong == 0
    words(parts[1].recv, 192)[6] += 1
    outcome = checked.check(SEED, 0)
    assert (outcome.wrong, outcome.first_offset) == (1, 64 + 6)
    kept = archive(checked.tensors(SEED, 0, outcome.first_offset))
    assert (len(kept["received"]), int(kept["first_wrong"])) == (192, 6)
    assert np.flatnonzero(kept["received"] != kept["expected"]).tolist() == [6]
