"""Commands whose output is passed on: what is heard of them, and how they end."""

from __future__ import annotations

import time

from busbw.launch.base import Command
from busbw.launch.processes import pass_on


def run(*scripts: str, is_over: bool = False, leave_seconds: float = 5.0) -> dict[int, int]:
    commands = [Command(("sh", "-c", script)) for script in scripts]
    return pass_on(commands, lambda: is_over, leave_seconds)


def test_who_stays_after_a_bad_end_is_ended() -> None:
    begun = time.monotonic()
    assert run("exec sleep 100", "exit 4", leave_seconds=0.2) == {1: 4}
    assert time.monotonic() - begun < 50


def test_who_is_asked_to_stop_ends_them() -> None:
    assert run("exec sleep 100", is_over=True) == {}
