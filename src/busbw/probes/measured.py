"""The library that this process would measure, without making anything of it."""

from __future__ import annotations

from busbw._native.nccl import NcclLibrary, find_nccl
from busbw.errors import SiteError


def nccl_path(explicit: str | None = None) -> str:
    """Real path of the NCCL that a run here takes; empty where none is found. Nothing is loaded.

    Raises SiteError where the path that was given does not exist, or it would be a second copy in this
    process.
    """
    chosen = find_nccl(explicit).chosen
    return chosen.path if chosen is not None else ""


def nccl_version(path: str) -> str:
    """What the library itself says; empty where it cannot be loaded. Loads it."""
    try:
        return NcclLibrary(path).version
    except SiteError:
        return ""
