"""Setups that are launched in turn: in the pods of one job, which are held for all launches."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from busbw_testing.kubernetes_series import launches, outcomes, places

from busbw.planning.setups import blocks

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

SETUPS = 'setups: {plain: {}, other: {env: {A: "1"}}}'
NULL = ("--backend", "null", "--world", "nccl")
# What a shell, Kubernetes and YAML would each take for something else.
STRANGE = "a  b'c\"d $(PATH) $$ $HOME `id` \\ ;\nsecond line"
# Wraps a rank, told by its setup's variables, as a broken library would.
SITE = """
import os, sys, time
if "--format=jsonl" in sys.orig_argv:
    names = ("BUSBW_RANK", "PMI_RANK", "JOB_COMPLETION_INDEX")
    how, rank = os.environ.get("FATE", ""), next(os.environ[name] for name in names if name in os.environ)
    if how == "die" and rank == "1":
        os.kill(os.getpid(), 9)
    if how == "hang":
        time.sleep(600)
    if how == "pod" and rank == "1":
        os.kill(1, 15)
"""


@pytest.fixture
def fateful(busbw: Any) -> Any:
    """The setups of which one has a fate, and the words that bring it to the pods."""
    site = busbw.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)

    def setups(fate: str) -> tuple[str, ...]:
        text = f"setups: {{plain: {{}}, other: {{env: {{FATE: {fate}, PYTHONPATH: {site}}}}}}}"
        return text, "--mounts", str(site)

    return setups


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(NULL, id="job"),
        pytest.param((*NULL, "--ranks-per-node", "2"), id="job-slots"),
        pytest.param((*NULL, "--set", "kind=jobset"), id="jobset"),
        pytest.param(("--backend", "mpi"), id="mpijob"),
    ],
)
def test_all_launches_are_in_the_pods_of_one_job(busbw: Any, compare: Any, kind: tuple[str, ...]) -> None:
    done = compare(SETUPS, "--blocks", "2", *kind).done()
    assert done.code == 0, done
    found = launches(busbw)
    assert [one["name"] for one in found] == ["0001", "0002", "0003", "0004"]
    records = [one["record"] for one in found]
    assert [each["status"] for each in records] == ["complete"] * 4
    assert len({each["settings"]["launch"]["job_id"] for each in records}) == 1
    pods = [places(each) for each in records]
    assert pods == [pods[0]] * 4
    assert len({node for _, node in pods[0]}) == len(pods[0]) == 2
    processes = {(rank["host"], rank["pid"]) for each in records for rank in each["world"]["ranks"]}
    assert len(processes) == sum(len(each["world"]["ranks"]) for each in records)
    assert done.err.count("submitted kubernetes job ") == 1
    assert done.err.count("cancelled kubernetes job ") == 1
    assert "started again" not in done.err
    assert "may be the nodes" not in done.out


@pytest.mark.parametrize(
    "kind", [pytest.param(NULL, id="job"), pytest.param(("--backend", "mpi"), id="mpijob")]
)
def test_fewer_nodes_are_the_first_of_the_same_job(busbw: Any, compare: Any, kind: tuple[str, ...]) -> None:
    done = compare(SETUPS, "--blocks", "1", *kind, nodes="1,3").done()
    assert done.code == 0, done
    pods = [places(one["record"]) for one in launches(busbw)]
    assert [len(each) for each in pods] == [1, 1, 3, 3]
    assert set(pods[0]) < set(pods[2])
    assert done.err.count("submitted kubernetes job ") == 1


def test_open_mpi(openmpi: str, busbw: Any, compare: Any) -> None:
    setups = f"setups: {{plain: {{}}, other: {{env: {{NCCL_DEBUG_FILE: {json.dumps(STRANGE)}}}}}}}"
    done = compare(setups, "--blocks", "1", "--mpi", "openmpi", image=openmpi).done()
    assert done.code == 0, done
    assert "unset on rank" not in done.err
    assert [one["record"]["world"]["size"] for one in launches(busbw)] == [2, 2]
    assert done.err.count("submitted kubernetes job ") == 1


def test_busbw_is_brought_once(busbw: Any, compare: Any) -> None:
    done = compare(SETUPS, "--blocks", "1", "--bring", *NULL, image="lab/plain").done()
    assert done.code == 0, done
    assert len(launches(busbw)) == 2


@pytest.mark.parametrize(
    "kind", [pytest.param(NULL, id="job"), pytest.param(("--backend", "mpi"), id="mpijob")]
)
def test_each_launch_has_its_setups_variables_on_every_rank(
    busbw: Any, compare: Any, kind: tuple[str, ...]
) -> None:
    """The preflight finds variables that ranks do not share; the record has those that are known."""
    setups = f"setups: {{plain: {{}}, other: {{env: {{NCCL_DEBUG_FILE: {json.dumps(STRANGE)}}}}}}}"
    done = compare(setups, "--blocks", "2", *kind).done()
    assert done.code == 0, done
    assert "unset on rank" not in done.err
    order = [name for block in blocks(["plain", "other"], 2, 1) for name in block]
    for name, one in zip(order, launches(busbw), strict=True):
        value = one["record"]["environment"]["variables"].get("NCCL_DEBUG_FILE")
        assert value == (STRANGE if name == "other" else None)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        pytest.param(NULL, "rank 1 on busbw-", id="job"),
        pytest.param((*NULL, "--set", "kind=jobset"), "rank 1 on busbw-", id="jobset"),
        # hydra (5.0.2) hangs at times where a rank dies before it is connected, also in a job of one launch.
        # Else it tells of exit code 9, and at times that this is a signal.
        pytest.param(
            ("--backend", "mpi", "--launch-timeout", "30s"),
            r"worker-1\S* (ended with exit code 9|was killed by SIGKILL)|had not ended after 30 s",
            id="mpijob",
        ),
    ],
)
def test_a_launch_that_fails_leaves_the_others(
    busbw: Any, compare: Any, fateful: Any, kind: tuple[str, ...], told: str
) -> None:
    done = compare(*fateful("die"), "--blocks", "3", *kind).done()
    assert [one["error"] for one in outcomes(busbw, "plain")] == [""] * 3
    other = outcomes(busbw, "other")
    assert [one["skipped"] for one in other] == [False, False, True]
    assert all(re.search(told, one["error"]) for one in other[:2]), [one["error"] for one in other]
    assert max(one["seconds"] for one in other) < 45.0
    assert done.err.count("submitted kubernetes job ") == 1


def test_a_launch_that_hangs_is_ended_in_its_pods(busbw: Any, compare: Any, fateful: Any) -> None:
    done = compare(*fateful("hang"), "--blocks", "4", "--launch-timeout", "8s", *NULL).done()
    error = "the launch had not ended after 8 s: no rank had said anything"
    other = outcomes(busbw, "other")
    assert [one["error"] for one in other] == [error, error, "", ""]
    assert [one["skipped"] for one in other] == [False, False, True, True]
    assert [one["error"] for one in outcomes(busbw, "plain")] == [""] * 4
    assert done.err.count("submitted kubernetes job ") == 1


def test_a_launch_that_ends_a_pod_leaves_the_others_a_new_job(busbw: Any, compare: Any, fateful: Any) -> None:
    """Its own failures are its own, and nobody else's."""
    done = compare(*fateful("pod"), "--blocks", "3", *NULL).done()
    assert [one["error"] for one in outcomes(busbw, "plain")] == [""] * 3
    other = [one["error"] for one in outcomes(busbw, "other") if not one["skipped"]]
    assert len(other) == 2
    assert all("is lost" in error for error in other), other
    assert "has lost pods: pod busbw-" in done.err
    assert "the next job keeps to the nodes of the last one" in done.err
    assert done.err.count("submitted kubernetes job ") in (2, 3)
    nodes = [
        [node for _, node in places(one["record"])]
        for one in launches(busbw)
        if one["record"]["status"] == "complete"
    ]
    assert all(sorted(each) == sorted(nodes[0]) for each in nodes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_removes_the_job(
    busbw: Any, compare: Any, cluster: Any, namespace: str, number: signal.Signals
) -> None:
    running = compare(SETUPS, "--blocks", "50", *NULL)
    running.until(lambda: (busbw.folder / "home").is_dir() and len(launches(busbw)) > 1)
    assert cluster.batch.list_namespaced_job(namespace).items
    running.process.send_signal(number)
    done = running.done()
    assert done.code == 130, done
    assert cluster.batch.list_namespaced_job(namespace).items == []
    assert busbw.rank_processes() == {}


def test_an_interrupt_while_the_job_waits(compare: Any, cluster: Any, namespace: str) -> None:
    running = compare(SETUPS, "--blocks", "2", "--set", "select=there=none", *NULL)
    running.until(lambda: ": pending" in running.err)
    running.process.send_signal(signal.SIGINT)
    assert running.done().code == 130
    assert cluster.batch.list_namespaced_job(namespace).items == []


def test_a_job_that_somebody_deletes_ends_the_series(
    busbw: Any, compare: Any, cluster: Any, namespace: str
) -> None:
    running = compare(SETUPS, "--blocks", "50", *NULL)
    running.until(lambda: (busbw.folder / "home").is_dir() and len(launches(busbw)) > 1)
    (job,) = cluster.batch.list_namespaced_job(namespace).items
    cluster.batch.delete_namespaced_job(job.metadata.name, namespace, propagation_policy="Foreground")
    done = running.done()
    assert done.code == 4, done
    assert "the allocation of all launches, has ended: it was deleted" in done.err


def test_a_job_that_has_no_time_left_ends_the_series(compare: Any) -> None:
    done = compare(SETUPS, "--blocks", "50", "--time-limit", "20s", *NULL).done()
    assert done.code == 4, done
    (told,) = (line for line in done.err.splitlines() if line.startswith("error: "))
    assert "the allocation of all launches, has ended: " in told
    assert "DeadlineExceeded" in told


def test_ranks_end_with_the_front_process(busbw: Any, compare: Any, cluster: Any, namespace: str) -> None:
    """The launch goes on, as one of a job of its own does; `cancel` ends it."""
    words = ("-n", "1", "--outer-iters", "100000000")
    running = compare(SETUPS, "--blocks", "2", *NULL, *words)
    running.until(lambda: bool(busbw.rank_processes()))
    running.process.kill()
    running.process.wait()
    assert busbw.rank_processes()
    (folder,) = (busbw.run_folder / "launches").iterdir()
    done = busbw("cancel", str(folder))
    assert done.code == 0, done
    deadline = time.monotonic() + 30.0
    while busbw.rank_processes() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert busbw.rank_processes() == {}
    (job,) = cluster.batch.list_namespaced_job(namespace).items  # it would end by itself, in ten minutes
    cluster.batch.delete_namespaced_job(job.metadata.name, namespace, propagation_policy="Foreground")


def test_who_may_not_enter_pods_gets_a_job_for_each_launch(
    busbw: Any, compare: Any, cluster: Any, namespace: str
) -> None:
    """On the nodes of the first."""
    cluster.grant(
        namespace,
        ("batch", "jobs", ["create", "get", "delete"]),
        ("", "pods", ["list"]),
        ("", "pods/log", ["get"]),
        ("", "services,secrets", ["create", "delete"]),
    )
    done = compare(SETUPS, "--blocks", "2", *NULL, user="dev").done()
    assert done.code == 0, done
    assert f"note: not allowed in namespace {namespace}: get pods/exec, create pods/exec" in done.err
    nodes = [sorted(node for _, node in places(one["record"])) for one in launches(busbw)]
    assert len(nodes) == 4
    assert nodes == [nodes[0]] * 4
    assert done.err.count("later launches keep to the 2 nodes of this one") == 1
    assert "submitted kubernetes job" not in done.err


def test_a_dry_run_shows_the_job(compare: Any, cluster: Any, namespace: str) -> None:
    done = compare(SETUPS, "--blocks", "2", *NULL, "--dry-run").done()
    assert done.code == 0, done
    assert "# all in one allocation, cancelled at the end:" in done.out
    assert "Wait for the end" in done.out
    assert cluster.batch.list_namespaced_job(namespace).items == []


HOLD = """
import sys
from busbw.launchers import kubernetes_hold
kubernetes_hold._LOOK_SECONDS = 0.05
sys.exit(kubernetes_hold.hold(1.0, 1.0))
"""


def test_a_pod_that_nobody_comes_to_ends(cluster: Any) -> None:
    """As a container's first process; what was left in it counts for as long as it runs."""
    for left, least_s in (("", 1.0), ("sleep 3 & ", 3.5)):
        inside = ("unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", f'{left}exec "$@"', "sh")
        started_s = time.monotonic()
        with cluster.outside():
            done = subprocess.run([*inside, sys.executable, "-c", HOLD], capture_output=True, check=False)
        assert done.returncode == 1, done
        assert b"no launch came for 1 s" in done.stderr
        assert time.monotonic() - started_s > least_s
