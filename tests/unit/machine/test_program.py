"""Which MPI a program would use, by its file. The linked ones are compiled here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.machine.program import command_family, python_family


def executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_a_python_and_its_scripts_have_its_mpi(tmp_path: Path) -> None:
    own = python_family(sys.executable)
    known = own or "none"
    assert command_family((sys.executable, "train.py")) == known
    assert command_family((executable(tmp_path / "tool", f"#!{sys.executable}\n"), "x")) == known
    assert command_family((executable(tmp_path / "sh", "#!/bin/sh\n"),)) == ""


def test_a_python_without_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another environment has no MPI of its own; here only the loader's search could find one."""
    monkeypatch.setattr("busbw.machine.loader.loader_cache_paths", lambda cache, name: ())
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    (tmp_path / "bin").mkdir()
    python = executable(tmp_path / "bin/python3", "")
    assert command_family((python, "train.py")) == "none"
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    assert command_family((executable(tmp_path / "tool", "#!/usr/bin/env -S python3 -u\n"),)) == "none"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.parametrize(
    ("soname", "family"),
    [
        *(("libmpi.so.12", "mpich"), ("libmpich.so.12", "mpich"), ("libmpi.so.40", "openmpi")),
        *(("libmpi.so.99", ""), ("libmpifoo.so.12", "none")),
    ],
)
def test_a_linked_program(tmp_path: Path, soname: str, family: str) -> None:
    (tmp_path / "lib.c").write_text("int MPI_Init(void) { return 0; }")
    (tmp_path / "main.c").write_text("int MPI_Init(void); int main(void) { return MPI_Init(); }")
    library, program = tmp_path / soname, tmp_path / "program"
    build = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", library, tmp_path / "lib.c"]
    subprocess.run(build, check=True)
    subprocess.run(["gcc", "-o", program, tmp_path / "main.c", library], check=True)
    assert command_family((str(program),)) == family


def test_what_may_start_something_else_is_not_known(tmp_path: Path) -> None:
    assert command_family(("true",)) == "none"
    assert command_family(("env", "x")) == ""
    assert command_family(("/no/such/program",)) == ""
    assert command_family((executable(tmp_path / "empty", ""),)) == ""
