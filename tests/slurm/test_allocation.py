"""Runs as steps of an allocation that is there: --job-id."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.long_runs import ENDLESS_NULL
from busbw_testing.mpi_ranks import YIELDING_WORDS

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

NULL = ("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl", "--on", "slurm")
ENDLESS = ("run", *ENDLESS_NULL, "--on", "slurm", "--format", "jsonl")


@pytest.fixture
def allocation(cluster: SlurmCluster) -> Iterator[str]:
    """A job of four nodes that does nothing itself."""
    job = cluster.hold("-N4")
    yield job
    cluster.run("scancel", job)


def test_an_allocation_serves_many_runs(front: Any, allocation: str, cluster: SlurmCluster) -> None:
    mpi = ("run", "all_reduce", "-b", "8", "-e", "16", "-n", "8", "--on", "slurm", *YIELDING_WORDS)
    for words, hosts in (mpi, ["h1", "h2", "h3", "h4"]), ((*NULL, "-N", "2"), ["h1", "h2"]):
        done = front.run(*words, "--job-id", allocation)
        assert done.code == 0, done
        assert front.hosts() == hosts
    assert set(front.job_ids()) == {allocation}
    assert cluster.jobs() == [allocation]


def test_ctrl_c_ends_the_step_and_leaves_the_allocation(
    front: Any, allocation: str, cluster: SlurmCluster
) -> None:
    running = front.start(*ENDLESS, "--job-id", allocation)
    running.until(lambda: any(row["event"] == "header" for row in running.rows()))
    running.signal(signal.SIGINT)
    assert running.finish().code == 130
    assert front.record()["status"] == "interrupted"
    assert cluster.jobs() == [allocation]
    assert all(front.ranks(node) == [] for node in cluster.nodes)


def test_a_step_outlives_the_front(front: Any, allocation: str) -> None:
    running = front.start(*ENDLESS, "--job-id", allocation)
    running.until(lambda: any(row["event"] == "header" for row in running.rows()))
    running.kill()
    assert "running" in front.run("jobs").out
    assert front.run("cancel", "last").code == 0
    attached = front.run("attach", "last", "--format", "jsonl")
    assert '"event":"header"' in attached.out
    assert front.record()["status"] == "interrupted"
    assert all(front.ranks(node) == [] for node in front.cluster.nodes)
