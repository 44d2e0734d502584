"""Where the dynamic loader looks for a library (ld.so(8)), and which files a process has mapped (proc(5))."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from busbw.machine.sysfs import read_text

MAPS: Final = Path("/proc/self/maps")
CACHE: Final = Path("/etc/ld.so.cache")
_CACHE_MAGIC: Final = b"glibc-ld.so.cache1.1"


def mapped_files(maps: Path = MAPS) -> tuple[str, ...]:
    """The files that the process has mapped, each once; empty without /proc."""
    lines = (line.split(maxsplit=5) for line in read_text(maps).splitlines())
    return tuple(dict.fromkeys(fields[5] for fields in lines if len(fields) == 6 and "/" in fields[5]))


def loader_paths(name: str, environ: Mapping[str, str], cache: Path = CACHE) -> list[Path]:
    """Where dlopen(name) looks, in its order, apart from its caller's run paths and the default folders."""
    folders = environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    return [
        *(Path(folder) / name for folder in folders if folder),
        *map(Path, loader_cache_paths(cache, name)),
    ]


def loader_cache_paths(cache: Path, soname: str) -> tuple[str, ...]:
    """Paths that the dynamic loader's cache holds for a SONAME, without running ldconfig.

    Format of glibc's ``dl-cache.h``: the magic, two uint32 (entries, bytes of strings), 20 unused bytes, then
    entries of 24 bytes whose second and third uint32 are the file offsets of name and path.
    """
    try:
        data = cache.read_bytes()
    except OSError:
        return ()
    # Older files start with a table for libc5, and hold this one after it, from where offsets then count.
    start = data.find(_CACHE_MAGIC)
    if start < 0:
        return ()
    data = data[start:]
    (entries,) = struct.unpack_from("<I", data, len(_CACHE_MAGIC))
    wanted = soname.encode()
    paths = []
    for index in range(entries):
        _, key, value = struct.unpack_from("<iII", data, 48 + 24 * index)
        if data.startswith(wanted + b"\0", key):
            paths.append(data[value : data.index(b"\0", value)].decode(errors="replace"))
    return tuple(paths)
