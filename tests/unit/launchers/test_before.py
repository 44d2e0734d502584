"""What engines are asked before a job is submitted: the pure part, on answers as they come."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.launchers.kubernetes_before import Cluster, judge
from busbw.launchers.kubernetes_form import Form
from busbw.launchers.slurm_before import image_findings, read_partitions
from busbw.launchers.slurm_before import judge as judge_partitions
from busbw.model.finding import Severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

# sinfo --noheader --format='%R|%a|%D|%T'
SINFO = """\
gpu|up|6|idle
gpu|up|1|mixed-
gpu|up|2|down*
gpu|up|1|drained
slow|up|4|allocated
closed|down|4|idle
"""


def test_partitions_are_read_with_their_states() -> None:
    gpu, slow, closed = read_partitions(SINFO)
    assert (gpu.name, gpu.is_up, gpu.nodes, gpu.usable) == ("gpu", True, 10, 7)
    assert (slow.nodes, slow.usable) == (4, 4)
    assert not closed.is_up


@pytest.mark.parametrize(
    ("wanted", "nodes", "severity", "claim"),
    [
        ("gpu", 11, ERROR, "Node count 11 is more than partition gpu has (10)"),
        ("gpu", 8, WARNING, "7 of 10 nodes of partition gpu can be used, 8 are asked for"),
        ("closed", 1, WARNING, "partition closed is down: jobs are taken and do not start"),
        ("fast", 1, ERROR, "invalid partition specified: fast"),
    ],
)
def test_a_partition_that_cannot_serve(wanted: str, nodes: int, severity: Severity, claim: str) -> None:
    (finding,) = judge_partitions(read_partitions(SINFO), wanted, nodes)
    assert (finding.severity, finding.claim) == (severity, claim)


@pytest.mark.parametrize(("wanted", "nodes"), [("gpu", 7), ("slow,gpu", 7), ("", 99), ("closed,gpu", 1)])
def test_a_partition_that_can(wanted: str, nodes: int) -> None:
    assert list(judge_partitions(read_partitions(SINFO), wanted, nodes)) == []


def test_an_image_needs_pyxis_and_its_file() -> None:
    with_pyxis = "  --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"
    assert list(image_findings("ubuntu", with_pyxis, exists=False)) == []
    assert [each.severity for each in image_findings("/fsx/x.sqsh", with_pyxis, exists=False)] == [WARNING]
    assert [each.severity for each in image_findings("ubuntu", "", exists=False)] == [ERROR]


def node(name: str, *, ready: str = "True", cordoned: bool = False, **offers: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"type": "p5"}},
        "spec": {"unschedulable": cordoned},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "allocatable": {"nvidia.com/gpu": "8", "memory": "2000Gi", **offers},
        },
    }


def form(**changed: Any) -> Form:
    fields = {
        "kind": "mpijob",
        "image": "x",
        "workers": 2,
        "slots": 8,
        "ranks": 16,
        "python": "python3",
        "resources": {"nvidia.com/gpu": "8", "memory": "960Gi"},
        "selector": {"type": "p5"},
    }
    return Form(**{**fields, **changed})


def cluster(**changed: Any) -> Cluster:
    fields = {
        "versions": ("v2beta1",),
        "kinds": ("MPIJob",),
        "quotas": [],
        "nodes": [node("a"), node("b")],
    }
    return Cluster(**{**fields, **changed})


def found(of: Cluster, asked: Form, *, stops: bool = False) -> list[tuple[Severity, str]]:
    return [(each.severity, each.claim) for each in judge(of, asked, "team", stops=stops)]


def test_a_cluster_that_has_everything() -> None:
    assert found(cluster(), form()) == []


@pytest.mark.parametrize(
    ("versions", "kinds", "evidence"),
    [((), (), ""), (("v1",), (), "of kubeflow.org it has v1 only")],
)
def test_no_operator_or_an_old_one(versions: tuple[str, ...], kinds: tuple[str, ...], evidence: str) -> None:
    (finding,) = judge(cluster(versions=versions, kinds=kinds), form(), "team", stops=False)
    assert finding.claim == "the cluster has no MPIJobs (kubeflow.org/v2beta1)"
    assert (finding.severity, finding.evidence) == (ERROR, evidence)
    assert "--mpi none" in finding.hint


DEFAULTS = {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1", "memory": "1Mi"}}]}}


def quota(spec: dict[str, Any] | None = None, **entries: tuple[str, str]) -> dict[str, Any]:
    names = {name.replace("__", "/").replace("_", "."): value for name, value in entries.items()}
    return {
        "metadata": {"name": "q"},
        "spec": spec or {},
        "status": {
            "hard": {name: hard for name, (hard, _) in names.items()},
            "used": {name: used for name, (_, used) in names.items()},
        },
    }


@pytest.mark.parametrize(
    ("entries", "run", "preflight"),
    [
        ({"requests_nvidia_com__gpu": ("16", "0")}, [], []),
        ({"requests_nvidia_com__gpu": ("16", "8")}, [WARNING], [ERROR]),  # others may give it back
        ({"requests_nvidia_com__gpu": ("4", "0")}, [ERROR], [ERROR]),  # one pod alone is too large
        ({"requests_memory": ("1Ti", "0")}, [WARNING], [ERROR]),
        ({"limits_memory": ("4Ti", "0")}, [], []),
        ({"pods": ("2", "0")}, [WARNING], [ERROR]),  # an MPIJob has a launcher too
        ({"pods": ("3", "0")}, [], []),
        ({"requests_storage": ("0", "0")}, [], []),
    ],
)
def test_quota(entries: dict[str, tuple[str, str]], run: list[Severity], preflight: list[Severity]) -> None:
    of = cluster(quotas=[quota(**entries)], ranges=[DEFAULTS])
    assert [severity for severity, _ in found(of, form())] == run
    assert [severity for severity, _ in found(of, form(), stops=True)] == preflight


def counts(**entries: tuple[str, str]) -> dict[str, Any]:
    """``jobs_batch`` stands for count/jobs.batch."""
    found = quota()
    for key, values in zip(("hard", "used"), zip(*entries.values(), strict=True), strict=True):
        found["status"][key] = {
            f"count/{name.replace('x_k8s', 'x-k8s').replace('_', '.')}": value
            for name, value in zip(entries, values, strict=True)
        }
    return found


@pytest.mark.parametrize(
    ("asked", "entries", "run", "preflight"),
    [
        (form(), {"mpijobs_kubeflow_org": ("1", "0")}, [], []),
        (form(), {"mpijobs_kubeflow_org": ("2", "2")}, [ERROR], [ERROR]),  # the API server refuses ours
        (form(), {"jobs_batch": ("2", "2")}, [WARNING], [ERROR]),  # the operator tries again
        (form(), {"jobs_batch": ("0", "0")}, [ERROR], [ERROR]),
        (form(kind="job"), {"jobs_batch": ("2", "2")}, [ERROR], [ERROR]),
        (form(kind="job"), {"mpijobs_kubeflow_org": ("0", "0")}, [], []),
        (form(kind="jobset"), {"jobsets_jobset_x_k8s.io": ("1", "1")}, [ERROR], [ERROR]),
        (form(kind="jobset"), {"jobs_batch": ("1", "1")}, [WARNING], [ERROR]),
        (form(), {"pods": ("2", "0")}, [WARNING], [ERROR]),
        (form(kind="job"), {"secrets": ("0", "0"), "services": ("0", "0")}, [ERROR] * 2, [ERROR] * 2),
        (form(kind="job"), {"configmaps": ("0", "0")}, [], []),
        (form(kind="job", brings=True), {"configmaps": ("0", "0")}, [ERROR], [ERROR]),
        (form(compute_domain=2), {"resourceclaims_resource_k8s.io": ("2", "1")}, [WARNING], [ERROR]),
    ],
)
def test_a_quota_on_objects(
    asked: Form, entries: dict[str, tuple[str, str]], run: list[Severity], preflight: list[Severity]
) -> None:
    of = cluster(quotas=[counts(**entries)], versions=None)
    assert [severity for severity, _ in found(of, asked)] == run
    assert [severity for severity, _ in found(of, asked, stops=True)] == preflight


def test_a_quota_on_objects_says_which() -> None:
    (first,) = judge(cluster(quotas=[counts(jobs_batch=("3", "3"))]), form(), "team", stops=False)
    assert first.claim == "exceeded quota: q, requested: count/jobs.batch=1, used: 3, limited: 3"
    assert first.evidence == "the controller of a mpijob makes jobs.batch"
    assert found(cluster(quotas=[quota(secrets=("1", "1"))]), form())[0][1] == (
        "exceeded quota: q, requested: secrets=1, used: 1, limited: 1"
    )


def test_a_quotas_words() -> None:
    of = cluster(quotas=[quota(requests_nvidia_com__gpu=("4", "1"))])
    assert found(of, form())[0][1] == (
        "exceeded quota: q, requested: requests.nvidia.com/gpu=8 by each of 2 pods, used: 1, limited: 4"
    )


@pytest.mark.parametrize(
    ("entry", "asked", "lacking"),
    [
        ("requests_cpu", form(), "pods and launcher"),
        ("requests_cpu", form(resources={"cpu": "4", "nvidia.com/gpu": "8"}), "launcher"),
        ("requests_cpu", form(kind="job"), "pods"),
        ("cpu", form(kind="job"), "pods"),
        ("limits_memory", form(launcher={"memory": "1Gi"}), "launcher"),
        ("requests_cpu", form(resources={"cpu": "4"}, launcher={"cpu": "1"}), ""),
        ("limits_memory", form(kind="job"), ""),
        ("requests_nvidia_com__gpu", form(kind="job", resources={}), ""),  # only who names it is counted
    ],
)
def test_a_quota_on_what_pods_do_not_name(entry: str, asked: Form, lacking: str) -> None:
    """The API server would refuse them, unless a LimitRange names it for them."""
    quotas = [quota(**{entry: ("9Ti", "0")})]
    name = entry.replace("__", "/").replace("_", ".")
    claims = [f"failed quota: q: must specify {name} for {lacking}"] * bool(lacking)
    for ranges, severity in (((), ERROR), (None, WARNING), ([DEFAULTS], None)):
        findings = judge(cluster(quotas=quotas, ranges=ranges), asked, "team", stops=False)
        said = [(each.severity, each.claim) for each in findings if each.check == "quota"]
        assert said == ([(severity, claim) for claim in claims] if severity else [])


def test_the_launchers_share_counts() -> None:
    asked = form(resources={"cpu": "4"}, launcher={"cpu": "1"})
    nodes = [node("a", cpu="96"), node("b", cpu="96")]
    words = "4 by each of 2 pods and 1 by each of 1 pods"
    assert found(cluster(nodes=nodes, quotas=[quota(requests_cpu=("8", "0"))]), asked, stops=True) == [
        (ERROR, f"exceeded quota: q, requested: requests.cpu={words}, used: 0, limited: 8")
    ]


def scoped(name: str, operator: str) -> dict[str, Any]:
    return {"scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": operator}]}}


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({"scopes": ["Terminating"]}, 0),
        ({"scopes": ["NotTerminating"]}, 3),
        ({"scopes": ["NotBestEffort"]}, 2),  # the launcher names nothing
        ({"scopes": ["BestEffort"]}, 1),
        ({"scopes": ["NotBestEffort", "Terminating"]}, 0),
        ({"scopes": ["PriorityClass"]}, 0),
        (scoped("PriorityClass", "In"), 0),
        (scoped("PriorityClass", "NotIn"), 3),
        (scoped("CrossNamespacePodAffinity", "Exists"), 0),
        ({}, 3),
    ],
)
def test_a_quota_with_scopes_counts_the_pods_that_it_concerns(spec: dict[str, Any], count: int) -> None:
    claims = [claim for _, claim in found(cluster(quotas=[quota(spec, pods=("0", "0"))]), form())]
    words = f"exceeded quota: q, requested: pods=1 by each of {count} pods, used: 0, limited: 0"
    assert claims == [words] * bool(count)


@pytest.mark.parametrize(
    ("operator", "values", "priority", "count"),
    [
        ("In", ["high"], "high", 3),
        ("In", ["high"], "low", 0),
        ("NotIn", ["high"], "high", 0),
        ("NotIn", ["high"], "low", 3),
        ("Exists", [], "low", 3),
        ("Exists", [], "", 0),
        ("DoesNotExist", [], "low", 0),
        ("DoesNotExist", [], "", 3),
    ],
)
def test_a_quota_of_a_priority_class(operator: str, values: list[str], priority: str, count: int) -> None:
    spec = scoped("PriorityClass", operator)
    spec["scopeSelector"]["matchExpressions"][0]["values"] = values
    asked = form(words={"priority-class": priority} if priority else {})
    claims = [claim for _, claim in found(cluster(quotas=[quota(spec, pods=("0", "0"))]), asked)]
    assert bool(claims) == bool(count)
    assert f"1 by each of {count} pods" in "".join(claims) or not count


def test_nodes_that_are_left_out_do_not_count() -> None:
    nodes = cluster().nodes
    assert nodes is not None
    name = nodes[0]["metadata"].setdefault("labels", {}).setdefault("kubernetes.io/hostname", "n0")
    assert found(cluster(nodes=nodes), form(excluded=("elsewhere",))) == []
    first, *_ = found(cluster(nodes=nodes), form(excluded=(name,)))
    assert f"other than {name}, " in first[1]
    assert found(cluster(nodes=nodes), form(only=("a", "b"))) == []
    first, *_ = found(cluster(nodes=nodes), form(only=("a", "c")))
    assert "1 of 2 nodes can be used with type=p5 of a, c, 2 are asked for" in first[1]


def test_labels_with_choices_are_a_set() -> None:
    choices = {"type": ("gb300-4x", "p5")}
    assert found(cluster(), form(selector={}, choices=choices)) == []
    assert found(cluster(), form(selector={}, choices={"type": ("a", "b")})) == [
        (WARNING, "0 of 2 nodes can be used with type=a|b, 2 are asked for")
    ]


def test_a_compute_domain_needs_its_driver() -> None:
    claim = "the cluster has no ComputeDomains (resource.nvidia.com/v1beta1)"
    assert found(cluster(domains=False), form(compute_domain=2)) == [(ERROR, claim)]
    assert found(cluster(domains=True), form(compute_domain=2)) == []
    assert found(cluster(domains=None), form(compute_domain=2)) == []  # not for this user to see
    assert found(cluster(domains=False), form()) == []


@pytest.mark.parametrize(
    ("nodes", "claims"),
    [
        (
            [node("a"), node("b", cordoned=True)],
            ["1 of 2 nodes can be used with type=p5, 2 are asked for"],
        ),
        (
            [node("a"), node("b", **{"nvidia.com/gpu": "7"})],
            ["1 of 2 nodes with type=p5 offer nvidia.com/gpu=8, 2 are asked for"],
        ),
        (
            [node("a", ready="False"), node("b"), node("c", **{"nvidia.com/gpu": "0"})],
            ["1 of 2 nodes with type=p5 offer nvidia.com/gpu=8, 2 are asked for"],
        ),
    ],
)
def test_nodes_that_are_too_few(nodes: list[dict[str, Any]], claims: list[str]) -> None:
    assert found(cluster(nodes=nodes), form()) == [(WARNING, claim) for claim in claims]


def test_what_may_not_be_seen_is_a_note() -> None:
    hidden = cluster(versions=None, kinds=(), quotas=None, nodes=None)
    assert [severity for severity, _ in found(hidden, form())] == [INFO, INFO]


def test_objects_that_are_not_there() -> None:
    assert found(cluster(absent=("pull-secret=x",)), form()) == [
        (ERROR, "--set pull-secret=x: there is no such object in namespace team")
    ]
