"""--topology: ranks follow the switches that Slurm, or a file, tells of."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.exec_programs import FACTS, facts_of

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

NULL = ("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl", "--on", "slurm")
MPI = ("run", "all_reduce", "-b", "8", "-e", "16", "-n", "8", "--on", "slurm")
YIELDING = ("--env", "MPIR_CVAR_CH4_PROGRESS_THROTTLE=1")
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


def hosts_of(record: dict[str, Any]) -> list[str]:
    assert record["status"] == "complete", record
    return [rank["host"] for rank in record["world"]["ranks"]]


@pytest.mark.usefixtures("two_leaves")
@pytest.mark.parametrize("where", ["front", "far_front"])
def test_what_slurm_itself_says(where: str, request: pytest.FixtureRequest, cluster: SlurmCluster) -> None:
    front = request.getfixturevalue(where)
    done = front.run(*NULL, "-N", "4", "--ranks", "6", "--topology", "slurm")
    assert done.code == 0, done
    assert "rank order by slurm (slurm): 4 hosts at 2 lowest switches" in done.err
    record = front.record()
    assert hosts_of(record) == ["h1", "h1", "h3", "h3", "h2", "h4"]
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
    assert "busbw" not in cluster.run("ls", "-A", "/tmp", host="h1")


@pytest.mark.usefixtures("two_leaves")
def test_mpi_ranks_and_the_logs_of_nodes(front: Any) -> None:
    done = front.run(*MPI, *YIELDING, "-N", "4", "--ranks-per-node", "2", "--topology", "slurm")
    assert done.code == 0, done
    record = front.record()
    assert record["world"]["kind"] == "mpi"
    assert hosts_of(record) == ["h1", "h1", "h3", "h3", "h2", "h2", "h4", "h4"]
    said = front.run("exec", "--on", "slurm", "-N", "4", "--topology", "slurm", "--", "hostname")
    assert said.code == 0, said
    folder = front.folder()
    files = {path.name.split("-")[-1]: path.read_text() for path in (folder / "log").glob("slurm-*-h*.out")}
    assert files == {f"{host}.out": f"{host}\n" for host in ("h1", "h2", "h3", "h4")}
    assert (folder / "log/nodes").read_text().split() == ["h1", "h3", "h2", "h4"]


@pytest.mark.usefixtures("two_leaves")
def test_a_command_s_host_file_has_the_same_order(front: Any) -> None:
    words = ("exec", "--on", "slurm", "-N", "4", "--ranks-per-node", "2", "--topology", "slurm", "--")
    done = front.run(*words, sys.executable, "-c", FACTS)
    assert done.code == 0, done
    order = ("h1", "h3", "h2", "h4")
    hostfile = "/".join(f"{host} slots=2" for host in order)
    told = {line[0]: line[1:5] for line in facts_of(done.out)}
    assert told == {host: (hostfile, "4", str(number), "h1") for number, host in enumerate(order)}


@pytest.mark.usefixtures("two_leaves")
def test_a_step_takes_neighbours(front: Any, cluster: SlurmCluster) -> None:
    job = cluster.run("sbatch", "--parsable", "-N4", "--output=/dev/null", "--wrap", "sleep 1000").strip()
    cluster.wait_until(
        lambda: "RUNNING" in cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%T")
    )
    try:
        done = front.run(*NULL, "--job-id", job, "-N", "2", "--topology", "slurm")
        assert done.code == 0, done
        assert hosts_of(front.record()) == ["h1", "h3"]
        # Homes of other tests' runs are there too.
        left = cluster.run("ls", "-A", "/tmp").split()
        assert [name for name in left if name.startswith("busbw")] == []
    finally:
        cluster.run("scancel", job)


def test_a_file_of_another_cloud_and_who_is_who(front: Any, tmp_path: Path, cluster: SlurmCluster) -> None:
    """Instances by DescribeInstanceTopology, hosts by a list; a node that nobody knows comes last."""
    at = cluster.folder.parent / "home" / tmp_path.name
    at.mkdir(parents=True)
    nodes = {"i-0aaaaaaaaaaaaaaa4": "nn-1 nn-3 nn-4", "i-0aaaaaaaaaaaaaaa1": "nn-1 nn-2 nn-5"}
    nodes["i-0aaaaaaaaaaaaaaa2"] = "nn-1 nn-3 nn-4"
    instances = [{"InstanceId": name, "NetworkNodes": text.split()} for name, text in nodes.items()]
    (at / "topology.json").write_text(json.dumps({"Instances": instances}))
    (at / "names").write_text("".join(f"h{number} i-0aaaaaaaaaaaaaaa{number}\n" for number in (1, 2, 4)))
    words = ("--topology", at / "topology.json", "--topology", at / "names")
    done = front.run(*NULL, "-N", "4", *words)
    assert done.code == 0, done
    assert hosts_of(front.record()) == ["h2", "h4", "h1", "h3"]
    log = (front.folder() / "log").glob("slurm-*.err")
    assert "h3 is not in the topology, so its ranks are last" in "".join(path.read_text() for path in log)
    dry = front.run(*NULL, "-N", "4", *words, "--dry-run")
    assert 'SLURM_HOSTFILE="$hosts" srun' in dry.out


def test_nothing_that_can_be_followed(front: Any, tmp_path: Path) -> None:
    done = front.run(*NULL, "-N", "4", "--topology", tmp_path / "none")
    assert done.code == 2
    assert "cannot read --topology" in done.error
    assert front.home.exists() is False or not list(front.home.glob("*"))
