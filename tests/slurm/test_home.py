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
    assert "busbw" in cluster.run("ls", "/tmp", host="h1")
    return far_front


@pytest.fixture
def busy_node(left_on_node: Any, cluster: SlurmCluster) -> Iterator[str]:
    """The first node takes no other job."""
    words = ("-w", "h1", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1000")
    job = cluster.run("sbatch", "--parsable", *words).strip()
    cluster.wait_until(lambda: "RUNNING" in cluster.run("squeue", "-h", f"--jobs={job}", "--format=%T"))
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
    assert "busbw attach brings it" in front.run("jobs").out
    cluster.run("scancel", busy_node)
    cluster.wait_until(lambda: not cluster.jobs())
    done = front.run("attach", "last", "--format", "csv")
    assert done.code == 0, done
    assert front.record()["status"] == "complete"


def test_output_of_a_job_that_slurm_has_forgotten_is_found(left_on_node: Any, cluster: SlurmCluster) -> None:
    """No follower saw its node, and this Slurm has no accounting."""
    cluster.stop_controller()
    cluster.start_controller("-c")
    cluster.wait_until_idle()
    done = left_on_node.run("attach", "last", "--format", "csv")
    assert done.code == 0, done
    assert len(done.out.splitlines()) == 3
    assert left_on_node.record()["status"] == "complete"


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
    cluster.wait_until(lambda: "running" in far_front.run("jobs").out)
    assert far_front.run("cancel", "last").code == 0
    assert far_front.run("attach", "last").code == 130
    assert far_front.record()["status"] == "interrupted"


def test_a_detached_command_ends_as_in_the_foreground(front: Any) -> None:
    words = ("exec", "--on", "slurm", "-N", "2", "--detach", "--")
    assert front.run(*words, "sh", "-c", "echo hello $SLURM_PROCID; exit 3").code == 0
    for _ in range(2):  # followed to its end, and from what was kept
        done = front.run("attach", "last")
        assert done.code == 3, done
        assert "hello" in done.out  # srun ends the other task
    assert front.record()["status"] == "failed"
    assert front.run(*words, "echo", "well").code == 0
    done = front.run("attach", "last")
    assert (done.code, done.out.split()) == (0, ["well", "well"]), done
    assert front.record()["status"] == "complete"
