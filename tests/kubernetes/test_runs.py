"""busbw's own worker command as MPIJob, indexed Job and JobSet, on real controllers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from busbw_testing.exec_programs import FACTS, facts_of
from busbw_testing.started import until

from busbw.launch.kubernetes.yaml import from_yaml

pytestmark = pytest.mark.kubernetes

IMAGE = ("--image", "lab/busbw")
SWEEP = ("run", "all_reduce", "-b", "1K", "-e", "4K", *IMAGE)
# Exact fake times, over the real world without MPI.
NULL = ("--backend", "null", "--world", "nccl")
SLOTS = ("-N", "2", "--ranks-per-node", "2")
KINDS = [
    pytest.param((*SLOTS, "--mpirun-args=-print-all-exitcodes"), 4, id="mpijob"),
    pytest.param((*SLOTS, *NULL), 4, id="job"),
    pytest.param(("-N", "2", *NULL, "--set", "kind=jobset"), 2, id="jobset"),
]


@pytest.mark.parametrize(("words", "ranks"), KINDS)
def test_run_and_its_record_comes_home(
    busbw: Any, namespace: str, words: tuple[str, ...], ranks: int
) -> None:
    done = busbw(*SWEEP, *words)
    assert done.code == 0, done
    rows = [line for line in done.out.splitlines() if line.strip() and not line.startswith("#")]
    assert [row.split()[0] for row in rows] == ["1024", "2048", "4096"]
    record = busbw.record()
    assert record["status"] == "complete"
    assert record["world"]["size"] == ranks
    assert len(record["results"]) == len(record["plan"]["cases"]) == 6
    assert record["argv"][1:3] == ["run", "all_reduce"]
    # Ranks are in pods on different nodes, and the record and the page say which.
    places = record["world"]["places"]
    assert len({place["kubernetes_node"] for place in places}) == len(places) == 2
    logs = {path.stem for path in (busbw.run_folder / "log").glob("busbw-*.log")}
    shown = busbw("show", "last", "--provenance").out
    for place in places:
        assert place["pod_namespace"] == namespace
        assert place["kubernetes_node"].startswith("node-")
        # A pod of a Job has a suffix that its host name lacks.
        assert place["pod"].startswith(place["host"])
        assert place["pod"] in shown
        assert place["pod"] in logs


def test_what_is_printed_can_be_submitted_by_hand(busbw: Any, cluster: Any, namespace: str) -> None:
    done = busbw(*SWEEP, "-N", "2", *NULL, "--dry-run")
    assert done.code == 0
    service, job = from_yaml(done.out)
    cluster.core.create_namespaced_service(namespace, service)
    cluster.batch.create_namespaced_job(namespace, job, field_validation="Strict")
    name = job["metadata"]["name"]
    until(lambda: cluster.batch.read_namespaced_job(name, namespace).status.completion_time)
    cluster.batch.delete_namespaced_job(name, namespace, propagation_policy="Foreground")
    cluster.core.delete_namespaced_service(name, namespace)


def test_brought_busbw(busbw: Any) -> None:
    """The image has everything but busbw."""
    words = ("run", "all_reduce", "-b", "1K", "-e", "2K", "--image", "lab/plain", "-N", "2", "--bring")
    for kind in ((*NULL, "--ranks-per-node", "2"), ()):
        assert busbw(*words, *kind).code == 0


@pytest.mark.parametrize("kind", [(), ("--mpi", "none", "--set", "slots=2")], ids=["mpijob", "job"])
def test_words_and_values_are_data(busbw: Any, kind: tuple[str, ...]) -> None:
    """Kubernetes expands $(NAME), shells expand much: nothing of it happens. And folders of libraries come
    before what a pod has: what the host that submits has means nothing in an image.
    """
    value = "a  b'c\"d $(PATH) $$ $HOME `id` \\ ;\nsecond line"
    words = ("sh", "-c", 'printf "<%s><%s><%s>" "$A" "$0" "$LD_LIBRARY_PATH"', value)
    folders = ("--library-path", "/a $HOME", "--library-path", "/c")
    where = ("exec", *kind, "-N", "1", *IMAGE, *folders, "--env", f"A={value}")
    done = busbw(*where, "--", *words, LD_LIBRARY_PATH="/laptop/lib")
    assert done.code == 0, done
    assert f"<{value}><{value}></a $HOME:/c" in done.out
    assert "/laptop/lib" not in done.out


@pytest.mark.parametrize(("kind", "slots"), [((), 1), (("--mpi", "none"), 2)])
def test_a_command_finds_its_pods(busbw: Any, kind: tuple[str, ...], slots: int) -> None:
    """Its host file and numbers, under mpirun and without MPI."""
    words = ("exec", *kind, "-N", "2", "--set", f"slots={slots}", *IMAGE)
    done = busbw(*words, "--", "python3", "-c", FACTS)
    assert done.code == 0, done
    found = facts_of(done.out)
    assert len(found) == 2 * slots
    assert {line[2] for line in found} == {"2"}
    assert [line[3] for line in found] == ["0"] * slots + ["1"] * slots
    for pod, hosts, _, number, master, port in found:
        lines = hosts.split("/")
        assert [line.split()[1] for line in lines] == [f"slots={slots}"] * 2
        assert lines[int(number)].split(".")[0] == pod.split(".")[0]
        assert (lines[0].split()[0], port) == (master, "29500")


def test_resources_node_and_patch_reach_the_pods(
    busbw: Any, cluster: Any, namespace: str, tmp_path: Path
) -> None:
    words = ("gpu=8", "nic=4", "cpu=2", "memory=1Gi", "instance-type=lab.8gpu", "kind=jobset")
    given = [text for word in words for text in ("--set", word)]
    pod = '{spec: {containers: [{name: rank, env: [{name: NEW, value: "$(BUSBW_POD)"}]}]}}'
    jobs = f"[{{name: ranks, template: {{spec: {{template: {pod}}}}}}}]"
    (tmp_path / "patch.yaml").write_text(f"spec: {{replicatedJobs: {jobs}}}\n")
    given += ["--patch", str(tmp_path / "patch.yaml"), "--ranks-per-node", "1"]
    done = busbw("run", "--detach", "all_reduce", "-N", "2", *IMAGE, *NULL, *given)
    assert done.code == 0, done
    until(lambda: len(cluster.core.list_namespaced_pod(namespace).items) == 2)
    pods = cluster.core.list_namespaced_pod(namespace).items
    wanted = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "4", "cpu": "2", "memory": "1Gi"}
    for pod in pods:
        container = pod.spec.containers[0]
        assert container.resources.limits == container.resources.requests == wanted
        assert pod.spec.node_selector == {"node.kubernetes.io/instance-type": "lab.8gpu"}
        assert {each.name: each.value for each in container.env}["NEW"] == "$(BUSBW_POD)"
    assert busbw("attach", busbw.run_folder.name).code == 0
    assert cluster.core.list_namespaced_pod(namespace).items == []
