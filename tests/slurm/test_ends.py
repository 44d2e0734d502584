"""Jobs that do not simply end: cancelled, left alone, killed, lost, refused, never started."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

ON = ("--on", "slurm", "-N", "4", "--format", "jsonl")
# Ranks that wait leave the core to the rank that they wait for: this machine has fewer than a job has ranks.
YIELDING = (
    "--env",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE=1",
    "--env",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=4",
)
# Cases of a fraction of a second: some finish, the run takes many more.
CASES = ("run", "all_reduce", "-b", "8", "-e", "64K", "--case-time", "300ms", "--precision", "0.0001%")
LONG = (*CASES, "--cycles", "50", *ON, *YIELDING)
# About ten seconds.
SHORT = (*CASES, *ON, *YIELDING)
SHORT_CASES = 2 * 14
# Without an end: no look takes time in the null backend, but there are very many of them.
ENDLESS = (
    "run",
    "all_reduce",
    "-e",
    "8",
    "--backend",
    "null",
    "--world",
    "nccl",
    "-n",
    "10000000000000",
    *ON,
)


def has_header(running: Any) -> bool:
    return any(row["event"] == "header" for row in running.rows())


def cases(rows: list[dict[str, Any]]) -> list[int]:
    return [row["result"]["case"] for row in rows if row["event"] == "case"]


@pytest.mark.parametrize("where", ["front", "far_front"])
def test_ctrl_c_cancels_and_keeps_what_was_measured(where: str, request: pytest.FixtureRequest) -> None:
    front = request.getfixturevalue(where)
    running = front.start(*LONG)
    running.wait_for_cases(2)
    running.signal(signal.SIGINT)
    done = running.finish()
    assert done.code == 130, done
    assert "interrupted: cancelling the job" in done.err
    assert "Killed" not in (front.folder() / f"log/slurm-{front.job_id()}.err").read_text()
    record = front.record()
    assert record["status"] == "interrupted"
    assert len(record["results"]) >= 2


def test_ctrl_c_without_mpi(front: Any) -> None:
    running = front.start(*ENDLESS)
    running.until(lambda: has_header(running))
    running.signal(signal.SIGINT)
    assert running.finish().code == 130
    assert front.record()["status"] == "interrupted"


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


@pytest.mark.parametrize("where", ["front", "far_front"])
def test_detached_and_attached(where: str, cluster: SlurmCluster, request: pytest.FixtureRequest) -> None:
    front = request.getfixturevalue(where)
    done = front.run(*SHORT, "--detach")
    assert done.code == 0, done
    name = front.folder().name
    assert f"busbw attach {name}" in done.hint
    cluster.wait_until(lambda: "running" in front.run("jobs").out)  # Slurm may not look at it at once
    attached = front.start("attach", name, "--format", "jsonl")
    done = attached.finish()
    assert done.code == 0, done
    assert cases(attached.rows()) == list(range(SHORT_CASES))
    assert front.record()["status"] == "complete"
    again = front.run("attach", name, "--format", "csv")  # from the record
    assert len(again.out.splitlines()) == 1 + SHORT_CASES


def test_ctrl_c_in_attach_leaves_the_job(front: Any, cluster: SlurmCluster) -> None:
    assert front.run(*LONG, "--detach").code == 0
    attached = front.start("attach", "last", "--format", "jsonl")
    attached.wait_for_cases(1)
    attached.signal(signal.SIGINT)
    done = attached.finish()
    assert "the job goes on" in done.err
    assert cluster.jobs() == [front.job_id()]
    assert front.run("cancel", "last").code == 0
    done = front.run("attach", "last")
    assert front.record()["status"] == "interrupted", (done, front.record())


@pytest.mark.parametrize("where", ["front", "far_front"])
def test_the_front_is_killed_and_the_job_is_attached_to(where: str, request: pytest.FixtureRequest) -> None:
    front = request.getfixturevalue(where)
    running = front.start(*SHORT)
    running.wait_for_cases(3)
    running.kill()
    attached = front.start("attach", "last", "--format", "jsonl")
    done = attached.finish()
    assert done.code == 0, done
    assert cases(attached.rows()) == list(range(SHORT_CASES))
    record = front.record()
    assert record["status"] == "complete"
    assert len(record["results"]) == SHORT_CASES


def test_output_that_nobody_read_in_time_is_fetched_from_the_node(
    far_front: Any, cluster: SlurmCluster
) -> None:
    """Nobody listens, and the run folder is not on the nodes: the first node keeps the output."""
    words = ("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl", *ON, "--detach")
    assert far_front.run(*words).code == 0
    cluster.wait_until(lambda: not cluster.jobs(), 90)
    assert "busbw" in cluster.run("ls", "/tmp", host="h1")
    done = far_front.run("attach", "last", "--format", "csv")
    assert done.code == 0, done
    assert len(done.out.splitlines()) == 3
    assert far_front.record()["status"] == "complete"


def test_clean_brings_what_is_still_on_the_node_home(far_front: Any, cluster: SlurmCluster) -> None:
    words = ("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl", *ON, "--detach")
    assert far_front.run(*words).code == 0
    name = f"{json.loads((far_front.folder() / 'request' / 'job.json').read_text())['name']}-"
    cluster.wait_until(lambda: not cluster.jobs(), 90)
    assert name in cluster.run("ls", "/tmp", host="h1")
    done = far_front.run("clean")
    assert done.code == 0, done
    assert "brought its record home (complete)" in done.err
    assert name not in cluster.run("ls", "/tmp", host="h1")
    assert far_front.record()["status"] == "complete"


@pytest.mark.parametrize("words", [LONG, ENDLESS], ids=["mpi", "nccl"])
def test_a_killed_rank_is_named(front: Any, words: tuple[str, ...]) -> None:
    running = front.start(*words)
    running.until(lambda: has_header(running))
    (rank,) = front.ranks("h3")
    os.kill(rank, signal.SIGKILL)
    done = running.finish()
    assert done.code == 5, done
    assert re.search(r"rank 2\b.* on h3", done.error), done
    assert front.record()["status"] == "failed"


def test_rank_0_is_killed(front: Any) -> None:
    running = front.start(*LONG)
    running.wait_for_cases(1)
    rank = min(front.ranks("h1"))
    os.kill(rank, signal.SIGKILL)
    done = running.finish()
    assert done.code == 5, done
    assert "h1" in done.error
    record = front.record()
    assert record["status"] == "failed"
    assert record["results"]


@pytest.mark.parametrize("words", [LONG, ENDLESS], ids=["mpi", "nccl"])
def test_a_lost_node_is_named(front: Any, cluster: SlurmCluster, words: tuple[str, ...]) -> None:
    running = front.start(*words)
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
    assert front.run(*LONG, "--detach").code == 0
    first = front.folder().name
    cluster.wait_until(lambda: cluster.run("squeue", "--noheader", "--format=%T").split() == ["RUNNING"])
    waiting = front.start("exec", "--on", "slurm", "-N", "4", "--", "hostname")
    waiting.until(lambda: "pending: Resources" in waiting.err or "pending: Priority" in waiting.err)
    assert front.run("cancel", first).code == 0
    done = waiting.finish()
    assert done.code == 0, done
    assert sorted(done.out.split()) == ["h1", "h2", "h3", "h4"]
    front.run("attach", first)


def test_a_job_whose_submission_got_no_answer_is_followed(front: Any, cluster: SlurmCluster) -> None:
    """The controller takes it, and sbatch has given up by then."""
    programs = cluster.folder.parent / "home" / "late-bin"
    programs.mkdir(parents=True)
    late = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    (programs / "sbatch").write_text(
        f"#!/bin/sh\n/usr/bin/sbatch \"$@\" >/dev/null; echo '{late}' >&2; exit 1\n"
    )
    (programs / "sbatch").chmod(0o755)
    words = ("exec", "--on", "slurm", "-N", "1", "--mpi", "none", "--", "echo", "hello")
    done = front.run(*words, PATH=f"{programs}:/usr/bin:/bin")
    assert (done.code, done.out) == (0, "hello\n"), done
    assert "submitted slurm job" in done.err


def test_a_job_that_was_given_the_number_of_an_old_one_is_left_alone(
    front: Any, cluster: SlurmCluster
) -> None:
    """Numbers begin at 1 again where the controller's state was lost."""
    assert front.run("exec", "--on", "slurm", "-N", "1", "--mpi", "none", "--", "true").code == 0
    theirs = cluster.run("sbatch", "--parsable", "--output=/dev/null", "--wrap", "sleep 1000").strip()
    try:
        path = front.folder() / "request/job.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "id": theirs}))
        (front.folder() / "request/ended.json").unlink(missing_ok=True)
        done = front.run("cancel", "last")
        assert (done.code, f"slurm job {theirs} has ended already" in done.err) == (0, True), done
        assert cluster.run("squeue", "--noheader", f"--jobs={theirs}", "--format=%T").strip() != ""
    finally:
        cluster.run("scancel", theirs)


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


def test_slurms_own_words_say_why_a_job_is_refused(front: Any, cluster: SlurmCluster) -> None:
    done = front.run("run", "all_reduce", "--on", "slurm", "-N", "1", "--partition", "no such")
    assert done.code == 4, done
    assert "invalid partition specified: no such" in done.error
    assert "sinfo" in done.hint


def test_a_python_that_the_nodes_do_not_have(front: Any) -> None:
    done = front.run("run", "all_reduce", *ON, "--python", "/not/here/python3")
    assert done.code in (4, 5), done
    assert "cannot start /not/here/python3 (No such file or directory)" in done.error
    assert "--python PATH" in done.hint
