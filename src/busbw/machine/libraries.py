"""Shared libraries: which files are in use, and their identity (SONAME, version, ELF build id).

A version says what a library was meant to be; the build id says which bytes ran. ELF is parsed here, since
two fields do not justify a dependency of every rank. Source: elf(5) and the GNU ABI note types.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from busbw.machine.loader import MAPS, mapped_files

_ELF64_LITTLE_ENDIAN: Final = b"\x7fELF\x02\x01"
_PT_LOAD: Final = 1
_PT_DYNAMIC: Final = 2
_PT_NOTE: Final = 4
_DT_STRTAB: Final = 5
_DT_SONAME: Final = 14
_NT_GNU_BUILD_ID: Final = 3
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr
_DYNAMIC: Final = struct.Struct("<qQ")  # Elf64_Dyn
_MAX_PART_BYTES: Final = 1 << 20  # of notes and dynamic sections: they have hundreds

_VERSION: Final = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")  # libnccl.so.2.28.9, not libnccl.so.2
_WHEEL: Final = re.compile(r"^(?P<name>.+)-(?P<version>\d[^-]*)\.dist-info$")

# What moves the data: collectives, MPI, transports, drivers, network plugins.
INTERESTING: Final = re.compile(
    r"^(libnccl|librccl|libmpi|libmpich|libmpi_abi|libopen-pal|libpmix|libucp|libuct|libucs|libucc|libhcoll"
    r"|libsharp|libfabric|libcxi|libefa|libibverbs|libmlx5|librdmacm|libpsm2|libcuda|libcudart|libnvidia-ml"
    r"|libbusbw_core)([-_.].*)?\.so"
)


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    """A shared library file. Texts are empty where the file does not tell."""

    path: str
    soname: str
    version: str
    build_id: str


def library_info(path: str | Path, *, version: str = "") -> LibraryInfo:
    """Identity of one library; ``version`` where the caller knows it from the library's own function.

    Otherwise it is taken from the file's name or, for a wheel's library, from the wheel's metadata. A file
    that is not a 64-bit little-endian ELF library gives empty texts.
    """
    real = Path(os.path.realpath(path))
    soname = identity = ""
    try:
        with real.open("rb") as file:
            soname, identity = _read_elf(file)
    except (OSError, struct.error, ValueError):
        pass  # gone, unreadable or damaged: its path is still worth recording
    named = _VERSION.search(real.name)
    return LibraryInfo(str(real), soname, version or (named[1] if named else wheel_of(real)[1]), identity)


def is_library(path: Path) -> bool:
    """Whether the file can be a shared library here; ``libmpi.so`` of a development package may be text."""
    try:
        with path.open("rb") as file:
            return file.read(len(_ELF64_LITTLE_ENDIAN)) == _ELF64_LITTLE_ENDIAN
    except OSError:
        return False


def mapped_libraries(maps: Path = MAPS) -> tuple[LibraryInfo, ...]:
    """The libraries mapped into this process that bear on a measurement, by path."""
    paths = sorted(path for path in mapped_files(maps) if INTERESTING.match(Path(path).name))
    return tuple(map(library_info, paths))


def wheel_of(path: str | Path) -> tuple[str, str]:
    """(name, version) of the NVIDIA wheel that holds a library; empty where it is in none.

    In site-packages, ``nvidia/nccl/lib/libnccl.so.2`` belongs to ``nvidia_nccl_cu12-2.28.9.dist-info``.
    """
    folders = Path(path).parents
    if len(folders) > 3 and folders[0].name == "lib" and folders[2].name == "nvidia":
        for folder in sorted(folders[3].glob(f"nvidia_{folders[1].name}*.dist-info")):
            wheel = _WHEEL.match(folder.name)
            if wheel:
                return wheel["name"], wheel["version"]
    return "", ""


# ---- ELF ---------------------------------------------------------------------------------------------


def _read_elf(file: BinaryIO) -> tuple[str, str]:
    """(SONAME, build id in hexadecimal)."""
    header = file.read(64)
    if not header.startswith(_ELF64_LITTLE_ENDIAN):
        return "", ""
    (table,) = struct.unpack_from("<Q", header, 32)
    entry_bytes, entries = struct.unpack_from("<HH", header, 54)
    file.seek(table)
    raw = file.read(entry_bytes * entries)
    segments = [_SEGMENT.unpack_from(raw, index * entry_bytes) for index in range(entries)]
    soname = identity = ""
    for kind, _, offset, _, _, size, _, _ in segments:
        if kind == _PT_NOTE and not identity:
            identity = _note_build_id(_part(file, offset, size))
        elif kind == _PT_DYNAMIC:
            soname = _soname(file, _part(file, offset, size), segments)
    return soname, identity


def _part(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(min(size, _MAX_PART_BYTES))


def _note_build_id(notes: bytes) -> str:
    position = 0
    while position + 12 <= len(notes):
        name_bytes, data_bytes, kind = struct.unpack_from("<III", notes, position)
        name = position + 12
        data = name + -(-name_bytes // 4) * 4
        if kind == _NT_GNU_BUILD_ID and notes[name : name + name_bytes] == b"GNU\0":
            return notes[data : data + data_bytes].hex()
        position = data + -(-data_bytes // 4) * 4
    return ""


def _soname(file: BinaryIO, dynamic: bytes, segments: list[tuple[int, ...]]) -> str:
    whole = len(dynamic) // _DYNAMIC.size * _DYNAMIC.size
    entries = dict(_DYNAMIC.iter_unpack(dynamic[:whole]))
    if _DT_SONAME not in entries or _DT_STRTAB not in entries:
        return ""
    strings = entries[_DT_STRTAB]  # an address, which a segment maps from the file
    for kind, _, offset, address, _, size, _, _ in segments:
        if kind == _PT_LOAD and address <= strings < address + size:
            text = _part(file, offset + strings - address + entries[_DT_SONAME], 256)
            return text.partition(b"\0")[0].decode(errors="replace")
    return ""
