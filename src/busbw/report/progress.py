"""Progress on a terminal: steps done, the one under way, and the time left. A pipe gets nothing of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from busbw.report.console import CleanConsole, with_progress
from busbw.units import format_duration

if TYPE_CHECKING:
    from rich.progress import TaskID

_PER_SECOND: Final = 2  # the ranks may need the core


class Step(Protocol):
    """Says that so many steps are done, and what is under way; ``left_s`` where that is known better than
    from the time so far.
    """

    def __call__(self, done: int, under_way: str, left_s: float | None = None) -> None:
        """Show it."""


class ProgressLine:
    """One line at the bottom, which goes when it stops; what else is printed stands above it."""

    def __init__(self, err: TextIO) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

        from busbw.report.changing_rows import RowsAndProgress

        self.console = CleanConsole(err)
        self._progress = RowsAndProgress(
            BarColumn(24),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            transient=True,
            refresh_per_second=_PER_SECOND,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=True,
        )
        self._task: TaskID | None = None
        self._total = self._first = 0
        self._started_s = 0.0

    def start(self, total: int, under_way: str, done: int = 0) -> None:
        """``done`` of ``total`` steps are done already."""
        self._total, self._first, self._started_s = total, done, time.monotonic()
        self._task = self._progress.add_task(under_way, total=total, completed=done, left="")
        self._progress.start()
        with_progress.append(self.console)

    def step(
        self,
        done: float,
        under_way: str,
        left_s: float | None = None,
        total: int | None = None,
        rows: Sequence[str] = (),
    ) -> None:
        """See Step; ``total`` where it has changed: a hunt learns how many rounds it takes. ``rows`` of a
        table may still change, and stand below those that are final.
        """
        self._progress.rows = rows
        if self._task is None:
            return
        self._total = total or self._total
        now = done - self._first
        if left_s is None:
            left_s = time_left_s(now, self._total - done, time.monotonic() - self._started_s)
        left = f"about {format_duration(left_s)} left" if left_s else ""
        self._progress.update(self._task, completed=done, total=self._total, description=under_way, left=left)

    def stop(self) -> None:
        """The line goes."""
        self._progress.stop()
        if self.console in with_progress:
            with_progress.remove(self.console)


def time_left_s(done: float, left: float, elapsed_s: float) -> float | None:
    """Seconds for the steps that are ``left``, each as long as those ``done`` were; None before the first."""
    return elapsed_s / done * left if done > 0 else None


@contextmanager
def progress(total: int, under_way: str = "", done: int = 0) -> Iterator[Step]:
    """Shows steps on this process's standard error, where that is a terminal and there are several."""
    if total < 2 or not sys.stderr.isatty():
        yield lambda done, under_way, left_s=None: None
        return
    line = ProgressLine(sys.stderr)
    line.start(total, under_way, done)
    try:
        yield line.step
    finally:
        line.stop()
