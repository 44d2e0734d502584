"""The Kubernetes engine: MPIJob (MPI Operator v2beta1), indexed Job and JobSet."""

from __future__ import annotations

import base64
import contextlib
import io
import queue
import secrets
import time
import zipfile
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from busbw.errors import NotHome, SiteError, UsageError
from busbw.launchers import kubernetes_manifest as manifest
from busbw.launchers.engine import Handle, Item, Job, JobRequest, JobState, Output, Phase
from busbw.launchers.kubernetes_api import (
    EVENT,
    JOBS,
    PARTS,
    POD,
    RESOURCES,
    Api,
    Denied,
    NotFound,
    Resource,
    context_namespace,
)
from busbw.launchers.kubernetes_form import KINDS, Kind, read_form
from busbw.launchers.kubernetes_logs import LogStream, read_log
from busbw.launchers.kubernetes_state import (
    View,
    container_of,
    first_pod,
    has_ended,
    has_failed,
    has_started,
    is_running,
    is_worker,
    job_state,
    name_of,
)
from busbw.launchers.kubernetes_yaml import from_yaml, to_yaml
from busbw.launchers.topology import everything
from busbw.launchers.topology_files import read_texts, topology_of
from busbw.model.event import decode
from busbw.settings.launch import LaunchSettings

WAIT_SECONDS: float | None = 900.0

JOB_FILE: Final = "job.yaml"
# The API server's bound on a ConfigMap's content.
MOST_BUNDLE_BYTES: Final = 1 << 20
# What judges records and builds images, which is done where the job is submitted.
NOT_FOR_RANKS: Final = frozenset({"analysis", "containers", "diagnosis", "references"})
_LOOK_SECONDS: Final = 0.5
_IDLE_SECONDS: Final = 0.2
# How long the server may not answer before the job is given up; how long logs may outlast their job.
_LOST_SECONDS: Final = 120.0
_LAST_LINES_SECONDS: Final = 15.0  # without a line
# For how long a log may not be readable before that is told.
_UNREAD_SECONDS: Final = 5.0
# Pods whose output is followed; those of others are collected at the end, if they are still there.
_MOST_STREAMS: Final = 64
_MOST_LINES: Final = 1000


def inquire(launch: LaunchSettings, command: tuple[str, ...] = ()) -> Mapping[str, str]:  # noqa: ARG001
    """The namespace, a token for the ranks, the bundle for --bring, and --topology's texts. Asks no server:
    --dry-run works without one.
    """
    named = context_namespace(launch.context)
    facts = {"namespace": launch.namespace or named, "token": secrets.token_hex(16)}
    if launch.bring:
        facts["bundle"] = _bundle()
    return facts | read_texts(launch)


def request(job: Job, facts: Mapping[str, str]) -> JobRequest:
    """The manifest. Raises UsageError for settings that do not fit."""
    form = read_form(job)
    topology = topology_of(facts)
    rank_order = everything(topology) if topology is not None else None
    details = {
        "kind": form.kind,
        "slots": str(form.slots),
        "context": job.launch.context,
        "namespace": facts["namespace"],
    }
    if form.kind != "mpijob":
        details["token"] = facts["token"]
    if job.launch.bring:
        details["bundle"] = facts["bundle"]
    return JobRequest(
        engine="kubernetes",
        name=manifest.object_name(job),
        ranks=form.ranks,
        nodes=form.workers,
        files={JOB_FILE: to_yaml(manifest.documents(job, form, facts["namespace"], rank_order))},
        details=details,
        rank_order=rank_order,
    )


def submit(request: JobRequest, folder: Path) -> Handle:
    """Create the objects; what the job needs first, then the job, which then owns the rest."""
    api = Api(request.details["context"], request.details["namespace"])
    *parts, job = from_yaml((folder / "request" / JOB_FILE).read_text())
    if "token" in request.details:
        parts.insert(0, manifest.secret(request.name, request.details["token"]))
    if "bundle" in request.details:
        parts.insert(0, manifest.bundle(request.name, request.details["bundle"]))
    _check_rights(api, [*parts, job])
    created: list[Resource] = []
    try:
        for part in parts:
            api.create(part)
            created.append(RESOURCES[part["kind"]])
        owner = api.create(job)
    except SiteError:
        for resource in created:
            with contextlib.suppress(SiteError):
                api.delete(resource, request.name)
        raise
    for resource in created:
        api.own({**job, **owner}, resource, request.name)
    kept = {name: request.details[name] for name in ("kind", "slots", "context", "namespace")}
    return Handle("kubernetes", f"{api.namespace}/{request.name}", request.name, kept)


def _check_rights(api: Api, objects: list[manifest.Object]) -> None:
    """Everything that a run does later is asked before it starts: half a run is worse than none."""
    job = RESOURCES[objects[-1]["kind"]]
    wanted = [("create", RESOURCES[one["kind"]], "") for one in objects]
    wanted += [("get", job, ""), ("delete", job, ""), ("list", POD, ""), ("get", POD, "log")]
    missing = api.missing_rights(wanted)
    if missing:
        raise SiteError(
            f"not allowed in namespace {api.namespace} of {api.host}: {', '.join(missing)}",
            hint="ask the cluster's administrator for these rights, or give another --namespace",
        )


