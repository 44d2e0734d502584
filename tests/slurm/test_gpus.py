"""How many GPUs a node has is asked of where the job runs: the default partition, another, an allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.slurm_cluster import SlurmCluster, slurm_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

NULL = (
    *("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl"),
    *("--on", "slurm", "-N", "1", "--wait", "20s"),
)
GPUS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """One of its own: h1 without GPUs is the default partition, h2 has some that no driver knows of."""
    with slurm_of(tmp_path_factory.mktemp("gpus"), 2, gpus={"h2": GPUS}) as started:
        yield started


def test_a_partition_has_its_own(front: Any) -> None:
    for variables, host, ranks in ({}, "h1", 1), ({"SBATCH_PARTITION": "gpus"}, "h2", GPUS):
        done = front.run(*NULL, **variables)
        assert done.code == 0, done
        assert front.hosts() == [host] * ranks
    for words, count in ((), 0), (("--partition=gpus",), GPUS):
        plain = front.run("run", "all_reduce", "--on", "slurm", "-N", "1", "--dry-run", *words)
        assert ("--gpus-per-node" in plain.out) == (count > 0)
        assert (f"--gpus-per-node={count}" in plain.out) == (count > 0)


def test_an_allocation_has_what_it_was_given(front: Any, cluster: SlurmCluster) -> None:
    for words, ranks in ((), 1), ((f"--gres=gpu:{GPUS}",), GPUS):
        job = cluster.hold("-N1", "--ntasks=4", "--partition=gpus", *words)
        try:
            done = front.run(*NULL, "--job-id", job)
        finally:
            cluster.run("scancel", job)
        assert done.code == 0, done
        assert len(front.hosts()) == ranks
