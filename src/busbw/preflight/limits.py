"""Rules about memory and what the system allows a process."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

from busbw.model.finding import Finding, Severity
from busbw.preflight.gathered import Gathered
from busbw.preflight.network import fabric
from busbw.units import format_approximate_size

# Docker's default for /dev/shm, in which NCCL's connections of one host do not fit.
_DOCKER_SHM_BYTES: Final = 64 << 20
# Of the usual host's memory: firmware and crash kernels differ by less, a lost module by more.
_LEAST_MEMORY: Final = 0.9
# An allowance of ours: connections grow with ranks; libraries and logs take the rest.
_FILES_A_RANK: Final = 2
_FILES_BESIDE: Final = 256


def memory(gathered: Gathered) -> Iterator[Finding]:
    """No host has clearly less memory than is usual."""
    sizes = {host: node.memory_bytes for host, node in gathered.each_node() if node.memory_bytes}
    usual = int(statistics.median(sizes.values())) if sizes else 0
    for host, size in sizes.items():
        if size < _LEAST_MEMORY * usual:
            yield Finding(
                Severity.WARNING,
                f"{host} has {format_approximate_size(size)} of memory, where the usual host has"
                f" {format_approximate_size(usual)}",
                hint="look for a memory module that is lost, and for another kind of host",
                host=host,
            )


def shared_memory(gathered: Gathered) -> Iterator[Finding]:
    """/dev/shm holds what NCCL's ranks of one host share."""
    for rank in gathered.nodes:
        size = rank.node.shm_bytes if rank.node is not None else None
        crowded = gathered.hosts.count(rank.host) > 1
        if gathered.backend == "nccl" and crowded and size is not None and size <= _DOCKER_SHM_BYTES:
            yield Finding(
                Severity.WARNING,
                f"/dev/shm on {rank.host} has {format_approximate_size(size)}, little for NCCL",
                "64 MiB is Docker's default",
                "start the container with --shm-size=1g or more, or --ipc=host",
                host=rank.host,
            )


def ulimits(gathered: Gathered) -> Iterator[Finding]:
    """Open files are enough for the connections, and RDMA may lock its buffers."""
    needed = _FILES_A_RANK * len(gathered.ranks) + _FILES_BESIDE
    for rank in gathered.nodes:
        files, locked = rank.limits.get("nofile", -1), rank.limits.get("memlock", -1)
        if -1 < files < needed:
            yield Finding(
                Severity.WARNING,
                f"{rank.host} allows {files} open files, where {len(gathered.ranks)} ranks may need {needed}",
                "ulimit -n",
                "raise nofile in limits.conf, the service or the container",
                host=rank.host,
            )
        if locked > -1 and rank.node is not None and fabric(rank.node.nics):
            yield Finding(
                Severity.WARNING,
                f"{rank.host} limits locked memory to {format_approximate_size(locked)}, and RDMA locks"
                " its buffers",
                "ulimit -l",
                "set memlock to unlimited in limits.conf, the service or the container",
                host=rank.host,
            )
