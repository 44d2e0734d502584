"""The checks that compare ranks, in the order of their findings, and the rules about GPUs, memory and limits.

A check is added by a row of CHECKS.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from busbw.machine.preflight import network, software
from busbw.machine.preflight.facts import Gathered, GpuFacts
from busbw.machine.preflight.outlier_ranks import few, judged, odd_ranks
from busbw.model.finding import Finding, Severity
from busbw.units import format_approximate_size

# Docker's default for /dev/shm, in which NCCL's connections of one host do not fit.
_DOCKER_SHM_BYTES: Final = 64 << 20
# Of the usual host's memory: firmware and crash kernels differ by less, a lost module by more.
_LEAST_MEMORY: Final = 0.9
# An allowance of ours: connections grow with ranks; libraries and logs take the rest.
_FILES_A_RANK: Final = 2
_FILES_BESIDE: Final = 256


def memory(gathered: Gathered) -> Iterator[Finding]:
    """No host has clearly less memory than is usual."""
    sizes = {rank.host: node.memory_bytes for rank, node in gathered.nodes if node.memory_bytes}
    usual = int(statistics.median(sizes.values())) if sizes else 0
    for host, size in sizes.items():
        if size < _LEAST_MEMORY * usual:
            own, others = format_approximate_size(size), format_approximate_size(usual)
            claim = f"{host} has {own} of memory, but most hosts have {others}"
            hint = "check for a lost memory module or a different kind of host"
            yield Finding(Severity.WARNING, claim, hint=hint, host=host)


def shared_memory(gathered: Gathered) -> Iterator[Finding]:
    """/dev/shm holds what NCCL's ranks of one host share."""
    for rank, node in gathered.nodes:
        size, crowded = node.shm_bytes, gathered.hosts.count(rank.host) > 1
        if gathered.backend == "nccl" and crowded and size is not None and size <= _DOCKER_SHM_BYTES:
            claim = f"/dev/shm on {rank.host} has {format_approximate_size(size)}, little for NCCL"
            hint = "start the container with --shm-size=1g or more, or --ipc=host"
            yield Finding(Severity.WARNING, claim, "64 MiB is Docker's default", hint, host=rank.host)


def ulimits(gathered: Gathered) -> Iterator[Finding]:
    """Open files are enough for the connections, and RDMA may lock its buffers."""
    needed = _FILES_A_RANK * len(gathered.ranks) + _FILES_BESIDE
    for rank, node in gathered.nodes:
        files, locked = rank.limits.get("nofile", -1), rank.limits.get("memlock", -1)
        if -1 < files < needed:
            claim = (
                f"{rank.host} allows {files} open files, but {len(gathered.ranks)} ranks may need {needed}"
            )
            hint = "raise nofile in limits.conf, the service or the container"
            yield Finding(Severity.WARNING, claim, "ulimit -n", hint, host=rank.host)
        if locked > -1 and network.fabric(node.nics):
            most = format_approximate_size(locked)
            claim = f"{rank.host} limits locked memory to {most}, and RDMA locks its buffers"
            hint = "set memlock to unlimited in limits.conf, the service or the container"
            yield Finding(Severity.WARNING, claim, "ulimit -l", hint, host=rank.host)


# NVML's reasons that a fault or heat causes; idle clocks and limits that somebody set are not among them.
_SLOWED: Final = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"})
# What -> its value, empty where it is not known -> what to try.
_ALIKE: Final[tuple[tuple[str, Callable[[GpuFacts], str], str], ...]] = (
    ("GPU", lambda gpu: gpu.name, "leave the different ones out, or measure them separately"),
    (
        "active NVLinks",
        lambda gpu: f"{gpu.links_active} of {gpu.links}",
        "check `nvidia-smi nvlink -s` there, and the fabric manager",
    ),
    (
        "highest SM clock",
        lambda gpu: f"{gpu.sm_max_mhz} MHz" if gpu.sm_max_mhz else "",
        "check `nvidia-smi -q -d CLOCK` there",
    ),
    (
        "PCIe lanes of the GPU",
        lambda gpu: f"{gpu.lanes} of {gpu.most_lanes}" if gpu.lanes else "",
        "reseat the GPU or its riser, or take the host out of service",
    ),
)
# Feature of --expect-use, variable that switches it on, its device (``rank.facts.DEVICES``), that one's name.
_FEATURES: Final = (
    (
        "gdrcopy",
        "NCCL_GDRCOPY_ENABLE",
        "gdrdrv",
        "/dev/gdrdrv",
        "load the gdrdrv module there, and give the job its device",
    ),
    (
        "mnnvl",
        "NCCL_MNNVL_ENABLE",
        "imex",
        "IMEX channel (/dev/nvidia-caps-imex-channels)",
        "start nvidia-imex there, and give the job a channel",
    ),
)


