"""Four hosts with sshd on this machine, and busbw used from the first of them as a person would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from busbw_testing.host_cluster import Cluster, cluster_of, end
from busbw_testing.namespaces import why_not
from busbw_testing.open_mpi import make_open_mpi


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not() if any(item.get_closest_marker("hosts") for item in items) else ""
    for item in items:
        if reason and item.get_closest_marker("hosts"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def _shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from cluster_of(tmp_path_factory.mktemp("hosts"), tmp_path_factory.getbasetemp())


@pytest.fixture
def cluster(_shared_cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """Hosts for tests that leave them as they were; what they start is gone afterwards."""
    folder = _shared_cluster.folder / tmp_path.name
    folder.mkdir()
    cluster = Cluster(_shared_cluster.hosts, folder)
    yield cluster
    end(cluster)


@pytest.fixture
def fresh_cluster(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Hosts that the test may break."""
    for cluster in cluster_of(tmp_path, tmp_path_factory.getbasetemp()):
        yield cluster
        end(cluster)


@pytest.fixture
def two_nics_cluster(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Hosts with eth0 and eth1 each, on networks of their own."""
    for cluster in cluster_of(tmp_path, tmp_path_factory.getbasetemp(), networks=2):
        yield cluster
        end(cluster)


@pytest.fixture
def six_hosts(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Enough hosts to tell which one is slow; the test may break them."""
    for cluster in cluster_of(tmp_path, tmp_path_factory.getbasetemp(), 6):
        yield cluster
        end(cluster)


@pytest.fixture(scope="session")
def open_mpi_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that loads Open MPI."""
    return str(make_open_mpi(tmp_path_factory.mktemp("python") / "open-mpi"))
