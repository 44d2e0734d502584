"""``busbw history``: the series of this home, one of them, and what the user says of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

from busbw.cli.app import SELECTION, CleanApp, RunName, examples, flag, positional
from busbw.cli.output import as_json, show
from busbw.errors import ExitCode, UnknownWord, UsageError, nearest
from busbw.judge import kept
from busbw.judge.compare_arms import key_of
from busbw.judge.launch_history import case_of, testbed_of
from busbw.judge.levels import level_of
from busbw.judge.run import started_folder
from busbw.model.collective import COLLECTIVES
from busbw.model.history import KeptCase, Launch, Series
from busbw.model.record import RunRecord
from busbw.plan.flags.list import HistorySettings
from busbw.record.folder import environ_home
from busbw.record.index import Index
from busbw.record.selection import Selection, selection_of
from busbw.report import history as report
from busbw.report.console import columns
from busbw.report.history import Told
from busbw.stats.change_points import WINDOW
from busbw.terminal import has_unicode
from busbw.units import format_flag_size

_OPERATIONS: Final = frozenset(row.name for row in COLLECTIVES)
_WIDTH: Final = 100
_LEAST_DRAWN: Final = 4  # launches


app = CleanApp(
    name="history",
    help_epilogue=examples(
        "busbw history",
        "busbw history all_reduce --size 1G --since 30d",
        "busbw history tag:nightly host:node7 --format csv",
    ),
)


@app.default
def history(
    *what: Annotated[str, positional(f"Operations, and launches for which all of these hold: {SELECTION}.")],
    settings: HistorySettings = HistorySettings(),
) -> ExitCode:
    """Show every series that fits, one in detail where a size is named. Raises UsageError."""
    operations = {word for word in what if word in _OPERATIONS}
    terms = [word for word in what if word not in operations]
    chosen = selection_of((*terms, *settings.terms), datetime.now(UTC))
    is_whole = settings.format != "table" or settings.size is not None

    def read(index: Index) -> list[Told]:
        return list(_told(index, operations, settings, chosen, whole=is_whole))

    told = kept.reading(environ_home(), read)
    if not told:
        for name in chosen.names:  # what no run is called, and is nearly an operation
            if nearest(name, _OPERATIONS):
                raise UnknownWord(f"unknown operation {name!r}", name, _OPERATIONS)
        size = f" of {format_flag_size(settings.size)}" if settings.size is not None else ""
        sought = f"{', '.join(sorted(operations)) or 'any operation'}{size}"
        none = f"no launch of {sought} fits in {environ_home()}; `busbw history` shows all series"
        print(none, file=sys.stderr)
        return ExitCode.OK
    width, unicode = columns(_WIDTH), has_unicode(sys.stdout)
    show(
        settings.format,
        report.overview(told, settings.limit)
        if settings.size is None
        else (
            line for each in told[: settings.limit] for line in report.detail(each, width, unicode=unicode)
        ),
        json=lambda: as_json([report.fields(each) for each in told]),
        csv=lambda: report.csv_text(told),
    )
    return ExitCode.OK


def _told(
    index: Index, operations: set[str], settings: HistorySettings, chosen: Selection, *, whole: bool
) -> Iterator[Told]:
    """The series that fit, those of the newest testbed first. ``whole``: with all of their points."""
    fitting: Mapping[int, Launch] | None = None  # all
    if chosen != Selection():
        fitting = {
            number: launch
            for number, launch in index.launches().items()
            if chosen.fits_folder(launch.run.partition("/")[0], datetime.fromisoformat(launch.ended))
            and chosen.fits_record(launch.tags, launch.hosts, launch.version)
        }
    newest = index.testbeds()
    for testbed in newest if whole else newest[: settings.limit]:  # each has a line at least
        for series in index.series(testbed):
            if operations and series.case.operation not in operations:
                continue
            if settings.size in (None, series.case.size_bytes):
                told = _series(index, series, fitting, whole=whole)
                if told is not None:
                    yield told


def _series(
    index: Index, series: Series, fitting: Mapping[int, Launch] | None, *, whole: bool
) -> Told | None:
    """Levels are those of all launches; points and changes those of the launches that fit."""
    number = series.number
    newest = index.points(number, WINDOW)
    every = index.points(number) if whole or fitting is not None else newest
    if not newest:  # all its launches are excluded
        return None
    changes, accepted = index.changes(number), index.accepted(number)
    level = level_of(series, newest, changes, accepted)
    if fitting is not None:
        every = [point for point in every if point.launch in fitting]
        changes = [change for change in changes if change.launch in fitting]
    if not every:
        return None
    needed = {change.launch for change in changes}
    if whole:
        needed |= {point.launch for point in every}
    launches = index.launches(needed)
    count = len(every) if fitting is not None else index.count(number)
    return Told(series, every, changes, level, launches, accepted, count)


def history_of(record: RunRecord) -> tuple[Told, ...]:
    """The series of a run at its largest size of each operation, those that have a few launches."""
    largest: dict[str, KeptCase] = {}
    cases = (case_of(key_of(case, record)) for case, _ in record.timed)
    for case in sorted(cases, key=lambda each: each.size_bytes):
        largest[case.operation] = case
    testbed = testbed_of(record).key

    def read(index: Index) -> list[Told | None]:
        found = (series for case in largest.values() for series in index.series(testbed, case))
        return [_series(index, series, None, whole=True) for series in found]

    every = kept.reading(environ_home(), read)
    return tuple(told for told in every if told is not None and len(told.points) >= _LEAST_DRAWN)


@app.command(
    help_epilogue=examples('busbw history accept last --why "the new firmware costs 3 percent"'),
)
def accept(run: RunName, /, *, why: Annotated[str, flag("The reason; empty takes it back.")]) -> ExitCode:
    """Take the level of a run as the new one: what comes is held against it."""
    return _say(run, "accepted", why)


@app.command(
    help_epilogue=examples('busbw history exclude 20261121-1815 --why "another job used the links"'),
)
def exclude(run: RunName, /, *, why: Annotated[str, flag("The reason; empty takes it back.")]) -> ExitCode:
    """Leave a run out of its series, and of what later ones are held against."""
    return _say(run, "excluded", why)


def _say(run: str, word: str, why: str) -> ExitCode:
    """Keep that and why a run is ``accepted`` or ``excluded``; empty takes it back. Raises UsageError."""
    folder = started_folder(run)
    said = {**kept.read_said(folder), word: why}
    try:
        kept.say(folder, {name: text for name, text in said.items() if text})
    except OSError as error:
        raise UsageError(
            f"cannot write into {folder}: {error.strerror}", hint="ask whoever owns the run"
        ) from error
    print(f"{folder.name}: {f'{word}: {why}' if why else f'no longer {word}'}")
    return ExitCode.OK
