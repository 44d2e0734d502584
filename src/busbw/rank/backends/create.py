"""Name to backend. Heavy libraries load here, at use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from busbw.errors import SiteError
from busbw.machine.native import core, nvtx
from busbw.rank import progress
from busbw.rank.backends.base import Backend
from busbw.rank.world.base import World, members_here

if TYPE_CHECKING:
    from busbw.model.neighbour import Neighbour
    from busbw.model.plan import Plan
    from busbw.rank.backends.load import Load
    from busbw.rank.backends.operation import OperationBeside


def preflight(plan: Plan, world: World) -> None:
    """What can be refused before anything is allocated. Local to the rank."""
    if plan.backend != "mpi" and plan.options.memory != "host":
        return
    from busbw.rank.backends.host_memory import require_host_memory

    ranks = len(members_here(world))
    reduces = plan.backend == "mpi" and any(case.op != "none" for case in plan.cases)
    buffers = [plan.buffer_bytes, *(plan.of_neighbour(n).buffer_bytes for n in plan.beside if n.is_operation)]
    require_host_memory(sum(buffers), ranks, reduces=reduces, has_gaps=plan.has_gaps)


def create(plan: Plan, world: World) -> Backend:
    """The backend of the plan on this rank: libraries loaded, buffers allocated. Not collective, so that a
    rank that fails here fails before the others wait for it; ``Backend.connect`` is.
    """
    core.count_progress(progress.counts_address())
    if not plan.streams:
        return _create(plan, world)
    from busbw.rank.backends.streams import StreamsBackend

    return StreamsBackend([_create(plan.of_stream(number), world) for number in range(len(plan.streams))])


def _create(plan: Plan, world: World) -> Backend:
    if plan.backend == "null":
        from busbw.rank.backends.null import NullBackend

        return NullBackend()
    if plan.backend == "mpi":
        if world.kind != "mpi":
            raise SiteError(
                f"CPU ranks communicate over MPI, but this world is {world.kind!r}"
                f" (launcher: {world.launcher})",
                hint="start the ranks with mpirun or srun --mpi=..., use --backend nccl on GPUs, or set"
                " BUSBW_LAUNCHER=none to start ranks on this host",
            )
        from busbw.rank.backends.mpi import MpiBackend

        return MpiBackend(plan)
    from busbw.rank.backends.nccl import NcclBackend

    return NcclBackend(plan, world.members[world.rank].local_rank)


def neighbours(plan: Plan, backend: Backend, world: World) -> tuple[Load | OperationBeside, ...]:
    """What each --beside is on this rank: kernels loaded, memory allocated. After ``connect``; local. An
    operation is still to be connected.
    """
    from busbw.rank.backends.operation import OperationBeside

    return tuple(
        OperationBeside(each, _create(plan.of_neighbour(each), world), world)
        if each.is_operation
        else _load(each, backend)
        for each in plan.beside
    )


def _load(neighbour: Neighbour, backend: Backend) -> Load:
    if backend.name == "mpi":
        from busbw.rank.backends.load import host_load

        return host_load(neighbour)
    from busbw.rank.backends.nccl import NcclBackend

    assert isinstance(backend, NcclBackend), "the plan refuses others"
    return backend.load(neighbour)


def is_profiled() -> bool:
    """Whether a profiler has attached to this process, by NVTX_INJECTION64_PATH."""
    return nvtx.attach()
