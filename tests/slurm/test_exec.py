"""Commands of the user's own on Slurm: what they are told of their nodes, MPI programs, how they end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.exec_programs import FACTS, MPI, facts_of
from busbw_testing.mpi_ranks import YIELDING_WORDS

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

ON = ("exec", "--on", "slurm", "-N")


def test_a_command_finds_its_nodes(front: Any) -> None:
    words = ("2", "--ranks-per-node", "2", "--env", "MASTER_PORT=7", "--", sys.executable, "-c", FACTS)
    done = front.run(*ON, *words, MASTER_ADDR="elsewhere")
    assert done.code == 0, done
    lines = [
        (host, "h1 slots=2/h2 slots=2", "2", str(number), "h1", "7")
        for number, host in enumerate(("h1", "h2"))
    ]
    assert facts_of(done.out) == [lines[0], lines[0], lines[1], lines[1]]


def test_the_nodes_of_a_step(front: Any, cluster: SlurmCluster) -> None:
    job = cluster.hold("-N3")
    try:
        done = front.run(*ON, "2", "--job-id", job, "--", sys.executable, "-c", FACTS)
    finally:
        cluster.run("scancel", job)
    assert done.code == 0, done
    assert [line[:5] for line in facts_of(done.out)] == [
        ("h1", "h1 slots=1/h2 slots=1", "2", "0", "h1"),
        ("h2", "h1 slots=1/h2 slots=1", "2", "1", "h1"),
    ]


def test_an_mpi_program_gets_the_plugin_of_its_mpi(front: Any) -> None:
    done = front.run(*ON, "2", *YIELDING_WORDS, "--", sys.executable, "-c", MPI)
    assert done.code == 0, done
    assert sorted(done.out.splitlines()) == ["rank 0 of 2 on h1: sum 3", "rank 1 of 2 on h2: sum 3"]
    assert "--mpi=pmi2" in front.script()
    assert "note:" not in done.err


def test_the_first_failing_task_gives_the_exit_code(front: Any) -> None:
    """srun itself ends with the highest: 143, of the tasks that it ends then."""
    words = ("sh", "-c", "[ $SLURM_PROCID != 2 ] || exit 9; sleep 100")
    done = front.run(*ON, "4", "--", *words)
    assert done.code == 9, done
    assert "rank 2 on h3" in done.error
    assert "exit code 9" in done.error


def test_a_command_that_the_nodes_do_not_have(front: Any) -> None:
    done = front.run(*ON, "2", "--", "/no/such/command")
    assert done.code == 127, done
    assert "/no/such/command" in done.err  # srun's own words
    assert "name a program that the nodes have" in done.hint


def test_what_each_node_printed_is_kept(far_front: Any) -> None:
    words = ("2", "--", "sh", "-c", "echo out of $(hostname); hostname >&2")
    done = far_front.run(*ON, *words)
    assert (done.code, sorted(done.out.splitlines())) == (0, ["out of h1", "out of h2"]), done
    assert {"h1", "h2"} <= set(done.err.split())
    again = far_front.run("attach", "last")
    assert (sorted(again.out.splitlines()), sorted(again.err.split())) == (
        ["out of h1", "out of h2"],
        ["h1", "h2"],
    )


def test_a_command_that_is_cancelled_elsewhere_was_interrupted(front: Any, cluster: SlurmCluster) -> None:
    running = front.start(*ON, "2", "--mpi", "none", "--", "sh", "-c", "echo up; sleep 1000")
    running.until(lambda: running.out.split() == ["up", "up"])
    cluster.run("scancel", front.job_id())
    done = running.finish()
    assert done.code == 130, done
    assert f"job {front.job_id()} was cancelled" in done.err
    assert not any(line.startswith("error:") for line in done.err.splitlines())
    assert front.run("attach", "last").code == 130


def test_a_command_that_nobody_follows_is_cancelled(front: Any, cluster: SlurmCluster) -> None:
    """It is killed, as it does not end."""
    words = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
    assert front.run(*ON, "2", "--mpi", "none", "--detach", "--", *words).code == 0
    cluster.wait_until(lambda: cluster.run("squeue", "--noheader", "--format=%T").split() == ["RUNNING"])
    done = front.run("cancel", "last")
    assert (done.code, f"cancelled slurm job {front.job_id()}" in done.err) == (0, True), done
    cluster.wait_until_idle()
    attached = front.run("attach", "last")
    assert (attached.code, attached.out.split()) == (130, ["up", "up"]), attached
