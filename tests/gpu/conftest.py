"""Hosts that share one GPU: NCCL between network namespaces, where there are fewer GPUs than ranks.

NCCL takes them for machines of one GPU each and joins them by sockets, so that everything but the links
inside a machine is real: communicators, algorithms, kernels, data, slow hosts. Times are not
those of a cluster, and every row says so (`shared-gpu`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from busbw_testing.host_cluster import Cluster, cluster_of, end
from busbw_testing.mps import service, why_no_service
from busbw_testing.namespaces import why_not

from busbw.machine.gpus import gpu_presence

HOSTS = 8


@dataclass(frozen=True)
class GpuHosts:
    """``words``: what a command needs to run on all hosts, or on the first ``count``."""

    cluster: Cluster
    environ: dict[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        return self.cluster.hosts.names

    def words(self, count: int = HOSTS, *, preflight: bool = False) -> tuple[str, ...]:
        variables = [word for name, value in self.environ.items() for word in ("--env", f"{name}={value}")]
        on = ("--on", "hosts", "--hosts", ",".join(self.names[:count]), "--backend", "nccl", "--mpi", "none")
        return (*on, *variables, *(() if preflight else ("--no-preflight",)))


def _environ(client: dict[str, str]) -> dict[str, str]:
    """A login over SSH has neither the loader's path to the driver nor the library that was chosen."""
    own = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "BUSBW_NCCL") if name in os.environ}
    return {**client, **own}


@pytest.fixture(scope="session")
def mps_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables of a process that shares the GPU."""
    presence = gpu_presence()
    if presence.count == 0:
        pytest.skip(presence.problem or "no GPU is visible")
    if why := why_no_service():
        pytest.skip(why)
    with service(tmp_path_factory.mktemp("mps")) as client:
        yield client


def _gpu_hosts(
    client: dict[str, str], tmp_path: Path, factory: pytest.TempPathFactory, networks: int
) -> Iterator[GpuHosts]:
    if why := why_not():
        pytest.skip(why)
    for cluster in cluster_of(tmp_path, factory.getbasetemp(), HOSTS, networks):
        cluster.environ.update(client)
        yield GpuHosts(cluster, _environ(client))
        end(cluster)


@pytest.fixture
def gpu_hosts(
    mps_client: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GpuHosts]:
    """Eight hosts that the test may break."""
    yield from _gpu_hosts(mps_client, tmp_path, tmp_path_factory, 1)


@pytest.fixture
def two_nics_gpu_hosts(
    mps_client: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GpuHosts]:
    """The same with eth0 and eth1 each."""
    yield from _gpu_hosts(mps_client, tmp_path, tmp_path_factory, 2)
