"""Faults that preflight names on a real control plane, before anything is created on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.started import until

if TYPE_CHECKING:
    from busbw_testing.kubernetes_cluster import Cluster

pytestmark = pytest.mark.kubernetes

IMAGE = ("--image", "lab/busbw")


@pytest.fixture
def preflight(busbw: Any, namespace: str) -> Any:
    """``busbw preflight`` in the test's namespace."""

    def run(*words: str, **options: str) -> Any:
        where = ("--on", "kubernetes", "--namespace", namespace, *IMAGE)
        return busbw("preflight", *where, *words, **options)

    return run


def test_a_quota_and_a_policy(preflight: Any, cluster: Cluster, namespace: str) -> None:
    """In the server's own words, before anything is created. Folders of the host are not allowed either."""
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"requests.nvidia.com/gpu": "4", "services": "0"}}}
    cluster.core.create_namespaced_resource_quota(namespace, quota)
    # Before it is counted, the server refuses everything.
    until(lambda: cluster.core.read_namespaced_resource_quota("few", namespace).status.hard)
    done = preflight("-N", "2", "--mpi", "none", "--set", "gpu=8")
    assert done.code == 4, done
    assert "exceeded quota: few, requested: services=1" in done.out
    assert "exceeded quota: few, requested: requests.nvidia.com/gpu=8" in done.out
    assert "--set" in done.hint
    enforce = {"pod-security.kubernetes.io/enforce": "baseline"}
    cluster.core.patch_namespace(namespace, {"metadata": {"labels": enforce}})
    done = preflight("-N", "2", "--mpi", "none", "--mounts", "/tmp:/tmp")
    assert done.code == 4, done
    assert 'violates PodSecurity "baseline:latest": hostPath volumes' in done.out
