"""Everything that a cluster refuses, ignores or cannot do ends in one clear error, and in time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import SiteError
from busbw.launchers import kubernetes as engine
from busbw.launchers.engine import Handle, Job, JobRequest, JobState, Phase, Work
from busbw.launchers.kubernetes_api import Api
from busbw.launchers.kubernetes_yaml import from_yaml, to_yaml
from busbw.settings.launch import LaunchSettings

pytestmark = pytest.mark.kubernetes

IMAGE = ("--image", "lab/busbw")
NULL = ("--backend", "null", "--world", "nccl")
RUN = ("run", "all_reduce", "-b", "1K", "-e", "2K", "-N", "2", *IMAGE)
PATIENCE_S = 60.0


def test_no_rights(busbw: Any, namespace: str) -> None:
    done = busbw(*RUN, user="dev")
    assert done.code == 4
    assert f"not allowed in namespace {namespace}" in done.error
    assert "create mpijobs" in done.error
    assert "get pods/log" in done.error
    assert "ask the cluster's administrator" in done.hint


def test_no_right_to_read_logs(busbw: Any, cluster: Any, namespace: str) -> None:
    cluster.grant(
        namespace,
        ("kubeflow.org", "mpijobs", ["create", "get", "delete"]),
        ("", "pods,events", ["get", "list"]),
    )
    done = busbw(*RUN, user="dev")
    assert done.code == 4
    assert done.error.endswith(": get pods/log")


def test_few_rights_are_enough(busbw: Any, cluster: Any, namespace: str) -> None:
    """What the page says a user needs, and no more: not even events."""
    cluster.grant(
        namespace,
        ("batch", "jobs", ["create", "get", "delete"]),
        ("", "pods", ["list"]),
        ("", "pods/log", ["get"]),
        ("", "services,secrets", ["create", "delete"]),
    )
    done = busbw(*RUN, *NULL, user="dev")
    assert done.code == 0, done


def test_unknown_credentials(busbw: Any) -> None:
    done = busbw(*RUN, user="stranger")
    assert done.code == 4
    assert "does not know these credentials (401" in done.error
    assert "log in again" in done.hint


def test_no_server(busbw: Any, cluster: Any, tmp_path: Path) -> None:
    text = cluster.kubeconfig().read_text().replace(":16443", ":16444")
    (tmp_path / "elsewhere").write_text(text)
    done = busbw(*RUN, KUBECONFIG=str(tmp_path / "elsewhere"))
    assert done.code == 4
    assert "https://127.0.0.1:16444 does not answer" in done.error


def test_no_context(busbw: Any) -> None:
    done = busbw(*RUN, "--context", "moon")
    assert done.code == 4
    assert done.error == "the kubeconfig has no context moon"
    assert done.hint == "use one of: admin"


def test_refused_by_the_schema(busbw: Any) -> None:
    """422, before anything exists."""
    done = busbw(*RUN, *NULL, "--set", "select=zone=no spaces here")
    assert done.code == 4
    assert "Kubernetes refuses the job" in done.error
    assert "nodeSelector" in done.error


def test_refused_by_the_schema_later(busbw: Any) -> None:
    """The same in an MPIJob is accepted, and then no pod can be made."""
    done = busbw(*RUN, "--set", "select=zone=no spaces here")
    assert done.code == 4
    assert "cannot start" in done.error
    assert "nodeSelector" in done.error


def test_no_such_image(busbw: Any) -> None:
    for kind in ((), NULL):
        done = busbw("run", "all_reduce", "-N", "2", "--image", "lab/nowhere", *kind)
        assert done.code == 4
        assert 'Failed to pull image "lab/nowhere": not found' in done.error
        assert "check --image" in done.hint


def test_quota_that_is_too_small(busbw: Any, cluster: Any, namespace: str) -> None:
    """8 GPUs never fit into 4: nobody waits."""
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}}
    cluster.core.create_namespaced_resource_quota(namespace, quota)
    begun = time.monotonic()
    for kind in ((), NULL):
        done = busbw(*RUN, *kind, "--ranks-per-node", "1", "--set", "gpu=8")
        assert done.code == 4
        assert "exceeded quota: few" in done.error
        assert "requested: requests.nvidia.com/gpu=8" in done.error
    assert time.monotonic() - begun < 2 * PATIENCE_S


def test_quota_that_others_use(busbw: Any, cluster: Any, namespace: str) -> None:
    """It may become free: the run waits as long as it was told."""
    quota = {"metadata": {"name": "one"}, "spec": {"hard": {"pods": "1"}}}
    cluster.core.create_namespaced_resource_quota(namespace, quota)
    for kind in ((), NULL):
        done = busbw(*RUN, *kind, "--wait", "5s")
        assert done.code == 4
        assert "has not started within 5 s" in done.error
        assert "exceeded quota: one" in done.error


@pytest.mark.parametrize("kind", [(), NULL])
def test_too_many_gpus(busbw: Any, kind: tuple[str, ...]) -> None:
    done = busbw(*RUN, *kind, "--ranks-per-node", "1", "--set", "gpu=16", "--wait", "5s")
    assert done.code == 4
    assert "Insufficient nvidia.com/gpu" in done.error
    assert "ask for less" in done.hint


def test_more_nodes_than_there_are(busbw: Any) -> None:
    done = busbw("run", "all_reduce", "-N", "5", *IMAGE, *NULL, "--wait", "5s")
    assert done.code == 4
    assert "anti-affinity" in done.error


@pytest.mark.parametrize("kind", [(), ("--mpi", "none"), ("--mpi", "none", "--set", "kind=jobset")])
def test_a_command_that_fails(busbw: Any, kind: tuple[str, ...]) -> None:
    done = busbw("exec", *kind, "-N", "1", *IMAGE, "--", "sh", "-c", "echo last words; exit 3")
    assert done.code == 3  # the command's own
    assert "exited with code 3" in done.error
    assert "last words" in done.out


def test_a_job_that_takes_too_long(busbw: Any) -> None:
    words = ("-N", "1", *IMAGE, "--mpi", "none", "--time-limit", "3", "--", "sleep", "600")
    done = busbw("exec", *words)
    assert done.code != 0
    assert "DeadlineExceeded" in done.error
    assert done.hint == "give --time-limit more"


@pytest.mark.parametrize("kind", [(), ("--mpi", "none")], ids=["mpijob", "job"])
def test_a_command_that_takes_too_long(busbw: Any, kind: tuple[str, ...]) -> None:
    """What its processes ended with is Kubernetes' doing, so the code is busbw's own."""
    done = busbw("exec", *kind, "-N", "1", *IMAGE, "--time-limit", "8s", "--", "sleep", "600")
    assert done.code == 5, done
    assert "DeadlineExceeded" in done.error
    assert "--time-limit" in done.err


def test_no_mpirun_in_the_image(busbw: Any) -> None:
    words = ("exec", "-N", "1", *IMAGE, "--env", "PATH=/usr/bin:/bin", "--", "hostname")
    done = busbw(*words)
    assert done.code == 127
    assert "no mpirun in the image" in done.error


def test_a_deleted_job_ends(busbw: Any, cluster: Any, namespace: str) -> None:
    running = busbw.start(
        "exec", "--mpi", "none", "-N", "1", *IMAGE, "--", "sh", "-c", "echo here; sleep 600"
    )
    running.until(lambda: "here" in running.out)
    (job,) = cluster.batch.list_namespaced_job(namespace).items
    cluster.batch.delete_namespaced_job(job.metadata.name, namespace, propagation_policy="Foreground")
    done = running.done()
    assert done.code != 0
    assert "no longer on the cluster" in done.error


# ---- mistakes that busbw's own manifests do not have: a manifest as it could be, submitted as busbw does


def workers(job: dict[str, Any]) -> dict[str, Any]:
    return dict(job["spec"]["mpiReplicaSpecs"])


def without_launcher(job: dict[str, Any]) -> None:
    del job["spec"]["mpiReplicaSpecs"]["Launcher"]


def two_launchers(job: dict[str, Any]) -> None:
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["replicas"] = 2


def bad_policy(job: dict[str, Any]) -> None:
    job["spec"]["runPolicy"]["cleanPodPolicy"] = "Sometimes"


def without_image(job: dict[str, Any]) -> None:
    del job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["image"]


def long_name(job: dict[str, Any]) -> None:
    job["metadata"]["name"] = "x" * 60


@pytest.fixture
def submitted(cluster: Any, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Submits an MPIJob that was changed; deleted with the test."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig()))
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(cluster.kubeconfig())
    )
    handles: list[Handle] = []

    def submit(change: Callable[[dict[str, Any]], None]) -> Handle:
        launch = LaunchSettings(on="kubernetes", nodes="2", image="lab/busbw", namespace=namespace)
        job = Job("20261122-000000-exec-0a1b", str(tmp_path), Work(("hostname",), is_busbw=False), launch)
        request = engine.request(job, engine.inquire(launch))
        (body,) = from_yaml(request.files["job.yaml"])
        change(body)
        (tmp_path / "request").mkdir(exist_ok=True)
        (tmp_path / "request" / "job.yaml").write_text(to_yaml([body]))
        name = body["metadata"]["name"]
        changed = JobRequest("kubernetes", name, 2, 2, {"job.yaml": ""}, (), request.details)
        handles.append(engine.submit(changed, tmp_path))
        return handles[-1]

    yield submit
    for handle in handles:
        engine.clean(handle)


def hopeless_state(handle: Handle, folder: Path) -> JobState:
    deadline = time.monotonic() + PATIENCE_S
    for item in engine.follow(handle, folder):
        if isinstance(item, JobState) and (item.hopeless or item.phase is not Phase.PENDING):
            return item
        if time.monotonic() > deadline:
            break
    raise AssertionError("it waits")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_launcher, "must have Launcher replica spec"),
        (two_launchers, "must be 1"),
        (bad_policy, "cleanPodPolicy"),
        (without_image, "image"),
        (long_name, "invalid DNS label"),
    ],
)
def test_accepted_and_never_started(
    submitted: Any, tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    """The API server takes it; only an event tells."""
    state = hopeless_state(submitted(change), tmp_path)
    assert state.phase is Phase.PENDING
    assert state.hopeless
    assert words in state.why


def test_unknown_field(submitted: Any) -> None:
    """Kubernetes drops it silently unless asked not to."""

    def change(job: dict[str, Any]) -> None:
        job["spec"]["slotPerWorker"] = 4

    with pytest.raises(SiteError, match=r'unknown field "spec\.slotPerWorker"'):
        submitted(change)


def test_wrong_type(submitted: Any) -> None:
    def change(job: dict[str, Any]) -> None:
        job["spec"]["slotsPerWorker"] = "eight"

    with pytest.raises(SiteError, match=r"Kubernetes refuses the job.*slotsPerWorker"):
        submitted(change)


def test_a_job_of_that_name_that_is_going_is_waited_for(submitted: Any) -> None:
    first = submitted(lambda job: None)
    with pytest.raises(SiteError, match="already exists"):
        submitted(lambda job: None)
    engine.cancel(first, now=False)
    second = submitted(lambda job: None)
    assert second.name == first.name
    assert engine.state(second).phase is not Phase.ENDED


def test_an_operator_that_is_not_there(submitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from busbw.launchers import kubernetes_api as api

    nowhere = replace(api.JOBS["mpijob"], version="v3")
    monkeypatch.setitem(api.RESOURCES, "MPIJob", nowhere)
    with pytest.raises(SiteError, match="has no MPIJobs") as caught:
        submitted(lambda job: None)
    assert "--mpi none" in caught.value.hint


def test_logs_through_cuts(cluster: Any, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks every few lines: no line is lost, and none comes twice."""
    from busbw.launchers.kubernetes_logs import LogStream

    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(cluster.kubeconfig())
    )
    script = (
        "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; [ $((i % 7)) = 0 ] && sleep 0.05; done; :"
    )
    container = {"name": "rank", "image": "lab/busbw", "command": ["sh", "-c", script]}
    pod = {"metadata": {"name": "talker"}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    cluster.core.create_namespaced_pod(namespace, pod)
    api = Api("", namespace)
    deadline = time.monotonic() + PATIENCE_S
    while cluster.core.read_namespaced_pod("talker", namespace).status.phase == "Pending":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    whole = api.stream

    class Cut:
        """A response that breaks after three pieces."""

        def __init__(self, response: Any) -> None:
            self._response = response

        def stream(self, amt: int | None) -> Any:
            for number, chunk in enumerate(self._response.stream(amt)):
                if number == 3:
                    yield chunk[: len(chunk) // 2]
                    raise OSError("cut")
                yield chunk

        def close(self) -> None:
            self._response.close()

    monkeypatch.setattr(api, "stream", lambda *words: Cut(whole(*words)))
    heard: list[str] = []

    def ended() -> bool:
        phase = cluster.core.read_namespaced_pod("talker", namespace).status.phase
        return phase in ("Succeeded", "Failed")

    stream = LogStream(api, "talker", "rank", heard.append, ended)
    stream.start()
    stream.join(PATIENCE_S)
    with contextlib.suppress(Exception):
        cluster.core.delete_namespaced_pod("talker", namespace)
    assert heard == [f"line {number}" for number in range(1, 301)]


def test_a_cluster_without_the_driver_that_a_compute_domain_needs(busbw: Any) -> None:
    done = busbw("run", "all_reduce", "-N", "2", *IMAGE, *NULL, "--set", "compute-domain=2")
    assert done.code == 4
    assert "has no ComputeDomains" in done.error
    assert "DRA driver" in done.hint
