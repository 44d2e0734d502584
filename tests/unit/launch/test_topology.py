"""What clusters say of their switches, in the forms that are documented, and the order that follows.

The files in topology/ are written after: EC2 API reference (DescribeInstanceTopology, DescribeInstances),
topology.conf(5) and `scontrol show topology` (tree: as Slurm 22.05 prints it here; block: as 25.05 is seen to
print it), node labels of EKS, the GPU operator and topograph.
"""

from __future__ import annotations

import json
import subprocess
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.launch.batch import Shape
from busbw.launch.engine import Job, Work
from busbw.launch.slurm.script import ordering
from busbw.launch.topology.kinds import Place
from busbw.launch.topology.order import (
    RankOrder,
    Topology,
    order,
    order_of,
    read,
    read_topology,
)
from busbw.plan.flags.launch import LaunchSettings

FILES = Path(__file__).parent / "topology"
JOB = Job("x", "/runs/x", Work(("run",)), LaunchSettings(on="slurm"))


def topology(*names: str) -> Topology:
    return read([(name, (FILES / name).read_text()) for name in names])


def ordered(found: Topology, *hosts: str) -> list[str]:
    return list(order(found, [(host,) for host in hosts]).hosts)


@pytest.mark.parametrize(
    ("files", "hosts", "expected", "unknown"),
    [
        # Four layers: h1 and h4 share all, h3 one less.
        (["aws.json", "names.txt"], "x h3 h2 h1 h4 y", "h3 h1 h4 h2 x y", "x y"),
        # By DNS name, short name, address and tag; one instance has three layers.
        (
            ["aws.json", "aws-instances.json"],
            "ip-10-0-0-1.us-west-2.compute.internal ip-10-0-0-2 10.0.0.3 gpu-4 me@10.0.0.5",
            "ip-10-0-0-1.us-west-2.compute.internal gpu-4 10.0.0.3 ip-10-0-0-2 me@10.0.0.5",
            "",
        ),
        # UltraServers are NVLink domains whatever their switches.
        (["aws-ultraserver.json", "names.txt"], "h1 h2 h3 h4", "h1 h3 h2 h4", ""),
        (["slurm-tree.txt"], "h4 h3 h2 h1", "h4 h2 h3 h1", ""),
        (["slurm-tree.conf"], "n01 n02 n04 n05 n03 n07 n08", "n01 n05 n02 n03 n04 n07 n08", "n08"),
        (["slurm-block.txt"], "r1 r3 r5 r7 r2 r4 r9", "r1 r2 r9 r5 r3 r4 r7", ""),
        # g1 and g3 share an NVLink domain, not a leaf; g4 has a leaf with g1.
        (["kubernetes-nvlink.json"], "g1 g2 g4 g3 plain", "g1 g3 g2 g4 plain", "plain"),
        (["kubernetes-eks.json"], "ip-10-0-0-1 10.0.0.2 ip-10-0-0-3", "ip-10-0-0-1 ip-10-0-0-3 10.0.0.2", ""),
        # Labels tell which instance a node is: a deeper topology of the instances counts.
        (["aws.json", "kubernetes-eks.json"], "10.0.0.1 10.0.0.2 10.0.0.3", "10.0.0.1 10.0.0.3 10.0.0.2", ""),
        (["run.json"], "h1 h2 h3 h2.cluster", "h1 h3 h2 h2.cluster", ""),
        (["run.json", "kubernetes-nvlink.json"], "g1 job-0 g2", "g1 job-0 g2", ""),
        (["aws.json", "run.json"], "h1 h2 h3", "h1 h3 h2", ""),
        (["lines.txt"], "w1 w3 w2", "w1 w3 w2", ""),
    ],
)
def test_order(files: list[str], hosts: str, expected: str, unknown: str) -> None:
    found = order(topology(*files), [(host,) for host in hosts.split()])
    assert " ".join(found.hosts) == expected
    assert " ".join(found.unknown) == unknown


