"""--topology: ranks on hosts follow the switches that a file tells of, and the record says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

ON = ("--on", "hosts", "--hosts")
FEW = ("run", "all_reduce", "-b", "8", "-e", "1K", "-f", "128", "-n", "20", "--backend", "mpi")
TREE = "SwitchName=s0 Switches=s[1-2]\nSwitchName=s1 Nodes=h1,h3\nSwitchName=s2 Nodes=h2\n"


def hosts_of(record: dict[str, Any]) -> list[str]:
    assert record["status"] == "complete", record
    return [rank["host"] for rank in sorted(record["world"]["ranks"], key=lambda rank: rank["rank"])]


def test_ranks_follow_switches(cluster: Any) -> None:
    """The hosts that no file knows come last, and -N takes neighbours."""
    tree = cluster.folder / "topology.conf"
    tree.write_text(TREE)
    front = cluster.run(*FEW, *ON, "h1,h2,h3:2,h4", "--topology", tree)
    assert hosts_of(cluster.record()) == ["h1", "h3", "h3", "h2", "h4"]
    assert f"note: rank order by slurm ({tree}): 3 hosts at 2 lowest switches" in front.err
    assert "note: not in the topology, so last: h4" in front.err
    cluster.run(*FEW, *ON, "h1,h2,h3:2,h4", "-N", "2", "--topology", tree)
    record = cluster.record()
    assert hosts_of(record) == ["h1", "h3", "h3"]
    order = record["settings"]["rank_order"]
    assert [each["host"] for each in order["hosts"]] == ["h1", "h3"]
    assert order["hosts"][0]["switches"] == ["s0", "s1"]
    assert record["settings"]["launch"]["topology"] == [str(tree)]
    assert [place["host"] for place in record["world"]["places"]] == ["h1", "h3"]


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
    assert "note: not in the topology, so last: h4" in front.err
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
