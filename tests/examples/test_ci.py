"""The examples for CI: their steps, executed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from junitparser import JUnitXml
from ruamel.yaml import YAML

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "ci"
BESIDE = Path(sys.executable).parent


def _environ(home: Path, **more: str) -> dict[str, str]:
    """busbw on the path, and a measurement of scripted times, which needs no quiet machine."""
    quick = {"BUSBW_BACKEND": "null", "BUSBW_RANKS": "2", "BUSBW_ITERS": "16"}
    path = f"{BESIDE}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **quick, "BUSBW_HOME": str(home), "PATH": path, **more}


@pytest.mark.slow
def test_the_workflow_measures_judges_and_leaves_what_its_actions_read(tmp_path: Path) -> None:
    [job] = YAML(typ="safe").load(EXAMPLES / "github-actions.yml")["jobs"].values()
    environ = _environ(tmp_path / "home", **job["env"])
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert len(commands) == 3
    for command in (*commands, *commands):  # the second night is held against the first
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    xml = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert xml.tests > 10
    assert xml.failures == 0
    points = json.loads((tmp_path / "benchmark.json").read_text())
    files = [
        step["with"]["output-file-path"]
        for step in job["steps"]
        if "output-file-path" in step.get("with", {})
    ]
    assert files == ["benchmark.json"]
    assert {point["unit"] for point in points} == {"GB/s"}
    assert (tmp_path / "report.html").stat().st_size > 1000


@pytest.mark.packaging
def test_the_reframe_test_passes_and_fails_with_busbw(tmp_path: Path) -> None:
    environment = tmp_path / "reframe"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    installed = subprocess.run(
        [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "reframe-hpc>=4.6"],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"ReFrame does not install: {installed.stderr.strip().splitlines()[-1]}")
    words = [
        environment / "bin" / "reframe",
        "--checkpath",
        EXAMPLES / "reframe_busbw.py",
        "--prefix",
        tmp_path,
    ]
    environ = _environ(tmp_path / "home", TMPDIR=str(tmp_path))

    def reframe(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, "--run", *more], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    passed = reframe()
    assert passed.returncode == 0, passed.stdout
    assert "busbw" in passed.stdout
    assert list(tmp_path.rglob("junit.xml"))
    assert reframe("--setvar", "least=1M=1e9").returncode != 0
