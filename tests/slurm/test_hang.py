"""`busbw hang --job-id`: the nodes of a job are asked with srun."""

from __future__ import annotations

from typing import Any

import pytest
from busbw_testing.ras_server import stopped_job

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]


def test_a_stopped_process_of_a_job_is_named(front: Any, cluster: Any) -> None:
    job = cluster.hold("-N2")
    with stopped_job(cluster.hosts, "h1", "h2", front.shared) as (pid, address):
        done = front.run("hang", "--job-id", job, "--wait", "100ms")
    cluster.run("scancel", job)
    assert done.code == 5, done
    assert f"rank 1 (pid {pid} on {address}) does not answer: the process is stopped" in done.out
