"""Ranks on this host: how many it gets, and the request that starts them, by the mpiexec of the MPI library
in use or as plain processes that need no MPI.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError, UsageError
from busbw.launch import ahead
from busbw.launch.base import Command, LaunchRequest, rank_variables
from busbw.plan.flags.values import Between
from busbw.rank.process import BIND_VARIABLE

if TYPE_CHECKING:
    from busbw.machine.mpi import MpiLibrary

# Open MPI refuses root and more ranks than cores unless told otherwise; MPICH needs nothing. Waiting ranks
# that spin would take the cores from the ranks they wait for.
OPEN_MPI_ENVIRON: Mapping[str, str] = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
# In a Slurm job hydra would start its daemons by srun, on the job's hosts: not in our task, and not here. It
# writes what it knows of the host into a file of /tmp, which stays when it is killed; with an empty name it
# does not, and the ranks look for themselves.
_HYDRA_ENVIRON: Mapping[str, str] = {"HYDRA_LAUNCHER": "fork", "HYDRA_RMK": "user", "HWLOC_XMLFILE": ""}
# A laptop's or login node's cores, without a flood of ranks on a large one.
MOST_DEFAULT_RANKS: Final = 8
MOST_RANKS: Final = 65_536  # processes of one host: more are a mistake, and would take the host down


def rank_count(wanted: int | None, backend: str) -> int:
    """One rank per visible GPU, or CPU ranks; ``wanted`` of them if given.

    Raises UsageError for a number that is no number of ranks, SiteError for more ranks than GPUs.
    """
    if wanted is not None:
        Between(1, MOST_RANKS).check("--ranks", wanted)
    if backend != "nccl":
        from busbw.machine.host import read_processors

        return wanted or max(2, min(read_processors().usable_cores, MOST_DEFAULT_RANKS))
    from busbw.machine.gpus import gpu_presence

    visible = gpu_presence().count
    if wanted is not None and wanted > visible:
        visible_gpus = "1 visible GPU" if visible == 1 else f"{visible} visible GPUs"
        raise SiteError(
            f"{wanted} ranks but {visible_gpus} on {socket.gethostname()}",
            hint=f"give --ranks {visible} or fewer, or start one rank per GPU over several hosts",
        )
    return wanted or visible


def local_request(backend: str, world: str, ranks: int, request_file: str) -> LaunchRequest:
    """Ranks on this host; ``world`` auto is nccl (no MPI needed) for GPUs, else mpi.

    Raises UsageError for a world that cannot hold the ranks, SiteError where there is no mpiexec.
    """
    if world == "auto":
        world = "nccl" if backend == "nccl" else "mpi"
    if world == "solo" and ranks != 1:
        raise UsageError(f"--world solo has one rank, not {ranks}", hint="give --ranks 1")
    if world != "mpi":
        return without_mpi(ranks, secrets.token_hex(16), _free_port(), request_file)
    from busbw.machine.host import read_processors
    from busbw.machine.mpi import find_mpi

    processors = read_processors()
    return over_mpi(
        find_mpi(os.environ).library, ranks, min(processors.usable_cores, processors.cores), request_file
    )


def over_mpi(mpi: MpiLibrary | None, ranks: int, cores: int, request_file: str) -> LaunchRequest:
    """``ranks`` CPU ranks under the mpiexec of an MPI library; ``cores`` is how many they may use."""
    if mpi is None or not mpi.mpiexec:
        raise SiteError(
            "no mpiexec was found beside the MPI library or on PATH",
            hint="install the bundled MPI (pip install mpich), or start the ranks with your own mpirun",
        )
    options: tuple[str, ...] = ("-n", str(ranks))
    # They have to believe this mpiexec, whatever launcher's variables we were started among: with
    # BUSBW_LAUNCHER=none in a shell that is itself the task of a Slurm step, say.
    launcher = mpi.family if mpi.family in ("openmpi", "mpich") else ""
    environ = {"BUSBW_REQUEST": request_file, "BUSBW_WORLD": "mpi", "BUSBW_LAUNCHER": launcher}
    if mpi.family == "openmpi":
        environ.update(OPEN_MPI_ENVIRON)
        if ranks > cores:
            options = (*options, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
    else:
        environ.update(_HYDRA_ENVIRON)
    is_bundled = mpi.family == "mpich" and mpi.found == "environment"  # the mpich wheel's own
    if is_bundled and ranks <= cores:
        environ[BIND_VARIABLE] = "core"
    command = Command((mpi.mpiexec, *options, *ahead.RANK_COMMAND), environ)
    return LaunchRequest("mpi", ranks, (command,))


def without_mpi(ranks: int, token: str, port: int, request_file: str) -> LaunchRequest:
    """One plain process per rank; they find each other at a loopback port and prove the token."""
    own = {"BUSBW_REQUEST": request_file, "BUSBW_WORLD": "nccl", "BUSBW_TOKEN": token}
    root = f"127.0.0.1:{port}"
    commands = (
        Command(ahead.RANK_COMMAND, {**own, **rank_variables((rank, ranks), (rank, ranks), root)})
        for rank in range(ranks)
    )
    return LaunchRequest("nccl", ranks, tuple(commands))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
