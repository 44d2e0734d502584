"""A limit for one case (-T), kept by a thread: an MPI call that never returns can only be left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from busbw.model.case import Case


class Deadline:
    """``expired(case, seconds)`` is called from another thread when a case takes longer; it does not
    return.
    """

    def __init__(self, seconds: float, expired: Callable[[Case, float], None]) -> None:
        self._seconds = seconds
        self._expired = expired

    @classmethod
    def none(cls) -> Deadline:
        """No limit."""
        return cls(0.0, lambda case, seconds: None)

    @contextmanager
    def for_case(self, case: Case) -> Iterator[None]:
        """Watch over one case."""
        if self._seconds <= 0:
            yield
            return
        timer = threading.Timer(self._seconds, self._expired, (case, self._seconds))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
