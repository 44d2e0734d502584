"""The index of the run home, with the launches in it: whoever reads it adds those that it does not have yet.

The end of a run reads it for its answer, which is of the runs before: the next reader adds this one. What has
no answer, such as an import, fills it. A damaged index is made again; where there can be none (a file system
without locks, a folder that cannot be written) the run folders are read instead, into memory.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from busbw.errors import BusbwError
from busbw.judge.launch_history import NEWEST, launch_of
from busbw.judge.levels import changes_of
from busbw.judge.matching import made_with
from busbw.model.history import Launch
from busbw.model.record import RunRecord, RunStatus
from busbw.record import folder as folders
from busbw.record.close import read_status
from busbw.record.index import FILE, Index, moment
from busbw.record.read import read_record
from busbw.stats.change_points import WINDOW

T = TypeVar("T")
# In a run folder: what the user said of its launch, by ``excluded`` and ``accepted``.
_SAID_FILE: Final = "history.json"
_OWN: Final = 8  # launches of a run that is held against the others, which are newest themselves


def reading(home: Path, use: Callable[[Index], T], but: str = "") -> T:
    """What ``use`` reads from the index of a home, once every finished run is in it, ``but`` one."""
    try:
        return _on_file(home, use, but)
    except (OSError, sqlite3.Error):
        return _once(None, home, use, but)


def fill() -> None:
    """Add what has ended in this home. Never raises for what is wrong with the index or the records: readers
    find the folders.
    """
    with contextlib.suppress(OSError, BusbwError, sqlite3.Error):
        _on_file(folders.environ_home(), lambda _: None)


def _on_file(home: Path, use: Callable[[Index], T], but: str = "") -> T:
    """A file that turns out to be damaged is removed and made again, once."""
    file = home / FILE
    try:
        return _once(file, home, use, but)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        file.unlink(missing_ok=True)
        return _once(file, home, use, but)


def _once(file: Path | None, home: Path, use: Callable[[Index], T], but: str) -> T:
    """The runs of the home that the index does not have are added before."""
    with contextlib.closing(Index(file)) as index:
        have = index.runs() | {but}
        missing = folders.run_folders(home, have)
        ended = [folder.name for folder in missing if _has_ended(folder)]
        launches = list(_launches(home, missing, have))
        if launches or ended:  # who only reads waits for no other process
            add(index, launches, ended)
        return use(index)


def _has_ended(folder: Path) -> bool:
    """Whether no launch of it is still to come."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return read_status(folder) not in (None, RunStatus.RUNNING)
    return False


def add(index: Index, launches: Iterable[Launch], seen: Iterable[str] = ()) -> None:
    """Add launches, and look for the changes of level that they show. ``seen`` are folders to which nobody
    need come back. Raises sqlite3.Error.
    """
    found = sorted(launches, key=lambda launch: moment(launch.ended, launch.run))
    with index.writing():
        touched: dict[int, int] = {}  # since when a series has other points
        for launch in found:
            for series, since in index.add(launch).items():
                touched[series] = min(since, touched.get(series, since))
        known: dict[int, Launch] = {}  # read for one series, of which others mostly have the same

        def by_number(numbers: Sequence[int]) -> Mapping[int, Launch]:
            if missing := [number for number in numbers if number not in known]:
                known.update(index.launches(missing))
            return known

        for series, since in touched.items():
            points = index.points(series, WINDOW, since)
            changes = index.changes(series) if since else ()
            index.put_changes(series, changes_of(points, changes, since, by_number))
        index.see(seen)


def _launches(home: Path, run_folders: Iterable[Path], but: Collection[str] = ()) -> Iterator[Launch]:
    """Those of the runs that have any, ``but`` these; of a summary, and of a series of setups, the launches
    one by one.
    """
    for folder in run_folders:
        for run in folders.launch_folders(folder) or (folder,):
            path, base = run.absolute(), home.absolute()
            name = str(path.relative_to(base)) if path.is_relative_to(base) else path.name
            if name in but:
                continue
            with contextlib.suppress(OSError, BusbwError):
                launch = launch_of(read_record(run), name, **read_said(run))
                if launch is not None:
                    yield launch


def read_said(folder: Path) -> dict[str, str]:
    """What the user said of a run: ``excluded`` and ``accepted`` with the reason, where he did."""
    try:
        fields = json.loads((folder / _SAID_FILE).read_text())
        return {name: str(fields[name]) for name in ("excluded", "accepted") if name in fields}
    except (OSError, ValueError, TypeError):
        return {}


def say(folder: Path, said: Mapping[str, str]) -> None:
    """Keep what the user says of a run and all of its launches. Raises OSError."""
    for run in folders.launch_folders(folder) or (folder,):
        folders.replace_text(run / _SAID_FILE, (json.dumps(said), "\n"))
    home = folders.environ_home()
    with contextlib.suppress(sqlite3.Error):  # where there can be no index, readers find the file
        _on_file(home, lambda index: add(index, _launches(home, (folder,))))


# ---- what verdicts read -----------------------------------------------------------------------------------


def launches_of_machine(record: RunRecord) -> list[Launch]:
    """The newest other launches of the kind of machine that a run was on, with their cases: what
    ``prior_of`` and ``earlier_runs`` take. None where it is the only run of its home.
    """
    home, own, machine = folders.environ_home(), record.run_id, made_with(record).machine
    if not (home / FILE).exists() and not folders.run_folders(home, (own,)):
        return []
    return reading(home, lambda index: index.of_machine(machine, NEWEST + _OWN), own)
