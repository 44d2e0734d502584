"""busbw's own worker command as MPIJob, indexed Job and JobSet, on real controllers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.exec_programs import FACTS, facts_of

from busbw.launchers.kubernetes_yaml import from_yaml

pytestmark = pytest.mark.kubernetes

IMAGE = ("--image", "lab/busbw")
SWEEP = ("run", "all_reduce", "-b", "1K", "-e", "4K", *IMAGE)
# Exact fake times, over the real world without MPI.
NULL = ("--backend", "null", "--world", "nccl")
KINDS = [
    pytest.param(("-N", "2"), 2, id="mpijob"),
    pytest.param(("-N", "2", "--ranks-per-node", "2", "--mpirun-args=-print-all-exitcodes"), 4, id="slots"),
    pytest.param(("-N", "2", *NULL), 2, id="job"),
    pytest.param(("-N", "2", "--ranks-per-node", "2", *NULL), 4, id="job-slots"),
    pytest.param(("-N", "2", *NULL, "--set", "kind=jobset"), 2, id="jobset"),
]


@pytest.mark.parametrize(("words", "ranks"), KINDS)
def test_run_and_its_record_comes_home(busbw: Any, words: tuple[str, ...], ranks: int) -> None:
    done = busbw(*SWEEP, *words)
    assert done.code == 0, done
    rows = [line for line in done.out.splitlines() if line.strip() and not line.startswith("#")]
    assert [row.split()[0] for row in rows] == ["1024", "2048", "4096"]
    record = busbw.record()
    assert record["status"] == "complete"
    assert record["world"]["size"] == ranks
    assert len(record["results"]) == len(record["plan"]["cases"]) == 6
    assert record["argv"][1:3] == ["run", "all_reduce"]
    # Every pod's output is kept, by its name; ranks are on different nodes with names of their own.
    pods = {member["host"] for member in record["world"]["ranks"]}
    assert len(pods) == 2
    logs = {path.stem for path in (busbw.run_folder / "log").glob("busbw-*.log")}
    assert all(any(log.startswith(pod) for log in logs) for pod in pods)


def test_open_mpi(openmpi: str, busbw: Any) -> None:
    words = ("--mpi", "openmpi", "--env", "A=one two", "--mpirun-args=--mca mpi_yield_when_idle 1")
    done = busbw("run", "all_reduce", "-b", "1K", "-e", "4K", "-N", "2", "--image", openmpi, *words)
    assert done.code == 0, done
    record = busbw.record()
    assert record["world"]["size"] == 2
    assert "Open MPI" in done.out
    assert len({member["host"] for member in record["world"]["ranks"]}) == 2


def test_rows_are_live(busbw: Any, cluster: Any, namespace: str) -> None:
    words = ("run", "all_reduce", "-b", "1K", "-e", "64K", *IMAGE, "-N", "2")
    running = busbw.start(*words, "--case-time", "1s")
    running.until(lambda: running.rows)
    (job,) = cluster.custom.list_namespaced_custom_object("kubeflow.org", "v2beta1", namespace, "mpijobs")[
        "items"
    ]
    assert not job["status"].get("completionTime")
    assert running.done().code == 0


def test_what_is_printed_can_be_submitted_by_hand(busbw: Any, cluster: Any, namespace: str) -> None:
    done = busbw(*SWEEP, "-N", "2", *NULL, "--dry-run")
    assert done.code == 0
    service, job = from_yaml(done.out)
    cluster.core.create_namespaced_service(namespace, service)
    cluster.batch.create_namespaced_job(namespace, job, field_validation="Strict")
    name = job["metadata"]["name"]
    deadline = time.monotonic() + 90.0
    while not (ended := cluster.batch.read_namespaced_job(name, namespace).status.completion_time):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert ended
    cluster.batch.delete_namespaced_job(name, namespace, propagation_policy="Foreground")
    cluster.core.delete_namespaced_service(name, namespace)


def test_brought_busbw(busbw: Any) -> None:
    """The image has everything but busbw."""
    words = ("run", "all_reduce", "-b", "1K", "-e", "2K", "--image", "lab/plain", "-N", "2")
    without = busbw(*words, *NULL)
    assert without.code == 5
    assert "No module named busbw" in without.error
    for kind in (NULL, ()):
        assert busbw(*words, *kind, "--bring").code == 0


def test_words_and_values_are_data(busbw: Any, tmp_path: Path) -> None:
    """Kubernetes expands $(NAME), shells expand much: nothing of it happens, under mpirun and without."""
    value = "a  b'c\"d $(PATH) $$ $HOME `id` \\ ;\nsecond line"
    words = ("sh", "-c", 'printf "<%s><%s>" "$A" "$0"', value)
    for kind in (("--mpi", "none"), ()):
        done = busbw("exec", *kind, "-N", "1", *IMAGE, "--env", f"A={value}", "--", *words)
        assert done.code == 0, done
        assert f"<{value}><{value}>" in done.out


@pytest.mark.parametrize("kind", [(), ("--mpi", "none"), ("--mpi", "none", "--set", "slots=2")])
def test_folders_of_libraries_come_before_what_a_pod_has(busbw: Any, kind: tuple[str, ...]) -> None:
    """What the host that submits has means nothing in an image."""
    show = ("sh", "-c", 'printf "<%s>" "$LD_LIBRARY_PATH"')
    words = ("exec", *kind, "-N", "1", *IMAGE, "--library-path", "/a $HOME", "--library-path", "/c")
    done = busbw(*words, "--", *show, LD_LIBRARY_PATH="/laptop/lib")
    assert done.code == 0, done
    assert "</a $HOME:/c" in done.out
    assert "/laptop/lib" not in done.out


@pytest.mark.parametrize(
    ("kind", "slots"), [((), 1), (("--mpi", "none"), 2), (("--mpi", "none", "--set", "kind=jobset"), 1)]
)
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


def test_resources_and_node_are_asked_for(busbw: Any, cluster: Any, namespace: str) -> None:
    words = ("--set", "gpu=8", "--set", "nic=4", "--set", "cpu=2", "--set", "memory=1Gi")
    node = ("--set", "instance-type=lab.8gpu", "--set", "kind=jobset")
    done = busbw(
        "run", "--detach", "all_reduce", "-N", "2", "--ranks-per-node", "1", *IMAGE, *NULL, *words, *node
    )
    assert done.code == 0, done
    deadline = time.monotonic() + 60.0
    while len(pods := cluster.core.list_namespaced_pod(namespace).items) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    wanted = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "4", "cpu": "2", "memory": "1Gi"}
    for pod in pods:
        resources = pod.spec.containers[0].resources
        assert resources.limits == resources.requests == wanted
        assert pod.spec.node_selector == {"node.kubernetes.io/instance-type": "lab.8gpu"}
    assert busbw("attach", busbw.run_folder.name).code == 0
    assert len({pod.spec.node_name for pod in cluster.core.list_namespaced_pod(namespace).items}) == 0
