"""Libraries that tests compile: stand-ins for CUDA, NCCL and their plugins, and what is preloaded."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

STAND_INS: Final = Path(__file__).parents[2] / "unit" / "machine" / "stand_ins"


def compiled(source: Path, target: Path, *defines: str) -> Path:
    """The ``target``, from C. Skips the test where no compiler is."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang", "g++"))), None)
    if compiler is None:
        pytest.skip(f"no C compiler for {source.name}")
    options = [f"-D{define}" for define in defines]
    words = [compiler, "-x", "c", "-w", "-shared", "-fPIC", *options, "-o", target, source, "-ldl"]
    subprocess.run(words, check=True)
    return target


def stand_in(name: str, target: Path, *defines: str) -> Path:
    """The library that stands for ``name`` (nccl, cuda, ...)."""
    return compiled(STAND_INS / f"{name}.c", target, *defines)
