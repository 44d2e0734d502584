"""Setups that are launched in turn as steps of one allocation, one of which hangs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.compared import SERIES, setups_of_which_one_hangs

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]


def test_setups_on_the_nodes_of_one_allocation(front: Any, cluster: SlurmCluster) -> None:
    spec = setups_of_which_one_hangs(front.shared, "SLURM_PROCID")
    job = cluster.run("sbatch", "--parsable", "-N3", "--output=/dev/null", "--wrap", "sleep 1000").strip()
    try:
        cluster.wait_until(lambda: "RUNNING" in cluster.run("squeue", "-h", f"--jobs={job}", "--format=%T"))
        done = front.run("compare", spec, *SERIES, "--on", "slurm", "-N", "2", "--job-id", job)
        steps = cluster.run("squeue", "-h", "--steps", f"--jobs={job}", "--format=%j")
    finally:
        cluster.run("scancel", job)
    assert done.code == 0, done
    reached = {each["setup"]: each for each in json.loads(done.out)["reached"]}
    assert [reached[name]["failed"] for name in ("plain", "tcp", "hanging")] == [0, 0, 1], done
    assert "had not ended after 25 s" in reached["hanging"]["error"]
    assert not [name for name in steps.split() if name not in ("batch", "extern")], steps
