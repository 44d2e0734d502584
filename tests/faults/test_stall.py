"""Runs in which nothing moves any more end by themselves, name the rank that the others wait for, and leave
nothing behind.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

HOST = socket.gethostname()
STALL = ("--backend", "mpi", "--stall", "2s")
SIZES = ("all_reduce", "-b", "2K", "-e", "2K")
ENDLESS = (*SIZES, "-w", "1", "-n", "2000000000")

# Python of a rank loads it first: rank 1 sleeps before a timed look of its third case.
SLEEPS = """
import os, sys, time
if os.environ.get("PMI_RANK") == "1" and "busbw.rank" in sys.orig_argv:
    from busbw.rank.measure import Sampling
    add, looks = Sampling.add, []
    def late(self, *args, **options):
        looks.append(1)
        if len(looks) == 3:
            time.sleep(600)
        return add(self, *args, **options)
    Sampling.add = late
"""


@pytest.mark.slow
def test_a_stopped_rank_under_ones_own_launcher_is_named_and_kept_in_the_record(
    launcher: Any, mpiexec: str
) -> None:
    run = launcher.start(mpiexec, "-n", "2", *launcher.busbw, "run", *ENDLESS, *STALL)
    pid = run.pid_of(1)
    os.kill(pid, signal.SIGSTOP)
    done = run.finish()
    assert done.code != 0
    assert f"error: rank 1 on {HOST} (pid {pid}) " in done.err
    assert done.err.count("; its process is stopped\n") == 1
    assert not launcher.left()
    record = run.record()
    assert record["status"] == "failed"
    assert record["hang"]["states"][0] == {
        "ranks": [1],
        "where": f"pid {pid} on {HOST}",
        "state": "stopped",
        "last": record["hang"]["states"][0]["last"],
    }
    shown = launcher.start(*launcher.busbw, "show", "last").finish()
    assert f"pid {pid} on {HOST}  stopped" in shown.err


@pytest.mark.slow
def test_a_rank_that_sleeps_in_the_call_is_named(launcher: Any, shim: str) -> None:
    done = launcher.run(
        *("--ranks", "2", *SIZES, *STALL), LD_PRELOAD=shim, SHIM_FAULT="sleep", SHIM_BYTES="2048"
    )
    assert done.code == 5
    assert done.error.startswith(f"rank 1 on {HOST} (pid ")
    assert "; its process is asleep, and does not look for messages" in done.error
    assert "entered, not returned" in done.err


@pytest.mark.slow
def test_a_rank_that_is_busy_elsewhere_is_named_and_finished_cases_are_kept(
    launcher: Any, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLEEPS)
    path = f"{tmp_path}:{launcher.environ['PYTHONPATH']}"
    words = ("--ranks", "2", "all_reduce", "-b", "8", "-e", "64", "-n", "8", *STALL)
    done = launcher.run(*words, "--format", "json", PYTHONPATH=path)
    assert done.code == 5
    record = json.loads(done.out)
    assert f"rank 1 on {HOST}" in record["error"]
    assert " has not entered " in record["error"]
    assert record["hang"]["states"][0]["state"] == "not entered"
    assert [result["status"] for result in record["results"]][:1] == ["good"]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_without_a_limit_a_stopped_rank_without_mpi_is_waited_for(launcher: Any, victim: int) -> None:
    """For longer than a heartbeat takes to lose it."""
    words = ("--backend", "null", "--world", "nccl", "--ranks", "2", "-b", "1M", "-e", "1M")
    ends = ("--cycles", "0", "--budget", "5s", "--stall", "off")
    run = launcher.start(*launcher.busbw, "run", "all_reduce", *words, *ends)
    pid = run.pid_of(victim)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(13)
    os.kill(pid, signal.SIGCONT)
    assert run.finish().code == 0
    assert run.record()["soak"]["seconds"] > 13
