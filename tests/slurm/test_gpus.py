"""How many GPUs a node has is asked of where the job runs: the default partition, another, an allocation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.namespaces import Hosts, why_not
from busbw_testing.slurm_cluster import SlurmCluster, missing_programs

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
    missing = missing_programs()
    if reason := (f"no {', '.join(missing)} here" if missing else why_not(sshd=False)):
        pytest.skip(f"{reason}; `make test-slurm` installs what is needed, as root")
    top: Path = tmp_path_factory.mktemp("gpus")
    for name in ("net", "slurm", "home"):
        (top / name).mkdir()
    with (
        Hosts(top / "net", 3, private=["/tmp"], shared=[top], sshd=False) as hosts,
        SlurmCluster(hosts, top / "slurm", gpus={"h2": GPUS}) as started,
    ):
        yield started


def test_the_default_partition_is_what_a_job_without_one_gets(front: Any) -> None:
    assert front.run(*NULL).code == 0
    assert front.record()["world"]["ranks"][0]["host"] == "h1"
    assert len(front.record()["world"]["ranks"]) == 1
    plain = front.run("run", "all_reduce", "--on", "slurm", "-N", "1", "--dry-run")
    assert "gpus-per-node" not in plain.out


@pytest.mark.parametrize("how", ["--partition=gpus", "--sbatch-args=-p gpus", "shell"])
def test_another_partition_has_its_own(front: Any, how: str) -> None:
    words, shell = ((), {"SBATCH_PARTITION": "gpus"}) if how == "shell" else ((how,), {})
    done = front.run(*NULL, *words, **shell)
    assert done.code == 0, done
    assert len(front.record()["world"]["ranks"]) == GPUS
    plain = front.run("run", "all_reduce", "--on", "slurm", "-N", "1", "--dry-run", *words, **shell)
    assert f"--gpus-per-node={GPUS}" in plain.out


@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        (("--partition=debug",), 1),
        (("--partition=gpus",), 1),  # Slurm gave it none of them
        (("--partition=gpus", "--gpus-per-node=2"), 2),
        (("--partition=gpus", f"--gres=gpu:{GPUS}"), GPUS),
    ],
)
def test_an_allocation_has_what_it_was_given(
    front: Any, cluster: SlurmCluster, words: tuple[str, ...], ranks: int
) -> None:
    keep = ("--output=/dev/null", "--wrap", "sleep 1000")
    job = cluster.run("sbatch", "--parsable", "-N1", "--ntasks=4", *words, *keep).strip()
    try:
        cluster.wait_until(lambda: "RUNNING" in cluster.run("squeue", "-h", f"--jobs={job}", "--format=%T"))
        done = front.run(*NULL, "--job-id", job)
    finally:
        cluster.run("scancel", job)
    assert done.code == 0, done
    assert len(front.record()["world"]["ranks"]) == ranks
