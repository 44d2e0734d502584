"""What a host says of itself and of a process, by the script that is sent to hosts: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from busbw.machine.look import look, read_host
from busbw.model.hang import LinkSeen

RANK = """
import sys
from busbw.rank.process import offer_stack
def step(): sys.stdin.read()
offer_stack()
print(flush=True)
step()
"""
NVLINKS = """
##busbw counters
GPU 0: NVIDIA H200 (UUID: GPU-1)
\t Link 0: Data Tx: {} KiB
\t Link 0: Data Rx: 7 KiB
\t Link 1: Data Tx: 9 KiB
\t Link 1: Data Rx: 9 KiB
GPU 0: NVIDIA H200 (UUID: GPU-1)
\t Link 0: Replay Errors: 0
\t Link 1: Replay Errors: {}
"""


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ready to say where it is, and waits for input."""
    words = [sys.executable, "-c", RANK]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield started
        started.kill()


def test_a_rank_says_where_it_is_though_its_main_thread_waits_in_a_call(
    rank: subprocess.Popen[bytes],
) -> None:
    for _ in range(2):  # the second answer is not mixed with the first
        (seen,) = look((), [rank.pid]).processes.values()
        assert seen.stack == ("step (<string>:4)", "<module> (<string>:7)")
    assert seen.state == "S"
    assert rank.poll() is None


def test_a_process_that_is_none_of_ours_gets_no_signal() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        (seen,) = look((), [other.pid]).processes.values()
        assert (seen.state, seen.command, seen.stack) == ("S", "sleep 60", ())
        assert seen.waits_in or seen.kernel or os.geteuid() != 0
        other.kill()


def test_a_stopped_and_a_gone_process(rank: subprocess.Popen[bytes]) -> None:
    rank.send_signal(signal.SIGSTOP)
    assert look((), [rank.pid]).processes[rank.pid].state == "T"
    rank.kill()
    rank.wait()
    assert rank.pid not in look((), [rank.pid]).processes


def test_what_a_link_carries_meanwhile() -> None:
    lo = next(link for link in look((), []).links if link.name == "lo")
    assert lo.carried is not None


def test_nvlinks_that_stand_still_and_count_errors() -> None:
    host = read_host(NVLINKS.format(100, 1) + NVLINKS.format(103, 5))
    assert host.links == (
        LinkSeen("GPU 0 NVLink 0", (3072, 0)),
        LinkSeen("GPU 0 NVLink 1", (0, 0), {"Replay Errors": 4}),
    )


def test_a_connection_that_does_not_answer() -> None:
    """A line of /proc/PID/net/tcp of a host whose network was cut."""
    text = (
        "\n##busbw process 7\nS\ncommand python\nwaits_in 0\n"
        "tcp    3: 01004D0A:D4B5 02004D0A:9FDD 01 00000012:00000000 01:0000001F 00000003 0 0 71 2\n"
        "tcp    4: 01004D0A:D4B6 03004D0A:9FDD 01 00000012:00000000 01:0000001F 00000000 0 0 72 2\n"
    )
    assert read_host(text).processes[7].unanswered == ("10.77.0.2",)
