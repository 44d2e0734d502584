"""Faults put into the data of one check, in whatever memory its buffers lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from busbw.model.collective import Holds
from busbw.rank.backends.buffers import CaseBuffers
from busbw_testing.identities import identity_bits

# (address, bytes, how): rewrites memory; ``how`` changes an array of it.
Change = Callable[[int, int, Callable[[np.ndarray], None]], None]


def flip_a_bit(buffers: CaseBuffers, slot: int, change: Change) -> None:
    """One bit of one received element of the last rank, another bit and element in every case."""
    case, role = buffers.case, buffers.role
    received = sum(region.count for region in case.row.receives(buffers.shape, role))
    if role.rank != role.ranks - 1 or not received:
        return
    type_bytes = case.data_type.size_bytes
    element, bit = case.index * 7919 % received, case.index * 104_729 % (8 * type_bytes)
    is_rounded = case.op == "avg" and "int" not in case.dtype and role.ranks & (role.ranks - 1) != 0
    if is_rounded and bit == 0:
        bit = 1  # the neighbouring value is accepted there: the library may round once more than we do

    def flip(data: np.ndarray) -> None:
        data[bit // 8] ^= 1 << bit % 8

    change(buffers.recv + slot * buffers.stride_bytes + element * type_bytes, type_bytes, flip)


def drop_the_last_rank(buffers: CaseBuffers, slot: int, change: Change) -> None:
    """Its contribution is the identity of the reduction; what it should move is what nobody expects."""
    case, role = buffers.case, buffers.role
    if role.rank != role.ranks - 1:
        return
    type_bytes = case.data_type.size_bytes
    for region in case.row.sends(buffers.shape, role):
        identity = identity_bits(case.data_type, case.op).to_bytes(type_bytes, "little")
        nothing = np.frombuffer(identity * region.count, np.uint8)
        contributes = region.holds is Holds.CONTRIBUTION

        def drop(data: np.ndarray, nothing: np.ndarray = nothing, contributes: bool = contributes) -> None:
            data[:] = nothing if contributes else ~data

        at = buffers.send + slot * buffers.stride_bytes + region.offset * type_bytes
        change(at, region.count * type_bytes, drop)
