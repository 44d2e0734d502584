"""--bring where the nodes do not see the run folder: who sends busbw when nobody watches the job."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

NULL = ("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl", "--on", "slurm", "--bring")


def status_of(folder: Path) -> str:
    record = folder / "run.json"
    return str(json.loads(record.read_text())["status"]) if record.is_file() else ""


def job_folder(front: Any, nodes: int) -> Path:
    """The folder of the run on so many nodes."""
    home = front.cluster.seen_from(front.cluster.login, front.home)
    (found,) = (
        path.parents[1]
        for path in home.glob("*/request/job.json")
        if json.loads(path.read_text())["nodes"] == nodes
    )
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("where", ["front", "far_front"])
def test_a_detached_job_gets_what_it_needs(
    where: str, request: pytest.FixtureRequest, cluster: SlurmCluster
) -> None:
    front = request.getfixturevalue(where)
    done = front.run(*NULL, "-N", "2", "--detach")
    assert done.code == 0, done
    assert "stays here to send busbw" in done.err
    cluster.wait_until(lambda: status_of(front.folder()) == "complete", 90)
    done = front.run("attach", "last", "--format", "csv")
    assert done.code == 0, done
    assert len(done.out.splitlines()) == 3


def test_jobs_of_an_array_do_not_wait_for_each_other(far_front: Any, cluster: SlurmCluster) -> None:
    """The first is still measuring when the second has ended."""
    words = ("-N", "1,2", "--format", "jsonl")
    running = far_front.start(*NULL, *words, "-n", "10000000000000")
    running.until(lambda: any(row["event"] == "header" for row in running.rows()))
    second = job_folder(far_front, 2)
    cluster.wait_until(lambda: status_of(second) == "running", 60)  # its ranks were heard
    running.signal(signal.SIGINT)
    done = running.finish()
    assert done.code == 130, done
    assert status_of(second) == status_of(job_folder(far_front, 1)) == "interrupted"


def test_a_job_that_nobody_sends_busbw_says_so(far_front: Any, cluster: SlurmCluster) -> None:
    """Its follower was killed, with the login host for instance."""
    done = far_front.run(*NULL, "-N", "1", "--detach")
    (process,) = re.findall(r"note: process (\d+) stays here", done.err)
    cluster.run("kill", "-KILL", process)
    cluster.wait_until(lambda: not cluster.jobs(), 200)
    done = far_front.run("attach", "last")
    assert done.code == 5, done
    assert "no process was there to send them busbw" in done.error
    assert "--detach" in done.hint
