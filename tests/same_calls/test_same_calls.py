"""Real ranks of the bundled MPI, each delayed at moments of its own, issue the same calls."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.environ import clean_environ

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
PROGRAM = Path(__file__).with_name("program.py")
# Ranks that wait leave the core to the rank that they wait for.
YIELDING = {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "4",
}
RANKS, MODES, MEASURED = 4, 3, 5  # all_reduce and reduce in both placements, and a barrier

pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")


def found(seed: int) -> list[list[dict[str, Any]]]:
    """[rank][mode]"""
    done = subprocess.run(
        [str(MPIEXEC), "-n", str(RANKS), sys.executable, str(PROGRAM), str(seed)],
        env=clean_environ(**YIELDING),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ranks: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return ranks


def test_delayed_ranks_issue_the_same_calls_and_find_the_same() -> None:
    ranks = found(seed=1)
    assert [len(modes) for modes in ranks] == [MODES] * RANKS
    for mode in range(MODES):
        first, *others = (modes[mode] for modes in ranks)
        assert len(first["samples"]) == MEASURED
        assert first["calls"] > 5 * MEASURED
        assert all(other == first for other in others)
