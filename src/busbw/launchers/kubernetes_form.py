"""What a user may set of a Kubernetes job: flags and ``--set KEY=VALUE``, read into one value. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from busbw.errors import UsageError
from busbw.launchers.engine import Job, Work
from busbw.launchers.kubernetes_words import WORDS, read_words
from busbw.launchers.rank_counts import refuse_too_few
from busbw.launchers.time_limit import seconds_of
from busbw.settings.flag import flag_of
from busbw.settings.launch import LaunchSettings

Kind = Literal["mpijob", "job", "jobset"]
KINDS: Final[tuple[Kind, ...]] = ("mpijob", "job", "jobset")
DEFAULT_SHM: Final = ""  # as much as the container may use

# Flags of other engines, and what to do instead.
_FOREIGN: Final[Mapping[str, str]] = {
    "hosts": "give -N and --set instance-type=TYPE: the scheduler chooses the nodes",
    "hostfile": "give -N and --set instance-type=TYPE: the scheduler chooses the nodes",
    "setup_script": "put what it does into the image, or give --env",
    "job_id": "leave it out: a job's pods are its own",
    "partition": "use --set select=LABEL=VALUE to choose nodes",
    "account": "use --namespace",
    "segment": "use --set select=LABEL=VALUE to choose nodes",
    "srun_args": "use --mpirun-args",
    "sbatch_args": "use --set",
}
# Letters, digits, and what resource names, label keys and quantities have besides.
# The label that a node's name is under.
HOSTNAME: Final = "kubernetes.io/hostname"
_QUANTITY: Final = re.compile(r"\d+(\.\d+)?([KMGTPE]i?|k|m)?\Z")
_RESOURCE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?\Z")


# A name that a topology may have, and whether pods must share it or had better.
_PREFERRED: Final = ":preferred"


@dataclass(frozen=True)
class Affinity:
    """Pods of the job go to nodes with one value of this label: they must, or should where that can be."""

    label: str
    required: bool = True


@dataclass(frozen=True)
class Mount:
    """A folder of the host, and where the pod has it."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Form:
    """A Kubernetes job's values. ``resources`` are a worker's limits and requests, by resource name, and
    ``launcher`` the requests of an MPIJob's launcher; ``selector`` the labels that a worker's node must have,
    ``choices`` those of which it must have one value; ``excluded`` nodes to stay away from, ``only`` those to
    stay on, where there are any.

    ``compute_domain`` is the number of nodes of an NVIDIA ComputeDomain (0: its driver counts none), None
    without one; ``spread`` (label, at least so many values of it); ``networks`` names of Multus networks;
    ``words`` are values of ``kubernetes_words.WORDS``.
    """

    kind: Kind
    image: str
    workers: int
    slots: int
    ranks: int
    python: str
    mpi: Literal["openmpi", "mpich"] = "mpich"
    mpirun_words: tuple[str, ...] = ()
    resources: Mapping[str, str] = field(default_factory=dict)
    launcher: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    compute_domain: int | None = None
    affinity: tuple[Affinity, ...] = ()
    spread: tuple[tuple[str, int], ...] = ()
    networks: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    shm: str = DEFAULT_SHM
    words: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = True  # a node has one worker of this job
    deadline_seconds: int | None = None
    brings: bool = False  # --bring

    @property
    def gpus(self) -> int:
        """GPUs of a worker, whatever they are called."""
        return sum(int(count) for name, count in self.resources.items() if name.endswith("/gpu"))


def kind_in(details: Mapping[str, str]) -> Kind:
    """The kind in the details of a request or a handle."""
    return next(kind for kind in KINDS if kind == details["kind"])


def check(launch: LaunchSettings) -> None:
    """See Engine. What a preset leaves to the user is taken as given."""
    first = launch.nodes.partition(",")[0]
    words = launch.set if first else ("replicas=1", *launch.set)
    whole = replace(launch, nodes=first, image=launch.image or "image", set=words)
    read_form(Job(run_id="check", folder="check", work=Work(("run",)), launch=whole))


