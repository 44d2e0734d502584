"""Setups that are launched in turn as steps of one allocation, which busbw takes and gives back."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.compared import SERIES, setups_of_which_one_hangs, write

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

NULL = ("--ops", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl", "--on", "slurm")


def launches(front: Any) -> list[tuple[str, list[str]]]:
    """The job of each launch, and the hosts of its ranks, where it came to its end."""
    (series,) = (path.parent for path in front.folder().parent.glob("*/setups.json"))
    found = []
    for folder in sorted((series / "launches").iterdir()):
        record = json.loads((folder / "run.json").read_text()) if (folder / "run.json").is_file() else {}
        hosts = [rank["host"] for rank in (record.get("world") or {"ranks": []})["ranks"]]
        found.append((str(json.loads((folder / "request/job.json").read_text())["id"]), hosts))
        assert not record or record["settings"]["launch"]["job_id"] == found[-1][0]
    return found


def is_gone(cluster: SlurmCluster, job: str) -> bool:
    return job not in cluster.run("squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%i").split()


def test_setups_on_the_nodes_of_one_allocation(front: Any, cluster: SlurmCluster) -> None:
    """One of them hangs. Without --job-id, each was a job of its own."""
    spec = setups_of_which_one_hangs(front.shared, "SLURM_PROCID")
    done = front.run("compare", spec, *SERIES, "--on", "slurm", "-N", "2", "--time-limit", "10")
    assert done.code == 0, done
    reached = {each["setup"]: each for each in json.loads(done.out)["reached"]}
    assert [reached[name]["failed"] for name in ("plain", "tcp", "hanging")] == [0, 0, 1], done
    assert "had not ended after 25 s" in reached["hanging"]["error"]
    found = launches(front)
    (job,) = {number for number, _ in found}
    assert [hosts for _, hosts in found if hosts] == [["h1", "h2"]] * 2
    assert f"submitted slurm job {job}: 2 nodes, for all launches" in done.err
    assert f"cancelled slurm job {job}" in done.err
    assert is_gone(cluster, job)


def test_an_allocation_ends_with_who_holds_it(front: Any, cluster: SlurmCluster) -> None:
    """While it waits, by a signal, and without a word."""
    spec = write(front.shared / "two.yaml", 'setups: {plain: {}, other: {env: {A: "1"}}}')
    words = ("compare", spec, *NULL, "-N", "2", "--blocks", "20", "--partition")
    for partition, said, number, code in (
        ("closed", "pending: PartitionDown", signal.SIGINT, 130),
        ("debug", ": running", signal.SIGTERM, 130),
        ("debug", ": running", signal.SIGKILL, None),
    ):
        running = front.start(*words, partition)
        running.until(lambda running=running, said=said: said in running.err)
        (job,) = cluster.jobs()
        running.signal(number)
        running.process.wait(60)
        assert code is None or running.finish().code == code
        cluster.wait_until(lambda job=job: is_gone(cluster, job))
