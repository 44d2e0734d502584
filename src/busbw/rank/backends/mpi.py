"""MPI collectives on host memory, called by address from the native loop."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from busbw.machine.host import read_processors
from busbw.machine.native import core
from busbw.model.case import Case
from busbw.model.collective import Role, collective
from busbw.model.datatype import reduce_op
from busbw.model.plan import Plan
from busbw.rank.backends.base import (
    CallFailed,
    CheckOutcome,
    Groups,
    Identity,
    IdleCase,
    Int64Array,
    Look,
    Pairs,
)
from busbw.rank.backends.buffers import BufferPair, CaseBuffers, native_region
from busbw.rank.backends.host_memory import HostMemory
from busbw.rank.backends.mpi_handles import (
    DATATYPES,
    FUNCTIONS,
    SCALED_OPS,
    OwnHandles,
    address,
    beyond_int,
    largest_count,
    refused_at_once,
    refused_count,
    required_address,
    started,
    symbol,
)
from busbw.rank.backends.parts import CheckedParts, OnBuffers, gathered_offset, native_segments, ranged
from busbw.rank.backends.values import EXACT
from busbw.rank.world.base import World
from busbw.rank.world.mpi import MpiWorld

# The argument that is MPI_IN_PLACE in an in-place call: of all ranks, or of the root where there is one.
# The other collectives have one buffer (broadcast) or sends and receives within it (hypercube).
IN_PLACE_ARGUMENTS: Final = {
    "all_reduce": "send",
    "all_gather": "send",
    "reduce_scatter": "send",
    "alltoall": "send",
    "reduce": "send",
    "gather": "send",
    "scatter": "recv",
}
# The argument that only the root's call reads; null elsewhere, so that no call names a buffer twice.
ROOT_ARGUMENTS: Final = {"reduce": "recv", "gather": "recv", "scatter": "send"}

# MPI has no mean and no premultiplied sum: it sums, and the core scales within the call.
OPS: Final = {"sum": "SUM", "prod": "PROD", "max": "MAX", "min": "MIN", "avg": "SUM", "mulsum": "SUM"}
_NO_SCALE: Final = -1

_CLOCK_PROBES: Final = 2001


class MpiCase(CheckedParts):
    """One case on MPI. ``spec`` is the prepared call, so that a benchmark can issue the very same one, on
    ``buffers``. ``barrier`` goes before isolated calls; it belongs to the backend.
    """

    calls_per_issue = 1
    max_calls = sys.maxsize

    def __init__(
        self,
        whole: CaseBuffers,
        specs: Sequence[core.MpiSpec],
        barrier: core.Call,
        wait: int = 0,
        sleep: tuple[int, int] = (0, 0),
    ) -> None:
        self.whole, self.buffers, self.spec = whole, whole.parts[0], specs[0]
        self.slots = self.buffers.slots
        self._sum = _sum_of_mean(self.buffers, specs)
        calls = [core.Call.mpi(spec) for spec in specs]
        self._call = calls[0] if len(calls) == 1 else core.Call.mpi_parts(calls, wait)
        test, pause_ns = sleep
        if pause_ns:
            self._call = core.Call.mpi_sleeping(self._call, test, pause_ns)
        self._call = ranged(self._call, whole.case)
        self._barrier = barrier

    def run(self, slot: int, calls: int = 1) -> None:
        with _translated():
            for _ in range(calls):
                self._call.issue(slot)

    def run_checked(self, seed: int, slot: int, issue: Callable[[int], object] | None = None) -> CheckOutcome:
        """See PreparedCase. A mean is taken in its two steps: MPI's sum is looked at before it is divided."""
        if self._sum is None:
            return super().run_checked(seed, slot, issue)
        of_sums: list[CheckOutcome] = []
        summed = self._sum

        def sum_and_divide(slot: int) -> None:
            with _translated():
                summed.issue(slot)
            of_sums.append(self.buffers.check_sums(seed, slot))
            divide(self.buffers, slot)

        found = super().run_checked(seed, slot, sum_and_divide)
        # A wrong mean has a wrong sum, or all means are wrong: the larger number counts both.
        both = (*of_sums, found)
        firsts = [each.first_offset for each in both if each.first_offset >= 0]
        wrong = max(each.wrong for each in both)
        return replace(found, wrong=wrong, first_offset=min(firsts, default=-1))

    def time(self, lead: int, samples: int, k: int) -> Look:
        with _translated():
            elapsed = self._call.time_host(lead, samples, k)
        return Look(elapsed, elapsed)

    def time_isolated(self, samples: int, delay_ns: Int64Array | None, *, barrier: bool) -> Look:
        before = self._barrier if barrier else None
        with _translated():
            entry, left = self._call.time_isolated_host(before, samples, delay_ns)
        return Look(left - entry, left - entry, entry)

    def time_loop(self, calls: int) -> int:
        with _translated():
            return self._call.time_loop(None, calls)

    def lane(self, calls: int, slot: int) -> core.Lane:
        """The case as one of several at once."""
        return core.Lane(self._call, calls, slot)

    def close(self) -> None:
        self._call.close()
        if self._sum is not None:
            self._sum.close()


