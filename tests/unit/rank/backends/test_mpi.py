"""What needs no MPI: the arguments of every call, by a stand-in function; tests/mpi runs real libraries."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import replace
from typing import Any

import pytest

from busbw.machine.native import core
from busbw.model.case import Case
from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.plan.expand import Grid, expand
from busbw.rank.backends import mpi, mpi_handles
from busbw.rank.backends.buffers import BufferPair, CaseBuffers
from busbw.rank.backends.mpi import (
    FUNCTIONS,
    MpiBackend,
    refused_count,
)

RANKS = 4
SIZE_BYTES = 1024
# Bit patterns that no function of ours could make up.
DATATYPE, OP, COMM = 0x4C00_0405, 0x5800_0003, 0x4400_0000
IN_PLACE = 2**64 - 1


def cases_of(name: str, *, dtype: str = "int32", op: str = "sum", root: int = 1) -> list[Case]:
    grid = Grid([collective(name)], [data_type(dtype)], [reduce_op(op)], [root], [SIZE_BYTES])
    return [case for case in expand(grid, RANKS, "mpi") if case.applicable]


def laid_out(pair: BufferPair, case: Case, rank: int) -> CaseBuffers:
    overlap = case.row.in_place["mpi"] if case.in_place else None
    return CaseBuffers.of(pair, case, case.role(rank, RANKS), overlap, rotate=True)


# ---- tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype", "op", "marks"),
    [
        ("all_reduce", "float", "sum", ()),
        ("all_reduce", "half", "sum", ("user-op",)),
        ("reduce", "int8", "avg", ("scaled",)),
        ("reduce_scatter", "f8e4m3", "mulsum", ("user-op", "scaled")),
        ("broadcast", "bfloat16", "sum", ()),
    ],
)
def test_a_row_says_what_is_not_mpis_own(name: str, dtype: str, op: str, marks: tuple[str, ...]) -> None:
    backend = object.__new__(MpiBackend)
    assert {backend.conditions(case) for case in cases_of(name, dtype=dtype, op=op)} == {marks}


# ---- counts that no int holds -------------------------------------------------------------------------


class LibraryWith:
    """Stands for mpi4py's module; what it exports is asked of ``mpi.address``, which the test replaces."""


def big(name: str, size_bytes: int, ranks: int, dtype: str = "int8", op: str = "sum") -> Case:
    grid = Grid([collective(name)], [data_type(dtype)], [reduce_op(op)], [0], [size_bytes])
    return next(case for case in expand(grid, ranks, "mpi") if case.applicable)


@pytest.mark.parametrize(
    ("name", "dtype", "ranks", "limit_bytes"),
    [
        ("all_reduce", "int8", 3, 2**31 - 1),
        ("broadcast", "double", 3, 8 * (2**31 - 1)),
        # Blocks are a multiple of 16 bytes, one for each rank.
        ("alltoall", "int8", 3, 3 * (2**31 - 16)),
        ("reduce_scatter", "float", 2, 2 * 4 * (2**31 - 4)),
        # The last step moves half of all blocks: 2^31 bytes at twice the block that still fits.
        ("hypercube", "int8", 8, 8 * (2**29 - 16)),
    ],
)
def test_a_count_beyond_int_is_refused_without_large_counts(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str, ranks: int, limit_bytes: int
) -> None:
    monkeypatch.setattr(mpi_handles, "address", lambda _library, symbol: not symbol.endswith("_c"))
    library: Any = LibraryWith()
    assert refused_count(library, big(name, limit_bytes, ranks, dtype), ranks) == ""
    too_big = big(name, limit_bytes + 16 * ranks, ranks, dtype)
    reason = refused_count(library, too_big, ranks)
    assert f"has no {FUNCTIONS[name]}_c" in reason
    assert str(2**31 - 1) in reason
    suggested_mib = int(reason.rpartition("-e ")[2].removesuffix("M)"))
    assert limit_bytes - 2 * 2**20 < suggested_mib * 2**20 <= limit_bytes
    monkeypatch.setattr(mpi_handles, "address", lambda _library, _symbol: 1)
    assert refused_count(library, too_big, ranks) == ""


def test_our_own_reductions_need_a_large_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_handles, "address", lambda _library, symbol: symbol != "MPI_Op_create_c")
    library: Any = LibraryWith()
    assert "MPI_Op_create_c" in refused_count(library, big("all_reduce", 2**33, 2, "half"), 2)
    assert refused_count(library, big("all_reduce", 2**33, 2, "int16"), 2) == ""
    assert refused_count(library, big("broadcast", 2**33, 2, "half"), 2) == ""


# ---- segments of parts --------------------------------------------------------------------------------


class NoHandles:
    """Stands for the library's types and operations."""

    def datatype(self, _dtype: object) -> int:
        return DATATYPE


