"""Ranks that a launcher's processes have started (``-t`` and ``-g`` above 1): one that dies ends all and is
named, what ends a process ends its ranks, and nothing is left.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Any

from busbw_testing.marked import parent_of

HOST = socket.gethostname()
# No look takes time in the null backend, but there are very many of them.
ENDLESS = ("nccl-tests", "all_reduce_perf", "-b", "8", "-e", "8", "-g", "2", "-z", "1", "-n", "2000000000")


def start(launcher: Any, mpiexec: str, *words: str) -> Any:
    return launcher.start(mpiexec, "-n", "2", *launcher.busbw, *words, BUSBW_BACKEND="null")


def test_a_rank_that_dies_is_named_and_ends_all(launcher: Any, mpiexec: str) -> None:
    victim = 3
    running = start(launcher, mpiexec, *ENDLESS)
    os.kill(running.pid_of(victim), signal.SIGKILL)
    done = running.finish()
    assert done.code == 5
    assert done.seconds < 30
    assert done.error.startswith(f"rank {victim} on {HOST}: ")
    assert f"busbw: rank {victim} on {HOST} was ended by SIGKILL" in done.err
    assert running.record()["status"] == "failed"


def test_rank_0_that_dies_is_named(launcher: Any, mpiexec: str) -> None:
    running = start(launcher, mpiexec, *ENDLESS)
    os.kill(running.pid_of(0), signal.SIGKILL)
    done = running.finish()
    assert done.code == 5
    assert f"error: rank 0 on {HOST}" in done.err
    assert running.record()["status"] == "failed"


def test_a_process_of_the_launcher_that_is_killed_takes_its_ranks(launcher: Any, mpiexec: str) -> None:
    running = start(launcher, mpiexec, *ENDLESS)
    os.kill(parent_of(running.pid_of(2)), signal.SIGKILL)
    done = running.finish()
    assert done.code != 0


def test_a_signal_to_a_process_ends_its_ranks(launcher: Any) -> None:
    """As torchrun ends its processes: the one, and not its group."""
    common = {"WORLD_SIZE": "1", "RANK": "0", "TORCHELASTIC_RUN_ID": "a", "MASTER_ADDR": "127.0.0.1"}
    running = launcher.begin(*ENDLESS, BUSBW_BACKEND="null", **common)
    running.pid_of(1)
    os.kill(running.process.pid, signal.SIGTERM)
    assert running.finish().code == 130
    assert running.record()["status"] == "interrupted"
