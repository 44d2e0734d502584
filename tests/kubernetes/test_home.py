"""What must not be lost or misjudged: output that cannot be read, detached commands, limits, a silent API."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.mpi_ranks import YIELDING_WORDS
from busbw_testing.started import until

if TYPE_CHECKING:
    from busbw_testing.kubernetes_cluster import Cluster

pytestmark = pytest.mark.kubernetes

IMAGE = ("--image", "lab/busbw")
NULL = ("--backend", "null", "--world", "nccl")
RUN = ("run", "all_reduce", "-b", "1K", "-e", "8K", "--case-time", "1s", "-N", "2", *IMAGE, *YIELDING_WORDS)


def test_output_that_cannot_be_read_is_not_deleted(busbw: Any, cluster: Cluster, namespace: str) -> None:
    running = busbw.start(*RUN, "-n", "20000")  # one pass: rows come while others are measured
    running.until(lambda: running.rows)
    with cluster.refusing_logs():
        done = running.finish()
        assert done.code == 3, done
        assert "could not be read" in done.error
        assert "busbw attach" in done.hint
        cleaned = busbw("clean")
        assert cleaned.code == 3, cleaned
        assert cluster.core.list_namespaced_pod(namespace).items
    assert busbw("attach").code == 0
    assert busbw.record()["status"] == "complete"
    assert [result["status"] for result in busbw.record()["results"]] == ["good"] * 8


def test_a_detached_command_ends_as_it_would_have_in_the_foreground(busbw: Any) -> None:
    words = ("exec", "-N", "1", *IMAGE, "--mpi", "none", "--detach", "--", "sh", "-c", "echo hello; exit 3")
    assert busbw(*words).code == 0
    for _ in range(2):  # followed to its end, and from what was kept
        done = busbw("attach")
        assert done.code == 3, done
        assert "hello" in done.out
        assert "exited with code 3" in done.error
    assert busbw.record()["status"] == "failed"


def test_an_api_that_is_away_has_cancelled_nothing(busbw: Any, cluster: Cluster) -> None:
    running = busbw.start("run", "all_reduce", "-e", "8", "-n", "10000000000000", "-N", "2", *IMAGE, *NULL)
    running.until(lambda: "all_reduce" in running.out or busbw.rank_processes())
    with cluster.refusing_api():
        running.process.send_signal(signal.SIGINT)
        running.until(lambda: "not cancelled yet: " in running.err)
    done = running.finish()  # asked again, and taken
    assert done.code == 130, done
    assert busbw.record()["status"] == "interrupted"
    until(lambda: not busbw.rank_processes())


def test_a_run_that_takes_too_long(busbw: Any) -> None:
    """A JobSet does not say so itself: the Job that its controller makes does."""
    words = ("run", "all_reduce", "-N", "2", *IMAGE, "-e", "8", "-n", "10000000000000", *NULL)
    done = busbw(*words, "--set", "kind=jobset", "--time-limit", "10s")
    assert done.code == 5, done
    assert "DeadlineExceeded" in done.error
    assert done.hint == "give --time-limit more"
    assert busbw.record()["status"] == "failed"
