"""A job on Kubernetes as it goes: its states, the output of its pods, and its end."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from busbw.errors import NotHome, SiteError
from busbw.launch.engine import Handle, Item, JobState, Look, Output, Phase
from busbw.launch.kubernetes import manifest
from busbw.launch.kubernetes.api import EVENT, JOBS, POD, Api, Denied, NotFound
from busbw.launch.kubernetes.logs import LogStream
from busbw.launch.kubernetes.state import (
    Pod,
    View,
    first_pod,
    has_failed,
    is_running,
    job_state,
    lost_workers,
    read_pod,
)
from busbw.launch.kubernetes.words import Kind
from busbw.model.event import decode

_LOOK_SECONDS: Final = 0.5
_IDLE_SECONDS: Final = 0.2
_LAST_LINES_SECONDS: Final = 15.0  # without a line, after the end
# A log that is unreadable for this long is reported.
_UNREAD_SECONDS: Final = 5.0
# Pods whose output is followed; those of others are collected at the end, if they are still there.
_MOST_STREAMS: Final = 64
_MOST_LINES: Final = 1000


class SubmittedJob:
    """A submitted job and the connection to its cluster."""

    def __init__(self, handle: Handle) -> None:
        self.name = handle.name
        self.kind = cast("Kind", handle.details["kind"])
        self.slots = int(handle.details["slots"])
        self.resource = JOBS[self.kind]
        self.api = Api(handle.details["context"], handle.details["namespace"])
        self._inner_name = f"{self.name}-ranks-0"  # of a JobSet
        self.selector = ",".join(f"{key}={value}" for key, value in manifest.labels(self.name).items())

    def look(self, last_words: Mapping[str, str] | None = None, *, waited_s: float = 0.0) -> View:
        """The job, its pods and, where they can explain something, its events. Raises SiteError."""
        try:
            job = self.api.get(self.resource.path(self.api.namespace, self.name))
        except NotFound:
            return View(self.kind, self.slots, None)
        pods = self.pods()
        failed = has_failed(job)
        events = [] if is_running(self.kind, job, pods) and not failed else self._events()
        inner = self._inner() if failed else None
        return View(self.kind, self.slots, job, pods, events, last_words, waited_s, inner)

    def pods(self) -> list[Pod]:
        """All of its pods."""
        return [read_pod(item) for item in self.api.items(POD, [("labelSelector", self.selector)])]

    def _inner(self) -> Mapping[str, Any] | None:
        """The Job that a JobSet's controller made; None without one, or where Jobs may not be read."""
        if self.kind != "jobset":
            return None
        with contextlib.suppress(Denied, NotFound):
            return self.api.get(JOBS["job"].path(self.api.namespace, self._inner_name))
        return None

    def _events(self) -> list[dict[str, Any]]:
        """What was said about the job, and about the Job that its controller makes. Empty where events may
        not be read.
        """
        others = {"mpijob": [f"{self.name}-launcher"], "jobset": [self._inner_name]}
        found = []
        with contextlib.suppress(Denied):
            for name in (self.name, *others.get(self.kind, ())):
                selector = f"involvedObject.name={name},type=Warning"
                found += self.api.items(EVENT, [("fieldSelector", selector)])
        return found


class Follower:
    """Output of all pods and the job's states, as one series."""

    def __init__(self, job: SubmittedJob, folder: Path) -> None:
        self._job, self._folder = job, folder
        self._lines: queue.SimpleQueue[Output] = queue.SimpleQueue()
        self._streams: dict[str, LogStream] = {}
        self._over: set[str] = set()  # pods whose container has ended
        self._last_words: dict[str, str] = {}
        self._pods: Sequence[Pod] = ()  # of the last look
        self._lost: list[Pod] = []
        self._is_running = False
        self._first = ""  # the pod whose output has the result
        self._since_s = time.monotonic()
        self._read_s = self._since_s  # when the first pod's output could last be read

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
        look = Look(self._state, self._job.name, (Denied,), first_s=_LOOK_SECONDS, last_s=_LOOK_SECONDS)
        while True:
            yield from self._drain(_IDLE_SECONDS)
            seen = look.now()
            if seen is None:
                continue
            if seen.phase is Phase.ENDED:
                yield from self._last_lines()
                yield self._final(seen)
                return
            yield seen

    def _trouble(self) -> str:
        """What keeps the output of a job that runs from being read."""
        stream, now_s = self._streams.get(self._first), time.monotonic()
        error = stream.error if stream is not None else None
        if error is None:
            self._read_s = now_s
            return ""
        is_long = now_s - self._read_s > _UNREAD_SECONDS
        return f"the output of pod {self._first} cannot be read for now: {error.message}" if is_long else ""

    def _state(self) -> JobState:
        """The state, with what started since followed. Raises SiteError."""
        view = self._job.look(self._last_words, waited_s=time.monotonic() - self._since_s)
        if view.job is not None:
            self._lost += lost_workers(self._pods, view.kind, view.pods)
        self._pods = view.pods
        self._attend(view)
        state = job_state(replace(view, lost=self._lost))
        if self._is_running and state.phase is not Phase.ENDED:
            # Pods that go one by one at the end are no new start.
            state = JobState(Phase.RUNNING, self._trouble())
        self._is_running = state.phase is Phase.RUNNING
        return state

    def _attend(self, view: View) -> None:
        """Follow the pods that have started."""
        first = first_pod(view.kind, view.pods)
        self._first = first.name if first is not None else self._first
        for pod in [*([first] if first is not None else []), *view.pods]:
            if pod.has_ended:
                self._over.add(pod.name)
            if pod.name not in self._streams and pod.has_started and len(self._streams) < _MOST_STREAMS:
                self._streams[pod.name] = self._stream(pod)
                self._streams[pod.name].start()
        # A pod that is gone prints no more.
        self._over.update(self._streams.keys() - {pod.name for pod in view.pods})

    def _stream(self, pod: Pod) -> LogStream:
        path = self._folder / "log" / f"{pod.name}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_text("")

        def take(text: str) -> None:
            if decode(text) is None:
                self._last_words[pod.name] = text.strip() or self._last_words.get(pod.name, "")
                with path.open("a") as file:
                    file.write(text + "\n")
            if pod.role != "worker":  # which only waits for a launcher to come in: its output is sshd's
                self._lines.put(Output(text, source=pod.name))

        return LogStream(self._job.api, pod.name, pod.container, take, lambda: pod.name in self._over)

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
            seen, is_there = job_state(replace(view, lost=self._lost)), view.job is not None
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
