"""Pods that are held for many launches: the job that holds them, and each launch in them.

A launch is what the pods of a job of its own would have run. Agents start it, over connections into the
containers, and leave nothing of it behind: they are those of hosts (``hosts_agent``), and so is the keeper
that owns the launch.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from busbw.launchers import kubernetes_exec, kubernetes_hold, kubernetes_pod
from busbw.launchers.engine import Handle, JobRequest
from busbw.launchers.hosts_ssh import agent_command
from busbw.launchers.keeper_spec import AgentSpec, KeeperSpec, Task
from busbw.launchers.kubernetes_form import Kind, kind_in
from busbw.launchers.kubernetes_manifest import (
    JOB_FILE,
    Object,
    escaped,
    on_first_workers,
    unescaped,
)
from busbw.launchers.kubernetes_state import (
    Fields,
    container_of,
    first_pod,
    has_ended,
    has_started,
    is_worker,
    name_of,
    number_of,
    was_wanted_away,
)
from busbw.launchers.kubernetes_yaml import from_yaml, to_yaml
from busbw.world.watched import watch_address

_LONG_SECONDS: Final = 24 * 3600.0
# A connection that is silent for longer is lost on our side too (kubernetes_exec), and nobody hears the end.
_SILENCE_SECONDS: Final = 60.0
# Where the container is whose command starts ranks.
_CONTAINERS: Final[Mapping[Kind, tuple[str | int, ...]]] = {
    "job": ("spec", "template", "spec"),
    "jobset": ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec"),
    "mpijob": ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec"),
}


@dataclass(frozen=True)
class Held:
    """A job whose pods are held. ``starters`` are the pods that run a launch's commands, in the order of
    their numbers: all of an indexed Job, the launcher of an MPIJob; ``workers`` those of an MPIJob.
    """

    handle: Handle
    kind: Kind
    starters: tuple[Fields, ...]
    workers: tuple[Fields, ...] = ()

    @property
    def pods(self) -> tuple[Fields, ...]:
        """All."""
        return (*self.starters, *self.workers)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Of the pods that measure."""
        pods = self.workers or self.starters
        return tuple(dict.fromkeys(str(pod["spec"]["nodeName"]) for pod in pods))

    def is_intact(self, pods: Sequence[Fields]) -> bool:
        """Whether they are all among the ``pods`` of a later look, and run: operators make lost workers anew,
        of the same names.
        """
        alive = {
            pod["metadata"]["uid"]
            for pod in pods
            if has_started(pod) and not has_ended(pod) and "deletionTimestamp" not in pod["metadata"]
        }
        return all(pod["metadata"]["uid"] in alive for pod in self.pods)

    def died(self, pods: Sequence[Fields]) -> bool:
        """Whether one of them ended though nobody wanted it away, by a later look."""
        own = {pod["metadata"]["uid"] for pod in self.pods}
        return any(
            pod["metadata"]["uid"] in own
            and not was_wanted_away(pod)
            and (has_ended(pod) or bool(pod.get("status", {}).get("reason")))
            for pod in pods
        )


def holding(request: JobRequest, python: str, wait_seconds: float | None) -> JobRequest:
    """The job of ``request``, whose pods hold instead, with the same variables: Python itself may need them.
    ``python`` is the one in the image; pods wait for each other for ``wait_seconds`` (None: for long).
    """
    documents = from_yaml(request.files[JOB_FILE])
    container = _container(documents[-1], kind_in(request.details))
    container.pop("args", None)
    text = Path(kubernetes_hold.__file__).read_text()
    container["command"] = [
        escaped(word) for word in (python, "-c", text, f"{wait_seconds or _LONG_SECONDS:g}")
    ]
    details = {**request.details, "slots": "0"}  # its pods are no ranks
    return replace(request, files={**request.files, JOB_FILE: to_yaml(documents)}, details=details)


def held_by(handle: Handle, pods: Sequence[Fields], count: int) -> Held | None:
    """The pods of a job that runs, ``count`` of which measure; None where they are not all there. Pure."""
    kind = kind_in(handle.details)
    if kind == "mpijob":
        workers = sorted(filter(is_worker, pods), key=lambda pod: int(name_of(pod).rpartition("-")[2]))
        launcher = first_pod(kind, pods)
        if launcher is None or len(workers) != count:
            return None
        return Held(handle, kind, (launcher,), tuple(workers))
    numbered = {number: pod for pod in pods if (number := number_of(pod)) is not None}
    if sorted(numbered) != list(range(count)) or len(pods) != count:
        return None
    return Held(handle, kind, tuple(numbered[number] for number in range(count)))


