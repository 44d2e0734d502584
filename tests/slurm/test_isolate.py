"""A hunt as a job: four nodes with shaped links, one of which is lost and left out by Slurm's own flag."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from busbw_testing.shaping import clear, send_at, why_no_shaping

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

HUNT = ("isolate", "--on", "slurm", "-N", "4", "--backend", "mpi", "-b", "2M", "--rank-wait", "sleep")


@pytest.fixture
def shaped(cluster: Any) -> Iterator[None]:
    """Links that do not depend on what else this machine does."""
    if why := why_no_shaping(cluster.hosts):
        pytest.skip(why)
    for node in cluster.nodes:
        send_at(cluster.hosts, node)
    yield
    for node in cluster.nodes:
        clear(cluster.hosts, node)


@pytest.mark.usefixtures("shaped")
def test_a_lost_node_is_a_finding_and_the_hunt_goes_on(front: Any, cluster: Any) -> None:
    running = front.start(*HUNT, "--no-preflight")
    running.until(lambda: "round 1, screen" in running.err)
    for pid in front.ranks("h3"):
        os.kill(pid, signal.SIGKILL)
    done = running.finish()
    assert "h3: lost during the hunt" in done.err, done
    assert done.code == 1
    record = front.record()
    assert record["status"] == "complete"
    assert [rank["host"] for rank in record["world"]["ranks"]] == ["h1", "h2", "h4"]
    (lost,) = [finding for finding in record["findings"] if finding["check"] == "lost"]
    assert (lost["host"], lost["severity"]) == ("h3", "error")
    # The flag as it is printed, given to Slurm: it takes the other three.
    (flag,) = (line.split()[-1] for line in done.out.splitlines() if line.startswith("# slurm"))
    again = front.run("exec", "--on", "slurm", "-N", "3", f"--sbatch-args={flag}", "--", "hostname")
    assert sorted(again.out.split()) == ["h1", "h2", "h4"], again