def one_for_each_rank(gathered: Gathered) -> Iterator[Finding]:
    """No two ranks are on one GPU, also where hosts are pods of one machine."""
    users: dict[str, list[int]] = defaultdict(list)
    for at, rank in enumerate(gathered.ranks):
        if rank.gpu is not None:
            users[rank.gpu.uuid].append(at)
    for uuid, sharing in users.items():
        if len(sharing) > 1:
            hosts = list(dict.fromkeys(gathered.ranks[rank].host for rank in sharing))
            claim = f"ranks {few([str(rank) for rank in sharing])} share one GPU ({uuid} on {few(hosts)})"
            hint = "start one rank per GPU, each with its own GPU visible (CUDA_VISIBLE_DEVICES)"
            if len(hosts) == len(sharing):
                hint = "give each host or pod a GPU of its own"
                hint += "; with --no-preflight the rows are marked shared-gpu"
            second = gathered.ranks[sharing[1]]
            yield Finding(Severity.ERROR, claim, hint=hint, rank=sharing[1], host=second.host)


def alike(gathered: Gathered) -> Iterator[Finding]:
    """One model, with the same links, lanes and clocks."""
    for what, value, hint in _ALIKE:
        values = {at: value(rank.gpu) for at, rank in enumerate(gathered.ranks) if rank.gpu is not None}
        yield from odd_ranks(Severity.WARNING, what, values, gathered.hosts, hint=hint)


def clocks(gathered: Gathered) -> Iterator[Finding]:
    """No GPU is slowed down by heat, power, a fault or a clock that was set before the work has begun."""
    for at, rank in enumerate(gathered.ranks):
        if (gpu := rank.gpu) is not None:
            for claim, hint in _slowed(at, rank.host, gpu):
                which = f"{gpu.name} {gpu.uuid}"
                yield Finding(Severity.WARNING, claim, which, hint, rank=at, host=rank.host)


def _slowed(rank: int, host: str, gpu: GpuFacts) -> Iterator[tuple[str, str]]:
    """Claim and hint."""
    if reasons := sorted(_SLOWED.intersection(gpu.limits)):
        claim = f"the GPU of rank {rank} ({host}) is throttled before the run: {', '.join(reasons)}"
        yield claim, "check `nvidia-smi -q -d PERFORMANCE,TEMPERATURE` there"
    if gpu.sm_set_mhz and gpu.sm_default_mhz and gpu.sm_set_mhz < gpu.sm_default_mhz:
        clock = f"is set to {gpu.sm_set_mhz} MHz; its default is {gpu.sm_default_mhz} MHz"
        claim = f"the SM clock of the GPU of rank {rank} ({host}) {clock}"
        yield claim, "set it back there (`nvidia-smi -rac`)"


def devices(gathered: Gathered) -> Iterator[Finding]:
    """A feature that is asked for has its device on every host."""
    for feature, variable, device, name, hint in _FEATURES:
        expected = gathered.wants(feature) == "1"
        for rank, node in gathered.nodes:
            asked = f"{variable}=1" if rank.environ.get(variable) == "1" else ""
            if device in node.devices or not (asked or expected):
                continue
            severity = Severity.ERROR if gathered.uses_nccl else Severity.INFO
            claim = f"{asked or f'{feature}=1'} was requested, but {rank.host} has no {name}"
            yield Finding(severity, claim, hint=hint, host=rank.host)


# Name -> a pure function; its docstring says what holds where it finds nothing.
CHECKS: Final[Mapping[str, Callable[[Gathered], Iterator[Finding]]]] = {
    "backend": software.backend,
    "counts": software.counts,
    "versions": software.versions,
    "environment": software.environment,
    "files": software.files,
    "net-plugin": software.net_plugin,
    "gpu-for-each-rank": one_for_each_rank,
    "gpus-alike": alike,
    "gpu-clocks": clocks,
    "feature-devices": devices,
    "nics-up": network.up,
    "nics-asked-for": network.asked_for,
    "nic-rates": network.rates,
    "memory": memory,
    "shared-memory": shared_memory,
    "ulimits": ulimits,
    "shared-folder": software.shared_folder,
}


def judge(gathered: Gathered) -> tuple[Finding, ...]:
    """All findings, the worst first."""
    return judged(CHECKS, gathered, strict=gathered.asked.strict)
