"""`busbw hang --host`: NCCL's RAS of one host tells of the job, another host's kernel of the late process."""

from __future__ import annotations

from typing import Any

import pytest
from busbw_testing.ras_server import stopped_job

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]


def test_a_stopped_process_on_another_host_is_named(cluster: Any) -> None:
    with stopped_job(cluster.hosts, "h2", "h3", cluster.folder) as (pid, address):
        front = cluster.run("hang", "--host", "h2,h3", "--wait", "100ms", code=5)
    assert f"rank 1 (pid {pid} on {address}) does not answer: the process is stopped; 1 other" in front.out
