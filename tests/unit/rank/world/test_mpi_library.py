from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from busbw.rank.world.mpi_library import choose_library, launcher_prefix, loaded_library, mapped_libmpi

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc in which this process is a shell's child and the shell is prted's, of an Open MPI in /opt."""
    root = tmp_path / "proc"
    for pid, parent, exe in (
        ("self", 20, "/usr/bin/python3"),
        ("20", 10, "/bin/bash"),
        ("10", 1, "PREFIX/bin/prted"),
    ):
        (root / pid).mkdir(parents=True)
        (root / pid / "status").write_text(f"Name:\tx\nPid:\t9\nPPid:\t{parent}\n")
        (root / pid / "exe").symlink_to(exe.replace("PREFIX", str(tmp_path / "opt" / "ompi")))
    (root / "self" / "maps").write_text("7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libc.so.6\n")
    return root


def make(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return str(path)


def test_library_beside_the_running_launcher_wins(proc: Path, tmp_path: Path) -> None:
    own = make(tmp_path / "opt" / "ompi" / "lib" / "libmpi.so.40")
    make(tmp_path / "other" / "lib" / "libmpi.so.40")
    environ = {"OPAL_PREFIX": str(tmp_path / "other")}
    choose_library("openmpi", environ, str(proc))
    assert environ["MPI4PY_LIBMPI"] == own


def test_debian_folder_is_found(proc: Path, tmp_path: Path) -> None:
    own = make(tmp_path / "opt" / "ompi" / "lib" / "x86_64-linux-gnu" / "libmpi.so.40")
    environ: dict[str, str] = {}
    choose_library("openmpi", environ, str(proc))
    assert environ["MPI4PY_LIBMPI"] == own


def test_open_mpi_without_a_trace_is_left_to_the_loader(proc: Path) -> None:
    environ: dict[str, str] = {}
    choose_library("openmpi", environ, str(proc))
    assert environ == {"MPI4PY_LIBMPI": "libmpi.so.40"}


def test_site_mpich_on_the_library_path_is_taken(proc: Path, tmp_path: Path) -> None:
    site = make(tmp_path / "cray" / "libmpi.so.12")
    environ = {"LD_LIBRARY_PATH": f":/nowhere:{tmp_path / 'cray'}"}
    choose_library("mpich", environ, str(proc))
    assert environ["MPI4PY_LIBMPI"] == site


def test_mpich_without_a_site_library_stays_the_bundled_one(proc: Path) -> None:
    environ: dict[str, str] = {}
    choose_library("mpich", environ, str(proc))
    choose_library(None, environ, str(proc))
    assert environ == {}


@pytest.mark.parametrize("name", ["MPI4PY_LIBMPI", "MPI4PY_MPIABI"])
def test_user_decides(proc: Path, name: str) -> None:
    environ = {name: "mine"}
    choose_library("openmpi", environ, str(proc))
    assert environ == {name: "mine"}


def test_library_in_the_process_decides(proc: Path) -> None:
    (proc / "self" / "maps").write_text("7f00-7f01 r-xp 00000000 08:01 1 /opt/x/lib/libmpi.so.12.5.2\n")
    environ: dict[str, str] = {}
    choose_library("openmpi", environ, str(proc))
    assert environ == {}
    assert mapped_libmpi(str(proc)) == "/opt/x/lib/libmpi.so.12.5.2"


def test_launcher_of_the_other_family_is_not_taken(proc: Path) -> None:
    assert launcher_prefix("mpich", str(proc)) is None


@pytest.mark.parametrize(
    ("text", "family", "version"),
    [
        ("Open MPI v5.0.11, package: Open MPI x@y Distribution, ident: 5.0.11", "openmpi", "Open MPI 5.0.11"),
        ("MPICH Version:      5.0.2\nMPICH Release date: x\n", "mpich", "MPICH 5.0.2"),
        ("MPI VERSION    : CRAY MPICH version 8.1.28.29 (ANL base 3.4a2)\n", "mpich", None),
        (
            "Intel(R) MPI Library 2021.11 for Linux* OS\n\x00",
            "mpich",
            "Intel(R) MPI Library 2021.11 for Linux* OS",
        ),
        ("Some MPI 1.0", None, "Some MPI 1.0"),
    ],
)
def test_version_text_of_vendors(proc: Path, text: str, family: str | None, version: str | None) -> None:
    library = loaded_library(text, str(proc))
    assert library.family == family
    assert version is None or library.version == version