def test_places_have_all_layers_from_the_top() -> None:
    found = topology("aws.json", "names.txt").find(("h1",))
    assert found == Place(("nn-0aa", "nn-0b1", "nn-0c1", "nn-0d1"))  # a shared reservation is no domain
    assert topology("slurm-tree.conf").find(("n05",)) == Place(("core", "spine1", "leaf1"))
    found = topology("slurm-block.txt").find(("r5",))
    assert found == Place(("blocks b[0-3]", "blocks b0,b2", "b2"))
    found = topology("kubernetes-eks.json").find(("ip-10-0-0-2",))
    assert found == Place(("us-west-2", "us-west-2a", "nn-0aa", "nn-0b2", "nn-0c2"))
    assert topology("lines.txt").find(("w2",)) == Place(("rack1", "chassis3"), "domain-4")
    domain = topology("kubernetes-nvlink.json").find(("g1",))
    assert domain is not None
    assert domain.domain.endswith(".1")


def test_labels_without_a_value_hide_no_others() -> None:
    labels = {
        "topology.kubernetes.io/zone": "",
        "network.topology.nvidia.com/leaf": "leaf1",
        "nvidia.com/gpu.clique": "",
        "ds.coreweave.com/nvlink.domain": "rack7",
    }
    nodes = {"items": [{"metadata": {"name": "g1", "labels": labels}}]}
    assert read([("nodes.json", json.dumps(nodes))]).find(("g1",)) == Place(("leaf1",), "rack7")


def test_a_host_is_found_by_what_it_says_of_itself() -> None:
    found = order(
        topology("aws.json"), [("a", "i-00000000000000004"), ("b", "node-b", "i-00000000000000002")]
    )
    assert found.unknown == ()
    assert found.places["a"].switches[-1] == "nn-0d1"


def test_what_is_told_and_recorded() -> None:
    found = order(topology("aws.json", "names.txt"), [("h1",), ("h2",), ("x",), ("h4",)])
    assert found.notes == (
        "rank order by aws (aws.json), lines (names.txt): 3 hosts at 2 lowest switches or NVLink domains",
        "not in the topology, so last: x",
    )
    fields = json.loads(json.dumps(found.to_fields()))
    assert fields["by"] == "aws (aws.json), lines (names.txt)"
    assert [each["host"] for each in fields["hosts"]] == ["h1", "h4", "h2", "x"]
    assert fields["hosts"][1] == {
        "host": "h4",
        "switches": ["nn-0aa", "nn-0b1", "nn-0c1", "nn-0d1"],
        "domain": "",
    }
    assert fields["unknown"] == ["x"]
    within = found.within(["x", "h2"])
    assert (within.hosts, within.unknown, list(within.places)) == (("h2", "x"), ("x",), ["h2"])


def test_short_names_that_two_hosts_have_mean_neither() -> None:
    found = read([("f", "a.east s.l1\na.west s.l2\nb.east s.l1\n")])
    assert ordered(found, "a.west", "a", "b", "a.east") == ["a.west", "b", "a.east", "a"]


def test_a_name_that_one_source_gives_to_two_hosts_means_neither() -> None:
    nodes = json.loads((FILES / "kubernetes-eks.json").read_text())
    for node in nodes["items"]:
        node["status"]["addresses"].append({"type": "InternalIP", "address": "127.0.0.1"})
    found = read([("f", json.dumps(nodes))])
    assert found.find(("127.0.0.1",)) is None
    assert found.find(("10.0.0.3",)) == found.find(("ip-10-0-0-3",)) is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one\n", "has no known format"),
        ("{", "is not JSON"),
        ('{"a": 1}', "has no known format"),
        ('{"Instances": [{"NetworkNodes": []}]}', "looks like aws, but is damaged"),
        ('{"items": [{}]}', "looks like kubernetes, but is damaged"),
        ('{"Instances": []}', "has no switches for any host"),
        ("h1 i-0123456789abcdef0", "has no switches for any host"),
        ("No topology information available", "has no known format"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        read([("FILE", text)])
    assert "FILE" in refused.value.message
    assert refused.value.hint


def test_a_topology_of_another_cluster_is_refused() -> None:
    with pytest.raises(UsageError, match="has none of the hosts: a, b") as refused:
        order(topology("aws.json"), [("a",), ("b",)])
    assert "HOST INSTANCE" in refused.value.hint


def test_files_are_read_before_anything_is_asked(tmp_path: Path) -> None:
    assert order_of(read_topology(LaunchSettings())) is None
    names = (str(FILES / "aws.json"), str(FILES / "names.txt"))
    found = read_topology(LaunchSettings(topology=names))
    assert found is not None
    assert ordered(found, "h2", "h1") == ["h2", "h1"]
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text((FILES / "run.json").read_text())
    assert read_topology(LaunchSettings(topology=(str(run),)))
    with pytest.raises(UsageError, match="cannot read --topology"):
        read_topology(LaunchSettings(topology=(str(tmp_path / "none"),)))


# ---- properties ----------------------------------------------------------------------------------------

PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple)
PLACES = st.lists(st.builds(Place, PATHS, st.sampled_from(["", "", "d1", "d2"])), min_size=1, max_size=12)


