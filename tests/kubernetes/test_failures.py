"""Everything that a cluster refuses, ignores or cannot do ends in one clear error, and in time."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.started import until

from busbw.launch.kubernetes.api import Api

pytestmark = pytest.mark.kubernetes

IMAGE = ("--image", "lab/busbw")
NULL = ("--backend", "null", "--world", "nccl")
RUN = ("run", "all_reduce", "-b", "1K", "-e", "2K", "-N", "2", *IMAGE)
PATIENCE_S = 60.0
WORKER = "spec: {mpiReplicaSpecs: {Worker: {template: {spec: {containers: [{name: worker, image: null}]}}}}}"


def test_rights_that_are_missing(busbw: Any, cluster: Any, namespace: str) -> None:
    done = busbw(*RUN, user="dev")
    assert done.code == 4
    assert f"not allowed in namespace {namespace}" in done.error
    assert "create mpijobs" in done.error
    assert "ask the cluster's administrator" in done.hint
    cluster.grant(
        namespace,
        ("kubeflow.org", "mpijobs", ["create", "get", "delete"]),
        ("", "pods,events", ["get", "list"]),
    )
    done = busbw(*RUN, user="dev")
    assert done.code == 4
    assert done.error.endswith(": get pods/log")


def test_few_rights_are_enough(busbw: Any, cluster: Any, namespace: str) -> None:
    """What the page says a user needs, and no more: not even events. What the cluster admits is not asked."""
    cluster.grant(
        namespace,
        ("batch", "jobs", ["create", "get", "delete"]),
        ("", "pods", ["list"]),
        ("", "pods/log", ["get"]),
        ("", "services,secrets", ["create", "delete"]),
    )
    where = ("--on", "kubernetes", "--namespace", namespace, *IMAGE, "-N", "2")
    done = busbw("preflight", *where, *NULL, user="dev")
    assert done.code == 0, done
    assert "2 on 2 hosts" in done.out
    assert busbw.record()["status"] == "complete"
    assert "# note     admission was not checked: this user may not ask for a dry run" in done.out


def test_a_server_that_cannot_be_used(busbw: Any, cluster: Any, tmp_path: Path) -> None:
    done = busbw(*RUN, user="stranger")
    assert done.code == 4
    assert "does not know these credentials (401" in done.error
    assert "log in again" in done.hint
    done = busbw(*RUN, "--context", "moon")
    assert done.code == 4
    assert done.error == "the kubeconfig has no context moon"
    assert done.hint == "use one of: admin"
    text = cluster.kubeconfig().read_text().replace(":16443", ":16444")
    (tmp_path / "elsewhere").write_text(text)
    done = busbw(*RUN, KUBECONFIG=str(tmp_path / "elsewhere"))
    assert done.code == 4
    assert "https://127.0.0.1:16444 does not answer" in done.error


def test_quota_that_others_use(busbw: Any, cluster: Any, namespace: str) -> None:
    """It may become free: the run waits as long as it was told."""
    quota = {"metadata": {"name": "one"}, "spec": {"hard": {"pods": "1"}}}
    cluster.core.create_namespaced_resource_quota(namespace, quota)
    done = busbw(*RUN, "--wait", "5s")
    assert done.code == 4
    assert "has not started within 5 s" in done.error
    assert "exceeded quota: one" in done.error


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("spec: {slotPerWorker: 4}", 'unknown field "spec.slotPerWorker"'),  # dropped silently unless asked
        # The schema of an MPIJob takes this, that of its pod does not.
        (
            WORKER,
            "image: Required value",
        ),
        # The server takes this; only an event of the operator tells.
        ("spec: {runPolicy: {cleanPodPolicy: Sometimes}}", "cleanPodPolicy"),
    ],
)
def test_a_patch_that_the_cluster_refuses(busbw: Any, tmp_path: Path, patch: str, words: str) -> None:
    (tmp_path / "patch.yaml").write_text(patch)
    done = busbw(*RUN, "--patch", str(tmp_path / "patch.yaml"))
    assert done.code == 4, done
    assert words in done.error
    assert "--patch" in done.hint


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
    done = running.finish()
    assert done.code != 0
    assert "no longer on the cluster" in done.error


def test_logs_through_cuts(cluster: Any, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks every few lines: no line is lost, and none comes twice."""
    from busbw.launch.kubernetes.logs import LogStream

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
    until(lambda: cluster.core.read_namespaced_pod("talker", namespace).status.phase != "Pending")
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
