"""A limit for one case (-T) or round, kept by a thread: an MPI call that never returns can only be left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from busbw.model.case import Case


class Deadline:
    """``expired(case, seconds)`` is called from another thread when a case takes longer, ``stuck(doing,
    seconds)`` when a round does; they do not return.
    """

    def __init__(
        self,
        seconds: float,
        expired: Callable[[Case, float], None],
        stuck: Callable[[str, float], None] = lambda doing, seconds: None,
    ) -> None:
        self._seconds = seconds
        self._expired = expired
        self._stuck = stuck

    @classmethod
    def none(cls) -> Deadline:
        """No limit."""
        return cls(0.0, lambda case, seconds: None)

    @contextmanager
    def for_case(self, case: Case) -> Iterator[None]:
        """Watch over one case."""
        with _timer(self._seconds, lambda: self._expired(case, self._seconds)):
            yield

    @contextmanager
    def watch(self, seconds: float, doing: str) -> Iterator[None]:
        """Watch over what this rank is ``doing``."""
        with _timer(seconds, lambda: self._stuck(doing, seconds)):
            yield


@contextmanager
def _timer(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    if seconds <= 0:
        yield
        return
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # once it has begun to act, what ends after all is too late
