"""Where pods are, on a real scheduler: asked for, followed, recorded. And presets, as the API sees them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.golden import whole
from busbw_testing.started import until
from kubernetes import client

from busbw.launch.kubernetes.words import WORDS
from busbw.launch.kubernetes.yaml import from_yaml

pytestmark = pytest.mark.kubernetes

IMAGE = ("--image", "lab/busbw")
SWEEP = ("run", "all_reduce", "-b", "1K", "-e", "1K", *IMAGE)
NULL = ("--backend", "null", "--world", "nccl")
ZONE, LEAF = "topology.kubernetes.io/zone", "network.topology.nvidia.com/leaf"
PRESETS = Path(__file__).parents[1] / "unit" / "launch" / "golden" / "presets"
MANIFESTS = sorted(str(path.relative_to(PRESETS)) for path in PRESETS.glob("*/*.kubernetes.txt"))


@pytest.fixture
def labelled(cluster: Any) -> Iterator[Any]:
    """Neighbours by number are in different zones and at different leaves."""
    names = [node.metadata.name for node in cluster.core.list_node().items]
    values = dict(zip(sorted(names), "abab", strict=True))
    for name, value in values.items():
        cluster.core.patch_node(name, {"metadata": {"labels": {ZONE: value, LEAF: f"leaf-{value}"}}})
    yield values
    for name in names:
        cluster.core.patch_node(name, {"metadata": {"labels": {ZONE: None, LEAF: None}}})


@pytest.fixture(scope="module")
def compute_domains(cluster: Any) -> Iterator[None]:
    """The kind that NVIDIA's DRA driver adds, after its API types (resource.nvidia.com/v1beta1, May 2026);
    the driver itself is not here.
    """
    claim = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    mode = {"type": "string", "enum": ["All", "Single"], "default": "Single"}
    channel = {
        "type": "object",
        "required": ["resourceClaimTemplate"],
        "properties": {"resourceClaimTemplate": claim, "allocationMode": mode},
    }
    spec = {
        "type": "object",
        "required": ["channel"],
        "properties": {"numNodes": {"type": "integer", "minimum": 0, "default": 0}, "channel": channel},
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "it is immutable"}],
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    names = {"kind": "ComputeDomain", "plural": "computedomains", "singular": "computedomain"}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    group = "resource.nvidia.com"
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"computedomains.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }
    api = client.ApiextensionsV1Api(cluster.api)
    api.create_custom_resource_definition(body, _preload_content=False)

    def established() -> bool:
        found = api.read_custom_resource_definition(f"computedomains.{group}").status.conditions or []
        return any(one.type == "Established" and one.status == "True" for one in found)

    until(established)
    yield
    api.delete_custom_resource_definition(f"computedomains.{group}")


def checked(cluster: Any, namespace: str, body: dict[str, Any]) -> None:
    """Let the server check an object, field by field, and not keep it."""
    body["metadata"]["namespace"] = namespace
    how = {"dry_run": "All", "field_validation": "Strict"}
    if body["apiVersion"] == "v1":
        create = getattr(cluster.core, f"create_namespaced_{body['kind'].lower()}")
        create(namespace, body, **how)
        return
    group, version = body["apiVersion"].split("/")
    plural = body["kind"].lower() + "s"
    cluster.custom.create_namespaced_custom_object(group, version, namespace, plural, body, **how)


def pods_of(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A pod of each of the job's templates."""
    for kind, specs in job["spec"]["mpiReplicaSpecs"].items():
        template = copy.deepcopy(specs["template"])
        template["metadata"]["name"] = f"{job['metadata']['name']}-{kind.lower()}"
        yield {"apiVersion": "v1", "kind": "Pod", **template}


def refusals(cluster: Any, namespace: str, documents: list[dict[str, Any]]) -> list[str]:
    """What the server has against the objects, and the pods that come of them."""
    found = []
    for body in (*documents, *pods_of(documents[-1])):
        try:
            checked(cluster, namespace, body)
        except client.ApiException as error:
            found.append(str(error.body))
    return found


@pytest.mark.usefixtures("compute_domains")
def test_every_preset_s_manifest_is_valid(cluster: Any, namespace: str) -> None:
    """Server-side dry run with strict fields. The last one is not: the server does look."""
    for name in MANIFESTS:
        documents = from_yaml(whole(PRESETS / name))
        assert refusals(cluster, namespace, documents) == [], name
    domain, job = from_yaml(whole(PRESETS / "aws/p6e-gb200.36xlarge.kubernetes.txt"))
    domain["spec"]["numNode"] = 1
    (*_, worker) = (specs["template"]["spec"] for specs in job["spec"]["mpiReplicaSpecs"].values())
    worker["resourceClaims"][0]["name"] = "another-name"
    first, second = refusals(cluster, namespace, [domain, job])
    assert "unknown field" in first
    assert "compute-domain-channel" in second


# ---- real pods -----------------------------------------------------------------------------------------


