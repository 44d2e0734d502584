"""Name to backend. Heavy libraries load here, at use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from busbw.backends.base import Backend
from busbw.errors import SiteError

if TYPE_CHECKING:
    from busbw.model.plan import Plan
    from busbw.world.base import World


def preflight(plan: Plan, world: World) -> None:
    """What can be refused before anything is allocated. Local to the rank."""
    if plan.backend != "mpi" and plan.options.memory != "host":
        return
    from busbw.backends.host_memory import require_host_memory

    here = world.members[world.rank].host
    ranks = sum(member.host == here for member in world.members)
    require_host_memory(plan.buffer_bytes, ranks, has_gaps=plan.has_gaps)


def create(plan: Plan, world: World) -> Backend:
    """The backend of the plan on this rank: libraries loaded, buffers allocated. Not collective, so that a
    rank that fails here fails before the others wait for it; ``Backend.connect`` is.
    """
    if not plan.streams:
        return _create(plan, world)
    from busbw.backends.streams import StreamsBackend

    return StreamsBackend([_create(plan.of_stream(number), world) for number in range(len(plan.streams))])


def _create(plan: Plan, world: World) -> Backend:
    if plan.backend == "null":
        from busbw.backends.null import NullBackend

        return NullBackend()
    if plan.backend == "mpi":
        if world.kind != "mpi":
            raise SiteError(
                f"CPU ranks communicate over MPI, but this world is {world.kind!r}"
                f" (launcher: {world.launcher})",
                hint="start the ranks with mpirun or srun --mpi=..., use --backend nccl on GPUs, or set"
                " BUSBW_LAUNCHER=none to start ranks on this host",
            )
        from busbw.backends.mpi import MpiBackend

        return MpiBackend(plan)
    if plan.backend == "nccl":
        from busbw.backends.nccl import NcclBackend

        return NcclBackend(plan, world.members[world.rank].local_rank)
    raise SiteError(f"no backend {plan.backend!r}")
