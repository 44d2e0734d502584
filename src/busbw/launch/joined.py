"""Ranks that somebody else's launcher started, and what the watcher of their host has to say of them: nobody
else is there to say it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from busbw.launch.here import close_with
from busbw.launch.stall import stalled_event
from busbw.model.event import Event, EventKind
from busbw.model.plain import from_plain
from busbw.model.progress import HostStill
from busbw.report.console import print_lines
from busbw.report.events import show_error


def report(item: Event) -> None:
    """Print how the run ended. A watcher knows its own host alone."""
    folder, error = item.get("folder", ""), item
    if item["event"] == EventKind.STALL:
        still = from_plain(HostStill, item["still"])
        if not still.quiet_s:
            return
        error = stalled_event([still])
        folder = next((each.page.folder for each in still.ranks if each.page.folder), "")
        if folder:
            close_with(Path(folder), error)
    show_error(error, sys.stderr)
    if folder:
        print_lines((f"# record   {folder}",), sys.stderr)
