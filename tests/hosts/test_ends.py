"""Runs on hosts that do not go well, or are told to end: one clear error that names the place, a record of
what was measured, and no process left on any host.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest
from busbw_testing.long_runs import ENDLESS_NULL
from busbw_testing.long_runs import LONG_MPI as LONG

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

ON = ("--on", "hosts", "--hosts", "h2,h3,h4", "--format", "jsonl")
LONG_MPI = (*LONG, "-f", "1", "-i", "64", "--backend", "mpi")
# ssh notices silence after 15 s.
SILENCE_S = 15.0


def start(cluster: Any, world: str, *words: str, **options: str) -> Any:
    """A run that would go on for long, and is under way."""
    measured = LONG_MPI if world != "nccl" else ENDLESS_NULL
    front = cluster.start("run", *measured, *ON, *words, **options)
    front.until(lambda: '"event":"header"' in front.out)
    if world != "nccl":
        front.wait_for_rows()
    return front


def test_a_rank_is_killed(cluster: Any) -> None:
    front = start(cluster, "nccl")
    (victim,) = cluster.ranks("h3")
    os.kill(victim, signal.SIGKILL)
    assert front.finish().code == 5, front.err
    assert "rank 1 on h3" in front.error, front.error
    assert "h1" not in front.error, front.error  # where the front and MPI's launcher are, and no rank
    assert cluster.record()["status"] == "failed"
    assert not cluster.left()


@pytest.mark.parametrize("world", ["mpich", "openmpi"])
def test_one_of_several_ranks_on_a_host_is_killed(cluster: Any, world: str, request: Any) -> None:
    """Launchers end the other ranks of the host at once, and MPICH's may name one of those."""
    words = ("-N", "2", "--ranks-per-node", "2")
    python = request.getfixturevalue("open_mpi_python") if world == "openmpi" else ""
    front = start(cluster, world, *words, python=python)
    by_rank = {cluster.rank_of(pid): pid for pid in cluster.ranks("h3")}
    assert sorted(by_rank) == [2, 3]
    os.kill(by_rank[3], signal.SIGKILL)
    assert front.finish().code == 5, front.err
    assert "rank 3 on h3" in front.error, front.error
    assert "h1" not in front.error, front.error
    assert not cluster.left()


def test_a_host_is_lost(fresh_cluster: Any, open_mpi_python: str) -> None:
    """Open MPI's mpirun gives up over it before ssh has noticed, and does not say which one it is."""
    cluster = fresh_cluster
    front = start(cluster, "openmpi", python=open_mpi_python)
    start_s = time.monotonic()
    cluster.hosts.kill("h3")
    assert front.finish().code == 5, front.err
    assert time.monotonic() - start_s < SILENCE_S + 45
    assert "h3" in front.error, front.error
    assert cluster.record()["status"] == "failed"
    assert not cluster.left()


def test_a_host_cannot_be_reached(cluster: Any) -> None:
    start_s = time.monotonic()
    words = ("--hosts", "h2,10.77.0.99,h3", "--set", "connect-timeout=2")
    front = cluster.run("run", *LONG_MPI, "--on", "hosts", *words, code=4)
    assert time.monotonic() - start_s < 60
    assert front.error.startswith("10.77.0.99 cannot be reached: ssh: connect to host 10.77.0.99 port 22")
    assert "hint: try: ssh -o BatchMode=yes 10.77.0.99 true" in front.error
    assert not cluster.left()


def test_ctrl_c_leaves_nothing(cluster: Any) -> None:
    front = start(cluster, "mpich")
    front.signal(signal.SIGINT)
    assert front.finish().code == 130, front.err
    assert not cluster.left()
    assert cluster.record()["status"] == "interrupted"


def test_the_front_is_killed(cluster: Any) -> None:
    """Nothing outlives the connections to the hosts."""
    front = start(cluster, "mpich")
    (job,) = json.loads(cluster.run("jobs", "--format", "json").out)
    assert (job["run"], job["state"]) == (cluster.run_folder.name, "running")
    for pid, line in cluster.hosts.processes("h1").items():
        if " busbw run " in line and "nsenter" not in line and "--deliver" not in line:
            os.kill(pid, signal.SIGKILL)
    front.process.wait(30)
    assert not cluster.left()
    attached = cluster.run("attach", cluster.run_folder.name, code=5)
    assert "the busbw process on h1 that ran it is gone" in attached.error
    assert cluster.record()["status"] == "failed"