def read_form(job: Job) -> Form:
    """The form of a job. Raises UsageError for what does not fit, naming the flag."""
    launch = job.launch
    for name in launch.given():
        if name in _FOREIGN:
            flag = flag_of(name)
            raise UsageError(f"{flag} does not concern Kubernetes", hint=_FOREIGN[name])
    values = _Values(launch.set)
    kind = _kind(job, values)
    _refuse_order(launch, kind)
    resources = _resources(values)
    labels = _labels(values)
    workers = _workers(launch, values)
    gpus = next((int(count) for name, count in resources.items() if name.endswith("/gpu")), 0)
    asked = values.count("np") or job.ranks
    slots = values.count("slots") or launch.ranks_per_node or _slots_of(asked, workers, gpus)
    ranks = asked or workers * slots
    refuse_too_few(ranks, workers)
    _refuse_too_many(ranks, workers, slots, gpus)
    if kind != "mpijob" and ranks != workers * slots:
        raise UsageError(
            f"{ranks} ranks do not fill {workers} pods of {slots}: without MPI every pod has as many",
            hint="leave --ranks out, or give --set kind=mpijob",
        )
    form = Form(
        kind=kind,
        image=values.text("image") or launch.image,
        workers=workers,
        slots=slots,
        ranks=ranks,
        python=launch.python or "python3",
        mpi=_mpi(launch, values),
        mpirun_words=_mpirun_words(launch, kind),
        resources=resources,
        launcher=_launcher(values, kind),
        selector={label: values[0] for label, values in labels.items() if len(values) == 1},
        choices={label: values for label, values in labels.items() if len(values) > 1},
        excluded=_names(values, "exclude"),
        only=_only(values, workers if launch.exclusive else 1),
        compute_domain=_compute_domain(values, workers),
        affinity=_affinity(values),
        spread=_spread(values),
        networks=_names(values, "networks"),
        mounts=_mounts(launch.mounts),
        shm=values.quantity("shm"),
        words=read_words({key: values.since_empty(key) for key in WORDS}),
        alone=launch.exclusive,
        deadline_seconds=seconds_of(launch.time_limit),
        brings=launch.bring,
    )
    values.refuse_rest()
    if not form.image:
        raise UsageError(
            "no container image given", hint="give --image NAME: an image that has Python and busbw"
        )
    return form