class MpiBackend(OnBuffers):
    """MPI on a communicator of its own, so that control traffic never shares one with timed calls."""

    name = "mpi"
    max_samples_per_look = 4096

    def __init__(self, plan: Plan) -> None:
        from mpi4py import MPI

        self.timing_cost_ns = clock_cost_ns()
        self.identity = Identity(library="MPI", version="", path="")
        self._mpi: Any = MPI
        self._comm: Any = None
        self._barrier: core.Call | None = None
        self._plan = plan
        self._role = None
        self.pair = BufferPair.allocate(HostMemory(), plan.buffer_bytes, plan.options.unalign)
        self._own = OwnHandles(MPI)
        self._pause_ns = 0

    def connect(self, world: World) -> None:
        """Duplicate the world's communicator, or split it where the plan has groups. A rank in none of them
        has no communicator and sits out.
        """
        assert isinstance(world, MpiWorld)
        created_ns = self._join(world)
        library = world.library
        self.identity = Identity(
            library="MPI",
            version=library.version,
            path=library.path,
            device=read_processors().model,
            facts={
                "communicator_ns": created_ns,
                "thread_level": world.thread_level,
                "abi_handle_bytes": self._mpi._sizeof(self._mpi.Comm),
                "cores_allowed": len(os.sched_getaffinity(0)),
                "host_cores_allowed": world.local_cores,  # to all ranks of this host together
            },
        )

    def pair_up(self, pairs: Pairs, pause_ns: int = 0) -> None:
        """See Backend. Libraries before MPI 4 have no MPI_Isendrecv; its waits do not sleep there."""
        self._plan = replace(self._plan, pairs=pairs)
        self._pause_ns = pause_ns

    def regroup(self, world: World, groups: Groups) -> None:
        assert isinstance(world, MpiWorld)
        self._leave()
        self._plan = replace(self._plan, groups=groups)
        self._join(world)

    def inapplicable(self, case: Case) -> str:
        """Why this library cannot run the case, the same on every rank; empty where it can. After connect."""
        if self._role is None:
            return ""
        at_once = case.coalesce or self._plan.runs_at_once
        refused = refused_at_once(self._mpi, case) if at_once else ""
        return refused or refused_count(self._mpi, case, self._role.ranks)

    def conditions(self, case: Case) -> tuple[str, ...]:
        """What of the case's time is not MPI's own."""
        user_op = ("user-op",) if case.op and case.dtype not in DATATYPES else ()
        return (*user_op, "scaled") if case.op in SCALED_OPS else user_op

    def prepare(self, case: Case) -> MpiCase | IdleCase:
        """Lay the case out and resolve its function."""
        if self._role is None:
            return IdleCase()
        whole = self._laid_out(case)
        assert self._barrier is not None, "prepare comes after connect"
        specs = [self._spec(part.case, part) for part in whole.parts]
        pause_ns = self._pause_ns
        if pause_ns and not address(self._mpi, started(FUNCTIONS[case.collective])):
            pause_ns = 0
        if not (case.coalesce or self._plan.runs_at_once or pause_ns):
            return MpiCase(whole, specs, self._barrier)
        for spec in specs:
            name = symbol(started(FUNCTIONS[case.collective]), large=bool(spec.large_count))
            spec.start_function = required_address(self._mpi, name)
        wait, test = (required_address(self._mpi, name) for name in ("MPI_Wait", "MPI_Test"))
        return MpiCase(whole, specs, self._barrier, wait, (test, pause_ns))

    def together(
        self, prepared: Sequence[MpiCase], calls: Sequence[int], slot: int, lead: int, rounds: int
    ) -> core.Rounds:
        """See Backend. One thread drives all: it starts a call of each and then tests them in turn."""
        lanes = [case.lane(k, slot) for case, k in zip(prepared, calls, strict=True)]
        with _translated():
            return core.time_lanes_host(lanes, required_address(self._mpi, "MPI_Test"), lead, rounds)

    def _join(self, world: MpiWorld) -> int:
        """Take the communicator of this rank's group, if it has one; the nanoseconds that making it took."""
        start_ns = time.monotonic_ns()
        self._role = self._plan.group_of(world.rank, world.size)
        comm = self._communicator(world, self._role)
        created_ns = time.monotonic_ns() - start_ns
        if comm != self._mpi.COMM_NULL:
            self._comm = comm
            # A failing call must come back as a code that we can name, not end the job inside the library.
            self._comm.Set_errhandler(self._mpi.ERRORS_RETURN)
            self._barrier = self.barrier_call()
        return created_ns

    def _leave(self) -> None:
        """Give the communicator back, and what stands on it."""
        if self._barrier is not None:
            self._barrier.close()
        if self._comm is not None:
            self._comm.Free()
        self._comm = self._barrier = self._warm_for = None

    def _communicator(self, world: MpiWorld, group: Role | None) -> Any:  # noqa: ANN401 (of mpi4py)
        if not self._plan.groups:
            return world.comm.Dup()
        if group is None:
            return world.comm.Split(self._mpi.UNDEFINED, 0)
        return world.comm.Split(group.group, group.rank)

    def memory_report(self) -> dict[str, int]:
        """The two buffers; what the library takes for itself cannot be asked."""
        return {"buffers": 2 * self.pair.allocated_bytes}

    def barrier_call(self) -> core.Call:
        """A new MPI_Barrier on the communicator of the timed calls; its user closes it before the backend."""
        return core.Call.mpi(self._without_data("barrier", large=False))

    def _spec(self, case: Case, buffers: CaseBuffers) -> core.MpiSpec:
        shape, role = buffers.shape, buffers.role
        # Offsets are ints too where counts are.
        furthest = max(shape.send_count, shape.recv_count) if shape.exchange is not None else 0
        large = beyond_int(max(largest_count(case, role.ranks), furthest))
        spec = self._without_data(case.collective, large=large)
        spec.root = role.root
        spec.dtype = case.data_type.number
        spec.type_bytes = case.data_type.size_bytes
        spec.datatype = self._own.datatype(case.data_type)
        if case.op:
            spec.op = self._own.op(case.data_type, OPS[case.op], large=large)
        if case.op in SCALED_OPS:
            spec.scale_op = reduce_op(case.op).number
        spec.send_count = spec.recv_count = shape.call_count
        arguments = _arguments(case, buffers, spec.in_place)
        (spec.send, send_stride), (spec.recv, recv_stride) = arguments["send"], arguments["recv"]
        spec.rotation = core.Rotation(send_stride, recv_stride, buffers.slots)
        segments = native_segments(shape, role)
        spec.segments = segments
        spec.arrays = segments.arrays  # of the value itself: a structure gives out copies of its fields
        if shape.exchange is not None:
            spec.send += gathered_offset(case.row, shape) * spec.type_bytes
            spec.send_count = shape.exchange.send_counts[0]  # read by MPI_Allgatherv only
        return spec

    def _without_data(self, name: str, *, large: bool) -> core.MpiSpec:
        """The parts of a spec that no element type or buffer decides."""
        mpi, row = self._mpi, collective(name)
        return core.MpiSpec(
            collective=row.number,
            handle_bytes=mpi._sizeof(mpi.Comm),
            large_count=large,
            rank=self._comm.rank,
            ranks=self._comm.size,
            scale_op=_NO_SCALE,
            function=required_address(mpi, symbol(FUNCTIONS[name], large=large)),
            in_place=int(mpi.IN_PLACE) % 2**64,  # a pointer's bits: it is -1 in MPICH
            comm=mpi._handleof(self._comm),
            rotation=core.Rotation(0, 0, 1),
            no_peer=mpi.PROC_NULL,
        )

    def close(self) -> None:
        """Free the communicator, our types and operations, and the buffers."""
        self._own.free()
        self._leave()
        self.pair.release()


