"""--topology: ranks on hosts follow the switches that a file tells of, and the record says so."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from busbw_testing.exec_programs import FACTS, facts_of

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

ON = ("--on", "hosts", "--hosts")
FEW = ("run", "all_reduce", "-b", "8", "-e", "1K", "-f", "128", "-n", "20", "--backend", "mpi")
NULL = ("run", "all_reduce", "-b", "8", "-e", "8", "--backend", "null", "--world", "nccl")
TREE = "SwitchName=s0 Switches=s[1-2]\nSwitchName=s1 Nodes=h1,h3\nSwitchName=s2 Nodes=h2,h4\n"


def hosts_of(record: dict[str, Any]) -> list[str]:
    assert record["status"] == "complete", record
    return [rank["host"] for rank in sorted(record["world"]["ranks"], key=lambda rank: rank["rank"])]


@pytest.mark.parametrize("family", ["mpich", "openmpi", "none"])
def test_ranks_follow_switches(cluster: Any, family: str, request: Any) -> None:
    python = request.getfixturevalue("open_mpi_python") if family == "openmpi" else ""
    tree = cluster.folder / "topology.conf"
    tree.write_text(TREE)
    words = NULL if family == "none" else FEW
    front = cluster.run(*words, *ON, "h2,h3,h4,h1", "--topology", tree, python=python)
    record = cluster.record()
    assert hosts_of(record) == ["h2", "h4", "h3", "h1"]
    assert f"note: rank order by slurm ({tree}): 4 hosts at 2 lowest switches" in front.err
    order = record["settings"]["rank_order"]
    assert [each["host"] for each in order["hosts"]] == ["h2", "h4", "h3", "h1"]
    assert order["hosts"][0]["switches"] == ["s0", "s2"]
    assert record["settings"]["launch"]["topology"] == [str(tree)]
    assert [place["host"] for place in record["world"]["places"]] == ["h2", "h4", "h3", "h1"]


def test_fewer_nodes_are_neighbours_and_uneven_ranks_keep_the_order(cluster: Any) -> None:
    tree = cluster.folder / "topology.conf"
    tree.write_text(TREE.replace(",h4", ""))
    front = cluster.run(*FEW, *ON, "h1,h2,h3:2,h4", "--topology", tree)
    assert hosts_of(cluster.record()) == ["h1", "h3", "h3", "h2", "h4"]
    assert "note: not in it, so last: h4" in front.err
    cluster.run(*FEW, *ON, "h1,h2,h3:2,h4", "-N", "2", "--topology", tree)
    assert hosts_of(cluster.record()) == ["h1", "h3", "h3"]
    assert [each["host"] for each in cluster.record()["settings"]["rank_order"]["hosts"]] == ["h1", "h3"]


def test_a_command_gets_the_same_order(cluster: Any) -> None:
    tree = cluster.folder / "topology.conf"
    tree.write_text(TREE)
    tell = ("sh", "-c", "echo $BUSBW_RANK $(hostname)")
    words = ("exec", *ON, "h2,h3,h4,h1", "--mpi", "none", "--topology", tree, "--")
    front = cluster.run(*words, *tell)
    assert sorted(front.out.splitlines()) == ["0 h2", "1 h4", "2 h3", "3 h1"]
    told = facts_of(cluster.run(*words, sys.executable, "-c", FACTS).out)
    order = ("h2", "h4", "h3", "h1")
    expected = ("/".join(f"{host} slots=1" for host in order), "4")
    assert {line[0]: (*line[1:3], line[3]) for line in told} == {
        host: (*expected, str(number)) for number, host in enumerate(order)
    }


def _become_instance(cluster: Any, name: str, number: int) -> None:
    """Firmware of EC2 for a host: /sys/class with a dmi/id, and with the network that was there."""
    script = f"""
set -e
mkdir /run/net && mount --rbind /sys/class/net /run/net
mount -t tmpfs tmpfs /sys/class
mkdir -p /sys/class/net /sys/class/dmi/id && mount --move /run/net /sys/class/net
cd /sys/class/dmi/id
echo 'Amazon EC2' >sys_vendor
echo p5.48xlarge >product_name
echo i-0123456789abcdef{number} >board_asset_tag
"""
    cluster.hosts.run(name, "sh", "-c", script)


def test_instances_say_who_they_are(fresh_cluster: Any) -> None:
    """AWS's answer alone: each host tells its instance id, and the record keeps it for later."""
    cluster = fresh_cluster
    for number, name in enumerate(("h1", "h2", "h3"), 1):
        _become_instance(cluster, name, number)
    layers = {1: "nn-1 nn-2 nn-4", 2: "nn-1 nn-3 nn-5", 3: "nn-1 nn-2 nn-4"}
    answer = {
        "Instances": [
            {"InstanceId": f"i-0123456789abcdef{number}", "NetworkNodes": text.split()}
            for number, text in layers.items()
        ]
    }
    file = cluster.folder / "aws.json"
    file.write_text(json.dumps(answer))
    front = cluster.run(*FEW, *ON, "h2,h4,h1,h3", "--topology", file)
    record = cluster.record()
    assert hosts_of(record) == ["h2", "h1", "h3", "h4"]
    assert "note: not in it, so last: h4" in front.err
    places = {place["host"]: place for place in record["world"]["places"]}
    assert places["h1"]["instance"] == "i-0123456789abcdef1"
    assert (places["h3"]["vendor"], places["h3"]["product"]) == ("Amazon EC2", "p5.48xlarge")
    assert places["h4"]["instance"] == ""
    shown = cluster.run("show", "last", "--provenance").out
    assert "i-0123456789abcdef3" in shown
    assert f"in the order of aws ({file})" in shown
    # The run tells who is who where the hosts do not: Slurm's nodes, say.
    run = cluster.run_folder
    dry = cluster.run(
        "exec", *ON, "h3,h2,h1", "--topology", file, "--topology", run, "--dry-run", "--", "hostname"
    )
    assert "h3,h1,h2" in dry.out


def test_a_wrong_file_is_refused_before_anything_is_asked(cluster: Any) -> None:
    front = cluster.run(*FEW, *ON, "nowhere", "--topology", cluster.folder / "none", code=2)
    assert "cannot read --topology" in front.error
    wrong = cluster.folder / "wrong"
    wrong.write_text("SwitchName=s0 Nodes=other[1-4]\n")
    front = cluster.run(*FEW, *ON, "h1,h2", "--topology", wrong, code=2)
    assert "has none of the hosts: h1, h2" in front.error
