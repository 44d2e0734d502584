"""One rank of an MPI job: does what its argument names over a grid of cases, and prints on rank 0, as JSON,
what all ranks found.

A check is local to a rank, so a batch of cases runs without control traffic in between: the votes of all its
cases are summed once. Ranks here outnumber the cores of a small machine, where an exchange costs time slices.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from busbw_testing import data_faults

from busbw.machine.native import core
from busbw.model.case import Case
from busbw.model.collective import COLLECTIVES, Collective, collective
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS, data_type, reduce_op
from busbw.model.plan import CallOptions, Limits, Plan
from busbw.plan.expand import Grid, expand
from busbw.rank.backends import mpi as mpi_backend
from busbw.rank.backends import mpi_handles
from busbw.rank.backends.mpi import MpiBackend, MpiCase
from busbw.rank.world.base import PeerFailure
from busbw.rank.world.identity import identify
from busbw.rank.world.mpi import MpiWorld, connect

SEED: Final = 77
BUFFER_BYTES: Final = 4096
# An odd count in most types; rounded down to whole blocks of 16 bytes where there are blocks.
SIZE_BYTES: Final = 1001
# Whole buffers of a few elements but no block of 16 bytes for anyone; then nothing at all.
SMALL_SIZES_BYTES: Final = (15, 0)
# Long enough for the libraries' other algorithms.
LONG_SIZE_BYTES: Final = 100_003
FEW_TYPES: Final = ("int8", "float", "half")
REAL_LIMIT: Final = mpi_handles.INT_MAX
ALIGNED: Final = CallOptions()
# How many arguments they take; the first two are the send and the receive buffer.
REDUCTIONS: Final = {"MPI_Allreduce": 6, "MPI_Reduce_scatter_block": 6, "MPI_Reduce": 7}


def lost(failure: PeerFailure) -> None:
    print(failure, file=sys.stderr)
    os._exit(5)


def cases_of(
    ranks: int,
    sizes_bytes: Sequence[int],
    *,
    types: Iterable[str] = tuple(row.name for row in DATA_TYPES),
    ops: Iterable[str] = tuple(row.name for row in REDUCE_OPS),
    rows: Sequence[Collective] = COLLECTIVES,
    roots: Sequence[int] | None = None,
) -> list[Case]:
    """Every applicable case of the grid."""
    roots = range(ranks) if roots is None else roots
    grid = Grid(
        rows, [data_type(name) for name in types], [reduce_op(name) for name in ops], roots, sizes_bytes
    )
    return [case for case in expand(grid, ranks, "mpi") if case.applicable]


# ---- faults: what is done to the data of one check, on the ranks it concerns -------------------------------


@dataclass(frozen=True)
class Fault:
    """``before`` and ``after`` run around the call; without ``calls`` nothing is called before the check."""

    name: str
    before: Callable[[MpiCase], None] = lambda prepared: None
    after: Callable[[MpiCase], None] = lambda prepared: None
    calls: bool = True
    swapped: bool = False
    within: bool = False  # in the library, where the call as it is checked meets it


def memory_at(address: int, size_bytes: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * size_bytes).from_address(address), np.uint8)


def in_memory(address: int, size_bytes: int, how: Callable[[np.ndarray], None]) -> None:
    how(memory_at(address, size_bytes))


def flip_a_bit(prepared: MpiCase) -> None:
    data_faults.flip_a_bit(prepared.buffers, 0, in_memory)


def drop_the_last_rank(prepared: MpiCase) -> None:
    data_faults.drop_the_last_rank(prepared.buffers, 0, in_memory)


FAULTS: Final = (
    Fault("a flipped bit", after=flip_a_bit),
    Fault("a dropped rank", before=drop_the_last_rank),
    Fault("a stale buffer", calls=False),
    Fault("two swapped ranks", swapped=True),  # neither is the root: from 3 ranks on
)
NO_FAULT: Final = Fault("none")
AS_A_RUN_CHECKS: Final = Fault("none, checked as a run does", calls=False, within=True)


# ---- checks -----------------------------------------------------------------------------------------------


def swapped_call(prepared: MpiCase, swapped_comm: Any) -> core.Call:
    """The same call where the launcher has numbered ranks 0 and 1 the other way round."""
    from mpi4py import MPI

    spec = core.MpiSpec.from_buffer_copy(prepared.spec)
    spec.comm = MPI._handleof(swapped_comm)
    spec.rank = swapped_comm.rank
    if prepared.buffers.case.collective == "permute":  # the ring, with its new neighbours
        spec.segments.target, spec.segments.source = (
            (spec.rank + 1) % spec.ranks,
            (spec.rank - 1) % spec.ranks,
        )
    return core.Call.mpi(spec)


def votes_of(
    world: MpiWorld, backend: MpiBackend, cases: Sequence[Case], fault: Fault = NO_FAULT
) -> tuple[np.ndarray, np.ndarray]:
    """[case, rank] of wrong elements, and per case whether ranks agree that must; the same on every rank."""
    votes = np.zeros((len(cases), world.size, 3), np.int64)
    swapped_comm = world.comm.Split(0, {0: 1, 1: 0}.get(world.rank, world.rank)) if fault.swapped else None
    for number, case in enumerate(cases):
        prepared = backend.prepare(case)
        prepared.load(SEED + number, 0)
        fault.before(prepared)
        if swapped_comm is not None:
            call = swapped_call(prepared, swapped_comm)
            call.issue()
            call.close()
        elif fault.calls:
            prepared.run(0)
        fault.after(prepared)
        found = prepared.run_checked(SEED + number, 0) if fault.within else prepared.check(SEED + number, 0)
        votes[number, world.rank] = found.wrong, found.digest >> 32, found.digest & 2**32 - 1
        prepared.close()
    if swapped_comm is not None:
        swapped_comm.Free()
    votes = world.sum(votes)
    agree = (votes[:, :, 1:] == votes[:, :1, 1:]).all(axis=(1, 2))
    needed = np.array([case.row.agreeing for case in cases], bool)
    return votes[:, :, 0], agree | ~needed


def wrong_cases(
    world: MpiWorld,
    cases: Sequence[Case],
    options: CallOptions = ALIGNED,
    buffer_bytes: int = BUFFER_BYTES,
) -> list[Any]:
    """The cases that some rank finds wrong, or whose ranks differ."""
    backend = connected(world, cases, options, buffer_bytes)
    wrong, agree = votes_of(world, backend, cases)
    backend.close()
    bad = np.flatnonzero(wrong.any(axis=1) | ~agree).tolist()
    return [[asdict(cases[number]), wrong[number].tolist()] for number in bad]


def connected(
    world: MpiWorld,
    cases: Sequence[Case],
    options: CallOptions = ALIGNED,
    buffer_bytes: int = BUFFER_BYTES,
) -> MpiBackend:
    plan = Plan("mpi", tuple(cases), buffer_bytes, Limits(), 1, SEED, options=options)
    backend = MpiBackend(plan)
    backend.connect(world)
    return backend


# ---- what an argument names ---------------------------------------------------------------------------


def grid(world: MpiWorld) -> dict[str, Any]:
    """Every operation, type, reduction, root and placement; some also short, long and off alignment."""
    ranks = world.size
    few = cases_of(ranks, SMALL_SIZES_BYTES, types=FEW_TYPES)
    full = cases_of(ranks, (SIZE_BYTES,))
    long = cases_of(ranks, (LONG_SIZE_BYTES,), types=FEW_TYPES, roots=(0,))
    askew = cases_of(ranks, (SIZE_BYTES,), types=FEW_TYPES, roots=(0,))
    return {
        "cases": {"full": len(full), "small": len(few), "long": len(long), "unaligned": len(askew)},
        "kinds": len({(case.collective, case.dtype, case.op, case.placement) for case in full}),
        "wrong": [
            *wrong_cases(world, full),
            *wrong_cases(world, few),
            *wrong_cases(world, long, buffer_bytes=2 * LONG_SIZE_BYTES),
            *wrong_cases(world, askew, CallOptions(unalign=1)),
        ],
    }


def faults(world: MpiWorld) -> dict[str, Any]:
    """For each fault: cases tried, and those in which it went unnoticed."""
    cases = cases_of(world.size, (SIZE_BYTES,), roots=(world.size - 1,))
    cases = [case for case in cases if case.row.sized]
    backend = connected(world, cases)
    out = {}
    for fault in FAULTS[: len(FAULTS) if world.size > 2 else -1]:
        wrong, _ = votes_of(world, backend, cases, fault)
        unnoticed = [cases[number] for number in np.flatnonzero(~wrong.any(axis=1)).tolist()]
        out[fault.name] = {
            "cases": len(cases),
            "unnoticed": [[case.collective, case.dtype, case.op, case.placement] for case in unnoticed],
        }
    backend.close()
    return out


def library_faults(world: MpiWorld) -> dict[str, Any]:
    """A library whose reductions flip the lowest bit of their result, on the last rank or on all: cases
    tried, those in which it went unnoticed, and those that are found wrong without it.
    """
    rows = [row for row in COLLECTIVES if row.reducing]
    cases = cases_of(world.size, (SIZE_BYTES,), rows=rows, roots=(world.size - 1,))
    out: dict[str, Any] = {"cases": len(cases)}
    for name, where in (("nowhere", ()), ("the last rank", (world.size - 1,)), ("all", range(world.size))):
        found = []
        for dtype in DATA_TYPES:
            of_type = [case for case in cases if case.dtype == dtype.name]
            with lowest_bit_flipped(dtype.size_bytes if world.rank in where else 0):
                backend = connected(world, of_type)
                wrong, _ = votes_of(world, backend, of_type, AS_A_RUN_CHECKS)
                backend.close()
            is_wrong = wrong.any(axis=1)
            odd = [of_type[number] for number in np.flatnonzero(~is_wrong if where else is_wrong)]
            found += [[case.collective, case.dtype, case.op, case.placement] for case in odd]
        out[name] = found
    return out


@contextlib.contextmanager
def lowest_bit_flipped(type_bytes: int) -> Iterator[None]:
    """The library's reductions flip that bit of their first element; none where ``type_bytes`` is 0."""
    real, kept = mpi_backend.required_address, []

    def flipping(mpi: Any, name: str) -> int:
        arguments = REDUCTIONS.get(name.removesuffix("_c"), 0)
        if not (arguments and type_bytes):
            return real(mpi, name)
        # Handles and counts are at most as wide as pointers, and travel like them.
        kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_size_t] * arguments)
        function = kind(real(mpi, name))

        def call(send: int, recv: int, *more: int) -> int:
            code = function(send, recv, *more)
            if recv:  # only the root of a reduce has a result
                memory_at(recv, type_bytes)[0] ^= 1
            return int(code)

        kept.append(kind(call))
        return ctypes.cast(kept[-1], ctypes.c_void_p).value or 0

    mpi_backend.required_address = flipping
    try:
        yield
    finally:
        mpi_backend.required_address = real


