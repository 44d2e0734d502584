"""Soaks of CPU ranks in which something goes wrong: it is found, with its place and time, and all is kept."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

HOST = socket.gethostname()
SOAK = ("soak", "all_reduce", "--ranks", "2", "--backend", "mpi")


def windows(run: Any) -> int:
    return int((run.record().get("soak") or {}).get("windows", 0))


@pytest.mark.slow
def test_the_first_wrong_element_ends_a_soak(launcher: Any, shim: str) -> None:
    """From call 2,000 on one bit is wrong; thousands of calls before it were right."""
    environ = {"LD_PRELOAD": shim, "SHIM_FAULT": "from a call on", "SHIM_BYTES": "4096", "SHIM_CALL": "2000"}
    run = launcher.begin(*SOAK, "-b", "4K", "--time", "60s", **environ)
    done = run.finish()
    soak = run.record()["soak"]
    assert done.code == 1
    assert soak["seconds"] < 60
    (wrong,) = soak["wrong"]
    assert (wrong["rank"], wrong["host"], wrong["offset"], wrong["wrong"]) == (1, HOST, 3, 1)
    assert int(wrong["expected"], 16) ^ int(wrong["found"], 16) == 1
    assert wrong["device"]
    claim = r"# error +wrong data in 1 window: [\d:.]+Z rank 1 on \S+ \(.*\): 1 wrong\s+#?\s*element"
    assert re.search(claim, done.out), done.out
    assert run.record()["results"][0]["status"] == "wrong"


@pytest.mark.slow
def test_a_soak_goes_on_after_wrong_data_where_it_is_asked_to(launcher: Any, shim: str) -> None:
    environ = {"LD_PRELOAD": shim, "SHIM_FAULT": "last bit", "SHIM_BYTES": "4096"}
    words = ("-b", "4K", "--time", "5s", "--keep-going")
    run = launcher.begin(*SOAK, *words, **environ)
    assert run.finish().code == 1
    soak = run.record()["soak"]
    assert soak["seconds"] >= 5
    assert soak["wrong_windows"] == soak["windows"] > 1


@pytest.mark.slow
def test_a_rank_that_is_stopped_for_two_seconds_is_a_slow_call(launcher: Any) -> None:
    """Four times: where it falls into a check, the rank is not known."""
    run = launcher.begin(*SOAK, "-b", "64K", "--time", "40s")
    pid = run.pid_of(1)
    run.until(lambda: windows(run) > 5)
    for _ in range(4):
        before = windows(run)
        run.until(lambda before=before: windows(run) > before)
        time.sleep(0.2)  # windows of 0.33 s
        os.kill(pid, signal.SIGSTOP)
        time.sleep(2)
        os.kill(pid, signal.SIGCONT)
    done = run.finish()
    assert done.code in (0, 1)
    slow = [each for each in run.record()["soak"]["slow"] if each["excess_s"] > 1.7]
    too_busy = os.getloadavg()[0] > (os.cpu_count() or 1)  # checks take a second by themselves
    assert len(slow) == 4 or (too_busy and slow), run.record()["soak"]["slow"]
    assert {(each["rank"], each["host"]) for each in slow if each["timed"]} <= {(1, HOST)}
    assert "slow call" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_soak_in_seconds_with_all_kept(launcher: Any, number: signal.Signals) -> None:
    """Also the window that was under way: the first of 10 s."""
    run = launcher.begin(*SOAK, "-b", "64K")
    run.pid_of(0)
    time.sleep(6)
    os.kill(run.process.pid, number)
    done = run.finish()
    record = run.record()
    assert done.code == 130
    assert done.seconds < 5
    assert record["status"] == "interrupted"
    assert record["results"][0]["samples"] == record["soak"]["windows"] == 1
    assert record["soak"]["calls"] > 0
    assert "would have been seen" in done.out.splitlines()[-1]


@pytest.mark.slow
def test_memory_and_disk_do_not_grow_with_windows(launcher: Any) -> None:
    """Scripted times: a window takes no time, so thousands of them come in seconds."""
    words = ("--backend", "null", "--world", "nccl", "--ranks", "2", "-b", "64K", "--time", "50s")
    run = launcher.begin("soak", "all_reduce", *words)
    pid = run.pid_of(0)

    def resident() -> int:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])  # type: ignore[index]

    run.until(lambda: windows(run) >= 150)
    before = resident()
    run.until(lambda: windows(run) >= 450)
    grown = resident() - before
    size = sum(path.stat().st_size for path in run.home.rglob("*") if path.is_file())
    os.kill(run.process.pid, signal.SIGINT)
    run.finish()
    assert grown < 8_000
    assert size < 1_000_000
