"""Jobs that do not simply end: cancelled, left alone, killed, lost, refused, never started."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.long_runs import ENDLESS_NULL
from busbw_testing.mpi_ranks import YIELDING_WORDS

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

ON = ("--on", "slurm", "-N", "4", "--format", "jsonl")
# Cases of a fraction of a second: some finish, the run takes many more.
CASES = ("run", "all_reduce", "-b", "8", "-e", "64K", "--case-time", "300ms", "--precision", "0.0001%")
LONG = (*CASES, "-f", "1", "-i", "64", *ON, *YIELDING_WORDS)
# About ten seconds.
SHORT = (*CASES, *ON, *YIELDING_WORDS)
SHORT_CASES = 2 * 14
ENDLESS = ("run", *ENDLESS_NULL, *ON)


def has_header(running: Any) -> bool:
    return any(row["event"] == "header" for row in running.rows())


def cases(rows: list[dict[str, Any]]) -> list[int]:
    return [row["result"]["case"] for row in rows if row["event"] == "case"]


def test_ctrl_c_cancels_and_keeps_what_was_measured(far_front: Any) -> None:
    running = far_front.start(*LONG)
    running.wait_for_cases(2)
    running.signal(signal.SIGINT)
    done = running.finish()
    assert done.code == 130, done
    assert "interrupted: cancelling the job" in done.err
    assert "Killed" not in (far_front.folder() / "log/ranks.log").read_text()
    record = far_front.record()
    assert record["status"] == "interrupted"
    assert len(record["results"]) >= 2


def test_a_second_ctrl_c_ends_what_does_not_listen(front: Any, cluster: SlurmCluster) -> None:
    deaf = "trap '' TERM; echo here; while :; do sleep 1; done"
    running = front.start("exec", "--on", "slurm", "-N", "2", "--", "sh", "-c", deaf)
    running.until(lambda: running.out.count("here") == 2)
    running.signal(signal.SIGINT)
    running.until(lambda: "interrupted" in running.err)
    running.signal(signal.SIGINT)
    assert running.finish().code == 130
    cluster.wait_until(lambda: not cluster.jobs())


def test_ctrl_c_while_pending(front: Any, cluster: SlurmCluster) -> None:
    running = front.start(*ENDLESS, "--partition", "closed")
    running.until(lambda: "PartitionDown" in running.out)
    running.signal(signal.SIGINT)
    assert running.finish().code == 130


def test_the_front_is_killed_and_the_job_is_attached_to(far_front: Any) -> None:
    running = far_front.start(*SHORT)
    running.wait_for_cases(3)
    running.kill()
    attached = far_front.start("attach", "last", "--format", "jsonl")
    done = attached.finish()
    assert done.code == 0, done
    assert cases(attached.rows()) == list(range(SHORT_CASES))
    record = far_front.record()
    assert record["status"] == "complete"
    assert len(record["results"]) == SHORT_CASES


@pytest.mark.parametrize(
    ("words", "rank", "host"), [(LONG, 2, "h3"), (ENDLESS, 0, "h1")], ids=["mpi", "nccl"]
)
def test_a_killed_rank_is_named(front: Any, words: tuple[str, ...], rank: int, host: str) -> None:
    running = front.start(*words)
    running.until(lambda: has_header(running))
    os.kill(min(front.ranks(host)), signal.SIGKILL)
    done = running.finish()
    assert done.code == 5, done
    assert re.search(rf"rank {rank}\b.* on {host}", done.error), done
    assert front.record()["status"] == "failed"


def test_a_stopped_rank_is_named(front: Any, cluster: SlurmCluster) -> None:
    running = front.start(*LONG, "--stall", "3s")
    running.until(lambda: has_header(running))
    os.kill(min(front.ranks("h3")), signal.SIGSTOP)
    done = running.finish()
    assert done.code == 5, done
    assert re.search(r"rank 2 on h3 \(pid \d+\) .* others wait in .*; its process is stopped", done.error), (
        done
    )
    states = front.record()["hang"]["states"]
    assert sorted(rank for row in states for rank in row["ranks"]) == [0, 1, 2, 3]
    assert not cluster.jobs()


def test_a_lost_node_is_named(front: Any, cluster: SlurmCluster) -> None:
    running = front.start(*LONG)
    running.until(lambda: has_header(running))
    cluster.lose_node("h3")
    try:
        done = running.finish()
    finally:
        cluster.repair_node("h3")
    assert done.code == 5, done
    assert "h3" in done.error
    assert front.record()["status"] == "failed"


def test_a_job_that_must_wait_says_why_and_then_runs(front: Any, cluster: SlurmCluster) -> None:
    held = cluster.hold("-N4", "--exclusive")
    waiting = front.start("exec", "--on", "slurm", "-N", "4", "--", "hostname")
    waiting.until(lambda: "pending: Resources" in waiting.err or "pending: Priority" in waiting.err)
    cluster.run("scancel", held)
    done = waiting.finish()
    assert done.code == 0, done
    assert sorted(done.out.split()) == ["h1", "h2", "h3", "h4"]


def test_a_job_that_cannot_start_ends_with_the_reason(front: Any) -> None:
    done = front.run("run", "all_reduce", "--on", "slurm", "-N", "9")
    assert done.code == 4, done
    assert "PartitionNodeLimit" in done.error or "Node count" in done.error
    assert "fewer nodes" in done.hint or "sinfo" in done.hint


def test_a_job_that_does_not_start_in_time_is_given_up(front: Any) -> None:
    done = front.run("run", "all_reduce", "--on", "slurm", "-N", "1", "--partition", "closed", "--wait", "2s")
    assert done.code == 4, done
    assert "has not started within 2 s: PartitionDown" in done.error
    assert "--partition" in done.hint
