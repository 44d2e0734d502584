"""Output of the vendor's nccom-test to records: through the importer that reads its logs."""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from busbw._version import __version__
from busbw.errors import BusbwError, UndecidedError, UsageError
from busbw.frontdoors.nccom_streams import FLAG as STREAMS_FLAG
from busbw.frontdoors.nccom_words import tokenise
from busbw.importers.assemble import Origin, assemble
from busbw.importers.decide import Given
from busbw.importers.files import read_file, read_stream
from busbw.importers.headings import NCCOM_TEST
from busbw.importers.nccom_test import command as command_words
from busbw.importers.operations import operation as operation_named
from busbw.importers.table import Table
from busbw.model.plan import Limits, Plan
from busbw.model.record import SCHEMA_VERSION, RunRecord, RunStatus
from busbw.planning.json_file import read_entries
from busbw.planning.streams import KEY
from busbw.probes.machine import read_environment_record, read_machine
from busbw.record import folder as folders
from busbw.record.write import write_record
from busbw.worker.lead import now_utc

BACKEND: Final = "nccom"
_GROUP_FILES: Final = ("custom_replica_groups", "custom_replica_group")


@dataclass(frozen=True)
class Ending:
    """How the tool ended. ``code`` is negative for a signal, None where it was ended."""

    hung: bool
    interrupted: bool
    code: int | None
    last_words: str


def tables_of(lines: Sequence[str], words: Sequence[str], log: Path, started: float) -> tuple[Table, ...]:
    """The tables that the tool printed, or wrote with --report-to-json-file, which has all digits.

    The file counts where it is of this run (``started``, seconds of the epoch) and tells of as many sizes.
    """
    command = f"$ {NCCOM_TEST} {shlex.join(words)}\n"
    text = command + "".join(f"{line}\n" for line in lines)
    printed = read_stream(io.BytesIO(text.encode()), str(log), NCCOM_TEST).tables
    report = _report(words)
    if report is None or not report.is_file() or report.stat().st_mtime < int(started):
        return printed
    written = read_file(report, NCCOM_TEST).tables
    same = [len(table.sizes) for table in written] == [len(table.sizes) for table in printed]
    whole = all(table.ended and not table.failures for table in printed)
    return written if written and same and whole else printed


def store(
    folder: Path,
    tables: Sequence[Table],
    words: Sequence[str],
    argv: tuple[str, ...],
    ending: Ending,
    error: BusbwError | None,
) -> None:
    """Write a record for every table: the first into ``folder``, those of further streams beside it. With
    ``error`` the run has failed, and the rows are those that it came to.

    Raises UndecidedError, behind the last table, where operation or ranks of one are neither said nor
    solvable: that table has the record of a failed run.
    """
    undecided: UndecidedError | None = None
    for number, table in enumerate(tables, 1):
        place = folder
        if number > 1:
            place = folders.create(folder.parent, f"{folder.name}-stream{number - 1}")
        origin = Origin(
            path=str(folder / "log"),
            sha256="",
            table=number,
            log_lines=0,
            created=now_utc(),
            created_from="run",
            labels={},
            evidence={},
            last_words=ending.last_words,
        )
        try:
            record = assemble(table, origin, given(words, number - 1), run_id=place.name)
        except UndecidedError as cannot:
            undecided = undecided or cannot
            failed_record(place, argv, error or cannot)
            continue
        write_record(place, _with_end(record, argv, ending, error))
    if undecided is not None:
        raise undecided


def failed_record(folder: Path, argv: tuple[str, ...], error: BusbwError | None) -> None:
    """A record of a run without a table that can be read, so that `busbw list` tells of it."""
    plan = Plan(backend=BACKEND, cases=(), buffer_bytes=0, limits=Limits(), checks=0, seed=0)
    record = RunRecord(
        schema=SCHEMA_VERSION,
        run_id=folder.name,
        busbw_version=__version__,
        created=now_utc(),
        argv=argv,
        settings={},
        plan=plan,
        status=RunStatus.FAILED if error is not None else RunStatus.INTERRUPTED,
        machine=read_machine(),
        environment=read_environment_record(),
        ended=now_utc(),
        error=error.message if error is not None else "",
        hint=error.hint if error is not None else "",
    )
    write_record(folder, record)


def _with_end(
    record: RunRecord, argv: tuple[str, ...], ending: Ending, error: BusbwError | None
) -> RunRecord:
    status = RunStatus.FAILED if error is not None else record.status
    return replace(
        record,
        argv=argv,
        status=RunStatus.INTERRUPTED if ending.interrupted else status,
        machine=read_machine(),
        environment={**read_environment_record(), **record.environment},
        ended=now_utc(),
        error=error.message if error is not None else record.error,
        hint=error.hint if error is not None else record.hint,
    )


def given(words: Sequence[str], stream: int) -> Given:
    """Operation and ranks of one group from the command line and, of a stream, from its entry of the file;
    without ranks where its groups are in a file: then the bandwidths tell.
    """
    operation, ranks = command_words(shlex.join(words))
    try:
        values = tokenise(words).values
    except UsageError:
        return Given(operation, ranks)
    own: Mapping[str, object] = {}
    if "streams_json" in values:
        own = _entry(values["streams_json"][0], stream)
        operation = operation_named(str(own.get("operation", "")))
    sizes = [key for key in ("data_parallel_dimension", *_GROUP_FILES) if key in own]
    if not sizes:  # those of the command line hold for every stream that has none of its own
        own = {key: value[0] for key, value in values.items() if value}
    if any(key in own for key in _GROUP_FILES):
        return Given(operation, None)
    group = str(own.get("data_parallel_dimension", ""))
    return Given(operation, int(group) if group.isdecimal() else ranks)


def _entry(path: str, stream: int) -> Mapping[str, object]:
    """The entry of a stream, empty where the file has none: the tool judges the file, not we."""
    try:
        entries = read_entries(path, STREAMS_FLAG, (KEY,))
    except UsageError:
        return {}
    found = entries[stream] if stream < len(entries) else None
    return found if isinstance(found, dict) else {}


def _report(words: Sequence[str]) -> Path | None:
    try:
        path = tokenise(words).values.get("report_to_json_file")
    except UsageError:
        return None
    return Path(path[0]).expanduser() if path else None
