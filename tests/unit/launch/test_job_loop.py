"""The loop inside a job, with real processes: what it passes on, ends, skips and gives up."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.marked import marked

from busbw.launch import job_loop

TEXT = Path(job_loop.__file__).read_text()
MARK = "20261122-101500-setups-test"
SWEEP = ("sh", "-c", job_loop.SWEEP.replace("/tmp/busbw-series-", "$HERE/"), "busbw-sweep")


class Job:
    """A job whose only host this is."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, f"{MARK}-{folder.name}"
        self.launches: list[dict[str, Any]] = []

    def add(self, script: str, setup: str = "", limit_s: float = 0.0) -> None:
        number = len(self.launches) + 1
        spec = {"number": number, "setup": setup or str(number), "argv": ["sh", "-c", script]}
        self.launches.append({**spec, "environ": {"A": "b"}, "limit_s": limit_s})

    def start(self) -> subprocess.Popen[str]:
        task = {"mark": self.mark, "sweep": [*SWEEP, self.mark], "launches": self.launches}
        word = base64.b64encode(zlib.compress(json.dumps(task).encode())).decode()
        return subprocess.Popen(
            [sys.executable, "-c", TEXT, word],
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": "/usr/bin:/bin", "HERE": str(self.folder)},
        )

    def run(self) -> tuple[list[str], int]:
        """Its lines, and its exit code."""
        job = self.start()
        out, _ = job.communicate(timeout=60)
        return out.splitlines(), job.returncode

    @property
    def left(self) -> dict[int, str]:
        """Its processes that are still there."""
        return marked(f"BUSBW_SERIES={self.mark}")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def fates(lines: list[str]) -> dict[int, dict[str, Any]]:
    """The last word on each launch."""
    said = (line.split(" ", 2) for line in lines)
    return {int(number[1:]): json.loads(text) for number, kind, text in said if kind == "="}


def test_launches_run_one_by_one_with_their_variables(job: Job) -> None:
    job.add("echo out $A; echo error >&2")
    job.add("printf 'no line break'; exit 3")
    lines, code = job.run()
    assert code == 0
    assert {line for line in lines if line.startswith("@1") and "=" not in line} == {
        "@1 o out b",
        "@1 e error",
    }
    assert "@2 o no line break" in lines
    assert [fate["code"] for fate in fates(lines).values()] == [0, 3]


def test_a_setup_that_fails_twice_in_a_row_is_not_tried_again(job: Job) -> None:
    for script in ("kill -9 $$", "exit 1", "echo ran"):
        job.add(script, "bad")
        job.add("true", "good")
    lines, code = job.run()
    assert code == 0
    assert [fate.get("code") for fate in fates(lines).values()] == [-9, 0, 1, 0, None, 0]
    assert fates(lines)[5] == {"skipped": True}


def test_nothing_of_a_launch_is_there_when_the_next_one_starts(job: Job) -> None:
    """A process that left its session, and holds the launch's output open."""
    job.add("setsid sleep 300 & exit 0")
    job.add("true")
    started_s = time.monotonic()
    lines, _ = job.run()
    assert time.monotonic() - started_s < 30
    assert [fate["code"] for fate in fates(lines).values()] == [0, 0]
    assert not job.left


def test_a_launch_ends_by_its_limit(job: Job) -> None:
    """It has time for last words; one that ignores that is killed."""
    job.add("trap 'echo last; exit 7' TERM; while :; do sleep 0.1; done", limit_s=1.0)
    lines, _ = job.run()
    said = [line for line in lines if line.startswith("@1")]
    assert said[0] == '@1 = {"limit_s": 1.0}'
    assert "@1 o last" in said
    assert fates(lines)[1]["code"] == 7
    assert fates(lines)[1]["limit_s"] == 1.0


def test_a_host_that_was_replaced_ends_the_series_and_no_setup(job: Job) -> None:
    job.add("true")
    job.add(f"rm {job.folder}/{job.mark}; exit 1")
    job.add("true")
    lines, code = job.run()
    assert code == job_loop.LOST
    assert fates(lines)[1]["code"] == 0
    assert "was replaced" in fates(lines)[2]["lost"]
    assert 3 not in fates(lines)


def test_results_are_always_sent_and_the_rest_within_a_bound(job: Job) -> None:
    case = '{"busbw":2,"event":"case","result":{}}'
    job.add(f"seq 100000; echo '{case}'; echo after")
    lines, _ = job.run()
    assert job_loop.MOST_BYTES * 0.9 < sum(len(line) + 1 for line in lines) < job_loop.MOST_BYTES + 1000
    assert f"@1 o {case}" in lines
    assert "@1 o after" not in lines
    assert any("bytes of this launch's output were dropped" in line for line in lines)


def test_the_rest_of_a_line_that_srun_cut_goes_where_its_beginning_went() -> None:
    sent: list[str] = []
    sender = job_loop.Sender(1)
    sender.left_bytes = 0
    begin = b'{"busbw":2,"event":"header","x":"'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_loop, "say", lambda number, kind, text: sent.append(text))
        sender.send(b"0: " + begin.ljust(1024, b"x"), is_error=False)
        sender.send(b'0: "}', is_error=False)
        sender.send(b"0: " + b"y" * 1024, is_error=False)
        sender.send(b"0: y", is_error=False)
    assert [len(text) for text in sent] == [1027, 5]


def test_a_signal_ends_the_launch_and_the_series(job: Job) -> None:
    job.add("trap 'echo last; exit 9' TERM; echo ready; while :; do sleep 0.1; done")
    job.add("true")
    running = job.start()
    assert running.stdout is not None
    assert running.stdout.readline() == "@1 o ready\n"
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=30)
    assert running.returncode == 128 + signal.SIGTERM
    lines = out.splitlines()
    assert "@1 o last" in lines
    assert fates(lines)[1] | {"seconds": 0} == {"code": 9, "seconds": 0, "ended": True}
    assert 2 not in fates(lines)
    assert not job.left


def test_a_program_that_is_not_there(job: Job) -> None:
    job.add("true")
    job.launches[0]["argv"] = ["/nowhere/mpirun"]
    lines, _ = job.run()
    assert "@1 e /nowhere/mpirun: No such file or directory" in lines
    assert fates(lines)[1]["code"] == 127
