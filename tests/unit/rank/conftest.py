from __future__ import annotations

import pytest

from busbw.rank import measure, streams
from busbw.rank.descheduled import CoreClock


class Clocks:
    """The host's clocks in place of CoreClock: they stand, but for the readings in ``next``."""

    def __init__(self) -> None:
        self.next: list[CoreClock] = []

    def now(self) -> CoreClock:
        return self.next.pop(0) if self.next else CoreClock(0, 0, 0, 0)


@pytest.fixture(autouse=True)
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    """Scripted calls take no time, so those of a real machine would flag samples at random."""
    clocks = Clocks()
    monkeypatch.setattr(measure, "CoreClock", clocks)
    monkeypatch.setattr(streams, "CoreClock", clocks)
    return clocks
