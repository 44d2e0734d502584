"""Every good run adds its times to the memory of launches in the home of the runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from busbw.errors import BusbwError
from busbw.record import folder as folders
from busbw.record import launch_times as memory
from busbw.record.launch_times import LaunchTimes
from busbw.record.read import read_record


def remember(folder: Path) -> None:
    """Add a finished run. A memory that cannot be written costs no run."""
    home = folders.environ_home()
    with contextlib.suppress(OSError):
        if not memory.is_kept(home):
            rebuild(home)
        elif (launch := _times_of(folder, home)) is not None:
            memory.append(home, launch)


def rebuild(home: Path) -> None:
    """Make the memory again from the run folders, where any is to be kept. Raises OSError."""
    if launches := sorted(_all(home), key=lambda launch: launch.ended):
        memory.rewrite(home, launches)


def _all(home: Path) -> Iterator[LaunchTimes]:
    for folder in folders.run_folders(home):
        for run in folders.launch_folders(folder) or (folder,):
            if (launch := _times_of(run, home)) is not None:
                yield launch


def _times_of(folder: Path, home: Path) -> LaunchTimes | None:
    """None where there is nothing to keep, or the record is damaged."""
    from busbw.judge.launch_history import launch_times  # once the run has ended

    folder, home = folder.absolute(), home.absolute()
    name = str(folder.relative_to(home)) if folder.is_relative_to(home) else folder.name
    try:
        return launch_times(read_record(folder), name)
    except (OSError, BusbwError):
        return None
