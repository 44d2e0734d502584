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


def quota(**entries: tuple[str, str]) -> dict[str, Any]:
    names = {name.replace("__", "/").replace("_", "."): value for name, value in entries.items()}
    return {
        "metadata": {"name": "q"},
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
    of = cluster(quotas=[quota(**entries)])
    assert [severity for severity, _ in found(of, form())] == run
    assert [severity for severity, _ in found(of, form(), stops=True)] == preflight


def test_a_quotas_words() -> None:
    of = cluster(quotas=[quota(requests_nvidia_com__gpu=("4", "1"))])
    assert found(of, form())[0][1] == (
        "exceeded quota: q, requested: requests.nvidia.com/gpu=8 by each of 2 pods, used: 1, limited: 4"
    )


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
