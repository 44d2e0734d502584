"""Ranks and launchers that are stopped (SIGSTOP) or killed are named, and the ranks that wait are not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.marked import marked

from busbw.machine.processes import name as name_of

HOST = socket.gethostname()
LONG = ("all_reduce", "-b", "8", "-e", "64K", "--case-time", "300ms", "--backend", "mpi")
# Adaptive sampling may end all cases before the shot.
MANY_CALLS = ("all_reduce", "-b", "8", "-e", "4K", "-n", "200000", "--backend", "mpi")


def launcher_process(home: Path, name: str) -> int | None:
    """The process of MPI's launcher with this name, of the run with this home."""
    ours = marked(f"BUSBW_REQUEST={home}")
    return next((pid for pid in ours if name_of(pid) == name), None)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_rank_is_named_within_seconds(launcher: Any, victim: int) -> None:
    run = launcher.begin("run", "--ranks", "2", *LONG)
    pid = run.pid_of(victim)
    run.wait_for_cases(1)
    os.kill(pid, signal.SIGSTOP)
    done = run.finish()
    assert done.code == 5
    assert done.error.startswith(f"rank {victim} on {HOST} (pid {pid}) ")
    assert done.error.endswith("; its process is stopped")
    assert f"kill -CONT {pid}" in done.hint
    assert run.record()["error"] == done.error


@pytest.mark.slow
def test_a_rank_that_is_stopped_in_a_hunt_is_named_with_what_it_is_in(launcher: Any) -> None:
    run = launcher.begin("isolate", "--ranks", "4", "--rounds", "500", "-b", "64K")
    pid = run.pid_of(1)
    run.until(lambda: next(run.home.glob("*/rounds.jsonl"), None))
    os.kill(pid, signal.SIGSTOP)
    done = run.finish()
    assert "rank 1" in done.error
    assert " a test of the hunt" in done.error


@pytest.mark.slow
def test_a_rank_that_said_nothing_is_named_where_the_others_ran_out_of_time(launcher: Any) -> None:
    run = launcher.begin("run", "--ranks", "2", "-T", "3", *LONG)
    run.wait_for_cases(1)
    os.kill(run.pid_of(0), signal.SIGSTOP)
    done = run.finish()
    assert done.code == 5
    assert done.error.startswith(f"rank 0 on {HOST} said nothing while 1 others waited: rank 1 in ")


@pytest.mark.slow
def test_a_rank_that_is_stopped_while_it_starts_is_named(launcher: Any) -> None:
    run = launcher.begin("run", "--ranks", "2", *LONG)
    pid = run.pid_of(1)
    os.kill(pid, signal.SIGSTOP)
    done = run.finish()
    assert done.code == 5
    assert done.error.startswith(f"rank 1 on {HOST} (pid {pid}) ")
    assert done.error.endswith("; its process is stopped")


@pytest.mark.slow
def test_a_killed_launcher_is_named_and_the_cases_of_the_record_are_shown(launcher: Any) -> None:
    run = launcher.begin("run", "--ranks", "2", *MANY_CALLS)
    run.wait_for_cases(2)
    os.kill(run.until(lambda: launcher_process(run.home, "hydra_pmi_proxy")), signal.SIGKILL)
    done = run.finish()
    assert done.code == 5
    assert done.error == f"hydra_pmi_proxy on {HOST}, which starts the ranks, ended before them"
    results = run.record()["results"]
    missing = [result for result in results if result["status"] == "not-run"]
    assert f"{len(missing)} of {len(results)} cases were not measured" in done.out
    assert not launcher.left()


@pytest.mark.slow
def test_ranks_of_one_host_listen_on_loopback_only(launcher: Any) -> None:
    run = launcher.begin("run", "--ranks", "2", *LONG)
    run.wait_for_cases(1)
    pids = [run.pid_of(0), run.pid_of(1), run.until(lambda: launcher_process(run.home, "mpiexec"))]
    lines = subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    own = [line.split()[3] for line in lines if any(f"pid={pid}," in line for pid in pids)]
    assert all(address.startswith("127.") or "%lo:" in address for address in own), own
    run.process.terminate()
    assert run.finish().code == 130
