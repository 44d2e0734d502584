"""A server that takes a job and does not say so: a stand-in for the API over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes")

from busbw.launch.engine import JobRequest, Unanswered
from busbw.launch.kubernetes import engine

NAME = "busbw-20261122-101500-3f9a"
JOB = f"/apis/batch/v1/namespaces/team/jobs/{NAME}"


class Handler(BaseHTTPRequestHandler):
    """Keeps what is created; the answer to the creation of a job is lost."""

    server: Server

    def do_GET(self) -> None:
        found = self.server.objects.get(self._path)
        self._answer(200 if found else 404, found or {"kind": "Status", "message": "not found"})

    def do_POST(self) -> None:
        body = self._body()
        if self._path.endswith("/selfsubjectaccessreviews"):
            self._answer(201, {**body, "status": {"allowed": True}})
            return
        name = body["metadata"]["name"]
        body["metadata"]["uid"] = f"uid-of-{body['kind']}"
        if body["kind"] != "Job" or self.server.takes:
            self.server.objects[f"{self._path}/{name}"] = body
        if body["kind"] == "Job":
            self.close_connection = True
            return
        self._answer(201, body)

    def do_PATCH(self) -> None:
        found = self.server.objects.get(self._path, {})
        found.setdefault("metadata", {}).update(self._body()["metadata"])
        self._answer(200, found)

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _body(self) -> dict[str, Any]:
        return dict(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


class Server(ThreadingHTTPServer):
    """``takes``: whether it keeps the job, without an answer in any case."""

    takes = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, dict[str, Any]] = {}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"http://127.0.0.1:{made.server_address[1]}"
        settings = {
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
            "current-context": "x",
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(settings))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))  # the client has read it already
        place = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
        monkeypatch.setattr(place, str(tmp_path / "kubeconfig"))
        yield made
        made.shutdown()
        thread.join()


def submit(folder: Path) -> Unanswered:
    (folder / "request").mkdir()
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": NAME}}
    (folder / "request" / engine.JOB_FILE).write_text(f"{json.dumps(service)}\n---\n{json.dumps(job)}\n")
    details = {"context": "", "namespace": "team", "kind": "job", "slots": "1"}
    with pytest.raises(Unanswered) as told:
        engine.submit(JobRequest("kubernetes", NAME, 2, 2, details=details), folder)
    return told.value


def test_a_job_that_is_there_is_found_and_owns_its_parts(server: Server, tmp_path: Path) -> None:
    handle = submit(tmp_path).handle
    assert handle.id == f"team/{NAME}"
    assert engine.find(handle) == handle
    service = server.objects[f"/api/v1/namespaces/team/services/{NAME}"]
    (owner,) = service["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Job", "uid-of-Job")
    assert JOB in server.objects


def test_one_that_is_not_there_was_never_taken(server: Server, tmp_path: Path) -> None:
    server.takes = False
    handle = submit(tmp_path).handle
    assert engine.find(handle) is None
