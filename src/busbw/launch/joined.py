"""Ranks that somebody else's launcher started, where nothing moves any more: nobody but the watcher of each
host is there to say it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.launch.here import close_with
from busbw.launch.stall import stalled_event
from busbw.report.console import print_lines
from busbw.report.events import show_error

if TYPE_CHECKING:
    from busbw.model.progress import HostStill


def report_stall(still: HostStill) -> None:
    """Print what the ranks of this host show, and end the record where it is written here. A watcher knows
    its own host alone. A rank's end is the launcher's to report.
    """
    if not still.quiet_s:
        return
    error = stalled_event([still])
    folder = next((each.page.folder for each in still.ranks if each.page.folder), "")
    if folder:
        close_with(Path(folder), error)
    show_error(error, sys.stderr)
    if folder:
        print_lines((f"# record   {folder}",), sys.stderr)