@pytest.mark.parametrize("name", ["alltoallv", "all_gatherv"])
def test_every_spec_keeps_its_own_segments(
    pair: BufferPair, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Specs of several parts exist before any call copies their arrays."""
    backend = object.__new__(MpiBackend)
    monkeypatch.setattr(backend, "_own", NoHandles(), raising=False)
    monkeypatch.setattr(backend, "_without_data", lambda *_, **__: core.MpiSpec(), raising=False)
    case = replace(cases_of(name)[0], coalesce=(1, 2, 1))
    parts = CaseBuffers.of(pair, case, case.role(0, RANKS), None, rotate=False).parts
    specs = [backend._spec(part.case, part) for part in parts]
    for spec, part in zip(specs, parts, strict=True):
        exchange = part.shape.exchange
        assert exchange is not None
        assert spec.arrays
        for held, wanted in (("recv_counts", exchange.recv_counts), ("recv_offsets", exchange.recv_offsets)):
            array = next(each for each in spec.arrays if each.ctypes.data == getattr(spec.segments, held))
            assert tuple(array) == wanted


# ---- the arguments that MPI gets ----------------------------------------------------------------------

P, H, N, R = ctypes.c_void_p, "handle", "count", ctypes.c_int
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "all_reduce": (P, P, N, H, H, H),
    "reduce_scatter": (P, P, N, H, H, H),
    "reduce": (P, P, N, H, H, R, H),
    "all_gather": (P, N, H, P, N, H, H),
    "alltoall": (P, N, H, P, N, H, H),
    "gather": (P, N, H, P, N, H, R, H),
    "scatter": (P, N, H, P, N, H, R, H),
    "broadcast": (P, N, H, R, H),
    "sendrecv": (P, N, H, R, R, P, N, H, R, R, H, P),
    "hypercube": (P, N, H, R, R, P, N, H, R, R, H, P),
    "barrier": (H,),
}


class StandIn:
    """An MPI function that notes its arguments; handles of 4 or 8 bytes, counts int or 64 bits."""

    def __init__(self, name: str, handle_bytes: int, *, large: bool) -> None:
        self.calls: list[tuple[int, ...]] = []
        handle = ctypes.c_int32 if handle_bytes == 4 else ctypes.c_void_p
        types = {H: handle, N: ctypes.c_int64 if large else ctypes.c_int}
        arguments = [types[part] if isinstance(part, str) else part for part in SIGNATURES[name]]
        self._function = ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(self._note)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value

    def _note(self, *arguments: int | None) -> int:
        self.calls.append(tuple(argument or 0 for argument in arguments))
        return 0


def issue(
    buffers: CaseBuffers, slot: int, handle_bytes: int = 4, *, large: bool = False
) -> list[tuple[int, ...]]:
    """What one call at a slot gives to MPI."""
    case, role = buffers.case, buffers.role
    function = StandIn(case.collective, handle_bytes, large=large)
    arguments = mpi._arguments(case, buffers, IN_PLACE)
    (send, send_stride), (recv, recv_stride) = arguments["send"], arguments["recv"]
    spec = core.MpiSpec(
        collective=case.row.number,
        handle_bytes=handle_bytes,
        large_count=large,
        rank=role.rank,
        ranks=role.ranks,
        root=role.root,
        dtype=case.data_type.number,
        scale_op=reduce_op(case.op).number if case.op in mpi.SCALED_OPS else -1,
        function=function.address,
        in_place=IN_PLACE,
        datatype=DATATYPE,
        op=OP,
        comm=COMM,
        send=send,
        recv=recv,
        send_count=case.count,
        recv_count=case.count,
        type_bytes=case.data_type.size_bytes,
        rotation=core.Rotation(send_stride, recv_stride, buffers.slots),
    )
    call = core.Call.mpi(spec)
    call.issue(slot)
    call.close()
    return function.calls


@pytest.mark.parametrize(("handle_bytes", "large"), list(itertools.product((4, 8), (False, True))))
def test_each_function_gets_its_arguments_in_its_order(
    pair: BufferPair, handle_bytes: int, large: bool
) -> None:
    """Rank 2 of 4, root 1, out of place where there is such a form, third slot."""
    offset = 2 * SIZE_BYTES
    whole, block = SIZE_BYTES // 4, SIZE_BYTES // 4 // RANKS
    send, recv = pair.send + offset, pair.recv + offset
    expected: dict[str, tuple[int, ...]] = {
        "all_reduce": (send, recv, whole, DATATYPE, OP, COMM),
        "reduce_scatter": (send, recv, block, DATATYPE, OP, COMM),
        "reduce": (send, 0, whole, DATATYPE, OP, 1, COMM),
        "all_gather": (send, block, DATATYPE, recv, block, DATATYPE, COMM),
        "alltoall": (send, block, DATATYPE, recv, block, DATATYPE, COMM),
        "gather": (send, block, DATATYPE, 0, block, DATATYPE, 1, COMM),
        "scatter": (0, block, DATATYPE, recv, block, DATATYPE, 1, COMM),
        "broadcast": (recv, whole, DATATYPE, 1, COMM),
        "sendrecv": (send, whole, DATATYPE, 3, 0, recv, whole, DATATYPE, 1, 0, COMM),
    }
    for name, arguments in expected.items():
        buffers = laid_out(pair, cases_of(name)[0], rank=2)
        (call,) = issue(buffers, 2, handle_bytes, large=large)
        assert call[: len(arguments)] == arguments, name
    barrier = laid_out(pair, cases_of("barrier")[0], rank=2)
    assert issue(barrier, 0, handle_bytes, large=large) == [(COMM,)]
