from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from busbw.rank.world.mpi_library import (
    SONAMES,
    choose_library,
    launcher_prefix,
    loaded_library,
    mapped_libmpi,
)

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


@pytest.mark.parametrize(
    ("family", "files", "environ", "chosen"),
    [
        # Beside the launcher that runs, whatever variables say.
        ("openmpi", ("opt/ompi/lib", "other/lib"), {"OPAL_PREFIX": "ROOT/other"}, "opt/ompi/lib"),
        ("openmpi", ("opt/ompi/lib/x86_64-linux-gnu",), {}, "opt/ompi/lib/x86_64-linux-gnu"),  # Debian
        ("openmpi", (), {}, ""),  # without a trace it is left to the loader
        ("mpich", ("cray",), {"LD_LIBRARY_PATH": ":/nowhere:ROOT/cray"}, "cray"),
    ],
)
def test_the_library_that_the_launcher_implies(
    proc: Path, tmp_path: Path, family: Any, files: tuple[str, ...], environ: dict[str, str], chosen: str
) -> None:
    own = {name: value.replace("ROOT", str(tmp_path)) for name, value in environ.items()}
    for folder in files:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / SONAMES[family]).touch()
    choose_library(family, own, str(proc))
    assert own["MPI4PY_LIBMPI"] == (str(tmp_path / chosen / SONAMES[family]) if chosen else SONAMES[family])


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
