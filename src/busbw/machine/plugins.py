"""Where the loader would find a library by its name, and what NCCL calls its plugins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from busbw.errors import SiteError
from busbw.machine.loader import CACHE, loader_paths
from busbw.machine.native.core import LIBRARY_PATH
from busbw.machine.native.nccl import NcclLibrary, find_nccl

# Variable -> the name of the library that NCCL looks for by itself, and how it completes a short one
# (plugin/plugin_open.cc; before 2.28 net.cc and misc/tuner.cc): the value itself, then PREFIX-value.so.
PLUGINS: Final[Mapping[str, str]] = {
    "NCCL_NET_PLUGIN": "libnccl-net",
    "NCCL_TUNER_PLUGIN": "libnccl-tuner",
    "NCCL_PROFILER_PLUGIN": "libnccl-profiler",
}
# Values that name no file.
_WORDS: Final = ("none", "static_plugin")
_FOLDERS: Final = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


def plugin_values(text: str) -> tuple[str, ...]:
    """The plugins that a variable names (a list since NCCL 2.27), without the words that are no files."""
    values = (value.strip() for value in text.split(","))
    return tuple(value for value in values if value and value.lower() not in _WORDS)


def find_library(name: str, environ: Mapping[str, str], cache: Path = CACHE) -> str:
    """The file that dlopen(name) takes, apart from the run paths of its caller; empty where there is none."""
    if "/" in name:
        return name if Path(name).is_file() else ""
    places = [*loader_paths(name, environ, cache), *(Path(folder) / name for folder in _FOLDERS)]
    return next((str(path) for path in places if path.is_file()), "")


def find_plugin(variable: str, value: str, environ: Mapping[str, str], cache: Path = CACHE) -> str:
    """The file of a plugin, by the names that NCCL hands to the loader (without a value its own); empty where
    none of them is there.
    """
    prefix = PLUGINS[variable]
    names = (value, f"{prefix}-{value}.so") if value else (f"{prefix}.so",)
    found = (find_library(name, environ, cache) for name in names)
    return next(filter(None, found), "")


def nccl_path(explicit: str | None = None) -> str:
    """Real path of the NCCL that a run here takes; empty where none is found. Nothing is loaded.

    Raises SiteError where the path that was given does not exist, or it would be a second copy in this
    process.
    """
    return find_nccl(explicit).path


def nccl_version(path: str) -> str:
    """What the library itself says; empty where it cannot be loaded. Loads it."""
    try:
        return NcclLibrary(path).version
    except SiteError:
        return ""


def tuner_path() -> Path:
    """The file that NCCL loads as its tuner (NCCL_TUNER_PLUGIN)."""
    return LIBRARY_PATH
