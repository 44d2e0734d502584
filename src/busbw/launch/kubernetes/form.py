"""What a Kubernetes job is made of: flags and words of ``--set`` that fit each other, as one value. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from busbw.errors import UsageError
from busbw.launch.engine import Job, Work
from busbw.launch.kubernetes.words import Kind, Words, read_words
from busbw.launch.settle import refuse_too_few, refuse_unused, seconds_of, split_words
from busbw.plan.flags.launch import LaunchSettings

# Flags of other engines, and what to do instead.
_UNUSED: Final[Mapping[str, str]] = {
    "hosts": "give -N and --set instance-type=TYPE: the scheduler chooses the nodes",
    "hostfile": "give -N and --set instance-type=TYPE: the scheduler chooses the nodes",
    "setup_script": "put what it does into the image, or give --env",
    "job_id": "leave it out: a job's pods are its own",
    "partition": "use --set select=LABEL=VALUE to choose nodes",
    "account": "use --namespace",
    "segment": "use --set select=LABEL=VALUE to choose nodes",
    "srun_args": "use --mpirun-args",
    "sbatch_args": "use --set, or --patch FILE",
}
# The label that a node's name is under.
HOSTNAME: Final = "kubernetes.io/hostname"
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
# A folder of the host, where the pod has it, and whether it is only read.
Mount = tuple[str, str, bool]
_MOUNT: Final = re.compile(r"(/[^:]*)(?::(/[^:]*)(:ro)?)?")


@dataclass(frozen=True)
class Form:
    """A Kubernetes job's values. ``resources`` are a worker's limits and requests, by resource name, ``gpus``
    its GPUs, whatever they are called; ``labels`` what a worker's node must have one value of, by label;
    ``compute_domain`` the number of nodes of an NVIDIA ComputeDomain (0: its driver counts none), None
    without one; ``alone``: a node has one worker of this job. ``words`` has what stands in the manifest as it
    was given.
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
    gpus: int = 0
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compute_domain: int | None = None
    mounts: tuple[Mount, ...] = ()
    alone: bool = True
    deadline_seconds: int | None = None
    words: Words = field(default_factory=Words)


def check(launch: LaunchSettings) -> None:
    """See Engine. What a preset leaves to the user is taken as given."""
    first = launch.nodes.partition(",")[0]
    words = launch.set if first else ("replicas=1", *launch.set)
    whole = replace(launch, nodes=first, image=launch.image or "image", set=words)
    read_form(Job(run_id="check", folder="check", work=Work(("run",)), launch=whole))


def read_form(job: Job) -> Form:
    """The form of a job. Raises UsageError for what does not fit, naming the flag."""
    launch, words = job.launch, read_words(job.launch.set)
    refuse_unused(launch, "Kubernetes", _UNUSED)
    kind = _kind(job, words)
    workers = _workers(launch, words)
    if not (image := words.image or launch.image):
        raise UsageError(
            "no container image given",
            hint="give --image NAME, an image that has Python and busbw (images/ has files to build one)",
        )
    resources = _resources(words)
    gpus = sum(int(count) for name, count in resources.items() if name.endswith("/gpu"))
    asked = words.np or job.ranks
    slots = words.slots or launch.ranks_per_node or _slots_of(asked, workers, gpus)
    ranks = asked or workers * slots
    _refuse_ranks(kind, ranks, workers, slots)
    return Form(
        kind=kind,
        image=image,
        workers=workers,
        slots=slots,
        ranks=ranks,
        python=launch.python or "python3",
        mpi=_mpi(launch, words),
        mpirun_words=tuple(split_words("--mpirun-args", launch.mpirun_args)),
        resources=resources,
        gpus=gpus,
        labels=_labels(words),
        compute_domain=workers if words.compute_domain == "nodes" else words.compute_domain,
        mounts=_mounts(launch.mounts),
        alone=launch.exclusive,
        deadline_seconds=seconds_of(launch.time_limit),
        words=words,
    )