def of(places: list[Place]) -> tuple[Topology, list[str]]:
    hosts = [f"h{number}" for number in range(len(places))]
    return Topology((("test", "f"),), dict(zip(hosts, places, strict=True)), {}), hosts


# A domain with a host of a/c and one of another depth hung below whichever came first, and tore the switch
# of one of its hosts apart.
TORN = [Place(("a", "c", "a")), Place(("a", "c"), "d1"), Place(("a",), "d1"), Place(("a", "c"))]


@given(PLACES)
@example(TORN)
def test_neighbours_share_what_they_can_and_nobody_is_lost(places: list[Place]) -> None:
    """Hosts of a switch or domain are neighbours, equal ones keep the order that was given, and a second time
    changes nothing.
    """
    found, hosts = of(places)
    once = ordered(found, *hosts)
    assert sorted(once) == sorted(hosts)
    assert ordered(found, *once) == once
    kept = [found.places[host] for host in once]
    domains = [place.domain for place in kept if place.domain]
    assert len(list(groupby(domains))) == len(set(domains))
    if not domains:
        for depth in range(1, 5):
            paths = [place.switches[:depth] for place in kept if len(place.switches) >= depth]
            assert len(list(groupby(paths))) == len(set(paths))
    for one, other in pairwise(once):
        if found.places[one] == found.places[other]:
            assert hosts.index(one) < hosts.index(other)


# ---- the same in a job script ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "allocated", "nodes", "ranks"),
    [
        ("h1 h3 h2 h4", "h2 h3 h4", 3, 7),
        ("h4 h2", "h1 h2 h3 h4", 4, 8),
        ("h4 h3 h1 h2", "h1 h2 h3 h4", 2, 3),
    ],
)
def test_the_job_script_arranges_its_nodes(
    known: str, allocated: str, nodes: int, ranks: int, tmp_path: Path
) -> None:
    found = RankOrder((("test", "f"),), tuple(known.split()))
    text = ordering(JOB, found, Shape(nodes, ranks))
    text = text.replace("/tmp/busbw-x-x-$job.hosts", str(tmp_path / "hosts"))
    shim = f"scontrol() {{ printf '%s\\n' {allocated}; }}\nSLURM_JOB_NODELIST=x\n"
    done = subprocess.run(
        ["bash", "-c", shim + text + "echo $BUSBW_ROOT"], text=True, capture_output=True, check=True
    )
    ordered = [host for host in known.split() if host in allocated.split()]
    expected = (*ordered, *(host for host in allocated.split() if host not in ordered))
    lines = (tmp_path / "hosts").read_text().split()
    assert len(lines) == ranks
    assert tuple(dict.fromkeys(lines)) == expected[:nodes]
    assert done.stdout.strip() == expected[0]
    strangers = [host for host in allocated.split() if host not in known.split()]
    assert done.stderr.count("is not in the topology") == len(strangers)


def test_names_of_hosts_are_data_in_the_script() -> None:
    found = RankOrder((("test", "f"),), ("$(touch x)", "a b"))
    assert "'$(touch x)' 'a b'" in ordering(JOB, found, Shape(1, 1))


def test_everything_has_every_name() -> None:
    found = order_of(topology("aws.json", "names.txt"))
    assert found is not None
    assert found.unknown == ()
    assert "5 hosts at 4 lowest switches" in found.notes[0]
    names = [host for host in found.hosts if host.startswith("h")]
    assert names == ["h1", "h4", "h3", "h2"]
