"""Launches in turn in the pods of one job (``in_turn``): the job's manifest, and each launch as it goes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from busbw.errors import UsageError
from busbw.launchers import in_turn
from busbw.launchers.engine import TURN, Handle, Item, JobRequest, JobState, Output, Phase
from busbw.launchers.in_turn import Mark, Plan, Start, Turn, read_mark
from busbw.launchers.kubernetes_follow import Follower, SubmittedJob
from busbw.launchers.kubernetes_form import KINDS
from busbw.launchers.kubernetes_logs import LogStream
from busbw.launchers.kubernetes_manifest import CONNECT_SECONDS, JOB_FILE, Object, escaped, hosts, unescaped
from busbw.launchers.kubernetes_state import View, ended_turn, name_of
from busbw.launchers.kubernetes_yaml import from_yaml, to_yaml
from busbw.model.event import decode

# Linux takes no longer word or variable (MAX_ARG_STRLEN, 128 KiB).
_MOST_PLAN_BYTES: Final = 120_000
# How long other pods' output of a turn may be behind that of the first pod.
_BEHIND_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.5
_IDLE_SECONDS: Final = 0.1
# A pod that is lost ends the job, which says how; its controller may be late.
_LOST_SECONDS: Final = 60.0
# Where the container is whose command starts the ranks.
_CONTAINERS: Final[Mapping[str, tuple[str, ...]]] = {
    "job": ("spec", "template", "spec"),
    "jobset": ("spec", "replicatedJobs", "0", "template", "spec", "template", "spec"),
    "mpijob": ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec"),
}


def join(
    requests: Mapping[str, JobRequest], order: Sequence[tuple[str, str]], limit_seconds: float | None
) -> JobRequest:
    """See TakesTurns."""
    names, made = list(requests), list(requests.values())
    documents = [from_yaml(one.files[JOB_FILE]) for one in made]
    kind = next(kind for kind in KINDS if kind == made[0].details["kind"])
    containers = [_container(own[-1], kind) for own in documents]
    starts = tuple(_take_start(container) for container in containers)
    for name, own, one in zip(names, documents, made, strict=True):
        if own != documents[0] or one.details != made[0].details:
            raise UsageError(
                f"setup {name} needs another job than setup {names[0]}, so they cannot run in turn in one",
                hint="let them differ in variables and in flags of the run only",
            )
    pods = 1 if kind == "mpijob" else int(made[0].nodes or 1)
    plan = Plan(
        pods=pods,
        root=hosts(made[0].name, kind, 1)[0],
        connect_seconds=CONNECT_SECONDS,
        limit_seconds=limit_seconds,
        starts=starts,
        turns=tuple(Turn(names.index(name), folder) for name, folder in order),
    ).to_json()
    if len(plan) > _MOST_PLAN_BYTES:
        raise UsageError(
            f"the plan of {len(order)} launches has {len(plan)} bytes: a pod takes {_MOST_PLAN_BYTES}",
            hint="give fewer setups or --blocks, and compare several series as one",
        )
    _give(containers[0], made[0], plan)
    files = {**made[0].files, JOB_FILE: to_yaml(documents[0])}
    return replace(made[0], files=files)


def _container(job: Object, kind: str) -> Object:
    place: Any = job
    for word in _CONTAINERS[kind]:
        place = place[int(word) if word.isdecimal() else word]
    found: Object = place["containers"][0]
    return found


def _take_start(container: Object) -> Start:
    """What the container executes, taken out of it. What the cluster fills in stays the pod's own."""
    words = [*container["command"], *container.pop("args", ())]
    # Of two of a name the last one counts.
    last = {entry["name"]: entry for entry in container["env"]}
    container["command"] = []
    container["env"] = [entry for entry in last.values() if "valueFrom" in entry]
    environ = {name: unescaped(entry["value"]) for name, entry in last.items() if "value" in entry}
    return Start(tuple(map(unescaped, words)), environ)


def _give(container: Object, request: JobRequest, plan: str) -> None:
    own = [{"name": in_turn.VARIABLE, "value": escaped(plan)}]
    if "bundle" in request.details:
        own.append({"name": "PYTHONPATH", "value": "/busbw"})  # each turn has one of its own
    container["command"] = [escaped(request.details["python"]), "-m", in_turn.__name__]
    container["env"] = [*own, *container["env"]]


def turns(handle: Handle) -> TurnFollower:
    """See TakesTurns."""
    return TurnFollower(SubmittedJob(handle))


def follow_one(handle: Handle, folder: Path) -> Iterator[Item]:
    """One turn of a job, whatever was read before: its output is looked for from the first line."""
    follower = turns(handle)
    try:
        yield from follower.follow_turn(handle, folder)
    finally:
        follower.close()


def of_turn(lines: Iterable[str], turn: int) -> Iterator[str]:
    """What a pod printed in one turn."""
    is_inside = False
    for line in lines:
        if (mark := read_mark(line)) is None:
            if is_inside:
                yield line
        elif mark.what != "late":
            is_inside = mark.what == "begin" and mark.turn == turn


