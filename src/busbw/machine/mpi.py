"""Which MPI library mpi4py would load here, and which mpiexec belongs to it, without loading either.

The order is mpi4py's own (its ``_mpiabi`` module): a library already in the process, MPI4PY_LIBMPI, the
``lib`` folders of the Python environment (where the ``mpich`` wheel puts its own), then the loader's search.
An mpi4py that was built on site is linked with one library and looks for none.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import site
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.machine.libraries import is_library, library_info
from busbw.machine.loader import CACHE, MAPS, loader_paths, mapped_files

# More than MPI_MAX_LIBRARY_VERSION_STRING of any MPI (MPICH: 8192).
_VERSION_BYTES: Final = 1 << 15
_NAMES: Final = ("libmpi.so", "libmpi.so.12", "libmpi.so.40")
_MAPPED: Final = re.compile(r"/libmpi(ch|_abi)?\.so(\.\d+)*$")
_FAMILIES: Final = (
    (re.compile(r"^libmpi\.so\.(20|40)$"), "openmpi"),
    (re.compile(r"^libmpi(ch)?\.so\.12$"), "mpich"),
    (re.compile(r"^libmpi_abi\.so"), "mpiabi"),
)


@dataclass(frozen=True, slots=True)
class MpiLibrary:
    """An MPI library: real path, how it was found, family and launcher.

    ``found`` is ``mapped``, ``MPI4PY_LIBMPI``, ``environment``, ``system`` or ``linked`` (then the path is
    empty). ``family`` is ``openmpi``, ``mpich`` (Intel, Cray and MVAPICH share its ABI), ``mpiabi`` or empty.
    ``mpiexec`` is empty where none was found.
    """

    path: str
    found: str
    family: str
    mpiexec: str


@dataclass(frozen=True, slots=True)
class MpiSearch:
    """``mpi4py`` is the package's folder, empty where it is not installed; ``looked_at`` held nothing."""

    mpi4py: str
    library: MpiLibrary | None
    looked_at: tuple[str, ...]


def find_mpi(
    environ: Mapping[str, str],
    *,
    prefixes: tuple[str, ...] | None = None,
    maps: Path = MAPS,
    loader_cache: Path = CACHE,
) -> MpiSearch:
    """Look for mpi4py and the library that it would use."""
    package = mpi4py_folder()
    if package is None:
        return MpiSearch("", None, ())
    if not (package / "_mpiabi.py").is_file():
        return MpiSearch(str(package), MpiLibrary("", "linked", "", _mpiexec(None, environ)), ())
    looked_at: list[str] = []
    if prefixes is None:  # in the order in which mpi4py searches their ``lib``
        user = [site.USER_BASE] if site.ENABLE_USER_SITE and site.USER_BASE else []
        virtual = [sys.exec_prefix] if sys.exec_prefix != sys.base_exec_prefix else []
        prefixes = tuple(dict.fromkeys([*virtual, *user, sys.base_exec_prefix]))
    for found, path in _locations(environ, prefixes, maps, loader_cache):
        if is_library(path):
            info = library_info(path)
            library = MpiLibrary(info.path, found, _family(info.soname), _mpiexec(path, environ))
            return MpiSearch(str(package), library, tuple(looked_at))
        looked_at.append(str(path))
    return MpiSearch(str(package), None, tuple(looked_at))


def mpi4py_folder() -> Path | None:
    """Where mpi4py is installed, without importing it."""
    try:
        spec = importlib.util.find_spec("mpi4py")
    except (ImportError, ValueError):  # a module of that name without a spec
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def library_version_text(path: Path) -> str:
    """What the library's MPI_Get_library_version says, which may be called before MPI_Init (MPI 3.1, 8.1.1).

    Loads the library. Empty where that fails.
    """
    text, length = ctypes.create_string_buffer(_VERSION_BYTES), ctypes.c_int()
    try:
        code = ctypes.CDLL(str(path)).MPI_Get_library_version(text, ctypes.byref(length))
    except (OSError, AttributeError):
        return ""
    return "" if code else text.value.decode(errors="replace")


def _locations(
    environ: Mapping[str, str], prefixes: tuple[str, ...], maps: Path, loader_cache: Path
) -> Iterator[tuple[str, Path]]:
    yield from (("mapped", Path(path)) for path in mapped_files(maps) if _MAPPED.search(path))
    explicit = environ.get("MPI4PY_LIBMPI", "")
    if explicit:  # then mpi4py looks nowhere else
        for entry in filter(None, explicit.split(os.pathsep)):
            path = Path(os.path.expandvars(entry)).expanduser()
            names = [path / name for name in _NAMES] if path.is_dir() else [path]
            yield from (("MPI4PY_LIBMPI", name) for name in names)
        return
    for prefix in prefixes:
        if prefix != "/usr":
            yield from (("environment", Path(prefix) / "lib" / name) for name in _NAMES)
    for name in _NAMES:
        yield from (("system", path) for path in loader_paths(name, environ, loader_cache))


def _family(soname: str) -> str:
    return next((family for pattern, family in _FAMILIES if pattern.search(soname)), "")


def _mpiexec(library: Path | None, environ: Mapping[str, str]) -> str:
    """The launcher installed with the library (lib/.. /bin), else the one on PATH."""
    if library is not None:
        beside = library.parent.parent / "bin" / "mpiexec"
        if os.access(beside, os.X_OK):
            return str(beside)
    path = environ.get("PATH")
    return shutil.which("mpiexec", path=path) or shutil.which("mpirun", path=path) or ""
