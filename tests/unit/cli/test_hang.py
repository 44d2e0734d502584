"""`busbw hang` against a server that speaks NCCL's protocol on a socket, and real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.ras_server import Ras, answer_of


@pytest.fixture
def ras(request: pytest.FixtureRequest) -> Iterator[Any]:
    made: list[Ras] = []

    def start(answer: bytes, silent: int = 0) -> Ras:
        made.append(Ras(answer, silent))
        made[-1].start()
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as started:
        yield started
        started.kill()


def test_a_stopped_process_is_named(called: Any, tmp_path: Path, ras: Any, process: Any) -> None:
    server = ras(answer_of("stop", process.pid))
    os.kill(process.pid, signal.SIGSTOP)
    while "T" not in Path(f"/proc/{process.pid}/stat").read_text().split(")")[1].split()[0]:
        time.sleep(0.01)
    code, out, _ = called(tmp_path, "hang", "--ras", server.address, "--wait", "10ms")
    os.kill(process.pid, signal.SIGCONT)
    assert code == 5
    assert out.startswith(
        f"rank 1 (pid {process.pid} on 127.0.0.1) does not answer: the process is stopped; "
    )
    assert f"`kill -CONT {process.pid}`" in out


@pytest.mark.parametrize("version", ["2.24.3", "2.26.2", "2.28.9", "2.29.2", "2.32.3"])
@pytest.mark.parametrize(("kind", "words"), [("skip", "has not entered"), ("stop", "does not answer")])
def test_the_answers_of_every_version(
    called: Any, tmp_path: Path, ras: Any, process: Any, version: str, kind: str, words: str
) -> None:
    """Before 2.28.7 the command for JSON is refused, and the answer is a text; 2.28.9's JSON lacks a comma
    where a rank is missing. The first connections may be dead.
    """
    server = ras(answer_of(kind, process.pid, version=version), silent=2)
    code, out, _ = called(tmp_path, "hang", "--ras", server.address, "--wait", "10ms", "--format", "json")
    answer = json.loads(out)
    assert code == 5
    assert answer["answer"].startswith(f"rank 1 (pid {process.pid} on 127.0.0.1) {words}")
    states = [each["state"] for each in answer["states"]]
    assert states[0] == ("not entered, sleeps" if kind == "skip" else "no answer, sleeps")
    assert answer["evidence"][0].startswith(f"NCCL {version}'s RAS was asked twice")


def test_of_one_process_the_kernel_answers_where_nccl_does_not(
    called: Any, tmp_path: Path, ras: Any, process: Any
) -> None:
    server = ras(b"", silent=100)
    words = ("hang", "--ras", server.address, "--wait", "10ms", "--pid", str(process.pid))
    code, out, _ = called(tmp_path, *words)
    assert code == 3
    first = rf"process {process.pid} on \S+ "
    assert re.match(first + r"sleeps; which rank of its job is behind is not known\n", out)
    process.kill()
    process.wait()
    code, out, _ = called(tmp_path, *words)
    assert code == 5
    assert re.match(first + r"is gone\n", out)


def test_nobody_answers(called: Any, tmp_path: Path, ras: Any) -> None:
    server = ras(b"", silent=100)
    code, _, error = called(tmp_path, "hang", "--ras", server.address, "--wait", "10ms")
    assert code == 4
    assert "no RAS of NCCL answers" in error


def test_a_cut_answer_is_none(called: Any, tmp_path: Path, ras: Any) -> None:
    server = ras(answer_of("skip", 1)[:400])
    code, _, error = called(tmp_path, "hang", "--ras", server.address, "--wait", "10ms")
    assert code == 4, error
