"""``busbw import``: logs of other tools into run folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from busbw.cli.app import positional
from busbw.errors import BusbwError, ExitCode, UnknownWord, UsageError
from busbw.plan.flags.flag import flag_of
from busbw.plan.flags.logs import ImportSettings
from busbw.record.folder import environ_home, new_run_id
from busbw.record.results import write_record
from busbw.report.console import print_lines
from busbw.report.progress import progress
from busbw.units import counted, format_size

if TYPE_CHECKING:
    from busbw.foreign.logs.assemble import Origin
    from busbw.foreign.logs.table import Table
    from busbw.foreign.read_any import Reading
    from busbw.model.record import ImportFinding, RunRecord

STANDARD_INPUT: Final = "-"
_COLUMNS: Final = "# {:<36} {:<10} {:<14} {:>6} {:>7}  {:<22} {}"


@dataclass
class Outcome:
    """What became of the logs. ``say`` takes a line of the list, ``refuse`` an error and where it is."""

    say: Callable[[str], None]
    refuse: Callable[[BusbwError, str], None]
    folders: list[Path] = field(default_factory=list)
    imported: int = 0
    undecided: int = 0
    skipped: int = 0
    unread: int = 0
    findings: int = 0
    why: str = ""  # the last log without a results table has none


def import_logs(
    *paths: Annotated[
        str,
        # For "-"; other words that begin like a flag are refused below.
        positional("Logs, folders of logs, or - for standard input.", allow_leading_hyphen=True),
    ],
    settings: ImportSettings = ImportSettings(),
) -> ExitCode:
    """Import every table of every log; one that cannot be decided does not keep the others from it.

    Raises UsageError where nothing was found to import.
    """

    def refuse(error: BusbwError, where: str) -> None:
        print(_printable(f"error: {where}{error.message}"), f"hint: {error.hint}", sep="\n", file=sys.stderr)

    outcome = import_tables(paths, settings, say=lambda line: print_lines([line]), refuse=refuse)
    counts = {
        "to import" if settings.dry_run else "imported": outcome.imported,
        "undecided": outcome.undecided,
        "without a results table": outcome.skipped,
        "not read": outcome.unread,
        "findings": outcome.findings,
    }
    shown = [
        f"{n} {what}" for what, n in counts.items() if n or what in ("to import", "imported", "findings")
    ]
    where = "" if settings.dry_run or not outcome.imported else f" saved in {environ_home()}"
    print_lines([f"# {', '.join(shown)}{where}"])
    if outcome.unread:
        return ExitCode.USAGE
    return ExitCode.UNDECIDED if outcome.undecided else ExitCode.OK


def import_tables(
    paths: tuple[str, ...],
    settings: ImportSettings,
    *,
    say: Callable[[str], None],
    refuse: Callable[[BusbwError, str], None],
) -> Outcome:
    """Import every table of every log. Raises UsageError where there is none, and what ``refuse`` raises."""
    from busbw.foreign.logs.labels import DEFAULTS, NUMBERS, compile_pattern
    from busbw.foreign.logs.labels import labels as read_labels
    from busbw.foreign.logs.operations import operation
    from busbw.foreign.read_any import UnreadableError

    _check_words(paths, settings)
    settings = replace(settings, op=operation(settings.op) or settings.op)
    patterns = (compile_pattern(settings.labels),) if settings.labels else DEFAULTS
    words = [word.strip() for word in settings.table.split(",") if word.strip()]
    if not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"not table numbers: {settings.table!r}", hint="write --table 2, or --table 1,3")
    numbers = frozenset(map(int, words))
    outcome = Outcome(say, refuse)
    say(_COLUMNS.format("run", "tool", "operation", "ranks", "cases", "sizes", "from").rstrip())
    logs = list(_logs(paths))
    with progress(len(logs)) as step:
        for done, (path, explicit) in enumerate(logs):
            step(done, _printable(str(path)))
            try:
                reading = _read(path, settings)
                labels = read_labels(reading.origin.path, patterns)
                for name in NUMBERS & set(labels):
                    if not labels[name].isdecimal():
                        where = f"{name} is {labels[name]!r} in {reading.origin.path}"
                        raise UsageError(where, hint="change --labels")
                _import_log(reading, explicit, labels, numbers, settings, outcome)
            except UnreadableError as error:
                outcome.unread += 1
                refuse(error, "")
    if not outcome.imported and not outcome.undecided and not outcome.unread:
        tool = "a known tool" if settings.format == "auto" else settings.format
        why = outcome.why if len(paths) == 1 else ""
        raise UsageError(
            _printable(f"no table of {tool} in {', '.join(paths)}{why}"),
            hint="give logs of nccl-tests, rccl-tests, nccom-test, OSU or IMB; --format names one of them",
        )
    if outcome.folders:
        from busbw.judge.kept import fill

        fill()
    return outcome


def _check_words(paths: tuple[str, ...], settings: ImportSettings) -> None:
    if not paths:
        raise UsageError("no log given", hint="name files or folders, or - for standard input")
    for path in paths:
        if path.startswith("-") and path != STANDARD_INPUT:
            known = [flag_of(each.name) for each in fields(settings)]
            raise UnknownWord(
                f"unknown flag {path!r} of `busbw import`", path, known, hint="see `busbw import --help`"
            )
    if not any(path == STANDARD_INPUT or os.path.lexists(path) for path in paths):
        raise UsageError(f"there is no file {paths[0]}", hint="give logs, or folders of logs")


def _logs(paths: tuple[str, ...]) -> Iterator[tuple[Path | str, bool]]:
    """Every log, and whether the user named the file itself."""
    from busbw.foreign.read_any import log_files

    for path in paths:
        if path != STANDARD_INPUT and Path(path).is_dir():
            yield from ((file, False) for file in log_files(Path(path)))
        else:
            yield path, True


def _read(path: Path | str, settings: ImportSettings) -> Reading:
    from busbw.foreign.read_any import read_file, read_stream

    tool = "" if settings.format == "auto" else settings.format
    if path == STANDARD_INPUT:
        return read_stream(sys.stdin.buffer, STANDARD_INPUT, tool)
    return read_file(Path(path), tool)


def _import_log(
    reading: Reading,
    explicit: bool,
    labels: dict[str, str],
    numbers: frozenset[int],
    settings: ImportSettings,
    outcome: Outcome,
) -> None:
    from busbw.foreign.logs.labels import environment_beside

    if not numbers or not reading.tables:
        reading = reading.with_all_findings(labels.get("test", ""))
    origin = replace(reading.origin, labels=labels)
    if not origin.environment and labels.get("setup"):  # the environment that stands beside the log
        environment, names = environment_beside(Path(origin.path), labels["setup"])
        origin = replace(origin, environment=environment, environment_from=f"also read: {names}")
    wanted = [number for number in range(1, len(reading.tables) + 1) if not numbers or number in numbers]
    for number in wanted:
        _import_table(reading.tables[number - 1], replace(origin, table=number), settings, outcome)
    for finding in reading.findings:
        _note(outcome, origin.path, finding)
    if wanted:
        return
    outcome.skipped += 1
    why = reading.no_text
    if not why and reading.is_log and reading.origin.last_words:
        why = f"its last line: {reading.origin.last_words}"
    if reading.tables:
        why = f"it has {counted(len(reading.tables), 'table')}, but --table is {settings.table}"
    if explicit:
        outcome.why = f": {why}" if why else ""
        outcome.findings += 1
        outcome.say(f"#   {_printable(f'{origin.path}: no results table{outcome.why}')}")


def _import_table(table: Table, origin: Origin, settings: ImportSettings, outcome: Outcome) -> None:
    from busbw.foreign.logs.assemble import assemble
    from busbw.foreign.logs.check import check
    from busbw.foreign.logs.decide import Given

    said = {"setup": settings.setup, "nodes": str(settings.nodes or ""), "system": settings.system}
    said["version"] = settings.library_version
    labels = {name: value for name, value in said.items() if value}
    try:
        record = assemble(table, origin, Given(settings.op, settings.ranks, labels), "")
    except BusbwError as error:
        outcome.undecided += 1
        outcome.refuse(error, f"{origin.path}: table {origin.table}: ")
        for finding in check(table).findings:
            _note(outcome, origin.path, finding)
        return
    outcome.imported += 1
    if not settings.dry_run:
        outcome.folders.append(_store(record, settings, outcome.imported))
    run_id = "(not written)" if settings.dry_run else outcome.folders[-1].name
    outcome.say(_printable(_line(record, run_id)))
    assert record.source is not None
    for finding in record.source.findings:
        _note(outcome, origin.path, finding)


def _store(record: RunRecord, settings: ImportSettings, number: int) -> Path:
    """Write a record into a new run folder. Tables after the first are called NAME-2, NAME-3."""
    name = f"{settings.name}-{number}" if settings.name and number > 1 else settings.name
    folder = _new_folder(name or (record.plan.cases[0].collective if record.plan.cases else "no-rows"))
    called = {**record.settings, "name": name, "tag": list(settings.tag)}
    write_record(folder, replace(record, run_id=folder.name, settings=called))
    return folder


def _new_folder(name: str) -> Path:
    """An empty run folder. Thousands of tables can come in a second: run ids repeat themselves then."""
    home = environ_home()
    try:
        while True:
            folder = home / new_run_id(name)
            try:
                folder.mkdir()
            except FileNotFoundError:
                home.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                continue
            else:
                return folder
    except OSError as error:
        raise UsageError(
            f"cannot make a run folder in {home}: {error.strerror}",
            hint="set BUSBW_HOME to a folder that you can write",
        ) from error


def _line(record: RunRecord, run_id: str) -> str:
    source, cases = record.source, record.plan.cases
    assert source is not None
    ranks = record.world.size if record.world is not None else "-"
    sizes = [case.size_bytes for case in cases]
    spread = f"{format_size(min(sizes))} to {format_size(max(sizes))}" if sizes else record.status.value
    operation = cases[0].collective if cases else "no rows"
    lines = f":{source.first_line}-{source.last_line}" if source.first_line else ""
    return (
        f"  {run_id:<36} {source.tool:<10} {operation:<14} {ranks:>6} {len(cases):>7}"
        f"  {spread:<22} {source.path}{lines}"
    )


def _note(outcome: Outcome, path: str, finding: ImportFinding) -> None:
    where = f"{path}:{finding.line}" if finding.line else path
    outcome.findings += 1
    outcome.say(f"#   {_printable(f'{where}: {finding.kind}: {finding.text}')}")


def _printable(text: str) -> str:
    """Text with a path in it, whose letters can be anything."""
    from busbw.foreign.logs.lines import plain

    return plain(text)
