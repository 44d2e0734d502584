"""What all displays of a run's events share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from busbw.model.event import Event, EventKind
from busbw.model.plan import Plan
from busbw.model.record import Method, WorldInfo
from busbw.report.console import print_lines
from busbw.report.events import read_header, show_error, show_state
from busbw.report.progress import ProgressLine
from busbw.units import counted


class Display:
    """Takes events in order. Errors and what an engine says of the job go to ``err`` as they come; a line of
    ``progress`` is shown there where it is a terminal.
    """

    def __init__(self, out: TextIO, err: TextIO, *, progress: bool = False) -> None:
        self._out, self._err = out, err
        self._progress = ProgressLine(err) if progress and err.isatty() else None
        self._plan: Plan | None = None  # once the ranks have met
        self._findings: list[Mapping[str, Any]] = []

    def handle(self, item: Event) -> None:
        """Show one event."""
        if item["event"] == EventKind.ERROR:
            self._stop_progress()
            show_error(item, self._err)
        elif item["event"] == EventKind.STATE:
            show_state(item, self._err)
        elif item["event"] == EventKind.HEADER:
            self._plan, world, method = read_header(item)
            self._begin(item, self._plan, world, method)
        else:
            self._take(item)

    def close(self) -> None:
        """Nothing more will come."""
        self._stop_progress()

    def _begin(self, header: Event, plan: Plan, world: WorldInfo, method: Method) -> None:
        """The ranks have met."""

    def _take(self, item: Event) -> None:
        """Any other event."""

    def _print(self, lines: Iterable[str]) -> None:
        print_lines(lines, self._out)

    def _stop_progress(self) -> None:
        if self._progress is not None:
            self._progress.stop()


def who_lines(what: str, plan: Plan, world: WorldInfo, version: str) -> list[str]:
    """The first lines of a header: ``what`` is done, by which busbw and library, and by how many ranks."""
    first = world.ranks[0]
    library = f"{first.library} {first.library_version}".strip()
    where = f"{world.size} on {counted(len(world.hosts), 'host')}"
    return [
        f"# busbw {version}: {what}, backend {plan.backend}, {library}",
        f"# ranks    {where}, world {world.kind}, started by {world.launcher}",
    ]
