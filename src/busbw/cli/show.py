"""``busbw show``: an earlier run, again, by replaying its record as events."""

from __future__ import annotations

import sys

from busbw.errors import ExitCode, UsageError
from busbw.model.event import EventKind, event
from busbw.record.folder import environ_home, find_run, is_started
from busbw.record.read import read_record
from busbw.reports.live import FORMATS, create


def show(run: str, format_name: str) -> ExitCode:
    """Print a record as `busbw run` would have; exit code 0 whatever the run's own was."""
    if format_name not in FORMATS:
        raise UsageError(f"unknown format {format_name!r}", hint=f"use one of: {', '.join(FORMATS)}")
    folder = find_run(run, environ_home())
    if not is_started(folder):
        raise UsageError(
            f"the run in {folder} never started: it ended before its ranks were connected",
            hint="request/commands.txt there is what was started, log/ranks.log what the ranks said",
        )
    record = read_record(folder)
    display = create(format_name, sys.stdout, sys.stderr, live=False)
    if record.world is not None and record.method is not None:
        display.handle(
            event(
                EventKind.HEADER,
                run_id=record.run_id,
                folder=str(folder),
                busbw_version=record.busbw_version,
                plan=record.plan,
                world=record.world,
                method=record.method,
            )
        )
    for result in record.finished:
        display.handle(event(EventKind.CASE, result=result))
    display.handle(event(EventKind.END, status=record.status.value, folder=str(folder)))
    display.close()
    if record.error:
        print(f"the run {record.status.value}: {record.error}", file=sys.stderr)
    return ExitCode.OK
