"""The host: system, processors, and how much memory a measurement may take.

The memory limit decides whether a sweep is refused before it starts, so it must be neither the machine's when
a control group allows less, nor today's MemTotal where memory is added on demand.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.machine.cgroups import MemoryGroup, cpu_quota, memory_groups
from busbw.machine.sysfs import PROC, SYS, entries, read_text

_OS_RELEASE: Final = Path("/etc/os-release")


@dataclass(frozen=True, slots=True)
class Processors:
    """``sockets``, ``cores`` and ``threads`` are the machine's; ``usable_cores`` are this process's.

    ``usable_cores`` is how many threads can run at once: the affinity mask, and the control group's quota
    where that is lower (rounded down, at least 1).
    """

    model: str
    architecture: str
    sockets: int
    cores: int
    threads: int
    affinity_cores: int
    quota_cores: float | None
    usable_cores: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Host memory in bytes. ``groups`` are the control groups that limit it, innermost first.

    ``grows_on_demand`` says why ``total_bytes`` is not the machine's memory (empty where it is): the machine
    gets more when it is used.
    """

    total_bytes: int
    available_bytes: int
    groups: tuple[MemoryGroup, ...]
    grows_on_demand: str


@dataclass(frozen=True, slots=True)
class AvailableMemory:
    """What may be allocated now, None where nobody knows, and where the number comes from."""

    size_bytes: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Host:
    """One machine, as this process sees it."""

    hostname: str
    kernel: str
    os: str
    processors: Processors
    memory: Memory


def read_host(*, sysfs: Path = SYS, proc: Path = PROC, os_release: Path = _OS_RELEASE) -> Host:
    """Read everything about this host; a few milliseconds."""
    lines = (line.partition("=") for line in read_text(os_release).splitlines())
    pretty = (value for name, _, value in lines if name == "PRETTY_NAME")
    return Host(
        hostname=platform.node(),
        kernel=read_text(proc / "sys" / "kernel" / "osrelease") or platform.release(),
        os=next((name.strip("\"'") for name in pretty), platform.system()),
        processors=read_processors(sysfs=sysfs, proc=proc),
        memory=read_memory(sysfs=sysfs, proc=proc),
    )


# ---- processors --------------------------------------------------------------------------------------


def read_processors(*, sysfs: Path = SYS, proc: Path = PROC) -> Processors:
    """Processors of the machine and those that this process may use."""
    threads, cores, sockets = _topology(sysfs)
    affinity = len(os.sched_getaffinity(0))
    quota = cpu_quota(proc, sysfs)
    return Processors(
        model=_processor_model(proc),
        architecture=platform.machine(),
        sockets=sockets,
        cores=cores,
        threads=threads,
        affinity_cores=affinity,
        quota_cores=quota,
        usable_cores=affinity if quota is None else max(1, min(affinity, int(quota))),
    )


def _topology(sysfs: Path) -> tuple[int, int, int]:
    """(threads, cores, sockets) that are online, from sysfs: /proc/cpuinfo has no socket numbers on Arm."""
    places = set()
    threads = 0
    for cpu in entries(sysfs / "devices" / "system" / "cpu"):
        if not cpu.name[3:].isdecimal():
            continue
        core = read_text(cpu / "topology" / "core_id")
        if core:  # absent for a processor that is offline
            threads += 1
            places.add((read_text(cpu / "topology" / "physical_package_id"), core))
    if threads == 0:
        count = os.cpu_count() or 1
        return count, count, 1
    return threads, len(places), len({package for package, _ in places})


def usable_cpus_by_core() -> list[set[int]]:
    """The CPUs that this process may use, together where they are threads of one core, in their order."""
    cores: dict[tuple[str, ...], set[int]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        topology = SYS / "devices" / "system" / "cpu" / f"cpu{cpu}" / "topology"
        place = (read_text(topology / "physical_package_id"), read_text(topology / "core_id"))
        cores.setdefault(place if all(place) else (str(cpu),), set()).add(cpu)
    return list(cores.values())


def _processor_model(proc: Path) -> str:
    # One processor's lines tell; machines with hundreds have megabytes of them, each costly to read.
    try:
        with (proc / "cpuinfo").open(errors="replace") as lines:
            for _, line in zip(range(64), lines, strict=False):
                name, _, value = line.partition(":")
                if name.strip() in ("model name", "Model", "cpu model"):
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


# ---- memory ------------------------------------------------------------------------------------------


def read_memory(*, sysfs: Path = SYS, proc: Path = PROC) -> Memory:
    """Memory of the machine and the limits on this process."""
    info = {}
    for line in read_text(proc / "meminfo").splitlines():
        name, _, value = line.partition(":")
        number = value.split()[0] if value.split() else ""
        if number.isdecimal():
            info[name] = int(number) * 1024  # "kB" in meminfo means 1024 bytes
    return Memory(
        total_bytes=info.get("MemTotal", 0),
        available_bytes=info.get("MemAvailable", info.get("MemFree", 0)),
        groups=memory_groups(proc, sysfs),
        grows_on_demand=_growth(sysfs, proc),
    )


def _growth(sysfs: Path, proc: Path) -> str:
    """Why MemTotal may rise later; empty where it will not."""
    devices = entries(sysfs / "bus" / "virtio" / "drivers" / "virtio_mem")
    if any(entry.name.startswith("virtio") for entry in devices):
        return "a virtio_mem device can add memory"
    if "gvisor" in read_text(proc / "version").lower():
        return "gVisor raises MemTotal as memory is used"
    return ""


def available_memory_bytes(memory: Memory) -> AvailableMemory:
    """How much this process may allocate, and why that much. Never today's MemTotal where that grows."""
    tightest = min(memory.groups, key=lambda group: group.free_bytes, default=None)
    if tightest is not None and (memory.grows_on_demand or tightest.free_bytes < memory.available_bytes):
        return AvailableMemory(tightest.free_bytes, f"limit of the control group {tightest.path}")
    if memory.grows_on_demand:
        return AvailableMemory(None, f"not known: {memory.grows_on_demand}")
    return AvailableMemory(memory.available_bytes, "MemAvailable of the host")


def stalled_ns(path: Path = Path("/proc/pressure/cpu")) -> int:
    """How long somebody on this host was ready to run and had no core since it was booted (the kernel's PSI,
    Documentation/accounting/psi.rst: ``some total``); 0 where the kernel does not say.
    """
    found = re.search(r"total=(\d+)", read_text(path))
    return int(found[1]) * 1000 if found else 0


def queued_ns() -> int:
    """How long this thread was ready to run and had no core since it began (proc(5), sched-stats: run_delay);
    0 where the kernel does not say.
    """
    found = re.match(r"\d+ (\d+)", read_text(Path("/proc/thread-self/schedstat")))
    return int(found[1]) if found else 0
