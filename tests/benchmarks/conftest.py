"""Benchmarks are scripts: they are run as users run them, at the smallest sizes. No test asserts a time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.machine.mpi import find_mpi

ROOT = Path(__file__).parents[2]
Script = Callable[..., str]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Run a benchmark by its path below benchmarks/ and give what it printed."""

    def run(path: str, *arguments: str) -> str:
        command = [sys.executable, str(ROOT / "benchmarks" / path), *arguments]
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def mpicc() -> str:
    """The compiler wrapper of the MPI library in use; skips where it or its compiler is missing."""
    library = find_mpi(os.environ).library
    wrapper = Path(library.mpiexec).with_name("mpicc") if library is not None and library.mpiexec else None
    if wrapper is None or not wrapper.is_file():
        pytest.skip("no mpicc beside the MPI library in use")
    probe = subprocess.run([wrapper, "--version"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("mpicc finds no C compiler")
    return str(wrapper)
