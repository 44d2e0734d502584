"""Leaving a job, coming back to it, and ending it."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
from busbw_testing.mpi_ranks import YIELDING_WORDS
from busbw_testing.started import until

pytestmark = pytest.mark.kubernetes

IMAGE = ("--image", "lab/busbw")
NULL = ("--backend", "null", "--world", "nccl")
# Long enough to be interrupted; ranks that are ended early never get through it.
LONG = ("run", "all_reduce", "-b", "1K", "-e", "1G", "--case-time", "2s", "-N", "2", *IMAGE, *YIELDING_WORDS)
SHORT = ("run", "all_reduce", "-b", "1K", "-e", "4K", "-N", "2", *IMAGE)
HOLD = ("exec", "-N", "2", *IMAGE)


def test_ctrl_c_ends_the_job(busbw: Any) -> None:
    """The namespace fixture looks that nothing is left."""
    running = busbw.start(*LONG)
    running.until(lambda: running.rows)
    running.process.send_signal(signal.SIGINT)
    done = running.finish()
    assert done.code == 130, done
    assert busbw.record()["status"] == "interrupted"
    assert not busbw.rank_processes()


def test_ctrl_c_twice_ends_a_command_that_does_not_listen(busbw: Any) -> None:
    """sleep as a container's first process hears no SIGTERM."""
    running = busbw.start(*HOLD, "--mpi", "none", "--", "sh", "-c", "echo here; exec sleep 600")
    running.until(lambda: "here" in running.out)
    begun = time.monotonic()
    running.process.send_signal(signal.SIGINT)
    running.until(lambda: "cancelling" in running.err)
    running.process.send_signal(signal.SIGINT)
    assert running.finish().code == 130
    assert time.monotonic() - begun < 60.0


def test_clean_brings_an_ended_job_home(busbw: Any, cluster: Any, namespace: str) -> None:
    busbw(*SHORT, *NULL, "--detach")
    until(lambda: cluster.batch.list_namespaced_job(namespace).items[0].status.completion_time)
    assert "ended" in busbw("jobs").out
    cleaned = busbw("clean")
    assert "fetched its record (complete)" in cleaned.err
    assert ": clean" in cleaned.err
    assert len(busbw.record()["results"]) == 6
    assert busbw("attach", busbw.run_folder.name).code == 0


def test_a_job_outlives_those_who_follow_it(busbw: Any) -> None:
    """Its front process is killed, an attached one leaves; who never attached ends it, and has its cases."""
    running = busbw.start(*LONG)
    running.until(lambda: running.rows > 1)
    running.kill()
    name = busbw.run_folder.name
    attached = busbw.start("attach", name)
    attached.until(lambda: attached.rows > 1)
    attached.process.send_signal(signal.SIGINT)
    assert attached.finish().code == 130
    rows = [line.split()[0] for line in attached.out.splitlines() if line.strip() and line[0] != "#"]
    assert rows[:2] == ["1024", "2048"]  # from the first, none twice
    assert "running" in busbw("jobs").out
    assert "not ended" in busbw("clean", name).err
    # All that is known is in the job's log.
    for path in ("log/stream.jsonl", "results.jsonl", "run.json"):
        (busbw.run_folder / path).unlink(missing_ok=True)
    assert busbw("cancel", name).code == 0
    assert busbw.record()["status"] == "interrupted"
    assert any(result["status"] == "good" for result in busbw.record()["results"])


def test_a_killed_rank_is_named(busbw: Any) -> None:
    """Thousands of cases, so that there is time to do it."""
    running = busbw.start("run", "all_reduce", "-b", "1K", "-e", "4M", "-i", "1K", "-N", "2", *IMAGE, *NULL)
    running.until(lambda: running.rows)
    (victim,) = (pid for pid, pod in busbw.rank_processes().items() if pod.endswith("-1"))
    os.kill(victim, signal.SIGKILL)
    done = running.finish()
    assert done.code == 5, done
    assert done.error.startswith("rank 1")
    assert busbw.record()["status"] == "failed"
    assert busbw.record()["results"]


def test_a_stopped_rank_is_named(busbw: Any) -> None:
    sizes = ("-b", "1K", "-e", "4M", "-i", "1K")
    words = ("run", "all_reduce", *sizes, "-N", "2", "--stall", "1s", *IMAGE, *NULL)
    running = busbw.start(*words)
    running.until(lambda: running.rows)
    (victim,) = (pid for pid, pod in busbw.rank_processes().items() if pod.endswith("-1"))
    os.kill(victim, signal.SIGSTOP)
    done = running.finish()
    assert done.code == 5, done
    assert done.error.startswith("rank 1 on ")
    assert done.error.endswith("; its process is stopped")
    assert busbw.record()["hang"]["states"][0]["state"] == "stopped"
    assert not busbw.rank_processes()
