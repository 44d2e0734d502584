"""Setups that are launched in turn, in the pods of one job."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.compared import write

from busbw.planning.setups import blocks

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

SETUPS = 'setups: {plain: {}, other: {env: {A: "1"}}}'
SERIES = ("--ops", "all_reduce", "-b", "1K", "-e", "1K", "--order-seed", "1")
NULL = ("--backend", "null", "--world", "nccl")
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
def compare(busbw: Any, namespace: str) -> Any:
    """Starts a comparison of setups (text) on two nodes."""

    def start(setups: str, *words: str, image: str = "lab/busbw") -> Any:
        spec = write(busbw.folder / "setups.yaml", setups)
        where = ("--on", "kubernetes", "--namespace", namespace, "-N", "2", "--image", image)
        return busbw.start("compare", str(spec), *SERIES, *where, *words)

    return start


def launches(busbw: Any) -> list[dict[str, Any]]:
    """What is in the folders of the launches that have a record, in their order."""
    found = []
    for folder in sorted((busbw.run_folder / "launches").iterdir()):
        if (folder / "run.json").is_file():
            record = json.loads((folder / "run.json").read_text())
            job = json.loads((folder / "request/job.json").read_text())
            found.append({"name": folder.name, "record": record, "job": job})
    return found


def outcomes(busbw: Any) -> list[dict[str, Any]]:
    return list(json.loads((busbw.run_folder / "setups.json").read_text())["outcomes"])


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
    assert len({one["job"]["name"] for one in found}) == 1
    assert [one["job"]["details"]["turn"] for one in found] == ["0", "1", "2", "3"]
    worlds = [one["record"]["world"] for one in found]
    assert [one["record"]["status"] for one in found] == ["complete"] * 4
    places = [sorted(place["pod"] for place in world["places"]) for world in worlds]
    nodes = {place["kubernetes_node"] for world in worlds for place in world["places"]}
    assert places == [places[0]] * 4
    assert len(nodes) == len(places[0]) == 2
    processes = {(rank["host"], rank["pid"]) for world in worlds for rank in world["ranks"]}
    assert len(processes) == sum(len(world["ranks"]) for world in worlds)
    assert done.err.count("submitted kubernetes job ") == 1
    assert "new one" not in done.err


def test_open_mpi(openmpi: str, busbw: Any, compare: Any) -> None:
    """Variables of a setup come to every rank, and to no launch of another setup."""
    done = compare(SETUPS, "--blocks", "1", "--mpi", "openmpi", image=openmpi).done()
    assert done.code == 0, done
    found = launches(busbw)
    assert len({one["job"]["name"] for one in found}) == 1
    assert [one["record"]["world"]["size"] for one in found] == [2, 2]


@pytest.mark.parametrize("kind", [("--world", "nccl", "--backend", "null"), ("--backend", "mpi")])
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
    # hydra (5.0.2) hangs at times where a rank dies before it is connected, also in a job of one launch.
    [(NULL, "rank 1 in pod"), (("--backend", "mpi", "--launch-timeout", "30s"), "ended")],
)
def test_a_launch_that_fails_leaves_the_others(
    busbw: Any, compare: Any, kind: tuple[str, ...], told: str
) -> None:
    site = busbw.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    setups = f"setups: {{plain: {{}}, other: {{env: {{FATE: die, PYTHONPATH: {site}}}}}}}"
    done = compare(setups, "--blocks", "3", "--mounts", str(site), *kind).done()
    assert [bool(one["error"]) for one in outcomes(busbw) if one["setup"] == "plain"] == [False] * 3
    other = [one for one in outcomes(busbw) if one["setup"] == "other"]
    assert [bool(one["skipped"]) for one in other] == [False, False, True]
    assert all(told in one["error"] for one in other[:2]), other
    assert max(one["seconds"] for one in other) < 150.0  # ranks that wait for the dead one are ended
    assert done.err.count("submitted kubernetes job ") == 1


def test_a_launch_that_hangs_is_ended_in_its_pods(busbw: Any, compare: Any) -> None:
    site = busbw.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    setups = f"setups: {{plain: {{}}, other: {{env: {{FATE: hang, PYTHONPATH: {site}}}}}}}"
    words = ("--blocks", "4", "--launch-timeout", "8s", "--mounts", str(site), *NULL)
    done = compare(setups, *words).done()
    other = [one for one in outcomes(busbw) if one["setup"] == "other"]
    error = "the launch had not ended after 8 s: no rank had said anything"
    assert [one["error"] for one in other] == [error, error, "", ""]
    assert [one["skipped"] for one in other] == [False, False, True, True]
    assert [one["error"] for one in outcomes(busbw) if one["setup"] == "plain"] == [""] * 4
    assert done.err.count("submitted kubernetes job ") == 1


def test_a_launch_that_ends_a_pod_leaves_the_others_a_new_job(busbw: Any, compare: Any) -> None:
    site = busbw.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    setups = f"setups: {{plain: {{}}, other: {{env: {{FATE: pod, PYTHONPATH: {site}}}}}}}"
    done = compare(setups, "--blocks", "3", "--mounts", str(site), *NULL).done()
    assert [one["error"] for one in outcomes(busbw) if one["setup"] == "plain"] == [""] * 3
    other = [one["error"] for one in outcomes(busbw) if one["setup"] == "other" and not one["skipped"]]
    assert all("in pod busbw-" in error for error in other), other
    assert done.err.count("submitted kubernetes job ") == 1 + len(other)
    assert "the new job keeps to the 2 nodes of before" in done.err
    nodes = [
        sorted(place["kubernetes_node"] for place in one["record"]["world"]["places"])
        for one in launches(busbw)
        if one["record"]["status"] == "complete"
    ]
    assert nodes == [nodes[0]] * len(nodes)


def test_an_interrupt_removes_the_job(busbw: Any, compare: Any, cluster: Any, namespace: str) -> None:
    running = compare(SETUPS, "--blocks", "50", *NULL)
    running.until(lambda: "block 1 of 50" in running.err)
    assert cluster.batch.list_namespaced_job(namespace).items
    running.process.send_signal(signal.SIGINT)
    done = running.done()
    assert done.code == 130, done
    assert cluster.batch.list_namespaced_job(namespace).items == []


def test_a_job_that_somebody_deletes_ends_the_series(
    busbw: Any, compare: Any, cluster: Any, namespace: str
) -> None:
    running = compare(SETUPS, "--blocks", "50", *NULL)
    running.until(lambda: "block 1 of 50" in running.err)
    (job,) = cluster.batch.list_namespaced_job(namespace).items
    cluster.batch.delete_namespaced_job(job.metadata.name, namespace, propagation_policy="Foreground")
    done = running.done()
    assert done.code == 4, done
    assert "which all launches run in, has ended: it is no longer on the cluster" in done.err


def test_a_job_whose_front_process_died_can_be_ended(
    busbw: Any, compare: Any, cluster: Any, namespace: str
) -> None:
    running = compare(SETUPS, "--blocks", "50", *NULL)
    running.until(lambda: "block 2 of 50" in running.err)
    running.process.kill()
    running.process.wait()
    newest = max((busbw.run_folder / "launches").iterdir(), key=lambda path: path.name)
    while not (newest / "request/job.json").is_file():
        newest = newest.with_name(f"{int(newest.name) - 1:04}")
    time.sleep(1.0)
    done = busbw("cancel", str(newest))
    assert done.code == 0, done
    deadline = time.monotonic() + 30.0
    while cluster.batch.list_namespaced_job(namespace).items and time.monotonic() < deadline:
        time.sleep(0.2)
    assert cluster.batch.list_namespaced_job(namespace).items == []


def test_a_dry_run_shows_the_job(busbw: Any, compare: Any, tmp_path: Path) -> None:
    done = compare(SETUPS, "--blocks", "2", *NULL, "--dry-run").done()
    assert done.code == 0
    assert "# one job on 2 nodes, whose pods run all launches in turn:" in done.out
    assert "busbw.launchers.in_turn" in done.out
