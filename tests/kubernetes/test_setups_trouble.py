"""Setups in held pods where something goes wrong that no setup did: nobody is charged with it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from busbw_testing.kubernetes_series import launches, outcomes
from busbw_testing.proxy import Proxy

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

SETUPS = 'setups: {plain: {}, other: {env: {A: "1"}}}'
NULL = ("--backend", "null", "--world", "nccl")
LONG = ("-n", "1", "--outer-iters", "100000000")


@pytest.fixture
def proxy(cluster: Any) -> Iterator[Proxy]:
    """Before the API server; ``through`` has its kubeconfig."""
    settings = yaml.safe_load(cluster.kubeconfig().read_text())
    made = Proxy(int(settings["clusters"][0]["cluster"]["server"].rpartition(":")[2]))
    yield made
    made.close()


def through(proxy: Proxy, cluster: Any, folder: Path) -> str:
    settings = yaml.safe_load(cluster.kubeconfig().read_text())
    settings["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(settings))
    return str(path)


def has_launched(busbw: Any, count: int) -> bool:
    return (busbw.folder / "home").is_dir() and len(launches(busbw)) >= count


def errors(busbw: Any) -> list[str]:
    return [one["error"] for name in ("plain", "other") for one in outcomes(busbw, name) if one["error"]]


def test_an_api_server_that_is_away_for_a_while(busbw: Any, compare: Any, proxy: Proxy, cluster: Any) -> None:
    running = compare(SETUPS, "--blocks", "5", *NULL, KUBECONFIG=through(proxy, cluster, busbw.folder))
    running.until(lambda: has_launched(busbw, 3))
    proxy.refuses = True
    proxy.cut()
    time.sleep(25)
    proxy.refuses = False
    done = running.done()
    assert done.code == 0, done
    assert errors(busbw) == []
    assert len(outcomes(busbw, "plain")) == len(outcomes(busbw, "other")) == 5
    assert "asking again" in done.err
    assert done.err.count("submitted kubernetes job ") == 1


def test_no_launch_is_measured_beside_what_is_left_of_another(
    busbw: Any, compare: Any, proxy: Proxy, cluster: Any
) -> None:
    """Connections that nobody ends, and over which nothing comes any more."""
    running = compare(SETUPS, "--blocks", "2", *NULL, *LONG, KUBECONFIG=through(proxy, cluster, busbw.folder))
    running.until(lambda: len(busbw.rank_processes()) >= 3)  # with the guard of rank 0
    first = set(busbw.rank_processes())
    proxy.freeze()
    running.until(lambda: "is started again: " in running.err)
    running.until(lambda: set(busbw.rank_processes()) - first)
    assert not set(busbw.rank_processes()) & first
    running.process.send_signal(signal.SIGINT)
    assert running.done().code == 130
    deadline = time.monotonic() + 30.0
    while busbw.rank_processes() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert busbw.rank_processes() == {}


@pytest.mark.parametrize(
    "kind", [pytest.param(NULL, id="job"), pytest.param(("--backend", "mpi"), id="mpijob")]
)
def test_a_pod_that_somebody_deletes(
    busbw: Any, compare: Any, cluster: Any, namespace: str, kind: tuple[str, ...]
) -> None:
    """As a drain does. The launch is made again in a new job, on the same nodes."""
    running = compare(SETUPS, "--blocks", "1", *kind, *LONG)
    running.until(lambda: len(busbw.rank_processes()) >= 2)
    pods = cluster.core.list_namespaced_pod(namespace).items
    worker = next(pod.metadata.name for pod in pods if "launcher" not in pod.metadata.name)
    cluster.core.delete_namespaced_pod(worker, namespace)
    running.until(lambda: running.err.count("submitted kubernetes job ") == 2)
    running.until(lambda: len(busbw.rank_processes()) >= 2)
    running.process.send_signal(signal.SIGINT)
    done = running.done()
    assert done.code == 130, done
    assert errors(busbw) == []
    assert "has lost pods: somebody deleted them" in done.err
    assert "launch 0001 is started again: " in done.err


def test_a_job_that_cannot_start_ends_the_command(busbw: Any, compare: Any) -> None:
    done = compare(SETUPS, "--blocks", "2", *NULL, image="lab/none").done()
    assert done.code == 4, done
    assert "cannot start: " in done.error
    assert done.err.count("submitted kubernetes job ") == 1
    assert not list(busbw.folder.glob("home/*setups*/setups.json"))


def test_variables_that_the_image_needs_are_there_for_what_holds(busbw: Any, compare: Any) -> None:
    """busbw is where PYTHONPATH says, and nowhere else."""
    sources = str(Path(__file__).parents[2] / "src")
    words = ("--mounts", sources, "--env", f"PYTHONPATH={sources}")
    done = compare(SETUPS, "--blocks", "1", *NULL, *words, image="lab/plain").done()
    assert done.code == 0, done
    assert errors(busbw) == []


def test_a_python_that_is_not_there_is_named(compare: Any) -> None:
    done = compare(SETUPS, "--blocks", "2", *NULL, "--python", "/no/python").done()
    assert done.code == 4, done
    assert "/no/python" in done.err.partition("error: ")[2], done


def test_what_is_left_of_a_time_limit_is_for_the_next_job(
    busbw: Any, compare: Any, cluster: Any, namespace: str
) -> None:
    running = compare(SETUPS, "--blocks", "1", *NULL, *LONG, "--time-limit", "300s")
    running.until(lambda: len(busbw.rank_processes()) >= 2)
    (job,) = cluster.batch.list_namespaced_job(namespace).items
    assert job.spec.active_deadline_seconds == 300
    cluster.core.delete_namespaced_pod(
        cluster.core.list_namespaced_pod(namespace).items[0].metadata.name, namespace
    )
    running.until(lambda: running.err.count("submitted kubernetes job ") == 2)
    later = next(
        one
        for one in cluster.batch.list_namespaced_job(namespace).items
        if one.metadata.name != job.metadata.name
    )
    assert 100 < later.spec.active_deadline_seconds < 300
    running.process.send_signal(signal.SIGINT)
    assert running.done().code == 130
