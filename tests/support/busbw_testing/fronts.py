"""Front processes of runs on the engine whose cluster is this machine (``here_engine``)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw_testing.environ import clean_environ
from busbw_testing.here_engine import has_mpiexec

needs_mpich = pytest.mark.skipif(not has_mpiexec, reason="the bundled mpich is not installed here")

# The command line with one more engine in the place of "hosts".
FRONT = """
import sys
from busbw.plan.flags import engines
row = engines.EngineRow("busbw_testing.here_engine")
engines.ENGINES["hosts"] = engines.ENGINES["here"] = row
from busbw.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
LONG = ("run", "all_reduce", "-b", "1K", "-e", "64K", "-n", "2000000", "--on", "hosts")
# 14 cases of a fifth of a second, whatever else the machine does.
SHORT = (*LONG[:-4], "--case-time", "200ms", "--precision", "0.0001%", "--on", "hosts")


def front(home: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    support = Path(__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, "-c", FRONT, *words],
        env=clean_environ(BUSBW_HOME=str(home), PYTHONPATH=str(support), **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,  # noqa: PLW1509
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def only_run(home: Path) -> Path:
    (folder,) = home.glob("2*")
    return folder


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"no {what} within 60 s"
        time.sleep(0.02)


def wait_for(path: Path, word: str) -> None:
    until(lambda: path.is_file() and word in path.read_text(), f"{word!r} in {path}")


def job_is_gone(folder: Path) -> bool:
    pid = int(json.loads((folder / "request" / "job.json").read_text())["id"])
    for _ in range(250):
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def wait_for_run(home: Path) -> None:
    until(lambda: any(home.glob("*/request/job.json")), "job")


def begun(home: Path, *words: str, **variables: str) -> tuple[subprocess.Popen[str], Path]:
    """A front process that has heard its ranks, and its run folder."""
    process = front(home, *words, **variables)
    wait_for_run(home)
    folder = only_run(home)
    wait_for(folder / "log" / "stream.jsonl", '"event":"header"')
    return process, folder


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


def sizes(out: str) -> list[str]:
    """Of the rows of a table."""
    return [line.split()[0] for line in out.splitlines() if line[:1] == " " and line.split()[0].isdigit()]
