"""What a mean does not tell of the sum that it was divided from.

MPI has no mean: it sums, and busbw divides. The quotient of an integer has lost the sum's remainder, and that
of a float over a number of ranks that is no power of two may be a neighbour of the expected one; so a check
looks at MPI's sum itself before it is divided.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from busbw._native import core
from busbw.backends.buffers import CaseBuffers, native_region, pieces
from busbw.backends.values import FLOATS, Bits
from busbw.model.datatype import DataType, reduce_op

_SIGNED: Final[dict[int, type[np.signedinteger[Any]]]] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def unlike_sums(dtype: DataType, ranks: int, bits: Bits) -> npt.NDArray[np.bool_]:
    """Which elements are not a sum of a mean's exact contributions (``native/pattern.hpp``), as far as their
    mean does not tell: integers are a multiple of the ranks' number; floats of a number of ranks that is no
    power of two are one themselves, up to the sign. Other floats lose nothing when they are divided.
    """
    form = FLOATS.get(dtype.name)
    if form is None:
        numbers = bits.view(_SIGNED[dtype.size_bytes]) if dtype.name.startswith("int") else bits
        return np.asarray(numbers % numbers.dtype.type(ranks) != 0)
    lost = 0 if ranks & (ranks - 1) == 0 else 2**form.mantissa_bits - 1
    return np.asarray(bits & bits.dtype.type(lost) != 0)


def check_sums(buffers: CaseBuffers, slot: int) -> tuple[int, int]:
    """Elements of the slot's receive part that are no such sum, and where the first is; -1 for none. Of host
    memory and exact data.
    """
    at, type_bytes = buffers.recv + slot * buffers.stride_bytes, buffers.case.data_type.size_bytes
    source, memory = buffers.source(0), buffers.pair.memory
    wrong, firsts = 0, []
    for region in pieces(buffers.case.row.receives(buffers.shape, buffers.role)):
        data = memory.read(at + region.offset * type_bytes, region.count * type_bytes)
        unlike = np.flatnonzero(unlike_sums(source.dtype, source.ranks, data.view(source.unsigned)))
        wrong += len(unlike)
        firsts += [region.offset + int(unlike[0])] if len(unlike) else []
    return wrong, min(firsts, default=-1)


def divide(buffers: CaseBuffers, slot: int) -> None:
    """What the timed call does with the sums behind MPI's call."""
    case, role = buffers.case, buffers.role
    at, type_bytes = buffers.recv + slot * buffers.stride_bytes, case.data_type.size_bytes
    for region in map(native_region, case.row.receives(buffers.shape, role)):
        address = at + region.offset * type_bytes
        numbers = (case.data_type.number, reduce_op(case.op).number)
        core.scale(*numbers, address, region.count, role.rank, role.ranks)