def places(record: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {place["host"]: place for place in record["world"]["places"]}


def test_the_scheduler_follows(busbw: Any, labelled: dict[str, str]) -> None:
    assert busbw(*SWEEP, "-N", "2", *NULL, "--set", f"select={ZONE}=b|c").code == 0
    nodes = [place["kubernetes_node"] for place in places(busbw.record()).values()]
    assert [labelled[node] for node in nodes] == ["b", "b"]


def test_open_mpi_s_ranks_follow_the_nodes(
    busbw: Any, cluster: Any, labelled: dict[str, str], openmpi: str, tmp_path: Path
) -> None:
    """By the labels of nodes, as `kubectl get nodes -o json` has them."""
    nodes = cluster.api.sanitize_for_serialization(cluster.core.list_node())
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({**nodes, "kind": "List"}))
    words = ("--mpi", "openmpi", "--env", "A=one two", "--mpirun-args=--mca mpi_yield_when_idle 1")
    where = ("--image", openmpi, "-N", "4", "--topology", str(file))
    done = busbw("run", "all_reduce", "-b", "1K", "-e", "1K", *where, *words)
    assert done.code == 0, done
    assert "Open MPI" in done.out
    assert f"note: rank order by kubernetes ({file}): 4 hosts at 2 lowest switches" in done.err
    record = busbw.record()
    found = places(record)
    by_rank = [found[rank["host"]]["kubernetes_node"] for rank in record["world"]["ranks"]]
    assert len(set(by_rank)) == 4
    assert "".join(labelled[node] for node in by_rank) in ("aabb", "bbaa")
    order = record["settings"]["rank_order"]
    assert {each["host"]: each["switches"][-1] for each in order["hosts"]}[by_rank[0]].startswith("leaf-")


@pytest.mark.usefixtures("compute_domains")
def test_a_compute_domain_comes_and_goes_with_its_job(busbw: Any, cluster: Any, namespace: str) -> None:
    """Without the driver nobody makes the claims' template, so the pods wait; the rest is as with it."""
    done = busbw("run", "--detach", "all_reduce", "-N", "2", *IMAGE, *NULL, "--set", "compute-domain=2")
    assert done.code == 0, done
    where = ("resource.nvidia.com", "v1beta1", namespace, "computedomains")
    (domain,) = cluster.custom.list_namespaced_custom_object(*where)["items"]
    assert domain["spec"]["numNodes"] == 2
    (owner,) = domain["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Job", domain["metadata"]["name"])
    assert busbw("cancel", busbw.run_folder.name).code in (0, 130)
    assert "clean" in busbw("clean").err
    # The garbage collector looks for new kinds every half minute, and this one is newer than it.
    left = cluster.custom.list_namespaced_custom_object(*where)["items"]
    assert all("deletionTimestamp" in each["metadata"] for each in left)


# ---- what a shared cluster asks for ---------------------------------------------------------------------

SITE = {
    "queue": "user-queue",
    "label": "team=fabric",
    "annotation": "example.com/why=a 'b' $(c)",
    "toleration": "dedicated=lab:NoSchedule",
    "priority-class": "busbw-high",
    "scheduler": "default-scheduler",
    "service-account": "runner",
    "pull-secret": "registry",
}
SITE_WORDS = tuple(word for key, value in SITE.items() for word in ("--set", f"{key}={value}"))


@pytest.fixture
def shared_cluster(cluster: Any, namespace: str) -> Iterator[Any]:
    """A priority class, a service account and a secret; every node is tainted."""
    scheduling = client.SchedulingV1Api(cluster.api)
    scheduling.create_priority_class({"metadata": {"name": SITE["priority-class"]}, "value": 7})
    cluster.core.create_namespaced_service_account(namespace, {"metadata": {"name": SITE["service-account"]}})
    cluster.core.create_namespaced_secret(namespace, {"metadata": {"name": SITE["pull-secret"]}})
    names = [node.metadata.name for node in cluster.core.list_node().items]
    taint = {"key": "dedicated", "value": "lab", "effect": "NoSchedule"}
    for name in names:
        cluster.core.patch_node(name, {"spec": {"taints": [taint]}})
    yield cluster
    for name in names:
        cluster.core.patch_node(name, {"spec": {"taints": None}})
    scheduling.delete_priority_class(SITE["priority-class"])
    cluster.core.delete_namespaced_secret(SITE["pull-secret"], namespace)


def test_what_is_set_reaches_the_job_and_its_pods(busbw: Any, shared_cluster: Any, namespace: str) -> None:
    running = busbw.start(*SWEEP, "-N", "2", *SITE_WORDS, "--case-time", "3s")
    running.until(lambda: running.rows)
    pods = shared_cluster.core.list_namespaced_pod(namespace).items
    assert len(pods) == 3
    for pod in pods:
        assert pod.metadata.labels["team"] == "fabric"
        assert pod.metadata.annotations["example.com/why"] == "a 'b' $(c)"
        assert (pod.spec.priority, pod.spec.service_account_name) == (7, "runner")
        assert [secret.name for secret in pod.spec.image_pull_secrets] == ["registry"]
        assert ("dedicated", "lab") in [(each.key, each.value) for each in pod.spec.tolerations]
    done = running.finish()
    assert done.code == 0, done
    assert busbw.record()["status"] == "complete"


@pytest.mark.usefixtures("compute_domains")
def test_the_server_takes_every_word(busbw: Any, cluster: Any, namespace: str) -> None:
    """Server-side dry run with strict fields, with those too that need what is not here."""
    words = [
        f"{key}={word.example}" for key, (_, word) in WORDS.items() if key not in ("np", "replicas", "kind")
    ]
    for kind in (("kind=mpijob",), ("kind=job",), ("kind=jobset",)):
        given = [text for word in (*words, *kind) for text in ("--set", word)]
        world = NULL if kind != ("kind=mpijob",) else ()
        done = busbw(*SWEEP, "-N", "2", *world, *given, "--dry-run")
        assert done.code == 0, done
        for body in from_yaml(done.out):
            checked(cluster, namespace, body)
