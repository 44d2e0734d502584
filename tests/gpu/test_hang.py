"""`busbw hang` finds out about a PyTorch job on two GPUs that hangs: NCCL's own RAS, and PyTorch's dumps."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(120),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
]
JOB = Path(__file__).with_name("hung_job.py")
LATE = 1


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Job:
    def __init__(self, mode: str, folder: Path) -> None:
        self.folder, self.ras = folder, f"127.0.0.1:{free_port()}"
        words = (mode, "RANK", "2", str(free_port()), str(folder))
        environ = {**os.environ, "NCCL_RAS_ADDR": self.ras}
        self.ranks = [
            subprocess.Popen(
                [sys.executable, str(JOB), *(str(rank) if w == "RANK" else w for w in words)], env=environ
            )
            for rank in range(2)
        ]
        while not all((folder / f"ready{rank}").exists() for rank in range(2)):
            time.sleep(0.1)
        time.sleep(2)
        if mode == "stop":
            self.ranks[LATE].send_signal(signal.SIGSTOP)
            time.sleep(1)

    def end(self) -> None:
        for each in self.ranks:
            each.kill()
        for each in self.ranks:
            each.wait()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Any]:
    started: list[Job] = []

    def start(mode: str) -> Job:
        started.append(Job(mode, tmp_path))
        return started[0]

    yield start
    for each in started:
        each.end()


def hang(*words: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "hang", *words, "--format", "json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)
    return done.returncode, json.loads(done.stdout or "{}")


@pytest.mark.parametrize("mode", ["skip", "stop", "kill"])
def test_the_late_rank_is_named_by_ras(job: Any, mode: str) -> None:
    running = job(mode)
    pid = running.ranks[LATE].pid
    code, answer = hang("--pid", str(running.ranks[0].pid), "--wait", "2s")
    assert code == 5
    assert f"rank {LATE} (pid {pid} on " in answer["answer"]
    words = {
        "skip": "has not entered AllReduce",
        "stop": "the process is stopped",
        "kill": "the process has ended",
    }
    assert words[mode] in answer["answer"]


@pytest.mark.parametrize(
    ("mode", "words"), [("skip", "rank 1 has not entered all_reduce"), ("size", "rank 1 called")]
)
def test_the_late_rank_is_named_by_the_recorders(job: Any, mode: str, words: str) -> None:
    running = job(mode)
    deadline = time.monotonic() + 40
    dumps = [running.folder / f"nccl_trace_rank_{rank}" for rank in range(2)]
    while not all(dump.exists() and dump.stat().st_size for dump in dumps) and time.monotonic() < deadline:
        time.sleep(0.5)
    for rank in range(2):
        (running.folder / f"ready{rank}").unlink()
    code, answer = hang("--flight-recorder", str(running.folder))
    assert (code, answer["answer"].startswith(words)) == (5, True), answer


def test_a_job_that_goes_on_does_not_hang(job: Any) -> None:
    running = job("healthy")
    code, answer = hang("--pid", str(running.ranks[0].pid), "--wait", "1s")
    assert (code, answer["is_hung"]) == (0, False), answer
