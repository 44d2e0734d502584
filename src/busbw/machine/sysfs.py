"""Small files of /proc and /sys, where anything may be missing, unreadable or odd."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SYS: Final = Path("/sys")
PROC: Final = Path("/proc")
_PCI_ADDRESS: Final = re.compile(r"[^:]{4,}:[^:]{2}:[^:]{2}\.[^:]")  # 0000:1b:00.0


def read_text(path: Path) -> str:
    """The file's text without surrounding white space; empty where it cannot be read.

    Some attributes exist but refuse to be read (EINVAL for the speed of an interface that is down).
    """
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def read_int(path: Path) -> int | None:
    """The file as a decimal number, None where it is not one."""
    text = read_text(path)
    return int(text) if text.removeprefix("-").isdecimal() else None


def link_name(path: Path) -> str:
    """Last part of where a symbolic link leads (a driver's name, say); empty where there is none."""
    try:
        return path.resolve(strict=True).name
    except OSError:
        return ""


def entries(folder: Path) -> list[Path]:
    """What the folder holds, by name; empty where there is no such folder."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def pci_address(device: Path) -> str:
    """PCI address behind a ``device`` link, lower case; empty for what is not on PCI.

    A virtio device's own folder lies inside its PCI device's.
    """
    try:
        parts = device.resolve(strict=True).parts
    except OSError:
        return ""
    return next((part.lower() for part in reversed(parts) if _PCI_ADDRESS.fullmatch(part)), "")


def numa_node(device: Path) -> int | None:
    """NUMA node of a device, None where the machine does not say (-1 in sysfs)."""
    node = read_int(device / "numa_node")
    return None if node is None or node < 0 else node


def pcie_gb_per_s(device: Path) -> float | None:
    """What a PCI device's link can carry in one direction, GB/s: lanes in use x the device's best rate (idle
    devices lower theirs), after the encoding (128b/130b from 8 GT/s on, 8b/10b below); packets' headers take
    some more. None where the kernel does not say.
    """
    found = re.match(r"([\d.]+) GT/s", read_text(device / "max_link_speed"))
    lanes = read_int(device / "current_link_width")
    if found is None or not lanes:
        return None
    rate = float(found[1])
    return rate * lanes / 8 * (128 / 130 if rate >= 8 else 0.8)
