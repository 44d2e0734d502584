"""A private copy of the source tree, so that builds here never touch the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
# What a clone does not have: environments, caches, and outputs of builds.
_NOT_SOURCE = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "tests", "__pycache__", ".*_cache", ".hypothesis", "*.so", "*.egg-info"
)


@pytest.fixture(scope="module")
def module_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources as a fresh clone has them, for all tests of a file."""
    copy = tmp_path_factory.mktemp("sources") / "busbw"
    shutil.copytree(ROOT, copy, ignore=_NOT_SOURCE)
    (copy / "src/busbw/machine/native/pattern_device.ptx").unlink(missing_ok=True)
    return copy


@pytest.fixture
def tree(module_tree: Path, tmp_path: Path) -> Path:
    """A copy of the sources for one test to build in."""
    return Path(shutil.copytree(module_tree, tmp_path / "busbw"))


@pytest.fixture
def fresh_python(tmp_path: Path) -> Path:
    """The Python of a new, empty virtual environment."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    return environment / "bin" / "python"


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a command to its end and return what it wrote to stdout; a failure shows all that it wrote."""
    # Without what would choose a compiler or find our sources.
    hidden = {"CXX", "CC", "CXXFLAGS", "LDFLAGS", "PYTHONPATH", "CMAKE_TOOLCHAIN_FILE"}
    clean = {name: value for name, value in os.environ.items() if name not in hidden}

    def run(*command: str | Path, **environ: str) -> str:
        done = subprocess.run(
            list(map(str, command)),
            check=False,
            capture_output=True,
            text=True,
            cwd="/",  # not the checkout: `import busbw` must find what was installed
            env=clean | environ,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
