"""Runs in which nothing moves any more end by themselves, name the rank that the others wait for, and leave
nothing behind.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Any

import pytest

HOST = socket.gethostname()
STALL = ("--backend", "mpi", "--stall", "2s")
ENDLESS = ("all_reduce", "-b", "2K", "-e", "2K", "-w", "1", "-n", "2000000000")


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
    shown = launcher.begin("show", "last").finish()
    assert f"pid {pid} on {HOST}  stopped" in shown.err


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_without_a_limit_a_stopped_rank_without_mpi_is_waited_for(launcher: Any, victim: int) -> None:
    """For longer than a heartbeat takes to lose it."""
    words = ("--backend", "null", "--world", "nccl", "--ranks", "2", "-b", "1M", "-e", "1M")
    ends = ("--cycles", "0", "--budget", "5s", "--stall", "off")
    run = launcher.begin("run", "all_reduce", *words, *ends)
    pid = run.pid_of(victim)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(13)
    os.kill(pid, signal.SIGCONT)
    assert run.finish().code == 0
    assert run.record()["soak"]["seconds"] > 13