def _kind(job: Job, words: Words) -> Kind:
    """MPI ranks need the MPI Operator; without MPI an indexed Job needs nothing that a cluster lacks."""
    launch = job.launch
    without_mpi = launch.mpi == "none" or job.world == "nccl"
    kind = words.kind or ("job" if without_mpi else "mpijob")
    if kind == "mpijob":
        if without_mpi:
            raise UsageError(
                "an MPIJob needs MPI, but --mpi none or --world nccl is given",
                hint="give --set kind=job or jobset, or leave --mpi out",
            )
        return kind
    if job.world == "mpi" or launch.mpi in ("openmpi", "mpich") or launch.mpirun_args:
        raise UsageError(
            f"a {kind} has no mpirun",
            hint="give --set kind=mpijob, or leave --mpi, --world mpi and --mpirun-args out",
        )
    if launch.topology:
        raise UsageError(
            f"--topology cannot be applied to a {kind}: its pods have numbers before they have nodes",
            hint="use an MPIJob (leave --mpi none, --world nccl and --set kind out)",
        )
    return kind


def _mpi(launch: LaunchSettings, words: Words) -> Literal["openmpi", "mpich"]:
    """The MPI of the image's mpirun: --mpi, else ``--set mpi``, which presets have for their images."""
    chosen = words.mpi if launch.mpi in ("auto", "none") else launch.mpi
    return "openmpi" if chosen == "openmpi" else "mpich"


def _workers(launch: LaunchSettings, words: Words) -> int:
    """A preset's ``replicas`` are -N already, and no number of its own beside a word of --set."""
    said = words.replicas
    if not (said or launch.nodes):
        raise UsageError("no number of nodes given", hint="give -N, for example -N 2")
    if said and launch.nodes and said != int(launch.nodes):
        raise UsageError(f"--set replicas={said}, but -N {launch.nodes}", hint="leave one of them out")
    return said or int(launch.nodes)


def _resources(words: Words) -> Mapping[str, str]:
    """Of a worker, by name; a count of 0 is none."""
    plain = {"cpu": words.cpu, "memory": words.memory, "hugepages-2Mi": words.hugepages_2mi}
    named = [*plain.items(), *words.gpu, *words.nic, *words.resource]
    return {name: quantity for name, quantity in named if quantity not in (None, "0")}


def _labels(words: Words) -> Mapping[str, tuple[str, ...]]:
    """The values that a node may have of each label."""
    own = {_INSTANCE_TYPE: (words.instance_type,)} if words.instance_type else {}
    return {**own, **dict(words.select)}


def _mounts(text: str) -> tuple[Mount, ...]:
    found = []
    for word in filter(None, text.split(",")):
        match = _MOUNT.fullmatch(word)
        if match is None:
            raise UsageError(
                f"--mounts {word} is not a mount of an absolute path",
                hint="write /from:/to, /both, or /from:/to:ro for one that is only read",
            )
        source, target, read_only = match.groups()
        found.append((source, target or source, bool(read_only)))
    return tuple(found)


def _slots_of(ranks: int | None, workers: int, gpus: int) -> int:
    """Slots of a worker where nobody says how many: as many as spread the ranks evenly, one a GPU at most."""
    if not ranks:
        return gpus or 1
    even = -(-ranks // workers)
    return min(even, gpus) if gpus else even


def _refuse_ranks(kind: Kind, ranks: int, workers: int, slots: int) -> None:
    """Raises UsageError for ranks that the workers' slots do not hold, or do not fill without MPI."""
    refuse_too_few(ranks, workers)
    if ranks > workers * slots:
        raise UsageError(
            f"{ranks} ranks but {workers} workers of {slots} slots",
            hint=f"give -N {-(-ranks // slots)}, or more --ranks-per-node",
        )
    if kind != "mpijob" and ranks != workers * slots:
        raise UsageError(
            f"{ranks} ranks do not fill {workers} pods of {slots}: without MPI every pod has as many",
            hint="leave --ranks out, or give --set kind=mpijob",
        )
