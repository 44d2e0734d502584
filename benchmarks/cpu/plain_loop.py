"""loop.c from Python: built with the mpicc of the MPI library in use, called on the buffers of a case."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from busbw.machine.native import core

SOURCE = Path(__file__).with_name("loop.c")


class PlainCall(ctypes.Structure):
    """struct plain_call for libraries whose handles are ints (MPICH and its relatives)."""

    _fields_ = (
        ("send", ctypes.c_void_p),
        ("recv", ctypes.c_void_p),
        ("send_stride", ctypes.c_size_t),
        ("recv_stride", ctypes.c_size_t),
        ("slots", ctypes.c_size_t),
        ("send_count", ctypes.c_int),
        ("recv_count", ctypes.c_int),
        ("send_to", ctypes.c_int),
        ("recv_from", ctypes.c_int),
        ("datatype", ctypes.c_uint32),
        ("op", ctypes.c_uint32),
        ("comm", ctypes.c_uint32),
    )


def build(mpicc: str, folder: Path) -> Path:
    """Compile loop.c into ``folder`` with the optimisation that busbw's own library has."""
    library = folder / "loop.so"
    command = [mpicc, "-O2", "-std=c11", "-Wall", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True)
    return library


@dataclass(frozen=True)
class PlainLoop:
    """One case in the plain loop, with exactly the arguments that busbw's loop has."""

    function: Any
    call: PlainCall

    @classmethod
    def of(cls, library: ctypes.CDLL, collective: str, spec: core.MpiSpec) -> PlainLoop:
        """The loop of a collective on the arguments of ``spec``. Raises ValueError where they cannot be."""
        if spec.handle_bytes != ctypes.sizeof(ctypes.c_uint32):
            raise ValueError("this benchmark is written for MPICH's integer handles")
        mpi_function = {
            "all_reduce": "MPI_Allreduce",
            "all_gather": "MPI_Allgather",
            "sendrecv": "MPI_Sendrecv",
        }
        linked = ctypes.cast(getattr(library, mpi_function[collective]), ctypes.c_void_p).value
        if linked != spec.function:
            raise ValueError("the plain loop is linked with another MPI library than busbw has loaded")
        call = PlainCall(
            send=spec.send,
            recv=spec.recv,
            send_stride=spec.rotation.send_stride,
            recv_stride=spec.rotation.recv_stride,
            slots=spec.rotation.slots,
            send_count=spec.send_count,
            recv_count=spec.recv_count,
            send_to=(spec.rank + 1) % spec.ranks,
            recv_from=(spec.rank - 1) % spec.ranks,
            datatype=spec.datatype,
            op=spec.op,
            comm=spec.comm,
        )
        function = getattr(library, f"plain_{collective}")
        function.argtypes = (ctypes.POINTER(PlainCall), *[ctypes.c_size_t] * 3, ctypes.c_void_p)
        return cls(function, call)

    def time(self, lead: int, samples: int, k: int) -> npt.NDArray[np.int64]:
        """Nanoseconds of each of ``samples`` x ``k`` calls, after ``lead`` untimed ones."""
        elapsed = np.empty(samples, np.int64)
        code = self.function(ctypes.byref(self.call), lead, samples, k, elapsed.ctypes.data)
        if code:
            raise RuntimeError(f"MPI call failed with code {code}")
        return elapsed