def _bundle() -> str:
    """Our own files as a zip file in base64. Raises UsageError where Kubernetes would not take it."""
    data = io.BytesIO()
    with (
        zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        resources.as_file(resources.files("busbw")) as package,
    ):
        for path in sorted(package.rglob("*")):
            place = path.relative_to(package)
            if path.is_file() and "__pycache__" not in path.parts and place.parts[0] not in NOT_FOR_RANKS:
                archive.write(path, f"busbw/{place}")
    size_bytes = len(data.getvalue())
    if size_bytes > MOST_BUNDLE_BYTES:
        raise UsageError(
            f"busbw's own files make {size_bytes} bytes, more than a ConfigMap's {MOST_BUNDLE_BYTES}",
            hint="put busbw into the image (pip install busbw), and leave --bring out",
        )
    return base64.b64encode(data.getvalue()).decode()


class _Job:
    """A submitted job and the connection to its cluster."""

    def __init__(self, handle: Handle) -> None:
        self.name = handle.name
        self.kind: Kind = next(kind for kind in KINDS if kind == handle.details["kind"])
        self.slots = int(handle.details["slots"])
        self.resource = JOBS[self.kind]
        self.api = Api(handle.details["context"], handle.details["namespace"])
        self.selector = ",".join(f"{key}={value}" for key, value in manifest.labels(self.name).items())

    def look(self, last_words: Mapping[str, str] | None = None, *, waited_s: float = 0.0) -> View:
        """The job, its pods and, where they can explain something, its events. Raises SiteError."""
        try:
            job = self.api.get(self.resource.path(self.api.namespace, self.name))
        except NotFound:
            return View(self.kind, self.slots, None)
        pods = self.pods()
        goes = is_running(self.kind, job, pods) and not has_failed(job)
        events = [] if goes else self._events()
        return View(self.kind, self.slots, job, pods, events, last_words, waited_s)

    def pods(self) -> list[dict[str, Any]]:
        """All of its pods."""
        return self.api.items(POD, [("labelSelector", self.selector)])

    def _events(self) -> list[dict[str, Any]]:
        """What was said about the job, and about the Job that its controller makes. Empty where events may
        not be read.
        """
        names = {
            "mpijob": (self.name, f"{self.name}-launcher"),
            "jobset": (self.name, f"{self.name}-ranks-0"),
        }
        found = []
        with contextlib.suppress(Denied):
            for name in names.get(self.kind, (self.name,)):
                selector = f"involvedObject.name={name},type=Warning"
                found += self.api.items(EVENT, [("fieldSelector", selector)])
        return found


