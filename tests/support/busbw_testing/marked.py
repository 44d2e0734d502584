"""Processes that are known by what stands in their environment."""

from __future__ import annotations

import contextlib
from pathlib import Path


def marked(text: str) -> dict[int, str]:
    """Those of this machine, with their command lines, one of whose variables begins with a text."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            variables = (entry / "environ").read_bytes().split(b"\0")
            if any(variable.startswith(text.encode()) for variable in variables):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
    return found
