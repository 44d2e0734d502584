"""A hunt among pods: the slow node is named by Kubernetes' name of it, and the affinity keeps pods off it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from busbw_testing.shaping import NOMINAL_MBIT, require_named

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

RATE = "lab/mbit"  # of a node, see kubelet_pod.py
HUNT = ("isolate", "--image", "lab/busbw", "-N", "4", "--backend", "mpi", "-b", "2M", "--rank-wait", "sleep")


@pytest.fixture
def slow_node(cluster: Any) -> Iterator[str]:
    """Pods send at 200 Mbit/s, those on one node at a quarter of that."""
    names = sorted(node.metadata.name for node in cluster.core.list_node().items)
    slow = names[2]
    for name in names:
        mbit = NOMINAL_MBIT / 4 if name == slow else NOMINAL_MBIT
        cluster.core.patch_node(name, {"metadata": {"labels": {RATE: f"{mbit:g}"}}})
    yield slow
    for name in names:
        cluster.core.patch_node(name, {"metadata": {"labels": {RATE: None}}})


def test_a_slow_node_is_named_and_left_out(busbw: Any, cluster: Any, namespace: str, slow_node: str) -> None:
    done = busbw(*HUNT, "--no-preflight", "--on", "kubernetes", "--namespace", namespace)
    record = busbw.record()
    assert record["status"] == "complete", done
    (field,) = record["hunt"]["fields"]
    node_of = {place["host"]: place["kubernetes_node"] for place in record["world"]["places"]}
    assert len(set(node_of.values())) == 4
    assert done.code == record["hunt"]["exit_code"] == (1 if field["suspects"] else 3)
    (slow,) = (host for host, node in node_of.items() if node == slow_node)
    require_named(field, slow)
    (line,) = (line for line in done.out.splitlines() if line.startswith("# k8s"))
    affinity = json.loads(line.split(maxsplit=2)[2])
    assert affinity == field["exclude"]["kubernetes"]
    # As it was printed, in pods that share no node: there is room for three, on the other nodes.
    assert places_of(cluster, namespace, 4, {}) == set(node_of.values())
    assert places_of(cluster, namespace, 3, affinity) == set(node_of.values()) - {slow_node}


def test_a_lost_node_is_a_finding_and_the_hunt_goes_on(busbw: Any, cluster: Any, namespace: str) -> None:
    words = ("--no-preflight", "--on", "kubernetes", "--namespace", namespace)
    running = busbw.start(*HUNT, *words)
    running.until(lambda: "round 1, screen" in running.err)
    pods = {
        pod.metadata.name: pod.spec.node_name for pod in cluster.core.list_namespaced_pod(namespace).items
    }
    victim = next(name for name in pods if name.endswith("worker-2"))
    cluster.core.delete_namespaced_pod(victim, namespace, grace_period_seconds=0)
    done = running.finish()
    assert "lost during the hunt" in done.err, done
    assert done.code == 1
    first, second = sorted(path for path in (busbw.folder / "home").iterdir() if path.is_dir())
    lost = json.loads((first / "run.json").read_text())
    assert lost["status"] == "failed"
    assert f"pod {victim} was deleted while its ranks ran" in json.dumps(lost)
    record = json.loads((second / "run.json").read_text())
    assert record["status"] == "complete"
    left = {place["kubernetes_node"] for place in record["world"]["places"]}
    assert (len(left), pods[victim] in left) == (3, False)
    (finding,) = [finding for finding in record["findings"] if finding["check"] == "lost"]
    assert pods[victim] in finding["hint"]


def places_of(cluster: Any, namespace: str, count: int, affinity: dict[str, Any]) -> set[str]:
    """The nodes that the scheduler chooses for so many pods; they are gone again."""
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"lab": "placed"}}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    container = {"name": "main", "image": "lab/busbw", "command": ["sleep", "60"]}
    spec = {"containers": [container], "affinity": anti | affinity, "terminationGracePeriodSeconds": 0}
    names = [f"placed-{number}" for number in range(count)]
    for name in names:
        body = {"metadata": {"name": name, "labels": {"lab": "placed"}}, "spec": spec}
        cluster.core.create_namespaced_pod(namespace, body)
    found: set[str] = set()
    deadline = time.monotonic() + 60.0
    try:
        for name in names:
            while not (node := cluster.core.read_namespaced_pod(name, namespace).spec.node_name):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            found.add(node)
    finally:
        for name in names:
            cluster.core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)
        while any(pod.metadata.name in names for pod in cluster.core.list_namespaced_pod(namespace).items):
            assert time.monotonic() < deadline + 60.0
            time.sleep(0.1)
    return found
