"""Limits that control groups put on this process, versions 1 and 2, up the hierarchy.

A limit of any ancestor holds, so each is read and the tightest counts. Formats: cgroups(7), and the kernel's
``admin-guide/cgroup-v2.rst`` and ``admin-guide/cgroup-v1/memory.rst``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.machine.sysfs import read_int, read_text

# Version 1 writes "no limit" as the highest number of whole pages in a signed 64-bit integer.
_UNLIMITED_BYTES: Final = 1 << 62
# By version: files of limits, file of usage, and how lines of memory.stat begin that count a group with those
# below it. memory.high throttles so hard that reaching it is as good as the end of a measurement.
_MEMORY_FILES: Final = {
    1: (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_"),
    2: (("memory.max", "memory.high"), "memory.current", ""),
}


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A group with a memory limit. ``reclaimable_bytes`` is the cache of files, which the kernel drops before
    it refuses memory, also what it calls active (MemAvailable counts both, says filesystems/proc.rst).
    Else a second run would have less than the first, which read busbw's own files into the cache.
    """

    path: str
    version: int
    limit_bytes: int
    usage_bytes: int
    reclaimable_bytes: int

    @property
    def free_bytes(self) -> int:
        """What may still be allocated below the limit."""
        return max(0, self.limit_bytes - max(0, self.usage_bytes - self.reclaimable_bytes))


def memory_groups(proc: Path, sysfs: Path) -> tuple[MemoryGroup, ...]:
    """The groups above this process that limit memory, innermost first; empty where none does."""
    groups = map(_memory_group, _ancestors(proc, sysfs, "memory"))
    return tuple(group for group in groups if group is not None)


def cpu_quota(proc: Path, sysfs: Path) -> float | None:
    """Processors' worth of time that the tightest group allows; None where there is no quota."""
    quotas = []
    for folder in _ancestors(proc, sysfs, "cpu"):
        quota, _, period = read_text(folder / "cpu.max").partition(" ")
        if not quota:
            quota = read_text(folder / "cpu.cfs_quota_us")
            period = read_text(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(period) > 0:
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _memory_group(folder: Path) -> MemoryGroup | None:
    version = 2 if (folder / "memory.max").exists() else 1
    limits, usage, total = _MEMORY_FILES[version]
    found = [limit for name in limits if (limit := read_int(folder / name)) is not None]
    if min(found, default=_UNLIMITED_BYTES) >= _UNLIMITED_BYTES:
        return None
    stat = dict(line.split(maxsplit=1) for line in read_text(folder / "memory.stat").splitlines())
    return MemoryGroup(
        path=str(folder),
        version=version,
        limit_bytes=min(found),
        usage_bytes=read_int(folder / usage) or 0,
        reclaimable_bytes=sum(int(stat.get(f"{total}{kind}_file", 0)) for kind in ("inactive", "active")),
    )


def _ancestors(proc: Path, sysfs: Path, controller: str) -> list[Path]:
    """This process's group in each mounted hierarchy that has the controller, and those above it
    (/proc/self/cgroup and mountinfo).
    """
    paths: dict[str, str] = {}
    for line in read_text(proc / "self" / "cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        paths.update(dict.fromkeys(controllers.split(","), path))
    folders: list[Path] = []
    for line in read_text(proc / "self" / "mountinfo").splitlines():
        fields, _, kind = line.partition(" - ")
        file_system, *source = kind.split()
        if file_system not in ("cgroup", "cgroup2"):
            continue
        root, mount_point = fields.split()[3:5]
        options = source[-1].split(",") if file_system == "cgroup" else [""]
        if file_system == "cgroup" and controller not in options:
            continue
        path = next((paths[name] for name in sorted(options) if name in paths), "/")
        is_below = mount_point.startswith("/sys/")
        mount = sysfs / mount_point.removeprefix("/sys/") if is_below else Path(mount_point)
        folder = _leaf(mount, root, path)
        folders.append(folder)
        while folder != mount and mount in folder.parents:
            folder = folder.parent
            folders.append(folder)
    return folders


def _leaf(mount: Path, root: str, path: str) -> Path:
    """Folder of the group. In a container the mount shows only the subtree ``root``, or other names."""
    relative = path.removeprefix(root.rstrip("/")).strip("/")
    for candidate in (mount / relative, mount / path.strip("/")):
        if ".." not in candidate.parts and candidate.is_dir():
            return candidate
    return mount