def large(world: MpiWorld) -> dict[str, Any]:
    """As if an int held 3: the large-count calls with all types, reductions, placements; or the refusals."""
    mpi_handles.INT_MAX = 3  # type: ignore[misc]
    cases = cases_of(world.size, (SIZE_BYTES,), roots=(world.size - 1,))
    backend = connected(world, cases)
    refused = {case.collective: reason for case in cases if (reason := backend.inapplicable(case))}
    able = [case for case in cases if not backend.inapplicable(case)]
    with_large_count = sum(bool(backend.prepare(case).spec.large_count) for case in able)
    backend.close()
    return {
        "cases": len(able),
        "with_large_count": with_large_count,
        "refused": refused,
        "wrong": wrong_cases(world, able),
    }


def huge(world: MpiWorld) -> dict[str, Any]:
    """Counts of elements that no int holds, for real."""
    size_bytes = REAL_LIMIT + 1002
    rows = [collective(name) for name in ("broadcast", "alltoall")]
    cases = [
        case
        for case in cases_of(world.size, (size_bytes,), types=("int8",), rows=rows, roots=(1,))
        if case.collective != "alltoall" or not case.in_place
    ]
    counts = {case.collective: case.count for case in cases}
    return {"counts": counts, "wrong": wrong_cases(world, cases, buffer_bytes=size_bytes)}


