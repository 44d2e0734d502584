"""`busbw hang --job-id`: the nodes of a job are asked with srun."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from busbw_testing import ras_server

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]

STOPPED = "sleep 300 >/dev/null 2>&1 & sleep 1; kill -STOP $!; echo $!"


def test_a_stopped_process_of_a_job_is_named(front: Any, cluster: Any) -> None:
    job = cluster.hold("-N2")
    pid = int(cluster.hosts.run("h2", "bash", "-c", STOPPED).stdout)
    address = cluster.hosts.address("h2")
    answer = front.shared / "answer.json"
    answer.write_bytes(ras_server.answer_of("stop", pid, address))
    words = [sys.executable, ras_server.__file__, answer, "28028"]
    with subprocess.Popen(cluster.hosts.command("h1", words), start_new_session=True) as server:
        try:
            done = front.run("hang", "--job-id", job, "--wait", "100ms")
        finally:
            cluster.hosts.run("h1", "pkill", "-f", "ras_server.py")
            cluster.hosts.run("h2", "kill", "-KILL", str(pid))
            cluster.run("scancel", job)
            server.wait(20)
    assert done.code == 5, done
    assert f"rank 1 (pid {pid} on {address}) does not answer: the process is stopped" in done.out
