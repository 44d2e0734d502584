"""Faults put into the data of one check on a GPU, those of tests/mpi/program.py.

A fault may change the GPU's memory before or after the call, leave the call out, or have it made through a
communicator in which two ranks are numbered the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from busbw_testing import data_faults

from busbw.machine.native import core
from busbw.model.case import Case
from busbw.model.collective import Role
from busbw.rank.backends.buffers import BAND_BYTES
from busbw.rank.backends.nccl import NcclBackend
from busbw.rank.backends.nccl_case import NcclCase, case_spec, nccl_call
from busbw.rank.world.base import World

Meddle = Callable[[NcclCase, int], None]  # (prepared case, slot)


@dataclass(frozen=True)
class Fault:
    """``before`` and ``after`` run around the call; without ``calls`` nothing is called. ``passes(case,
    ranks)``: the result is right all the same, so that nothing is to be noticed. ``later``: the first check
    is left alone, and the call is one after timed ones.
    """

    name: str
    before: Meddle = lambda prepared, slot: None
    after: Meddle = lambda prepared, slot: None
    calls: bool = True
    swapped: bool = False
    later: bool = False
    least_ranks: int = 1
    passes: Callable[[Case, int], bool] = lambda case, ranks: False


def change(prepared: NcclCase, address: int, size_bytes: int, how: Callable[[np.ndarray], None]) -> None:
    """Rewrite bytes of the GPU's memory by way of the host."""
    driver = prepared._channel.driver
    data = np.empty(size_bytes, np.uint8)
    driver.copy_to_host(data.ctypes.data, address, size_bytes)
    how(data)
    driver.copy_to_device(address, data.ctypes.data, size_bytes)
    # A copy from pageable memory may return before its last step, and our stream does not wait for it.
    driver.synchronize()


def flip_a_bit(prepared: NcclCase, slot: int) -> None:
    data_faults.flip_a_bit(prepared.whole.parts[0], slot, partial(change, prepared))


def drop_the_last_rank(prepared: NcclCase, slot: int) -> None:
    data_faults.drop_the_last_rank(prepared.whole.parts[0], slot, partial(change, prepared))


def write_beside(end: str) -> Meddle:
    """16 bytes of the last rank, at one end of a buffer of its own."""

    def write(prepared: NcclCase, slot: int) -> None:
        buffers = prepared.whole.parts[0]
        if buffers.role.rank != buffers.role.ranks - 1:
            return
        for band in buffers._bands(slot, slot):
            if band.end == end:
                at = band.address + (BAND_BYTES - 16 if end.startswith("before") else 0)
                change(prepared, at, 16, invert)

    return write


def invert(data: np.ndarray) -> None:
    data[:] = ~data


def change_the_send_buffer(prepared: NcclCase, slot: int) -> None:
    """The last element that the last rank sends; not in place, where it may be written."""
    buffers = prepared.whole.parts[0]
    case, role = buffers.case, buffers.role
    regions = case.row.sends(buffers.shape, role)
    if role.rank != role.ranks - 1 or case.in_place or not regions:
        return
    type_bytes = case.data_type.size_bytes
    element = regions[-1].offset + regions[-1].count - 1
    change(prepared, buffers.send + slot * buffers.stride_bytes + element * type_bytes, type_bytes, invert)


def same_when_swapped(case: Case, ranks: int) -> bool:
    """A reduction gives the same whoever brings what, but for each rank's own scalar; so does a broadcast
    among others than its root, which with two ranks is one of the swapped. A ring of two has one direction.
    """
    if case.collective in ("sendrecv", "permute"):  # a permute without pairs is the same ring
        return ranks == 2
    root_stays = ranks > 2 or not case.row.rooted
    return case.collective in ("all_reduce", "reduce", "broadcast") and case.op != "mulsum" and root_stays


FAULTS: Final = (
    Fault("a flipped bit", after=flip_a_bit),
    Fault("a flipped bit in a later call", after=flip_a_bit, later=True),
    Fault("16 bytes past the end", after=write_beside("past_recv")),
    Fault("16 bytes before the start", after=write_beside("before_recv")),
    Fault("a changed send buffer", after=change_the_send_buffer, passes=lambda case, ranks: case.in_place),
    Fault("a dropped rank", before=drop_the_last_rank),
    # A single rank in place has its result before the call.
    Fault("a stale buffer", calls=False, least_ranks=2),
    Fault("two swapped ranks", swapped=True, least_ranks=2, passes=same_when_swapped),
)


class SwappedRanks:
    """A second communicator, in which the first two ranks are numbered the other way round."""

    def __init__(self, world: World, backend: NcclBackend) -> None:
        self._backend = backend
        self._rank = {0: 1, 1: 0}.get(world.rank, world.rank)
        self._channel = backend._connected()
        nccl = self._channel.nccl
        unique_id = world.broadcast(nccl.unique_id() if world.rank == 0 else None)
        self._comm = nccl.comm_init(world.size, unique_id, self._rank)

    def run(self, prepared: NcclCase, slot: int) -> None:
        """The case's call on the same buffers, by the other number."""
        buffers, nccl = prepared.whole.parts[0], self._channel.nccl
        case = buffers.case
        op = case.reduce_op.number if case.reduce_op is not None else 0
        if case.op == "mulsum":
            scalar = core.premul_scalar(case.data_type.number, self._rank)
            op = nccl.premul_sum_create(self._comm, scalar, self._backend._support.element(case).datatype)
        role = Role(self._rank, buffers.role.ranks, buffers.role.root)
        element = self._backend._support.element(case)
        channel = replace(self._channel, comm=self._comm)
        call = nccl_call(channel, case_spec(channel, replace(buffers, role=role), element, op))
        with self._channel.errors:
            call.issue(slot)
            core.stream_wait(self._channel.timed_stream)
        call.close()
        if case.op == "mulsum":
            nccl.reduction_destroy(self._comm, op)

    def close(self) -> None:
        self._channel.nccl.comm_destroy(self._comm)
