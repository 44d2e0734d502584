"""Setups in turn from the command line to the verdict: real requests, pods' programs, ranks and logs; in
place of a cluster there is a stand-in for its API whose pods are processes of this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from busbw_testing.environ import clean_environ

pytest.importorskip("kubernetes")

from busbw.cli.main import main
from busbw.launchers import kubernetes, kubernetes_follow
from busbw.launchers.kubernetes_api import NotFound
from busbw.launchers.kubernetes_manifest import unescaped

# As the sitecustomize of a setup: what a broken library would do to rank 1.
SITE = """
import os, sys, time
how = os.environ.get("FATE")
if "--format=jsonl" in sys.orig_argv and os.environ["JOB_COMPLETION_INDEX"] == "1":
    if how == "die":
        print("no such device", flush=True)
        os.kill(os.getpid(), 9)
    if how == "hang":
        time.sleep(60)
    if how == "pod":
        os.kill(os.getppid(), 9)
"""


class Pod:
    """A process, and its output with the times that a kubelet gives it."""

    def __init__(self, name: str, number: int, container: dict[str, Any], token: str) -> None:
        self.name, self.number, self.lines, self.ended = name, number, list[bytes](), ""
        filled = {"BUSBW_TOKEN": token, "BUSBW_POD": name, "BUSBW_POD_NODE": "node-0"}
        own = {"JOB_COMPLETION_INDEX": str(number)}
        for entry in container["env"]:
            # Names of pods are not known here; all of them are at one address.
            value = re.sub(r"busbw-[\w-]+-0\.busbw-[\w-]+", "127.0.0.1", unescaped(entry.get("value", "")))
            own[entry["name"]] = value or filled.get(entry["name"], "team")
        words = [unescaped(word) for word in container["command"]]
        self.process = subprocess.Popen(
            [sys.executable if words[0] == "python3" else words[0], *words[1:]],
            env=clean_environ(**own, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
            self.lines.append(f"{stamp} ".encode() + line)
        self.process.wait()
        self.ended = str(time.time())

    def end(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)
        if number == signal.SIGKILL:
            self.process.wait()

    def fields(self) -> dict[str, Any]:
        code = self.process.poll()
        ended = {"exitCode": 128 - code if (code or 0) < 0 else code, "finishedAt": self.ended or "9"}
        return {
            "metadata": {
                "name": self.name,
                "uid": self.name,
                "labels": {"batch.kubernetes.io/job-completion-index": str(self.number)},
            },
            "spec": {"nodeName": f"node-{self.number}", "containers": [{"name": "rank"}]},
            "status": {
                "containerStatuses": [
                    {"state": {"terminated": ended} if code is not None else {"running": {}}}
                ]
            },
        }


class Api:
    """See ``kubernetes_api.Api``."""

    jobs: ClassVar[dict[str, tuple[dict[str, Any], list[Pod]]]] = {}
    made: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, context: str, namespace: str) -> None:
        self.namespace, self.host = namespace, "here"

    def missing_rights(self, wanted: Sequence[Any]) -> list[str]:
        return []

    def own(self, *_: Any) -> None:
        return None

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["kind"] == "Job":
            name, spec = body["metadata"]["name"], body["spec"]
            (container,) = spec["template"]["spec"]["containers"]
            pods = [Pod(f"{name}-{n}-x", n, container, "secret") for n in range(spec["completions"])]
            self.jobs[name] = (body, pods)
            self.made.append(body)
        return body

    def get(self, path: str, query: Any = ()) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self.jobs:
            raise NotFound("none")
        body, pods = self.jobs[name]
        codes = [pod.process.poll() for pod in pods]
        if any(codes):
            for pod in pods:
                pod.end(signal.SIGTERM)
        condition = "Failed" if any(codes) else "Complete" if codes == [0] * len(codes) else ""
        conditions = [{"type": condition, "status": "True"}] if condition else []
        return {**body, "status": {"conditions": conditions}}

    def items(self, resource: Any, query: Any = ()) -> list[dict[str, Any]]:
        chosen = dict(query).get("labelSelector", "")
        for name, (_, pods) in self.jobs.items():
            if resource.kind == "Pod" and f"instance={name}" in chosen:
                return [pod.fields() for pod in pods]
        return []

    def stream(self, path: str, query: Any, timeout: Any) -> Any:
        pod = next((pod for _, pods in self.jobs.values() for pod in pods if f"/{pod.name}/" in path), None)
        if pod is None:
            raise NotFound("none")
        return Response(pod, dict(query))

    def delete(self, resource: Any, name: str) -> None:
        if resource.kind != "Job" or name not in self.jobs:
            return
        pods = self.jobs[name][1]
        for pod in pods:
            pod.end(signal.SIGTERM)
        deadline = time.monotonic() + 10.0
        while any(pod.process.poll() is None for pod in pods) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pod in pods:
            pod.end(signal.SIGKILL)
        self.jobs.pop(name, None)

    def wait_gone(self, resource: Any, name: str, seconds: float = 0) -> bool:
        return name not in self.jobs


class Response:
    """A log that is read on until its pod has ended."""

    def __init__(self, pod: Pod, query: dict[str, str]) -> None:
        self._pod, self._follow = pod, "follow" in query
        since = query.get("sinceTime", "").encode()
        self._at = next((n for n, line in enumerate(pod.lines) if line >= since[:19]), len(pod.lines))

    def stream(self, amt: int | None = None) -> Iterator[bytes]:
        while True:
            over = not self._pod._reader.is_alive()
            lines = self._pod.lines[self._at :]
            self._at += len(lines)
            yield from lines
            if over or not self._follow:
                return
            time.sleep(0.02)

    def close(self) -> None:
        return None


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Api]]:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kubernetes, "Api", Api)
    monkeypatch.setattr(kubernetes_follow, "Api", Api)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    Api.made.clear()
    yield Api
    left = list(Api.jobs)
    for name in left:
        for pod in Api.jobs.pop(name)[1]:
            pod.end(signal.SIGKILL)
    assert left == []


def compare(tmp_path: Path, fate: str, *words: str) -> tuple[int, list[dict[str, Any]], Path]:
    spec = tmp_path / "setups.yaml"
    spec.write_text(
        f"setups: {{plain: {{}}, other: {{env: {{FATE: '{fate}', PYTHONPATH: {tmp_path}/site}}}}}}"
    )
    where = ("--on", "kubernetes", "--namespace", "team", "--image", "i", "-N", "2", "--mpi", "none")
    what = ("--ops", "all_reduce", "-b", "1K", "-e", "1K", "--backend", "null", "--order-seed", "1")
    code = main(["compare", str(spec), *what, *where, *words])
    (folder,) = (path for path in (tmp_path / "home").iterdir() if path.is_dir())
    return code, json.loads((folder / "setups.json").read_text())["outcomes"], folder


def of(outcomes: list[dict[str, Any]], setup: str) -> list[dict[str, Any]]:
    return [one for one in outcomes if one["setup"] == setup]


def records(folder: Path) -> list[dict[str, Any]]:
    paths = sorted((folder / "launches").iterdir())
    return [json.loads((path / "run.json").read_text()) for path in paths if (path / "run.json").is_file()]


def test_all_launches_are_new_processes_in_the_same_pods(cluster: type[Api], tmp_path: Path) -> None:
    code, outcomes, folder = compare(tmp_path, "good", "--blocks", "2")
    assert code == 0
    assert [one["error"] for one in outcomes] == [""] * 4
    assert len(cluster.made) == 1
    found = records(folder)
    assert [one["status"] for one in found] == ["complete"] * 4
    assert [one["run_id"] for one in found] == ["0001", "0002", "0003", "0004"]
    assert {tuple(place["pod"] for place in one["world"]["places"]) for one in found} == {
        tuple(f"{cluster.made[0]['metadata']['name']}-{number}-x" for number in range(2))
    }
    pids = [rank["pid"] for one in found for rank in one["world"]["ranks"]]
    assert len(set(pids)) == 8


def test_a_rank_that_dies(cluster: type[Api], tmp_path: Path) -> None:
    _, outcomes, _ = compare(tmp_path, "die", "--blocks", "3")
    pod = f"{cluster.made[0]['metadata']['name']}-1-x"
    told = f"rank 1 in pod {pod} was killed by signal 9: no such device"
    assert len(cluster.made) == 1
    assert [one["error"].partition(" ended: ")[2] for one in of(outcomes, "other")] == [told, told, ""]
    assert [one["skipped"] for one in of(outcomes, "other")] == [False, False, True]
    assert [one["error"] for one in of(outcomes, "plain")] == [""] * 3
    assert max(one["seconds"] for one in outcomes) < 30.0


def test_a_rank_that_hangs(cluster: type[Api], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, outcomes, _ = compare(tmp_path, "hang", "--blocks", "3", "--launch-timeout", "10s")
    told = "the launch had not ended after 10 s: 1 ranks had started, and were not ready to measure"
    assert [one["error"] for one in of(outcomes, "other")] == [told, told, ""]
    assert [one["error"] for one in of(outcomes, "plain")] == [""] * 3
    assert len(cluster.made) == 1
    assert capsys.readouterr().err.count("not ended after 10 s: its pods end it") == 2


def test_a_pod_that_dies(cluster: type[Api], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, outcomes, _ = compare(tmp_path, "pod", "--blocks", "3", "--shared")
    assert [one["error"] for one in of(outcomes, "plain")] == [""] * 3
    other = [one["error"] for one in of(outcomes, "other")]
    assert other[2] == ""
    for number, error in enumerate(other[:2]):
        name = cluster.made[number]["metadata"]["name"]
        assert error.endswith(f"rank 1 in pod {name}-1-x was killed by signal 9")
    assert len(cluster.made) == 3
    nodes = cluster.made[1]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    assert re.findall("node-[01]", json.dumps(nodes)) == ["node-0"]
    assert "the new job keeps to the 1 node of before, node-0" in capsys.readouterr().err