def _slots_of(ranks: int | None, workers: int, gpus: int) -> int:
    """Slots of a worker where nobody says how many: as many as spread the ranks evenly, one a GPU at most."""
    if not ranks:
        return gpus or 1
    even = -(-ranks // workers)
    return min(even, gpus) if gpus else even


def _refuse_too_many(ranks: int, workers: int, slots: int, gpus: int) -> None:
    if ranks <= workers * slots:
        return
    each = -(-ranks // workers)
    raise UsageError(
        f"{ranks} ranks but {workers} workers of {slots} slots",
        hint=f"give -N {-(-ranks // slots)}" + f", or --ranks-per-node {each}" * (not gpus or each <= gpus),
    )


class _Values:
    """``--set KEY=VALUE`` words, taken one by one: what nobody takes is an error."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._found: dict[str, list[str]] = {}
        self._known: list[str] = []
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or not key:
                raise UsageError(f"--set {word!r} is not KEY=VALUE", hint="write --set gpu=8")
            # A preset's name may stand before the key; Kubernetes has one form only.
            self._found.setdefault(key.removeprefix("kubernetes."), []).append(value)

    def all(self, key: str) -> list[str]:
        self._known.append(key)
        return self._found.pop(key, [])

    def since_empty(self, key: str) -> tuple[str, ...]:
        """All values; an empty one drops those before it, which a preset may have given."""
        found = self.all(key)
        start = max((number for number, text in enumerate(found, 1) if not text), default=0)
        return tuple(found[start:])

    def peek(self, key: str) -> str:
        """The last value of a key that somebody takes later."""
        return self._found.get(key, [""])[-1]

    def text(self, key: str) -> str:
        values = self.all(key)
        return values[-1] if values else ""

    def count(self, key: str, least: int = 1) -> int | None:
        text = self.text(key)
        if not text:
            return None
        if not text.isdecimal() or int(text) < least:
            raise UsageError(f"--set {key}={text} is no count", hint=f"give {least} or more")
        return int(text)

    def quantity(self, key: str) -> str:
        text = self.text(key)
        if text and not _QUANTITY.match(text):
            raise UsageError(f"--set {key}={text} is no quantity", hint="write it as 8, 500m or 16Gi")
        return text

    def refuse_rest(self) -> None:
        if self._found:
            raise UsageError(
                f"--set {next(iter(self._found))} is not known to Kubernetes jobs",
                hint=f"use one of: {', '.join(sorted(self._known))}",
            )


def _kind(job: Job, values: _Values) -> Kind:
    """MPI ranks need the MPI Operator; without MPI an indexed Job needs nothing that a cluster lacks."""
    text = values.text("kind")
    if text and text not in KINDS:
        raise UsageError(f"--set kind={text} is no kind of job", hint=f"use one of: {', '.join(KINDS)}")
    without_mpi = job.launch.mpi == "none" or job.world == "nccl"
    kind: Kind = next((kind for kind in KINDS if kind == text), "job" if without_mpi else "mpijob")
    if kind == "mpijob" and without_mpi:
        raise UsageError(
            "an MPIJob's ranks have MPI", hint="give --set kind=job or jobset, or leave --mpi out"
        )
    if kind != "mpijob" and (job.world == "mpi" or job.launch.mpi in ("openmpi", "mpich")):
        raise UsageError(f"a {kind} has no mpirun", hint="leave --set kind out: an MPIJob has one")
    return kind


def _mpi(launch: LaunchSettings, values: _Values) -> Literal["openmpi", "mpich"]:
    """Whose mpirun the image has: --mpi says it, else ``--set mpi``, which presets know of their images."""
    said = values.text("mpi")
    if said not in ("", "openmpi", "mpich"):
        raise UsageError(f"--set mpi={said} is no MPI with an mpirun", hint="use one of: openmpi, mpich")
    chosen = said if launch.mpi in ("auto", "none") else launch.mpi
    return "openmpi" if chosen == "openmpi" else "mpich"


def _compute_domain(values: _Values, workers: int) -> int | None:
    """Nodes of the domain: ``nodes`` are those of the job; its pods wait for as many as it says."""
    if values.peek("compute-domain") == "nodes":
        values.all("compute-domain")
        return workers
    count = values.count("compute-domain", least=0)
    if count and count != workers:
        raise UsageError(
            f"--set compute-domain={count}, but the job has {workers} nodes: they would wait for others",
            hint="give --set compute-domain=nodes, or 0 where the driver needs no number",
        )
    return count


def _workers(launch: LaunchSettings, values: _Values) -> int:
    """A preset's ``replicas`` are -N already, and no number of its own beside a word of --set."""
    said = values.count("replicas")
    if not (said or launch.nodes):
        raise UsageError("no number of nodes given", hint="give -N, for example -N 2")
    if said and launch.nodes and said != int(launch.nodes):
        raise UsageError(f"--set replicas={said}, but -N {launch.nodes}", hint="leave one of them out")
    return said or int(launch.nodes)


def _resources(values: _Values) -> Mapping[str, str]:
    found = {}
    for key in ("cpu", "memory", "hugepages-2Mi"):
        if quantity := values.quantity(key):
            found[key] = quantity
    for key, usual in (("gpu", "nvidia.com/gpu"), ("nic", "vpc.amazonaws.com/efa")):
        for text in values.all(key):
            name, equals, count = text.rpartition("=")
            if not count.isdecimal() or (equals and not _RESOURCE.match(name)):
                raise UsageError(
                    f"--set {key}={text} is no count",
                    hint=f"write {key}=8 for {usual}, or {key}=NAME=8 for another resource",
                )
            if int(count):
                found[name or usual] = count
    for text in values.all("resource"):
        name, equals, quantity = text.rpartition("=")
        if not equals or not _RESOURCE.match(name) or not _QUANTITY.match(quantity):
            raise UsageError(
                f"--set resource={text} is not NAME=QUANTITY",
                hint="write resource=aws.amazon.com/neuroncore=32",
            )
        found[name] = quantity
    return found


def _launcher(values: _Values, kind: Kind) -> Mapping[str, str]:
    """What the launcher's pod asks for; jobs without MPI have none, and need not be told so."""
    asked = {name: values.quantity(f"launcher-{name}") for name in ("cpu", "memory")}
    return {name: quantity for name, quantity in asked.items() if quantity and kind == "mpijob"}


def _labels(values: _Values) -> Mapping[str, tuple[str, ...]]:
    """The values that a node may have of each label."""
    found: dict[str, tuple[str, ...]] = {}
    if kind := values.text("instance-type"):
        found["node.kubernetes.io/instance-type"] = (kind,)
    for text in values.all("select"):
        label, equals, value = text.partition("=")
        if not equals or not _RESOURCE.match(label):
            raise UsageError(
                f"--set select={text} is not LABEL=VALUE", hint="write select=zone=a, or select=zone=a|b"
            )
        found[label] = tuple(value.split("|"))
    return found


def _affinity(values: _Values) -> tuple[Affinity, ...]:
    found = []
    for text in _names(values, "affinity"):
        label = text.removesuffix(_PREFERRED)
        if not _RESOURCE.match(label):
            raise UsageError(
                f"--set affinity={text} is no label of nodes",
                hint=f"write affinity=nvidia.com/gpu.clique, or affinity=zone{_PREFERRED}",
            )
        found.append(Affinity(label, required=label == text))
    return tuple(found)


def _spread(values: _Values) -> tuple[tuple[str, int], ...]:
    found = []
    for text in _names(values, "spread"):
        label, equals, count = text.partition("=")
        if not equals or not _RESOURCE.match(label) or not count.isdecimal() or int(count) < 1:
            raise UsageError(
                f"--set spread={text} is not LABEL=COUNT", hint="write spread=topology.kubernetes.io/zone=2"
            )
        found.append((label, int(count)))
    return tuple(found)


def _only(values: _Values, workers: int) -> tuple[str, ...]:
    """Nodes, as many at least as there are ``workers`` that share none. Raises UsageError."""
    words = ",".join(values.since_empty("only")).split(",")
    names = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
    if names and len(names) < workers:
        raise UsageError(
            f"--set only={','.join(names)}: {len(names)} nodes for {workers} pods that share none",
            hint=f"name {workers} nodes, give -N {len(names)}, or --shared",
        )
    return names


def _names(values: _Values, key: str) -> tuple[str, ...]:
    """Every word of a key, separated by commas or given again."""
    words = (word.strip() for text in values.all(key) for word in text.split(","))
    return tuple(word for word in words if word)


def _refuse_order(launch: LaunchSettings, kind: Kind) -> None:
    if launch.topology and kind != "mpijob":
        raise UsageError(
            f"--topology cannot be applied to a {kind}: its pods have numbers before they have nodes",
            hint="use an MPIJob (leave --mpi none, --world nccl and --set kind out)",
        )


def _mounts(text: str) -> tuple[Mount, ...]:
    found = []
    for word in filter(None, text.split(",")):
        source, _, rest = word.partition(":")
        target, colon, mode = rest.partition(":")
        if not source.startswith("/") or not (target or source).startswith("/"):
            raise UsageError(f"--mounts {word} names no absolute folders", hint="write /from:/to, or /both")
        if colon and mode != "ro":
            raise UsageError(
                f"--mounts {word}: {mode!r} is nothing that a mount can be",
                hint="write /from:/to:ro for one that is only read, or leave it out",
            )
        found.append(Mount(source, target or source, read_only=bool(colon)))
    return tuple(found)


def _mpirun_words(launch: LaunchSettings, kind: Kind) -> tuple[str, ...]:
    if launch.mpirun_args and kind != "mpijob":
        raise UsageError(f"a {kind} has no mpirun", hint="leave --mpirun-args out")
    try:
        return tuple(shlex.split(launch.mpirun_args))
    except ValueError as error:
        raise UsageError(f"--mpirun-args {launch.mpirun_args!r}: {error}", hint="close the quote") from error