class TurnFollower(Follower):
    """As Follower, one turn after the other; no line is read twice. See ``engine.Turns``."""

    def __init__(self, job: SubmittedJob) -> None:
        super().__init__(job, Path())
        self._wanted = -1
        self._inside: dict[str, int] = {}  # pod -> the turn that it is in
        self._ended: dict[str, int] = {}  # pod -> the last turn that it has ended
        self._ahead: set[str] = set()  # pods that have begun a later turn than the wanted one
        self._held: list[Output] = []  # what those printed
        self._workers: set[str] = set()
        self._marks: dict[str, Mark] = {}  # of the wanted turn, in the first pod
        self._ended_s: float | None = None
        self._over_state: JobState | None = None  # the job's end

    def over(self) -> JobState | None:
        """See Turns. The operator makes a lost worker anew, wherever there is room."""
        if self._over_state is None and self._lost:
            lost = self._lost[0]
            node = str(lost["spec"].get("nodeName") or "")
            return JobState(Phase.ENDED, why=f"pod {name_of(lost)} was deleted", host=node)
        return self._over_state

    def close(self) -> None:
        """See Turns."""
        for stream in self._streams.values():
            stream.leave()

    def follow_turn(self, handle: Handle, folder: Path) -> Iterator[Item]:
        """See Turns. What pods say outside turns belongs to the turn that is waited for."""
        self._wanted, self._folder = int(handle.details[TURN]), folder
        (folder / "log").mkdir(exist_ok=True)
        self._last_words, self._marks, self._ended_s = {}, {}, None
        held, self._held, self._ahead = self._held, [], set()
        self._heard_s = self._since_s = time.monotonic()
        for line in held:
            yield self._sorted(line)
        yield from self._until_its_end()
        for pod in self._streams:  # a pod that said nothing was followed all the same
            (folder / "log" / f"{pod}.log").touch()

    def _until_its_end(self) -> Iterator[Item]:
        told = JobState(Phase.PENDING)
        next_look_s = 0.0
        while True:
            yield from self._drain(_IDLE_SECONDS)
            for state in self._begun(told):
                told = state
                yield told
            if self._has_ended():
                yield self._end()
                return
            if time.monotonic() < next_look_s:
                continue
            seen = self._look()
            next_look_s = time.monotonic() + _LOOK_SECONDS
            if seen is None:
                continue
            if seen.phase is Phase.ENDED:
                self._over_state = seen
                yield from self._last_lines()
                yield from self._begun(told)
                yield self._final(seen) if self._is_unknown() else self._end()
                return
            now = self._as_told(seen, told)
            if now != told:
                told = now
                yield told

    def _as_told(self, seen: JobState, told: JobState) -> JobState:
        """A turn that has not begun waits for what its job waits for, or for the turn before."""
        if told.phase is Phase.PENDING and seen.phase is Phase.PENDING:
            return seen
        return replace(told, why=self._trouble())

    def _begun(self, told: JobState) -> Iterator[JobState]:
        """The states that marks tell, once each."""
        if told.phase is Phase.PENDING and self._marks:
            told = JobState(Phase.RUNNING)
            yield told
        ends = self._marks["end"].ends.values() if "end" in self._marks else ()
        is_late = "late" in self._marks or any(end.late for end in ends)
        if is_late and not told.out_of_time:
            yield JobState(Phase.RUNNING, out_of_time=True)

    def _has_ended(self) -> bool:
        """Whether the turn has ended, and its output is here from all pods that are followed."""
        if self._ended_s is None:
            return False
        waited_s = time.monotonic() - self._ended_s
        if self._is_unknown() and waited_s < _LOST_SECONDS:
            return False
        behind = {
            pod
            for pod, stream in self._streams.items()
            if pod not in self._workers | self._ahead
            and self._ended.get(pod, -1) < self._wanted
            and stream.is_alive()
        }
        return not behind or waited_s > _BEHIND_SECONDS

    def _is_unknown(self) -> bool:
        """Whether the pods do not know how the turn ended: one was lost, and the job says how."""
        return not {"skip", "end"} & self._marks.keys() or (
            "end" in self._marks and bool(self._marks["end"].lost)
        )

    def _end(self) -> JobState:
        if "skip" in self._marks:
            why = "its pods did not start it again: its last two launches had not ended in their time"
            return JobState(Phase.ENDED, why=why, code=1)
        view = View(self._job.kind, self._job.slots, {}, self._pods, (), self._last_words, lost=self._lost)
        return ended_turn(view, self._marks["end"].ends)

    def _stream(self, pod: str, container: str, *, worker: bool) -> LogStream:
        if worker:
            self._workers.add(pod)

        def take(text: str) -> None:
            self._lines.put(Output(text, source=pod))

        return LogStream(self._job.api, pod, container, take, lambda: pod in self._over)

    def _drain(self, seconds: float) -> Iterator[Item]:
        for item in super()._drain(seconds):
            yield self._sorted(item) if isinstance(item, Output) else item

    def _sorted(self, line: Output) -> Output | None:
        """A line of the wanted turn; None for a mark, a line of an earlier turn, or one kept for later."""
        pod, mark = line.source, read_mark(line.text)
        if mark is not None and mark.turn > self._wanted:
            self._ahead.add(pod)
        if pod in self._ahead:
            self._held.append(line)
            return None
        if mark is not None:
            self._note(pod, mark)
            return None
        if pod in self._inside and self._inside[pod] < self._wanted:
            return None
        if decode(line.text) is None:
            self._last_words[pod] = line.text.strip() or self._last_words.get(pod, "")
            with (self._folder / "log" / f"{pod}.log").open("a") as file:
                file.write(line.text + "\n")
        return None if pod in self._workers else line

    def _note(self, pod: str, mark: Mark) -> None:
        if mark.what == "begin":
            self._inside[pod] = mark.turn
        elif mark.what != "late":
            self._inside.pop(pod, None)
            self._ended[pod] = mark.turn
        if mark.turn == self._wanted and pod == self._first:
            self._marks[mark.what] = mark
            if mark.what in ("skip", "end"):
                self._ended_s = time.monotonic()
