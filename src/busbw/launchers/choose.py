"""How many ranks this host gets, and the request that starts them."""

from __future__ import annotations

import os
import secrets
import socket
from typing import Final

from busbw.errors import SiteError, UsageError
from busbw.launchers import local
from busbw.launchers.base import LaunchRequest
from busbw.planning.values import at_least

# A laptop's or login node's cores, without a flood of ranks on a large one.
MOST_DEFAULT_RANKS: Final = 8
MOST_RANKS: Final = 65_536  # processes of one host: more are a mistake, and would take the host down


def rank_count(wanted: int | None, backend: str) -> int:
    """One rank per visible GPU, or CPU ranks; ``wanted`` of them if given.

    Raises UsageError for a number that is no number of ranks, SiteError for more ranks than GPUs.
    """
    if wanted is not None:
        at_least("--ranks", wanted, 1, MOST_RANKS)
    if backend != "nccl":
        from busbw.probes.host import read_processors

        return wanted or max(2, min(read_processors().usable_cores, MOST_DEFAULT_RANKS))
    from busbw.probes.gpus import gpu_presence

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
        return local.without_mpi(ranks, secrets.token_hex(16), _free_port(), request_file)
    from busbw.probes.host import read_processors
    from busbw.probes.mpi import find_mpi

    library = find_mpi(os.environ).library
    mpi = local.LocalMpi("", "")
    if library is not None:
        bundled = library.family == "mpich" and library.found == "environment"
        mpi = local.LocalMpi(library.mpiexec, library.family, bundled)
    processors = read_processors()
    return local.over_mpi(mpi, ranks, min(processors.usable_cores, processors.cores), request_file)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
