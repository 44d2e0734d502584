"""The CronJob of the examples on a real control plane: it is accepted, and its Job checks and ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from busbw_testing.started import until

from busbw.launch.kubernetes.yaml import from_yaml

pytestmark = pytest.mark.kubernetes

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "health" / "kubernetes-cronjob.yaml"


def test_the_cron_job_is_accepted_and_its_job_checks(cluster: Any, namespace: str, tmp_path: Path) -> None:
    (cron,) = from_yaml(EXAMPLE.read_text())
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pod["nodeName"] = cluster.core.list_node().items[0].metadata.name
    pod["volumes"][0]["hostPath"]["path"] = str(tmp_path)
    container["image"] = "lab/busbw"
    container["command"] += ["--backend", "null", "--world", "nccl", "--ranks", "2"]
    cluster.batch.create_namespaced_cron_job(namespace, cron, field_validation="Strict")
    name = cron["metadata"]["name"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": cron["spec"]["jobTemplate"]["spec"],
    }
    cluster.batch.create_namespaced_job(namespace, job, field_validation="Strict")
    until(lambda: cluster.batch.read_namespaced_job(name, namespace).status.completion_time)
    pods = cluster.core.list_namespaced_pod(namespace, label_selector=f"job-name={name}").items
    log = cluster.core.read_namespaced_pod_log(pods[0].metadata.name, namespace)
    assert "OK busbw: all_reduce" in log
    cluster.batch.delete_namespaced_cron_job(name, namespace)
    cluster.batch.delete_namespaced_job(name, namespace, propagation_policy="Foreground")
