from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.machine import mpi
from busbw.machine.mpi import MpiLibrary, MpiSearch, find_mpi

BuildLibrary = Callable[..., Path]
Put = Callable[[Path, str], str]
NOWHERE = Path("/nonexistent")


@pytest.fixture
def put(build_library: BuildLibrary) -> Put:
    """Put a library with a SONAME somewhere."""

    def put(path: Path, soname: str) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(build_library("nvml", flags=(f"-Wl,-soname,{soname}",)).read_bytes())
        return str(path)

    return put


@pytest.fixture
def mpi4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An mpi4py from a wheel, that looks for its library."""
    package = tmp_path / "site-packages/mpi4py"
    package.mkdir(parents=True)
    (package / "_mpiabi.py").touch()
    monkeypatch.setattr(mpi, "mpi4py_folder", lambda: package)
    return package


def search(*prefixes: Path, maps: Path = NOWHERE, **environ: str) -> MpiSearch:
    folders = tuple(str(prefix) for prefix in prefixes)
    return find_mpi({"PATH": "/nonexistent"} | environ, prefixes=folders, maps=maps, loader_cache=NOWHERE)


def found(*prefixes: Path, maps: Path = NOWHERE, **environ: str) -> MpiLibrary:
    library = search(*prefixes, maps=maps, **environ).library
    assert library is not None
    return library


def test_bundled_library_and_its_launcher(mpi4py: Path, tmp_path: Path, put: Put) -> None:
    bundled = put(tmp_path / "env/lib/libmpi.so.12", "libmpi.so.12")
    (tmp_path / "env/lib/libmpi.so").write_text("INPUT(libmpi.so.12)\n")  # text: the loader refuses it too
    launcher = tmp_path / "env/bin/mpiexec"
    launcher.parent.mkdir()
    launcher.touch(mode=0o755)
    library = found(tmp_path / "env")
    assert (library.path, library.found, library.family) == (bundled, "environment", "mpich")
    assert library.mpiexec == str(launcher)


def test_the_users_choice_is_final(mpi4py: Path, tmp_path: Path, put: Put) -> None:
    put(tmp_path / "env/lib/libmpi.so.12", "libmpi.so.12")
    site = put(tmp_path / "site/libmpi.so.40", "libmpi.so.40")
    library = found(tmp_path / "env", MPI4PY_LIBMPI=f"{tmp_path}/absent.so:{tmp_path}/site")
    assert (library.path, library.found, library.family) == (site, "MPI4PY_LIBMPI", "openmpi")
    missing = search(tmp_path / "env", MPI4PY_LIBMPI=str(tmp_path / "absent.so"))
    assert missing.library is None
    assert missing.looked_at == (str(tmp_path / "absent.so"),)


def test_a_mapped_library_wins(mpi4py: Path, tmp_path: Path, put: Put) -> None:
    put(tmp_path / "env/lib/libmpi.so.12", "libmpi.so.12")
    loaded = put(tmp_path / "opt/libmpi.so.40.40.7", "libmpi.so.40")
    maps = tmp_path / "maps"
    maps.write_text(f"7f00-7f01 r-xp 0 08:01 1 /opt/libmpi_cxx.so.40\n7f00-7f01 r-xp 0 08:01 1 {loaded}\n")
    library = found(tmp_path / "env", maps=maps)
    assert (library.path, library.found) == (loaded, "mapped")


def test_the_system_comes_last_and_path_names_the_launcher(mpi4py: Path, tmp_path: Path, put: Put) -> None:
    system = put(tmp_path / "hpcx/libmpi.so.40", "libmpi.so.40")
    mpirun = tmp_path / "bin/mpirun"
    mpirun.parent.mkdir()
    mpirun.touch(mode=0o755)
    library = found(tmp_path / "env", LD_LIBRARY_PATH=f"{tmp_path}/hpcx", PATH=str(mpirun.parent))
    assert (library.path, library.found, library.mpiexec) == (system, "system", str(mpirun))


def test_an_mpi4py_built_on_site_has_its_library_linked(mpi4py: Path, tmp_path: Path) -> None:
    (mpi4py / "_mpiabi.py").unlink()
    library = found(tmp_path)
    assert (library.path, library.found) == ("", "linked")


def test_no_mpi4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "mpi4py_folder", lambda: None)
    assert search() == MpiSearch("", None, ())


def test_agrees_with_mpi4py_here_and_initialises_nothing() -> None:
    """What mpi4py really loads in a fresh process is what was predicted."""
    pytest.importorskip("mpi4py")
    code = """
import os, sys
from busbw.machine.mpi import find_mpi
found = find_mpi(os.environ).library
assert "mpi4py" not in sys.modules
assert found is not None
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
assert not MPI.Is_initialized()
assert found.path == "" or found.path in open("/proc/self/maps").read(), found
assert find_mpi(os.environ).library.path in ("", found.path)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
