"""Which MPI a program would use, told from its file, without starting it."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from busbw.machine.mpi import find_mpi

NO_MPI: Final = "none"
_PYTHON: Final = re.compile(r"python[\d.]*\Z")
# Names that a linked program needs: libmpi.so.12 and libmpich.so.12 (MPICH, Intel, Cray), libmpi.so.40.
_LINKED: Final = re.compile(rb"\0libmpi(?:ch|_cray)?\.so\.(\d+)\0")
_FAMILY_OF: Final = {b"12": "mpich", b"20": "openmpi", b"40": "openmpi"}


def python_family(python: str) -> str:
    """``openmpi`` or ``mpich``: the MPI that mpi4py in that Python would load; empty where there is none."""
    own = python in ("", sys.executable)
    prefixes = None if own else (str(Path(python).parent.parent),)
    # What this process has loaded says nothing of another one.
    maps = Path("/proc/self/maps" if own else os.devnull)
    library = find_mpi(os.environ, prefixes=prefixes, maps=maps).library
    return library.family if library is not None and library.family in ("openmpi", "mpich") else ""


def command_family(command: tuple[str, ...]) -> str:
    """``openmpi``, ``mpich``, ``none`` for a program without MPI, or empty: not known. A Python or a script
    of one has its Python's MPI; a program with arguments may start another (``sh -c``, ``env``, ``nsys``).
    """
    path = shutil.which(command[0]) if command else None
    if path is None:
        return ""
    if _PYTHON.match(Path(path).name):
        return python_family(path) or NO_MPI
    try:
        with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:2] == b"#!":
                return _of_script(data[2 : max(2, data.find(b"\n"))].decode(errors="replace").split())
            match = _LINKED.search(data) if data[:4] == b"\x7fELF" else None
            family = _FAMILY_OF.get(match[1], "") if match is not None else ""
    except (OSError, ValueError):  # not readable, or empty
        return ""
    if family or match is not None:
        return family
    return NO_MPI if len(command) == 1 else ""


def _of_script(words: list[str]) -> str:
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    if not words or not _PYTHON.match(Path(words[0]).name):
        return ""
    return python_family(shutil.which(words[0]) or words[0]) or NO_MPI
