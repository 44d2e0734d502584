"""``busbw import``: logs of other tools into run folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.record.folder import environ_home, new_run_id
from busbw.record.write import RowTexts, write_record
from busbw.units import format_size

if TYPE_CHECKING:
    import re

    from busbw.importers.assemble import Assembled, Origin
    from busbw.importers.check import Checked
    from busbw.importers.decide import Given
    from busbw.importers.files import Reading
    from busbw.importers.settings import ImportSettings
    from busbw.importers.table import Table
    from busbw.model.record import ImportFinding

STANDARD_INPUT: Final = "-"
_TOOLS: Final = {"auto": "a known tool"}
# Shorter tables can be equal by chance; of more tables, copies are not looked for.
_LEAST_COPIED: Final = 3
_MOST_SEEN: Final = 100_000
_COLUMNS: Final = "# {:<36} {:<10} {:<14} {:>6} {:>7}  {:<22} {}"


@dataclass
class _Outcome:
    """What became of the logs, for the exit code and the last line."""

    imported: int = 0
    undecided: int = 0
    skipped: int = 0
    unread: int = 0
    findings: int = 0
    why: str = ""  # the last log without a table has none
    seen: dict[int, str] = field(default_factory=dict)  # where rows stand, by what they are


def import_logs(paths: tuple[str, ...], settings: ImportSettings) -> ExitCode:
    """Import every table of every log; one that cannot be decided does not keep the others from it.

    Raises UsageError where nothing was found to import.
    """
    from busbw.importers.files import UnreadableError
    from busbw.importers.labels import DEFAULTS, compile_pattern
    from busbw.importers.operations import operation

    if not paths:
        raise UsageError("no log given", hint="name files or folders, or - for standard input")
    for path in paths:
        if path.startswith("-") and path != STANDARD_INPUT:
            raise UsageError(f"unknown option {path}", hint="see `busbw import --help`")
    _check_numbers(settings)
    named = operation(settings.op) or settings.op
    patterns = (compile_pattern(settings.labels),) if settings.labels else DEFAULTS
    numbers = _table_numbers(settings.table)
    outcome = _Outcome()
    print(_COLUMNS.format("run", "tool", "operation", "ranks", "cases", "sizes", "from").rstrip())
    for parts, explicit in _logs(paths, settings.format):
        try:
            _import_log(parts, explicit, settings, named, numbers, patterns, outcome)
        except UnreadableError as error:
            outcome.unread += 1
            _say(error, "")
    if not outcome.imported and not outcome.undecided and not outcome.unread:
        raise UsageError(
            f"no table of {_TOOLS.get(settings.format, settings.format)} in {', '.join(paths)}"
            + (outcome.why if len(paths) == 1 else ""),
            hint="give logs of nccl-tests, rccl-tests, nccom-test, OSU or IMB; --format names one of them",
        )
    _print_end(outcome, settings)
    if outcome.unread:
        return ExitCode.USAGE
    return ExitCode.UNDECIDED if outcome.undecided else ExitCode.OK


def _check_numbers(settings: ImportSettings) -> None:
    for flag, value in (("--ranks", settings.ranks), ("--nodes", settings.nodes)):
        if value is not None and value < 1:
            raise UsageError(f"{flag} is {value}", hint=f"give {flag} a number from 1 on")


def _table_numbers(text: str) -> frozenset[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"not table numbers: {text!r}", hint="write --table 2, or --table 1,3")
    return frozenset(map(int, words))


def _given_labels(settings: ImportSettings) -> dict[str, str]:
    labels = {
        "setup": settings.setup,
        "nodes": "" if settings.nodes is None else str(settings.nodes),
        "system": settings.system,
        "version": settings.library_version,
    }
    return {name: value for name, value in labels.items() if value}


def _logs(paths: tuple[str, ...], format_name: str) -> Iterator[tuple[Iterator[Reading], bool]]:
    """Every log, in parts, and whether the user named the file itself."""
    from busbw.importers.files import log_files, read_file_parts, read_stream_parts

    tool = "" if format_name == "auto" else format_name
    for path in paths:
        if path == STANDARD_INPUT:
            yield read_stream_parts(sys.stdin.buffer, STANDARD_INPUT, tool), True
        elif Path(path).is_dir():
            for file in log_files(Path(path)):
                yield read_file_parts(file, tool), False
        else:
            yield read_file_parts(Path(path), tool), True


def _import_log(
    parts: Iterator[Reading],
    explicit: bool,
    settings: ImportSettings,
    operation: str,
    numbers: frozenset[int],
    patterns: tuple[re.Pattern[str], ...],
    outcome: _Outcome,
) -> None:
    from busbw.importers.beside import index_labels
    from busbw.importers.decide import Given
    from busbw.importers.files import without_rows
    from busbw.importers.operations import operation as operation_of

    given = Given(operation, settings.ranks, _given_labels(settings))
    before = outcome.imported + outcome.undecided
    path = why = ""
    count = 0
    for part in parts:
        reading = part.with_all_told() if not numbers else part
        path, why = reading.path, _why_none(reading)
        found = _path_labels(path, patterns)
        beside = {name: value for name, value in index_labels(Path(path)).items() if name not in found}
        # In a tree of tests, a file of a test without a table is a test that failed: shown, not skipped.
        is_empty = not reading.tables and reading.first_table == 1
        failed = is_empty and not reading.no_text and bool(operation_of(found.get("test", "")))
        tables = [(1, without_rows())] if failed else reading.numbered
        count = max([count, *(number for number, _ in tables)])
        _import_tables(tables, _origin(reading, found, beside), given, numbers, settings, outcome)
        for finding in reading.findings:
            _note_finding(outcome, path, finding)
    if outcome.imported + outcome.undecided == before:
        outcome.skipped += 1
        if count:
            why = f"tables in it: {count}, and --table is {settings.table}"
        if explicit:
            outcome.why = f": {why}" if why else ""
            _note(outcome, f"{path}: no table in it{outcome.why}")


def _why_none(reading: Reading) -> str:
    """Why a file has no table, where it says that."""
    if reading.no_text or not (reading.is_log and reading.last_words):
        return reading.no_text
    return f"it ends with: {reading.last_words}"


def _path_labels(path: str, patterns: tuple[re.Pattern[str], ...]) -> dict[str, str]:
    from busbw.importers.labels import NUMBERS, labels

    found = labels(path, patterns)
    for name in NUMBERS & set(found):
        if not found[name].isdecimal():
            raise UsageError(f"{name} is {found[name]!r} in {path}", hint="change --labels")
    return found


def _import_tables(
    tables: list[tuple[int, Table]],
    origin: Origin,
    given: Given,
    numbers: frozenset[int],
    settings: ImportSettings,
    outcome: _Outcome,
) -> None:
    from busbw.importers.assemble import assumed_operation
    from busbw.importers.ordinary import check_all

    numbered = [(number, table) for number, table in tables if not numbers or number in numbers]
    checks = check_all([table for _, table in numbered], assumed_operation(origin, given))
    for (number, table), checked in zip(numbered, checks, strict=True):
        _import_table(table, checked, replace(origin, table=number), given, settings, outcome)


def _origin(reading: Reading, by_path: dict[str, str], by_index: dict[str, str]) -> Origin:
    """Where the tables of a log, or of a part of it, were found."""
    from busbw.importers.assemble import Origin
    from busbw.importers.beside import INDEX, environment_beside

    labels = {**by_index, **by_path}

    environment, environment_from = dict(reading.environment), "header"
    if not environment and labels.get("setup"):
        environment, names = environment_beside(Path(reading.path), labels["setup"])
        environment_from = f"beside the log: {names}"
    return Origin(
        path=reading.path,
        sha256=reading.sha256,
        log_lines=reading.lines,
        created=reading.created or datetime.now(UTC).isoformat(timespec="seconds"),
        created_from=reading.created_from if reading.created else "time of the import",
        labels=labels,
        labels_from=dict.fromkeys(by_index, INDEX),
        evidence=reading.evidence,
        environment=environment,
        environment_from=environment_from,
        last_words=reading.last_words,
    )


def _import_table(
    table: Table,
    checked: Checked,
    origin: Origin,
    given: Given,
    settings: ImportSettings,
    outcome: _Outcome,
) -> None:
    from busbw.importers.assemble import assembled

    try:
        made = assembled(table, origin, given, "", checked)
    except BusbwError as error:
        outcome.undecided += 1
        _say(error, f"{origin.path}: table {origin.table}: ")
        for finding in checked.table.findings:
            _note_finding(outcome, origin.path, finding)
        return
    run_id = "(not written)" if settings.dry_run else _store(made)
    outcome.imported += 1
    print(_line(made, run_id))
    assert made.head.source is not None
    for finding in made.head.source.findings:
        _note_finding(outcome, origin.path, finding)
    _note_copy(table, origin.path, outcome)


def _note_copy(table: Table, path: str, outcome: _Outcome) -> None:
    """Say that another table of these logs has the same rows: nobody measures the same times twice."""
    if len(table) < _LEAST_COPIED:
        return
    rows, place = hash((table.tool, *_all_columns(table))), f"{path}:{table.first_line}"
    if rows in outcome.seen:
        _note(outcome, f"{place}: copy: its rows are those of {outcome.seen[rows]}")
    elif len(outcome.seen) < _MOST_SEEN:
        outcome.seen[rows] = place


def _all_columns(table: Table) -> Iterator[Hashable]:
    kinds = table.body.kinds
    yield kinds if len(kinds) == 1 else (tuple(table.types), tuple(table.redops))
    for values in (table.sizes, table.counts, table.roots):
        yield values.tobytes()
    for timing in table.timings:
        for printed in (timing.time_us, timing.algbw, timing.busbw):
            yield None if printed is None else printed.value.tobytes()
        yield None if timing.wrong is None else timing.wrong.tobytes()


def _store(made: Assembled) -> str:
    """Write a record; the id of the run."""
    folder = _new_folder(made.rows.collective if made.rows else "no-rows")
    texts = RowTexts(made.rows.case_texts(), made.rows.result_texts())
    write_record(folder, replace(made.head, run_id=folder.name), texts)
    return folder.name


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


def _line(made: Assembled, run_id: str) -> str:
    head, sizes, source = made.head, made.rows.sizes, made.head.source
    assert source is not None
    ranks = head.world.size if head.world is not None else "-"
    spread = f"{format_size(min(sizes))} to {format_size(max(sizes))}" if sizes else head.status.value
    operation = made.rows.collective if sizes else "no rows"
    lines = f":{source.first_line}-{source.last_line}" if source.first_line else ""
    return (
        f"  {run_id:<36} {source.tool:<10} {operation:<14} {ranks:>6} {len(made.rows):>7}"
        f"  {spread:<22} {source.path}{lines}"
    )


def _say(error: BusbwError, where: str) -> None:
    print(f"error: {where}{error.message}", file=sys.stderr)
    print(f"hint: {error.hint}", file=sys.stderr)


def _note_finding(outcome: _Outcome, path: str, finding: ImportFinding) -> None:
    where = f"{path}:{finding.line}" if finding.line else path
    _note(outcome, f"{where}: {finding.kind}: {finding.text}")


def _note(outcome: _Outcome, text: str) -> None:
    outcome.findings += 1
    print(f"#   {text}")


def _print_end(outcome: _Outcome, settings: ImportSettings) -> None:
    words = [f"{outcome.imported} imported" if not settings.dry_run else f"{outcome.imported} to import"]
    if outcome.undecided:
        words.append(f"{outcome.undecided} undecided")
    if outcome.skipped:
        words.append(f"{outcome.skipped} without a table")
    if outcome.unread:
        words.append(f"{outcome.unread} not read")
    words.append(f"{outcome.findings} findings")
    where = "" if settings.dry_run or not outcome.imported else f" into {os.fspath(environ_home())}"
    print(f"# {', '.join(words)}{where}")
