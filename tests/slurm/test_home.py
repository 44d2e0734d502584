"""What must not be lost or misjudged when nobody follows, a node is busy or the controller is away."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

NULL = ("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl")
ON = ("--on", "slurm", "-N", "2", "--format", "jsonl")


@pytest.fixture
def left_on_node(far_front: Any, cluster: SlurmCluster) -> Any:
    """The output of a job that nobody followed is on its first node, and nowhere else."""
    assert far_front.run(*NULL, *ON, "--detach").code == 0
    cluster.wait_until(lambda: not cluster.jobs(), 90)
    assert cluster.left_in_tmp("h1")
    return far_front


@pytest.fixture
def busy_node(left_on_node: Any, cluster: SlurmCluster) -> Iterator[str]:
    """The first node takes no other job."""
    job = cluster.hold("-w", "h1", "--exclusive")
    yield job
    cluster.run("scancel", job)


def test_output_on_a_busy_node_stays_there_until_it_can_be_read(
    left_on_node: Any, busy_node: str, cluster: SlurmCluster
) -> None:
    front = left_on_node
    done = front.run("clean")
    assert done.code == 3, done
    assert "its output is still on h1" in done.err
    assert "clean" not in done.err.replace("busbw clean", "")
    assert "busbw attach fetches it" in front.run("jobs").out
    cluster.run("scancel", busy_node)
    cluster.wait_until(lambda: not cluster.jobs())
    done = front.run("clean")
    assert done.code == 0, done
    assert "fetched its record (complete)" in done.err
    assert front.record()["status"] == "complete"
    assert cluster.left_in_tmp("h1") == []


def test_output_that_is_gone_is_no_success(left_on_node: Any, cluster: SlurmCluster) -> None:
    cluster.run("sh", "-c", "rm /tmp/busbw-*", host="h1")
    done = left_on_node.run("attach", "last")
    assert done.code == 5, done
    assert "no output was found at h1:/tmp/busbw-" in done.error
    assert left_on_node.record()["status"] == "failed"


def test_a_controller_that_is_away_has_cancelled_nothing(far_front: Any, cluster: SlurmCluster) -> None:
    running = far_front.start(*NULL, "-n", "10000000000000", *ON)
    running.until(lambda: any(row["event"] == "header" for row in running.rows()))
    cluster.stop_controller()
    try:
        running.signal(signal.SIGINT)
        running.until(lambda: "not cancelled yet: " in running.err)
        running.signal(signal.SIGINT)
        done = running.finish()
    finally:
        cluster.start_controller()
    assert done.code == 4, done
    assert "was not cancelled and may go on" in done.error
    cluster.wait_until(lambda: "running" in far_front.run("jobs").out, 120)  # it comes back slowly
    assert far_front.run("cancel", "last").code == 0
    assert far_front.run("attach", "last").code == 130
    assert far_front.record()["status"] == "interrupted"