class _Follower:
    """Output of all pods and the job's states, as one series."""

    def __init__(self, job: _Job, folder: Path) -> None:
        self._job, self._folder = job, folder
        self._lines: queue.SimpleQueue[Output] = queue.SimpleQueue()
        self._streams: dict[str, LogStream] = {}
        self._over: set[str] = set()  # pods whose container has ended
        self._last_words: dict[str, str] = {}
        self._first = ""  # the pod whose output has the result
        self._heard_s = self._since_s = time.monotonic()
        self._read_s = self._heard_s  # when the first pod's output could last be read

    def follow(self) -> Iterator[Item]:
        """States and lines to the end. Raises NotHome where the job has ended and its output is there, and
        cannot be read.
        """
        try:
            yield from self._follow()
        finally:
            for stream in self._streams.values():
                stream.leave()

    def _follow(self) -> Iterator[Item]:
        state = JobState(Phase.PENDING)
        next_look_s = 0.0
        while True:
            yield from self._drain(_IDLE_SECONDS)
            if time.monotonic() < next_look_s:
                continue
            seen = self._look()
            next_look_s = time.monotonic() + _LOOK_SECONDS
            if seen is None:
                continue
            if seen.phase is Phase.ENDED:
                yield from self._last_lines()
                yield self._final(seen)
                return
            # Pods that go one by one at the end are no new start.
            if state.phase is Phase.RUNNING:
                seen = JobState(Phase.RUNNING, self._trouble())
            if seen != state:
                state = seen
                yield state

    def _trouble(self) -> str:
        """What keeps the output of a job that runs from being read."""
        stream, now_s = self._streams.get(self._first), time.monotonic()
        error = stream.error if stream is not None else None
        if error is None:
            self._read_s = now_s
            return ""
        is_long = now_s - self._read_s > _UNREAD_SECONDS
        return f"the output of pod {self._first} cannot be read for now: {error.message}" if is_long else ""

    def _look(self) -> JobState | None:
        """The state; None where the server did not answer this time."""
        try:
            view = self._job.look(self._last_words, waited_s=time.monotonic() - self._since_s)
        except Denied:
            raise
        except SiteError:
            if time.monotonic() - self._heard_s > _LOST_SECONDS:
                raise
            return None
        self._heard_s = time.monotonic()
        self._attend(view)
        return job_state(view)

    def _attend(self, view: View) -> None:
        """Follow the pods that have started."""
        first = first_pod(view.kind, view.pods)
        self._first = name_of(first) if first is not None else self._first
        for pod in [*([first] if first is not None else []), *view.pods]:
            name = name_of(pod)
            if has_ended(pod):
                self._over.add(name)
            if name in self._streams or not has_started(pod) or len(self._streams) >= _MOST_STREAMS:
                continue
            self._streams[name] = self._stream(name, container_of(pod), worker=is_worker(pod))
            self._streams[name].start()
        if view.job is None:
            self._over.update(self._streams)
        else:
            # A pod that is gone prints no more.
            self._over.update(self._streams.keys() - {name_of(pod) for pod in view.pods})

    def _stream(self, pod: str, container: str, *, worker: bool) -> LogStream:
        path = self._folder / "log" / f"{pod}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_text("")

        def take(text: str) -> None:
            if decode(text) is None:
                self._last_words[pod] = text.strip() or self._last_words.get(pod, "")
                with path.open("a") as file:
                    file.write(text + "\n")
            if not worker:
                self._lines.put(Output(text, source=pod))

        return LogStream(self._job.api, pod, container, take, lambda: pod in self._over)

    def _drain(self, seconds: float) -> Iterator[Item]:
        """The lines that have come, not more than are good between two looks; None where there was none for
        that long.
        """
        try:
            yield self._lines.get(timeout=seconds)
            for _ in range(_MOST_LINES):
                yield self._lines.get_nowait()
        except queue.Empty:
            yield None

    def _last_lines(self) -> Iterator[Item]:
        """What the logs still hold after the end."""
        self._over.update(self._streams)
        deadline = time.monotonic() + _LAST_LINES_SECONDS
        while any(stream.is_alive() for stream in self._streams.values()) and time.monotonic() < deadline:
            for item in self._drain(_IDLE_SECONDS):
                if item is not None:
                    deadline = time.monotonic() + _LAST_LINES_SECONDS
                yield item
        while not self._lines.empty():
            yield from self._drain(0)

    def _final(self, seen: JobState) -> JobState:
        """The end, with the last words that came meanwhile."""
        is_there = True
        with contextlib.suppress(SiteError):
            view = self._job.look(self._last_words)
            seen, is_there = job_state(view), view.job is not None
        unread = [pod for pod, stream in self._streams.items() if stream.unread]
        # What other pods of a failed job printed may never be read: a node may be the reason of its end.
        if is_there and unread and (seen.code == 0 or self._first in unread):
            raise self._not_home(unread)
        return seen

    def _not_home(self, pods: list[str]) -> NotHome:
        errors = [error for pod in pods if (error := self._streams[pod].error) is not None]
        why = errors[0].message if errors else "the connection is silent"
        return NotHome(
            f"job {self._job.name} has ended, and output of pod {', '.join(pods)} could not be read: {why}",
            hint=f"try again while the job is there: busbw attach {self._folder.name}",
        )


def follow(handle: Handle, folder: Path) -> Iterator[Item]:
    """States as they change and lines of all pods, each pod's from its first."""
    return _Follower(_Job(handle), folder).follow()


def cancel(handle: Handle, *, now: bool) -> None:
    """Delete the job with all that it owns; its pods get their grace period unless ``now``."""
    job = _Job(handle)
    job.api.delete(job.resource, job.name)
    if now:
        with contextlib.suppress(SiteError):  # a right that not everybody has; the grace period is short
            job.api.kill_pods(job.selector)


def state(handle: Handle) -> JobState:
    """The state at this moment."""
    return job_state(_Job(handle).look())


def collect(handle: Handle, folder: Path) -> None:
    """Every pod's output to log/POD.log; what was followed is there already. Events are left out: they are
    in log/stream.jsonl.
    """
    job = _Job(handle)
    (folder / "log").mkdir(exist_ok=True)
    for pod in job.pods():
        path = folder / "log" / f"{name_of(pod)}.log"
        if not has_started(pod) or path.exists():
            continue
        partial = path.with_suffix(".partial")
        with partial.open("w") as file, contextlib.suppress(NotFound):
            file.writelines(
                f"{text}\n"
                for text in read_log(job.api, name_of(pod), container_of(pod))
                if decode(text) is None
            )
        partial.replace(path)


def clean(handle: Handle) -> None:
    """Delete the job, wait until it is gone, and delete what it did not own."""
    job = _Job(handle)
    job.api.delete(job.resource, job.name)
    is_gone = job.api.wait_gone(job.resource, job.name)
    for resource in PARTS:
        with contextlib.suppress(Denied):
            job.api.delete(resource, job.name)
    if not is_gone:
        raise SiteError(
            f"{job.resource.kind} {handle.id} is still being deleted",
            hint=f"look at kubectl get {job.resource.plural},pods -n {job.api.namespace}",
        )
