from __future__ import annotations

import threading

from busbw_testing.ranks import case

from busbw.errors import BusbwError, RankFailed
from busbw.rank.process import Deadline


class Expired:
    """Remembers what was said, and lets a test wait for it."""

    def __init__(self) -> None:
        self.said: list[tuple[BusbwError, str]] = []
        self.there = threading.Event()

    def __call__(self, error: BusbwError) -> None:
        self.said.append((error, threading.current_thread().name))
        self.there.set()


def test_a_case_that_takes_longer_is_told_from_another_thread() -> None:
    expired = Expired()
    with Deadline(0.02, expired).for_case(case(index=7)):
        assert expired.there.wait(10)
    ((late, thread),) = expired.said
    assert isinstance(late, RankFailed)
    assert late.message.endswith("did not end within 0.02 s (-T)")
    assert thread != threading.current_thread().name


def test_what_ends_while_its_lateness_is_told_is_late() -> None:
    """Acting ends the process; until then nobody goes on with what came too late."""
    began, told = threading.Event(), []

    def act(late: BusbwError) -> None:
        began.set()
        threading.Event().wait(0.1)
        told.append(late)

    with Deadline(0.01, act).for_case(case()):
        assert began.wait(10)
    assert len(told) == 1


def test_without_a_limit_nobody_watches() -> None:
    before = threading.active_count()
    with Deadline().for_case(case()):
        assert threading.active_count() == before
