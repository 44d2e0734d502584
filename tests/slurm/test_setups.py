"""Setups that are launched in turn as steps of one job, by the loop that runs in it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.compared import SERIES, setups_of_which_one_hangs, write

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

NULL = ("--ops", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl", "--on", "slurm")
# A rank that leaves a process behind, which holds srun's output, and dies.
DYING = """
import os, subprocess
if os.environ.get("SLURM_PROCID") == "1":
    subprocess.Popen(["setsid", "sleep", "321"])
    os.kill(os.getpid(), 9)
"""
TWO = 'setups: {plain: {}, other: {env: {A: "1"}}}'


def series_of(front: Any) -> Path:
    home = front.cluster.seen_from(front.cluster.login, front.home)
    (series,) = (path.parent for path in home.glob("*/setups.json"))
    return series


def hosts_of_launches(series: Path) -> list[list[str]]:
    """The hosts of each launch's ranks, where it came to its end."""
    records = [json.loads(path.read_text()) for path in sorted(series.glob("launches/*/run.json"))]
    return [[rank["host"] for rank in record["world"]["ranks"]] for record in records if record.get("world")]


def outcomes(series: Path, setup: str) -> list[dict[str, Any]]:
    found = json.loads((series / "setups.json").read_text())["outcomes"]
    return [one for one in found if one["setup"] == setup]


def is_gone(cluster: SlurmCluster, job: str) -> bool:
    return job not in cluster.run("squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%i").split()


def test_setups_in_one_job(front: Any, cluster: SlurmCluster) -> None:
    """One of them hangs, and is ended by the loop."""
    spec = setups_of_which_one_hangs(front.shared, "SLURM_PROCID")
    done = front.run("compare", spec, *SERIES, "--on", "slurm", "-N", "2", "--time-limit", "10")
    assert done.code == 0, done
    reached = {each["setup"]: each for each in json.loads(done.out)["reached"]}
    assert [reached[name]["failed"] for name in ("plain", "tcp", "hanging")] == [0, 0, 1], done
    assert "had not ended after 25 s" in reached["hanging"]["error"]
    series = series_of(front)
    assert hosts_of_launches(series) == [["h1", "h2"]] * 2
    job = str(json.loads((series / "request/job.json").read_text())["id"])
    assert f"submitted slurm job {job}: 2 nodes, for all launches" in done.err
    assert is_gone(cluster, job)


def test_a_series_ends_with_an_interrupt(front: Any, cluster: SlurmCluster) -> None:
    """While its job waits, and while a launch runs."""
    spec = write(front.shared / "two.yaml", TWO)
    words = ("compare", spec, *NULL, "-N", "2", "--blocks", "20", "--partition")
    for partition, said, number in (
        ("closed", "pending: PartitionDown", signal.SIGINT),
        ("debug", "block 1 of 20", signal.SIGTERM),
    ):
        running = front.start(*words, partition)
        running.until(lambda running=running, said=said: said in running.err)
        (job,) = cluster.jobs()
        running.signal(number)
        assert running.finish().code == 130
        cluster.wait_until(lambda job=job: is_gone(cluster, job))


def test_a_detached_series_on_nodes_that_do_not_see_its_folder(far_front: Any, cluster: SlurmCluster) -> None:
    """It goes on without its front process; attach brings all launches home."""
    spec = write(far_front.shared / "far.yaml", TWO)
    done = far_front.run("compare", spec, *NULL, "-N", "1,2", "--blocks", "1", "--detach")
    assert done.code == 0, done
    name = series_of(far_front).name
    assert f"hint: busbw attach {name}" in done.err
    assert name in far_front.run("jobs").out
    attached = far_front.run("attach", name)
    assert attached.code == 0, attached
    assert hosts_of_launches(series_of(far_front)) == [["h1"]] * 2 + [["h1", "h2"]] * 2
    assert "ended" in far_front.run("jobs").out
    again = far_front.run("attach", name)
    assert again.code == 0, again


def test_cancel_ends_a_series_that_nobody_follows(front: Any, cluster: SlurmCluster) -> None:
    spec = write(front.shared / "two.yaml", TWO)
    running = front.start("compare", spec, *NULL, "-N", "2", "--blocks", "50")
    running.until(lambda: "block 3 of 50" in running.err)
    (job,) = cluster.jobs()
    running.kill()
    assert not is_gone(cluster, job)
    name = series_of(front).name
    done = front.run("cancel", name)
    assert done.code == 0, done
    cluster.wait_until(lambda: is_gone(cluster, job))
    assert 0 < len(outcomes(series_of(front), "plain")) < 50
    assert not any(one["error"] for one in outcomes(series_of(front), "plain"))


def test_a_series_in_an_allocation_of_the_users(front: Any, cluster: SlurmCluster) -> None:
    """It is left to the user. A setup that kills a rank fails alone, and nothing that it left stays there."""
    held = cluster.hold("--nodes=2", "--exclusive")
    site = write(front.shared / "dying" / "sitecustomize.py", DYING).parent
    # While its output is held, srun says only after a minute that the rank was killed; rank 0 waits longer.
    dying = f"dying: {{prepend: {{PYTHONPATH: {site}}}, env: {{BUSBW_CONNECT_TIMEOUT: '90'}}}}"
    spec = write(front.shared / "three.yaml", TWO.replace("other:", f"{dying}, other:"))
    done = front.run("compare", spec, *NULL, "--job-id", held, "--blocks", "1")
    left = [line for node in cluster.nodes for line in cluster.hosts.processes(node).values()]
    assert not is_gone(cluster, held)
    cluster.run("scancel", held)
    assert done.code == 0, done
    assert hosts_of_launches(series_of(front)) == [["h1", "h2"]] * 2
    (died,) = outcomes(series_of(front), "dying")
    assert "h2" in died["error"], died
    assert "killed" in died["error"], died
    assert not any("sleep 321" in line for line in left)
