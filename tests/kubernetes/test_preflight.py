"""Faults that preflight names on a real control plane, before anything is created on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.kubernetes_cluster import Cluster
from busbw_testing.kubernetes_tools import find_tools

pytestmark = pytest.mark.kubernetes

IMAGE = ("--image", "lab/busbw")


@pytest.fixture
def preflight(busbw: Any, namespace: str) -> Any:
    """``busbw preflight`` in the test's namespace."""

    def run(*words: str, **options: str) -> Any:
        where = ("--on", "kubernetes", "--namespace", namespace, *IMAGE)
        return busbw("preflight", *where, *words, **options)

    return run


@pytest.mark.parametrize("kind", [(), ("--backend", "null", "--world", "nccl")])
def test_a_healthy_cluster(preflight: Any, busbw: Any, kind: tuple[str, ...]) -> None:
    done = preflight("-N", "2", "-e", "64K", *kind)
    assert done.code == 0, done
    assert "2 on 2 hosts" in done.out
    assert "# result   nothing found" in done.out
    assert busbw.record()["status"] == "complete"


class Bare(Cluster):
    """An API server without the kinds of any operator, and without nodes."""

    def _start(self) -> None:
        self._start_api()


@pytest.fixture
def bare(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    tools = find_tools()
    assert tools is not None
    (tmp_path / "bare").mkdir()
    with Bare(tools, tmp_path / "bare", {}) as started:
        yield started


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "the cluster has no MPIJobs (kubeflow.org/v2beta1)"),
        (("--set", "kind=jobset"), "the cluster has no JobSets (jobset.x-k8s.io/v1alpha2)"),
    ],
)
def test_no_operator(bare: Cluster, busbw: Any, words: tuple[str, ...], error: str) -> None:
    where = ("--on", "kubernetes", "--namespace", "default", *IMAGE, "-N", "2")
    kubeconfig = {"KUBECONFIG": str(bare.kubeconfig())}
    for command in (("preflight",), ("run", "all_reduce")):
        place = where if command[0] == "preflight" else (*IMAGE, "-N", "2")
        done = busbw(*command, *place, *words, **kubeconfig)
        assert done.code == 4, done
        assert done.error.startswith(error)
        assert "submitted" not in done.err
    assert "an indexed Job needs nothing" in done.hint


def test_no_quota(preflight: Any, busbw: Any, cluster: Cluster, namespace: str) -> None:
    """Two pods of 8 GPUs where 12 are allowed: a run would wait for ever."""
    quota = {"metadata": {"name": "twelve"}, "spec": {"hard": {"requests.nvidia.com/gpu": "12"}}}
    cluster.core.create_namespaced_resource_quota(namespace, quota)
    done = preflight("-N", "2", "--set", "gpu=8")
    assert done.code == 4
    assert done.error.startswith(
        "exceeded quota: twelve, requested: requests.nvidia.com/gpu=8 by each of 2 pods, used: 0, limited: 12"
    )
    assert not (busbw.folder / "home").exists() or not list((busbw.folder / "home").glob("2*"))


@pytest.mark.parametrize(
    ("words", "entry", "count"),
    [
        ((), "count/mpijobs.kubeflow.org", 1),
        ((), "count/jobs.batch", 1),
        (("--mpi", "none"), "count/jobs.batch", 1),
        (("--mpi", "none", "--set", "kind=jobset"), "count/jobsets.jobset.x-k8s.io", 1),
        (("--mpi", "none"), "services", 1),
    ],
)
def test_a_quota_on_objects(
    preflight: Any, cluster: Cluster, namespace: str, words: tuple[str, ...], entry: str, count: int
) -> None:
    """The server counts by the names that preflight reads."""
    cluster.core.create_namespaced_resource_quota(
        namespace, {"metadata": {"name": "none"}, "spec": {"hard": {entry: "0"}}}
    )
    done = preflight("-N", "2", *words)
    assert done.code == 4
    claim = f"exceeded quota: none, requested: {entry}={count}, used: 0, limited: 0"
    assert done.error.startswith(claim), done


def test_no_pull_secret(preflight: Any, namespace: str) -> None:
    done = preflight("-N", "2", "--set", "pull-secret=registry")
    assert done.code == 4
    assert done.error == f"--set pull-secret=registry: there is no such object in namespace {namespace}"


def test_no_device_plugin(preflight: Any) -> None:
    done = preflight("-N", "2", "--set", "nic=rdma/ib=1", "--strict")
    assert done.code == 4
    assert done.error.startswith("0 of 4 nodes offer rdma/ib=1, 2 are asked for")
    assert done.hint == "look whether the device plugin of rdma/ib runs on the nodes"


def test_too_few_matching_nodes(preflight: Any) -> None:
    done = preflight("-N", "2", "--set", "instance-type=p5.48xlarge", "--strict")
    assert done.code == 4
    assert done.error.startswith(
        "0 of 4 nodes can be used with node.kubernetes.io/instance-type=p5.48xlarge, 2 are asked for"
    )


def test_what_a_user_may_not_see_is_said(busbw: Any, cluster: Cluster, namespace: str) -> None:
    """The least rights with which a run works; quota and nodes are not among them."""
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["services", "secrets"], "verbs": ["create", "delete"]},
    ]
    cluster.rbac.create_namespaced_role(namespace, {"metadata": {"name": "dev"}, "rules": rules})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "dev"},
        "subjects": [{"kind": "User", "name": "dev", "apiGroup": group}],
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "dev"},
    }
    cluster.rbac.create_namespaced_role_binding(namespace, binding)
    where = ("--on", "kubernetes", "--namespace", namespace, *IMAGE, "-N", "2")
    done = busbw("preflight", *where, "--backend", "null", "--world", "nccl", user="dev")
    assert done.code == 0, done
    assert "# note     the namespace's quota was not looked at: this user may not" in done.out
    claims = [found["claim"] for found in busbw.record()["findings"]]
    assert "what the nodes offer was not looked at: this user may not" in claims
