"""An MPI library's functions, datatypes and operations, ours where it lacks them, and what it cannot do."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from busbw.errors import SiteError
from busbw.machine.native import core
from busbw.model.case import Case
from busbw.model.datatype import DataType, reduce_op
from busbw.rank.backends.base import CallFailed
from busbw.units import format_approximate_size

DATATYPES: Final = {
    "int8": "INT8_T",
    "uint8": "UINT8_T",
    "int16": "INT16_T",
    "uint16": "UINT16_T",
    "int32": "INT32_T",
    "uint32": "UINT32_T",
    "int64": "INT64_T",
    "uint64": "UINT64_T",
    "float": "FLOAT",
    "double": "DOUBLE",
}
# Per collective: the MPI function whose address the native loop calls.
FUNCTIONS: Final = {
    "all_reduce": "MPI_Allreduce",
    "all_gather": "MPI_Allgather",
    "reduce_scatter": "MPI_Reduce_scatter_block",
    "alltoall": "MPI_Alltoall",
    "broadcast": "MPI_Bcast",
    "reduce": "MPI_Reduce",
    "gather": "MPI_Gather",
    "scatter": "MPI_Scatter",
    "sendrecv": "MPI_Sendrecv",
    "hypercube": "MPI_Sendrecv",
    "alltoallv": "MPI_Alltoallv",
    "all_gatherv": "MPI_Allgatherv",
    "permute": "MPI_Sendrecv",
    "barrier": "MPI_Barrier",
}
SCALED_OPS: Final = ("avg", "mulsum")  # MPI sums, and the core scales within the call
INT_MAX: Final = 2**31 - 1


class OwnHandles:
    """Datatypes and operations of one MPI library: its own, and for element types that it lacks ours, made at
    first use: a run of bytes, and the core's reduction functions.
    """

    def __init__(self, mpi: Any) -> None:  # noqa: ANN401 (the mpi4py module)
        self._mpi = mpi
        self._datatypes: dict[str, Any] = {}
        self._ops: dict[tuple[str, str, bool], Any] = {}

    def datatype(self, dtype: DataType) -> int:
        if dtype.name in DATATYPES:
            return int(self._mpi._handleof(getattr(self._mpi, DATATYPES[dtype.name])))
        if dtype.name not in self._datatypes:
            self._datatypes[dtype.name] = self._mpi.BYTE.Create_contiguous(dtype.size_bytes).Commit()
        return int(self._mpi._handleof(self._datatypes[dtype.name]))

    def op(self, dtype: DataType, name: str, *, large: bool) -> int:
        """Handle of MPI's operation ``name`` (SUM, ...), or of ours for the type. An operation made for int
        counts is not for large ones.
        """
        if dtype.name in DATATYPES:
            return int(self._mpi._handleof(getattr(self._mpi, name)))
        key = (dtype.name, name, large)
        if key not in self._ops:
            self._ops[key] = self._create_op(dtype, name, large=large)
        return int(self._ops[key].value)

    def free(self) -> None:
        """Give all of ours back to MPI."""
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        for handle in self._ops.values():
            prototype(required_address(self._mpi, "MPI_Op_free"))(ctypes.addressof(handle))
        for datatype in self._datatypes.values():
            datatype.Free()
        self._ops.clear()
        self._datatypes.clear()

    def _create_op(self, dtype: DataType, name: str, *, large: bool) -> Any:  # noqa: ANN401 (a ctypes integer)
        create = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
            required_address(self._mpi, symbol("MPI_Op_create", large=large))
        )
        is_int = self._mpi._sizeof(self._mpi.Op) == ctypes.sizeof(ctypes.c_uint32)
        handle = ctypes.c_uint32() if is_int else ctypes.c_uint64()
        function = core.mpi_user_function(dtype.number, reduce_op(name.lower()).number, large=large)
        commutes = 1
        code = create(function, commutes, ctypes.addressof(handle))
        if code != 0:
            raise CallFailed(f"MPI_Op_create failed: {self._mpi.Get_error_string(code)}")
        return handle


def symbol(name: str, *, large: bool) -> str:
    """A function's name, or that of its form for large counts."""
    return f"{name}_c" if large else name


def address(mpi: Any, name: str) -> int:  # noqa: ANN401 (the mpi4py module)
    """Address of the very function that mpi4py itself is bound to: the global scope first (a preloaded tool
    or wrapper wins, as the dynamic linker has it), then the extension's own dependencies. 0 where there is
    none.
    """
    for scope in (None, mpi.__file__):
        function = getattr(ctypes.CDLL(scope), name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


def required_address(mpi: Any, name: str) -> int:  # noqa: ANN401 (the mpi4py module)
    """As ``address``. Raises SiteError where there is none."""
    found = address(mpi, name)
    if not found:
        raise SiteError(f"the MPI library in use exports no {name}", hint="rebuild mpi4py against this MPI")
    return found


def started(name: str) -> str:
    """The nonblocking form of a function: MPI_Iallreduce of MPI_Allreduce."""
    return f"MPI_I{name.removeprefix('MPI_').lower()}"


def refused_at_once(mpi: Any, case: Case) -> str:  # noqa: ANN401 (the mpi4py module)
    """Why the case cannot run at once with other operations, or its parts; empty where it can."""
    if case.collective == "hypercube":
        return "the steps of hypercube depend on one another: it cannot be started and waited for"
    if case.op in SCALED_OPS:
        return f"MPI has no {case.op}: busbw scales after the sum, which cannot be started and waited for"
    name = started(FUNCTIONS[case.collective])
    return "" if address(mpi, name) else f"this MPI library has no {name}"


def refused_count(mpi: Any, case: Case, ranks: int) -> str:  # noqa: ANN401 (the mpi4py module)
    """Why a count of the case cannot be given to this library; empty where it can. Counts are C ints unless
    the library has the functions of MPI 4 (MPI_Allreduce_c, ...).
    """
    largest = largest_count(case, ranks)
    if not beyond_int(largest):
        return ""
    needed = [symbol(FUNCTIONS[case.collective], large=True)]
    if case.op and case.dtype not in DATATYPES:
        needed.append(symbol("MPI_Op_create", large=True))
    missing = [name for name in needed if not address(mpi, name)]
    if not missing:
        return ""
    fits = INT_MAX * case.size_bytes // largest
    return (
        f"this MPI library has no {missing[0]}, so counts end at {INT_MAX} elements: the largest size is"
        f" {format_approximate_size(fits)} (-e {fits // 2**20}M)"
    )


def beyond_int(count: int) -> bool:
    """Whether the count, or offset, needs MPI 4's functions with large counts."""
    return count > INT_MAX


def largest_count(case: Case, ranks: int) -> int:
    """The largest count of any MPI function that a call uses: the last step of a hypercube moves half of all
    blocks at once. Where ranks differ, that of a rank which moves all of its bytes with one other.
    """
    if case.row.variable is not None:
        return case.size_bytes // case.data_type.size_bytes
    return case.count * max(1, ranks // 2) if case.collective == "hypercube" else case.count
