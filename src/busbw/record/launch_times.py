"""What every good launch took: one line of JSON a launch in the home of the runs, ``scatter.jsonl``.

From it comes by how much launches of a machine differ (``judge.launch_history``). It holds nothing that the
run folders do not: it may be deleted, and is made again from them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.record.folder import replace_text

SCHEMA: Final = 1
_FILE: Final = "scatter.jsonl"


@dataclass(frozen=True)
class LaunchTimes:
    """``run`` is the run folder's path in the home, ``ended`` an ISO 8601 time. ``machine`` says what kind of
    machine, ``alike`` is a digest of all else that must be equal for two launches to be of one thing.
    ``times_ns``: by operation, then by kind of case (``CaseKey.kind``), then by size in bytes.
    """

    run: str
    ended: str
    machine: Mapping[str, str | int]
    alike: str
    times_ns: Mapping[str, Mapping[str, Mapping[int, float]]]


def is_kept(home: Path) -> bool:
    """Whether the file is there."""
    return (home / _FILE).is_file()


def append(home: Path, launch: LaunchTimes) -> None:
    """One write to the end of the file, so that lines of several writers do not mix. Raises OSError."""
    file = os.open(home / _FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, _line(launch).encode())
    finally:
        os.close(file)


def load(home: Path) -> tuple[LaunchTimes, ...]:
    """All launches. Lines that were cut, or that another busbw wrote, are left out."""
    try:
        text = (home / _FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(_parsed(text.splitlines()))


def rewrite(home: Path, launches: Iterable[LaunchTimes]) -> None:
    """Replace the file whole. Raises OSError."""
    replace_text(home / _FILE, map(_line, launches))


def _line(launch: LaunchTimes) -> str:
    return json.dumps({"schema": SCHEMA, **vars(launch)}, separators=(",", ":")) + "\n"


def _parsed(lines: Iterable[str]) -> Iterator[LaunchTimes]:
    for line in lines:
        try:
            fields = json.loads(line)
            if fields.pop("schema") != SCHEMA:
                continue
            times = {
                operation: {
                    kind: {int(size): float(time) for size, time in sizes.items()}
                    for kind, sizes in kinds.items()
                }
                for operation, kinds in fields.pop("times_ns").items()
            }
            yield LaunchTimes(times_ns=times, **fields)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
