"""Processes beside one of a launcher: their exits, and that they end with it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from busbw.errors import SiteError
from busbw.foreign.nccl_tests.beside import Beside, exit_status
from busbw.launch.base import Command


def beside(*scripts: str, leave_seconds: float = 5.0) -> Beside:
    commands = [Command(("sh", "-c", script), {"NUMBER": str(i)}) for i, script in enumerate(scripts)]
    return Beside(commands, leave_seconds)


def test_all_that_end_well() -> None:
    assert beside("exit 0", "test $NUMBER = 1").wait() == (-1, 0)


def test_the_status_that_all_leave_with() -> None:
    assert beside("exit 7", "exit 7").wait() == (0, 7)


def test_the_one_that_was_killed_is_the_reason() -> None:
    index, code = beside("sleep 0.5; exit 5", "kill -9 $$").wait()
    assert (index, code, exit_status(code)) == (1, -9, 5)


def test_who_stays_after_a_bad_end_is_ended() -> None:
    begun = time.monotonic()
    ranks = beside("exec sleep 100", "exit 4", "kill -STOP $$; sleep 100", leave_seconds=0.2)
    assert ranks.wait() == (1, 4)
    assert time.monotonic() - begun < 10
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.pids)


def test_who_does_not_hear_is_killed() -> None:
    ranks = beside("trap '' TERM; while :; do sleep 0.1; done")
    time.sleep(0.3)
    ranks.end()
    assert not Path(f"/proc/{ranks.pids[0]}").exists()


def test_they_stay_in_the_group_of_who_started_them() -> None:
    ranks = beside("exec sleep 100")
    assert os.getpgid(ranks.pids[0]) == os.getpgid(0)
    ranks.end()


def test_one_that_cannot_be_started_ends_the_others() -> None:
    with pytest.raises(SiteError, match="cannot start /absent"):
        Beside([Command(("sleep", "100")), Command(("/absent",))])
