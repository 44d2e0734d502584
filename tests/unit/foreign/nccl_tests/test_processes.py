"""The ranks that a process of a launcher starts: what they print, and how they end."""

from __future__ import annotations

import time

import pytest

from busbw.errors import SiteError
from busbw.foreign.nccl_tests.processes import Stop, run_here
from busbw.launch.base import Command


def run(*scripts: str, leave_seconds: float = 5.0) -> tuple[int, int]:
    return run_here(
        tuple(Command(("sh", "-c", script)) for script in scripts), Stop(), leave_seconds=leave_seconds
    )


def test_all_that_end_well_are_heard(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("echo one", "echo two >&2") == (-1, 0)
    assert capfd.readouterr() == ("one\n", "two\n")


def test_the_one_that_was_killed_is_the_reason() -> None:
    assert run("sleep 0.5; exit 5", "kill -9 $$") == (1, -9)


def test_who_stays_after_a_bad_end_is_ended() -> None:
    begun = time.monotonic()
    assert run("exec sleep 100", "exit 4", leave_seconds=0.2) == (1, 4)
    assert time.monotonic() - begun < 50


def test_who_is_asked_to_stop_ends_them() -> None:
    stop = Stop()
    stop.asked.set()
    assert run_here((Command(("sleep", "100")),), stop) == (-1, 0)
    assert stop.done.is_set()


def test_one_that_cannot_be_started_ends_the_others() -> None:
    with pytest.raises(SiteError, match="cannot start /absent"):
        run_here((Command(("sleep", "100")), Command(("/absent",))), Stop())
