"""A hunt among pods, one of which is deleted: it goes on, and the affinity keeps pods off that node."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

HUNT = ("isolate", "--image", "lab/busbw", "-N", "4", "--backend", "mpi", "-b", "2M", "--rank-wait", "sleep")


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