def _sum_of_mean(buffers: CaseBuffers, specs: Sequence[core.MpiSpec]) -> core.Call | None:
    """The call of a mean without its division; None where nothing is divided, or nothing is known of the
    sums. A call with a mean has no parts.
    """
    if buffers.case.op != "avg" or buffers.data != EXACT or len(specs) > 1:
        return None
    spec = core.MpiSpec.from_buffer_copy(specs[0])
    spec.scale_op = _NO_SCALE
    return core.Call.mpi(spec)


def _arguments(case: Case, buffers: CaseBuffers, in_place: int) -> Mapping[str, tuple[int, int]]:
    """The send and the receive argument of a call at slot 0, each with what it moves by from slot to slot."""
    role, stride = buffers.role, buffers.stride_bytes
    arguments = {"send": (buffers.send, stride), "recv": (buffers.recv, stride)}
    if case.op == "mulsum":
        return arguments  # the core stages the products in the receive buffer and reduces them there
    if case.row.rooted and not role.is_root:
        if case.collective in ROOT_ARGUMENTS:
            arguments[ROOT_ARGUMENTS[case.collective]] = (0, 0)
    elif case.in_place and case.collective in IN_PLACE_ARGUMENTS:
        # A constant of the library, not an address that rotates.
        arguments[IN_PLACE_ARGUMENTS[case.collective]] = (in_place, 0)
    return arguments


def clock_cost_ns() -> float:
    """What one clock read adds to a sample: the median time of a call that does nothing, one per sample."""
    call = core.Call.null()
    try:
        return float(np.median(call.time_host(0, _CLOCK_PROBES, 1)))
    finally:
        call.close()


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


# ---- the sum behind a mean ---------------------------------------------------------------------------
# MPI has no mean: it sums, and busbw divides. The quotient of an integer has lost the remainder of the sum,
# and that of a float over a number of ranks that is no power of two may be a neighbour of the expected one;
# so a check looks at the sum itself before it is divided.


def divide(buffers: CaseBuffers, slot: int) -> None:
    """What the timed call does with the sums behind MPI's call."""
    case, role = buffers.case, buffers.role
    at, type_bytes = buffers.recv + slot * buffers.stride_bytes, case.data_type.size_bytes
    for region in map(native_region, case.row.receives(buffers.shape, role)):
        address = at + region.offset * type_bytes
        numbers = (case.data_type.number, reduce_op(case.op).number)
        core.scale(*numbers, address, region.count, role.rank, role.ranks)
