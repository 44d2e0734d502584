"""MPI collectives on host memory, called by address from the native loop."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Final

import numpy as np

from busbw._native import core
from busbw.backends.base import CallFailed, CheckOutcome, Identity, Look
from busbw.backends.buffers import BufferPair, CaseBuffers
from busbw.backends.host_memory import HostMemory
from busbw.errors import SiteError, UsageError
from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.probes.host import read_processors
from busbw.world.base import World
from busbw.world.mpi import MpiWorld

# Per collective: the MPI function whose address the native loop calls.
FUNCTIONS: Final = {"all_reduce": "MPI_Allreduce", "all_gather": "MPI_Allgather", "sendrecv": "MPI_Sendrecv"}

DATATYPES: Final = {
    "int8": "INT8_T",
    "uint8": "UINT8_T",
    "int32": "INT32_T",
    "uint32": "UINT32_T",
    "int64": "INT64_T",
    "uint64": "UINT64_T",
    "float": "FLOAT",
    "double": "DOUBLE",
}
OPS: Final = {"sum": "SUM", "prod": "PROD", "max": "MAX", "min": "MIN"}

INT_MAX: Final = 2**31 - 1
_CLOCK_PROBES: Final = 2001


class MpiCase:
    """One case on MPI. ``spec`` is the prepared call, so that a benchmark can issue the very same one."""

    def __init__(self, buffers: CaseBuffers, spec: core.MpiSpec) -> None:
        self.slots = buffers.slots
        self.spec = spec
        self._buffers = buffers
        self._call = core.Call.mpi(spec)

    def load(self, seed: int, slot: int) -> None:
        """See PreparedCase."""
        self._buffers.load(seed, slot)

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """See PreparedCase."""
        return self._buffers.check(seed, slot)

    def run(self, slot: int, calls: int = 1) -> None:
        """See PreparedCase."""
        with _translated():
            for _ in range(calls):
                self._call.issue(slot)

    def time(self, lead: int, samples: int, k: int) -> Look:
        """See PreparedCase."""
        with _translated():
            elapsed = self._call.time_host(lead, samples, k)
        return Look(elapsed, elapsed)

    def close(self) -> None:
        """See PreparedCase."""
        self._call.close()


class MpiBackend:
    """MPI on a communicator of its own, so that control traffic never shares one with timed calls."""

    name = "mpi"
    max_samples_per_look = 4096

    def __init__(self, plan: Plan) -> None:
        from mpi4py import MPI

        self.timing_cost_ns = clock_cost_ns()
        self.identity = Identity(library="MPI", version="", path="")
        self._mpi: Any = MPI
        self._comm: Any = None
        self._rotate = plan.rotate
        self._pair = BufferPair.allocate(HostMemory(), plan.buffer_bytes)
        self._warm_for: tuple[str, str, str] | None = None

    def connect(self, world: World) -> None:
        """Duplicate the world's communicator."""
        if not isinstance(world, MpiWorld):
            raise TypeError("the MPI backend needs an MPI world")
        self._comm = world.comm.Dup()
        # A failing call must come back as a code that we can name, not end the job inside the library.
        self._comm.Set_errhandler(self._mpi.ERRORS_RETURN)
        library = world.library
        self.identity = Identity(
            library="MPI",
            version=library.version,
            path=library.path,
            device=read_processors().model,
            facts={
                "thread_level": world.thread_level,
                "abi_handle_bytes": self._mpi._sizeof(self._mpi.Comm),
                "cores_allowed": len(os.sched_getaffinity(0)),
                "host_cores_allowed": world.local_cores,  # to all ranks of this host together
            },
        )

    def prepare(self, case: Case) -> MpiCase:
        """Lay the case out and resolve its function."""
        buffers = CaseBuffers.of(self._pair, case, self._comm.rank, self._comm.size, rotate=self._rotate)
        kind = (case.collective, case.dtype, case.op)
        if self._warm_for != kind:
            self._pair.warm(case, self._comm.rank, self._comm.size)
            self._warm_for = kind
        return MpiCase(buffers, self._spec(case, buffers))

    def _spec(self, case: Case, buffers: CaseBuffers) -> core.MpiSpec:
        mpi, rank, size = self._mpi, self._comm.rank, self._comm.size
        shape = buffers.shape
        large = max(shape.send_count, shape.recv_count) > INT_MAX
        in_place = case.in_place
        return core.MpiSpec(
            collective=case.row.number,
            handle_bytes=mpi._sizeof(mpi.Comm),
            large_count=large,
            root=max(case.root, 0),
            send_to=(rank + 1) % size,
            recv_from=(rank - 1) % size,
            function=_function_address(mpi, FUNCTIONS[case.collective], large=large),
            datatype=mpi._handleof(getattr(mpi, DATATYPES[case.dtype])),
            op=mpi._handleof(getattr(mpi, OPS[case.op])) if case.op else 0,
            comm=mpi._handleof(self._comm),
            # MPI_IN_PLACE is a constant of the library, not an address that rotates.
            send=int(mpi.IN_PLACE) if in_place else buffers.send,
            recv=buffers.recv,
            send_count=shape.send_count,
            recv_count=shape.call_count,
            rotation=core.Rotation(
                0 if in_place else buffers.stride_bytes, buffers.stride_bytes, buffers.slots
            ),
        )

    def interrupt(self) -> None:
        """MPI calls cannot be interrupted; the launcher ends them."""

    def close(self) -> None:
        """Free the communicator and the buffers."""
        if self._comm is not None:
            self._comm.Free()
        self._pair.release()


def require_supported(case: Case) -> None:
    """Raise UsageError for a type or reduction that MPI has none for."""
    if case.dtype not in DATATYPES:
        raise UsageError(
            f"MPI has no element type {case.dtype}",
            hint=f"use one of: {', '.join(DATATYPES)}; or --backend nccl",
        )
    if case.op and case.op not in OPS:
        raise UsageError(f"MPI has no reduction {case.op}", hint=f"use one of: {', '.join(OPS)}")


def clock_cost_ns() -> float:
    """What one clock read adds to a sample: the median time of a call that does nothing, one per sample."""
    call = core.Call.null()
    try:
        return float(np.median(call.time_host(0, _CLOCK_PROBES, 1)))
    finally:
        call.close()


def _function_address(mpi: Any, name: str, *, large: bool) -> int:  # noqa: ANN401 (the mpi4py module)
    """Address of the very function that mpi4py itself is bound to: the global scope first (a preloaded tool
    or wrapper wins, as the dynamic linker has it), then the extension's own dependencies.
    """
    symbol = f"{name}_c" if large else name
    for scope in (None, mpi.__file__):
        function = getattr(ctypes.CDLL(scope), symbol, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    if large:
        raise SiteError(
            f"this MPI library has no {symbol}, so counts are limited to {INT_MAX} elements",
            hint=f"lower -e so that no buffer has more than {INT_MAX} elements, or use a wider type",
        )
    raise SiteError(f"the MPI library in use exports no {symbol}", hint="rebuild mpi4py against this MPI")


class _translated:  # noqa: N801 (used like a function: with _translated())
    """Turns a status of the native core into an error that names MPI's own text."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, core.CallError):
            from mpi4py import MPI

            raise CallFailed(
                f"MPI call failed: {MPI.Get_error_string(error.status)}",
                hint="the MPI library's own messages, if it printed any, are in log/ of the run folder",
            ) from error
