"""`busbw hang --host`: NCCL's RAS of one host tells of the job, another host's kernel of the late process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from busbw_testing import ras_server

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

STOPPED = "sleep 300 >/dev/null 2>&1 & sleep 1; kill -STOP $!; echo $!"


def test_a_stopped_process_on_another_host_is_named(cluster: Any) -> None:
    pid = int(cluster.hosts.run("h3", "bash", "-c", STOPPED).stdout)
    address = cluster.hosts.address("h3")
    answer = cluster.folder / "answer.json"
    answer.write_bytes(ras_server.answer_of("stop", pid, address))
    words = [sys.executable, ras_server.__file__, answer, "28028"]
    with subprocess.Popen(cluster.hosts.command("h2", words), start_new_session=True) as server:
        try:
            front = cluster.run("hang", "--host", "h2,h3", "--wait", "100ms", code=5)
        finally:
            cluster.hosts.run("h2", "pkill", "-f", "ras_server.py")
            cluster.hosts.run("h3", "kill", "-KILL", str(pid))
            server.wait(20)
    assert f"rank 1 (pid {pid} on {address}) does not answer: the process is stopped; 1 other" in front.out
