"""A hunt as a job: four nodes with shaped links, one of them slow, named and left out by Slurm's own flag."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from busbw_testing.shaping import NOMINAL_MBIT, clear, require_named, send_at, why_no_shaping

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

SLOW = "h2"
HUNT = ("isolate", "--on", "slurm", "-N", "4", "--backend", "mpi", "-b", "2M", "--rank-wait", "sleep")


@pytest.fixture
def shaped(cluster: Any) -> Iterator[None]:
    """One node sends at a quarter of the rate of the others."""
    if why := why_no_shaping(cluster.hosts):
        pytest.skip(why)
    for node in cluster.nodes:
        send_at(cluster.hosts, node, NOMINAL_MBIT / 4 if node == SLOW else NOMINAL_MBIT)
    yield
    for node in cluster.nodes:
        clear(cluster.hosts, node)


@pytest.mark.usefixtures("shaped")
def test_a_slow_node_is_named_and_left_out(front: Any) -> None:
    done = front.run(*HUNT, "--no-preflight")
    record = front.record()
    assert record["status"] == "complete", done
    assert [rank["host"] for rank in record["world"]["ranks"]] == ["h1", "h2", "h3", "h4"]
    (field,) = record["hunt"]["fields"]
    assert done.code == record["hunt"]["exit_code"] == (1 if field["suspects"] else 3)
    require_named(field, SLOW)
    # The flag as it was printed, given to Slurm: it takes the other three.
    (flag,) = (line.split()[-1] for line in done.out.splitlines() if line.startswith("# slurm"))
    assert flag == field["exclude"]["slurm"] == f"--exclude={SLOW}"
    words = ("exec", "--on", "slurm", "-N", "3", f"--sbatch-args={flag}", "--", "hostname")
    again = front.run(*words)
    assert again.code == 0, again
    assert {"h1", "h3", "h4"} <= set(again.out.split())
    assert SLOW not in again.out.split()


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
