"""Ctrl-C and its relatives, noticed instead of raised: an exception could come between starting a process and
knowing it, and nobody would end that process.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """Counts the signals that ask this process to end, from entering to leaving. Main thread only."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            # Ignored on purpose: nohup, or a job in the background of a script.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal gave

    @property
    def requested(self) -> bool:
        """Somebody wants the run to end."""
        return self.count > 0

    @property
    def insisted(self) -> bool:
        """Somebody asked again: no more waiting for last words."""
        return self.count > 1

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