def barrier(world: MpiWorld) -> dict[str, Any]:
    """When each rank entered and left, in ns of the host's clock, while the last rank comes 50 ms late."""
    case = next(case for case in cases_of(world.size, (0,)) if case.collective == "barrier")
    backend = connected(world, [case])
    call = backend.barrier_call()
    world.barrier()
    if world.rank == world.size - 1:
        time.sleep(0.05)
    entered = time.monotonic_ns()
    call.issue()
    left = time.monotonic_ns()
    call.close()
    isolated = backend.prepare(case).time_isolated(3, None, barrier=True)
    backend.close()
    clocks = np.zeros((world.size, 2), np.int64)
    clocks[world.rank] = entered, left
    return {"clocks": world.sum(clocks).tolist(), "isolated_ns": isolated.elapsed_ns.tolist()}


TASKS: Final = {task.__name__: task for task in (grid, faults, library_faults, large, huge, barrier)}


def main() -> None:
    world = connect(identify(os.environ), lost)
    start = time.monotonic()
    found = TASKS[sys.argv[1]](world)
    found["seconds"] = round(time.monotonic() - start, 2)
    if world.rank == 0:
        print(json.dumps({"ranks": world.size, **found}), flush=True)
    world.close()


if __name__ == "__main__":
    main()
