"""--mpi none beside what needs MPI, in the same words on every engine. Pure."""

from __future__ import annotations

from busbw.errors import UsageError


def refuse_mpi(world: str, backend: str) -> None:
    """Raises UsageError where ranks without MPI could not be this world, or not measure with this backend."""
    if "mpi" in (world, backend):
        raise UsageError(
            "--mpi none, but this run needs MPI", hint="leave --mpi or --world and --backend out"
        )
