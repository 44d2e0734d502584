"""Ranks on this host: by the mpiexec of the MPI library in use, or as plain processes that need no MPI."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.errors import SiteError
from busbw.launchers.base import Command, LaunchRequest

RANK_COMMAND = (sys.executable, "-m", "busbw.worker")

# Open MPI refuses root and more ranks than cores unless told otherwise; MPICH needs nothing. Waiting ranks
# that spin would take the cores from the ranks they wait for.
_OPEN_MPI_ENVIRON: Mapping[str, str] = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
# In a Slurm job hydra would start its daemons by srun, on the job's hosts: not in our task, and not here.
_HYDRA_ENVIRON: Mapping[str, str] = {"HYDRA_LAUNCHER": "fork", "HYDRA_RMK": "user"}


@dataclass(frozen=True)
class LocalMpi:
    """The mpiexec to use, and whose it is; ``bundled`` where it is the mpich wheel's own."""

    mpiexec: str
    family: str
    bundled: bool = False


def over_mpi(mpi: LocalMpi, ranks: int, cores: int, request_file: str, world: str = "mpi") -> LaunchRequest:
    """``ranks`` CPU ranks under an mpiexec; ``cores`` is how many they may use."""
    if not mpi.mpiexec:
        raise SiteError(
            "no mpiexec was found beside the MPI library or on PATH",
            hint="install the bundled MPI (pip install mpich), or start the ranks with your own mpirun",
        )
    options: tuple[str, ...] = ("-n", str(ranks))
    # They have to believe this mpiexec, whatever launcher's variables we were started among: with
    # BUSBW_LAUNCHER=none in a shell that is itself the task of a Slurm step, say.
    launcher = mpi.family if mpi.family in ("openmpi", "mpich") else ""
    environ = {"BUSBW_REQUEST": request_file, "BUSBW_WORLD": world, "BUSBW_LAUNCHER": launcher}
    if mpi.family == "openmpi":
        environ.update(_OPEN_MPI_ENVIRON)
        if ranks > cores:
            options = (*options, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
    else:
        environ.update(_HYDRA_ENVIRON)
    if mpi.bundled and ranks <= cores:
        # Ranks that start on one core and spin can stay there for seconds, at milliseconds a call. Open MPI
        # binds by default.
        options = (*options, "-bind-to", "core")
    command = Command((mpi.mpiexec, *options, *RANK_COMMAND), environ)
    return LaunchRequest("local", world, ranks, (command,))


def without_mpi(ranks: int, token: str, port: int, request_file: str) -> LaunchRequest:
    """One plain process per rank; they find each other at a loopback port and prove the token."""
    return LaunchRequest(
        "local",
        "nccl",
        ranks,
        tuple(
            Command(
                RANK_COMMAND,
                {
                    "BUSBW_REQUEST": request_file,
                    "BUSBW_WORLD": "nccl",
                    "BUSBW_LAUNCHER": "busbw",
                    "BUSBW_RANK": str(rank),
                    "BUSBW_WORLD_SIZE": str(ranks),
                    "BUSBW_LOCAL_RANK": str(rank),
                    "BUSBW_LOCAL_SIZE": str(ranks),
                    "BUSBW_ROOT": f"127.0.0.1:{port}",
                    "BUSBW_TOKEN": token,
                },
                secret=frozenset({"BUSBW_TOKEN"}),
            )
            for rank in range(ranks)
        ),
    )
