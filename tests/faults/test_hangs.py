"""A sample of the campaign of ``hangs.py``: ranks that are hung on this machine, and what is said of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("hangs.py")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_hung_rank_is_named_and_nobody_else(tmp_path: Path) -> None:
    kinds = ("--places", "one-host", "--worlds", "mpich", "--faults", "inside,before,kill")
    words = ("--cases", "3", *kinds, "--stall", "3", "--result", tmp_path / "result.jsonl")
    done = subprocess.run(
        [sys.executable, PROGRAM, *words],
        env=os.environ | {"PYTHONPATH": str(PROGRAM.parents[1] / "support")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
