"""Ranks of the bundled MPI."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

MPIEXEC: Final = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
needs_mpiexec = pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")
# Ranks that wait leave the core to the rank that they wait for: 8 ranks on 2 cores run 6 times faster.
YIELDING: Final = {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "4",
}
