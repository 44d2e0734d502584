"""--topology: ranks follow the switches that Slurm, or a file, tells of."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.exec_programs import FACTS, facts_of

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

NULL = ("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl", "--on", "slurm")
TWO_LEAVES = "SwitchName=s0 Switches=s[1-2]\nSwitchName=s1 Nodes=h1,h3\nSwitchName=s2 Nodes=h2,h4\n"


@pytest.fixture
def two_leaves(cluster: SlurmCluster) -> Iterator[None]:
    """Slurm's own topology: neighbours by number have different switches."""
    conf = cluster.folder / "topology.conf"
    before = conf.read_text()
    for text in (TWO_LEAVES, before):
        conf.write_text(text)
        cluster.run("scontrol", "reconfigure")
        switches = text.count("SwitchName=")
        cluster.wait_until(
            lambda switches=switches: cluster.run("scontrol", "show", "topology").count("\n") == switches
        )
        cluster.wait_until_idle()
        if text is TWO_LEAVES:
            yield


@pytest.mark.usefixtures("two_leaves")
def test_what_slurm_itself_says(front: Any, cluster: SlurmCluster) -> None:
    done = front.run(*NULL, "-N", "4", "--ranks", "6", "--topology", "slurm")
    assert done.code == 0, done
    assert "rank order by slurm (slurm): 4 hosts at 2 lowest switches" in done.err
    record = front.record()
    assert front.hosts() == ["h1", "h1", "h3", "h3", "h2", "h4"]
    assert [rank["local_rank"] for rank in record["world"]["ranks"]] == [0, 1, 0, 1, 0, 0]
    order = record["settings"]["rank_order"]
    assert order["by"] == "slurm (slurm)"
    assert [(each["host"], each["switches"]) for each in order["hosts"]] == [
        ("h1", ["s0", "s1"]),
        ("h3", ["s0", "s1"]),
        ("h2", ["s0", "s2"]),
        ("h4", ["s0", "s2"]),
    ]
    # And as each node's Slurm daemon has it, which a later run can follow.
    assert {place["host"]: place["slurm_topology"] for place in record["world"]["places"]} == {
        "h1": "s0.s1.h1",
        "h2": "s0.s2.h2",
        "h3": "s0.s1.h3",
        "h4": "s0.s2.h4",
    }
    assert {place["slurm_job"] for place in record["world"]["places"]} == {front.job_id()}
    assert cluster.left_in_tmp("h1") == []


@pytest.mark.usefixtures("two_leaves")
def test_a_command_and_a_step_have_the_same_order(front: Any, cluster: SlurmCluster) -> None:
    words = ("exec", "--on", "slurm", "-N", "4", "--ranks-per-node", "2", "--topology", "slurm", "--")
    done = front.run(*words, sys.executable, "-c", FACTS)
    assert done.code == 0, done
    order = ("h1", "h3", "h2", "h4")
    hostfile = "/".join(f"{host} slots=2" for host in order)
    told = {line[0]: line[1:5] for line in facts_of(done.out)}
    assert told == {host: (hostfile, "4", str(number), "h1") for number, host in enumerate(order)}
    job = cluster.hold("-N4")
    try:
        done = front.run(*NULL, "--job-id", job, "-N", "2", "--topology", "slurm")
        assert done.code == 0, done
        assert front.hosts() == ["h1", "h3"]
        assert cluster.left_in_tmp(cluster.login) == []
    finally:
        cluster.run("scancel", job)
