"""When a job that is followed is told of, or ended."""

from __future__ import annotations

import io
import signal
import time
from pathlib import Path

import pytest

from busbw.job_session import Following, start_following
from busbw.job_stop import is_over
from busbw.launchers.engine import Handle, JobState, Phase
from busbw.launchers.interrupt import Interrupt


@pytest.fixture
def following(tmp_path: Path) -> Following:
    """A job on hosts that has run for 61 s."""
    found = start_following(Handle("hosts", "17", "run", {}), tmp_path, lambda _: None, io.StringIO())
    found.state = JobState(Phase.RUNNING)
    found.running_since_s = time.monotonic() - 61
    return found


def told(following: Following) -> str:
    with Interrupt() as interrupt:
        for _ in range(3):
            assert not is_over(following, interrupt)
    assert isinstance(following.err, io.StringIO)
    return following.err.getvalue()


def test_silent_ranks_are_told_of_once(following: Following) -> None:
    said = told(following)
    assert said.startswith("job 17 has run for 60 s, and no rank has said anything yet; ")
    assert said.count("\n") == 1


def test_ranks_that_spoke_or_are_a_command_are_not(following: Following) -> None:
    following.story.hello[100] = (0, "h1")
    assert told(following) == ""
    following.story.hello.clear()
    following.is_command = True
    assert told(following) == ""


def test_a_job_that_just_started_is_given_time(following: Following) -> None:
    following.running_since_s = time.monotonic()
    assert told(following) == ""


def test_a_second_interrupt_ends_it_at_once(following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first gives the ranks time for last words."""
    ends: list[bool] = []
    monkeypatch.setattr("busbw.launchers.hosts.cancel", lambda handle, *, now: ends.append(now))
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert not is_over(following, interrupt)
        assert not is_over(following, interrupt)
        signal.raise_signal(signal.SIGINT)
        assert is_over(following, interrupt)
    assert ends == [False, True]
    assert following.story.interrupted
