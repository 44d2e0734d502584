"""An MPI library's functions, datatypes and operations, and ours where it lacks them."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from busbw._native import core
from busbw.backends.base import CallFailed
from busbw.errors import SiteError
from busbw.model.datatype import DataType, reduce_op

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


class OwnHandles:
    """Datatypes and operations of one MPI library: its own, and for element types that it lacks ours, made at
    first use: a run of bytes, and the core's reduction functions.
    """

    def __init__(self, mpi: Any) -> None:  # noqa: ANN401 (the mpi4py module)
        self._mpi = mpi
        self._datatypes: dict[str, Any] = {}
        self._ops: dict[tuple[str, str, bool], Any] = {}

    def datatype(self, dtype: DataType) -> int:
        """Handle of the type."""
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