def in_pods(
    request: JobRequest, held: Held, job: str, token: str, python: str, limit_seconds: float = 0.0
) -> JobRequest:
    """A launch, which ``request`` is a job of its own for, in held pods: ``job`` is its name, by which the
    agents know its processes. It ends by itself after ``limit_seconds`` (0: never). Pure.
    """
    argv, environ = _start_of(_container(from_yaml(request.files[JOB_FILE])[-1], held.kind))
    nodes = int(request.nodes or 1)
    hosts: tuple[str, ...] = ()
    tasks: list[tuple[Task, ...]] = []
    if held.kind == "mpijob":
        tasks.append((_mpi_task(argv, environ, nodes, len(held.workers)),))
        hosts = _hosts_by_rank(request, held)
    else:
        tasks += _tasks(argv, {**environ, "BUSBW_TOKEN": token}, int(request.details["slots"]), nodes)
    tasks += [()] * (len(held.pods) - len(tasks))
    agents = (
        AgentSpec(name_of(pod), _connect(held.handle, pod, python), own)
        for pod, own in zip(held.pods, tasks, strict=True)
    )
    spec = KeeperSpec(
        job=job,
        agents=tuple(agents),
        hosts_by_rank=hosts,
        watch=watch_address(job) if hosts else "",
        try_by_hand=f"{kubectl(held.handle.details)} exec HOST -- true",
        sweeps=f"{held.handle.name}-",
        silence_seconds=_SILENCE_SECONDS,
        limit_seconds=limit_seconds,
    )
    return replace(request, engine="hosts", name=job, files={}, details={"spec": spec.to_json()})


def kubectl(details: Mapping[str, str]) -> str:
    """The words with which a person reaches what a handle's ``details`` mean."""
    context = f" --context {shlex.quote(details['context'])}" if details["context"] else ""
    return f"kubectl{context} -n {details['namespace']}"


def _container(job: Object, kind: Kind) -> Object:
    place: Any = job
    for word in _CONTAINERS[kind]:
        place = place[word]
    found: Object = place["containers"][0]
    return found


def _start_of(container: Object) -> tuple[tuple[str, ...], dict[str, str]]:
    """What a container executes: the words, and the variables whose values are known. What the cluster fills
    in is the held container's own.
    """
    words = [*container["command"], *container.get("args", ())]
    last = {entry["name"]: entry for entry in container["env"]}  # of two of a name the last one counts
    environ = {name: unescaped(entry["value"]) for name, entry in last.items() if "value" in entry}
    return tuple(map(unescaped, words)), environ


def _tasks(
    argv: tuple[str, ...], environ: Mapping[str, str], slots: int, pods: int
) -> list[tuple[Task, ...]]:
    """A task for each rank, by pod: its agent starts the ranks itself, so that it knows which one died."""
    if kubernetes_pod.__name__ not in argv:
        return [(Task(argv, environ, rank),) for rank in range(pods)]
    own = argv[argv.index(kubernetes_pod.__name__) + 2 :]
    found = []
    for number in range(pods):
        index = {"JOB_COMPLETION_INDEX": str(number)}
        commands = kubernetes_pod.pod_request(slots, own, {**environ, **index}).commands
        ranks = enumerate(commands, number * slots)
        found.append(tuple(Task(each.argv, {**environ, **each.environ}, rank) for rank, each in ranks))
    return found


def _mpi_task(argv: tuple[str, ...], environ: Mapping[str, str], nodes: int, workers: int) -> Task:
    """The launch script, on as many workers."""
    shell, option, script, *words = argv
    if nodes < workers:
        script = on_first_workers(script, nodes)
    return Task((shell, option, script, *words), environ)


def _hosts_by_rank(request: JobRequest, held: Held) -> tuple[str, ...]:
    """As the launch script fills workers; nobody knows where --topology puts ranks."""
    if request.rank_order is not None or not request.ranks:
        return ()
    nodes = int(request.nodes or 1)
    least, more = divmod(request.ranks, nodes)
    names = [name_of(pod) for pod in held.workers[:nodes]]
    return tuple(name for number, name in enumerate(names) for _ in range(least + (number < more)))


def _connect(handle: Handle, pod: Fields, python: str) -> tuple[str, ...]:
    """The words that start the agent in a pod."""
    where = (handle.details["context"], handle.details["namespace"], name_of(pod), container_of(pod))
    agent = agent_command("", local=True, ssh=(), pythons=(python,), setup="")
    return (sys.executable, "-m", kubernetes_exec.__name__, *where, *agent)
