"""The examples of health checks, executed: what they do with a good and a bad machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "health"
BESIDE = Path(sys.executable).parent


@pytest.mark.slow
@pytest.mark.parametrize("least", ["", "1M=1000000"])
def test_the_epilog_drains_a_bad_node_and_no_other(tmp_path: Path, least: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    drained = tmp_path / "drained"
    (programs / "scontrol").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {drained}\n')
    more = f"--least {least}" if least else ""
    real = BESIDE / "busbw"
    script = f"#!/bin/sh\nshift\nexec {real} check --backend null --world nccl --ranks 2 {more}\n"
    (programs / "busbw").write_text(script)
    for program in programs.iterdir():
        program.chmod(0o755)
    environ = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "BUSBW_HOME": str(tmp_path / "home"),
        "SLURMD_NODENAME": "n1",
        "SLURM_JOB_ID": "7",
    }
    done = subprocess.run(["bash", EXAMPLES / "slurm-epilog.sh"], env=environ, check=False)
    assert done.returncode == 0
    assert drained.exists() == bool(least)
    if least:
        words = drained.read_text().splitlines()
        assert words[:3] == ["update", "NodeName=n1", "State=DRAIN"]
        assert words[3].startswith("Reason=ERROR busbw: ")


def test_systemd_reads_the_units() -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze")
    units = [str(EXAMPLES / f"busbw-check.{kind}") for kind in ("service", "timer")]
    done = subprocess.run([analyze, "verify", *units], capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if "busbw-check" in line]
    assert [line for line in lines if "is not executable" not in line] == []
