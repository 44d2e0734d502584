"""Processes that are known by what stands in their environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path


def environs(mark: str) -> dict[int, dict[str, str]]:
    """Those of this machine, with their variables, one of which begins with a text; zombies have none."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            words = os.fsdecode((entry / "environ").read_bytes()).split("\0")
            if any(word.startswith(mark) for word in words):
                found[int(entry.name)] = dict(word.split("=", 1) for word in words if "=" in word)
    return found


def marked(mark: str) -> dict[int, str]:
    """The same with their command lines."""
    lines = {}
    for pid in environs(mark):
        with contextlib.suppress(OSError):
            lines[pid] = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).replace("\0", " ")
    return lines


def parent_of(pid: int) -> int:
    """Raises OSError where it has ended."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def first_of(found: Mapping[int, object]) -> int | None:
    """The process that has started the others, which it may have forked; None where there is none."""
    for pid in found:
        with contextlib.suppress(OSError):
            if parent_of(pid) not in found:
                return pid
    return None
