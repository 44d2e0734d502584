"""Files to tables: which format a text has, and what of its name and time belongs to the record."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, Protocol

from busbw.errors import UsageError
from busbw.importers import imb, nccl_tests, nccl_tests_csv, nccl_tests_json, nccom_test, nccom_test_json, osu
from busbw.importers.beside import NAME as NAME_BESIDE
from busbw.importers.beside import variables
from busbw.importers.body import Body, BodyPart
from busbw.importers.columns import Columns, convert
from busbw.importers.encoding import Text, open_text
from busbw.importers.evidence import TUNING
from busbw.importers.facts import Facts
from busbw.importers.headings import IMB, NCCL_TESTS, NCCOM_TEST, OSU, RCCL_TESTS, usual_layout
from busbw.importers.json_text import Document, document, embedded
from busbw.importers.raw import RawTable
from busbw.importers.scan import Log, scan_parts
from busbw.importers.table import Table
from busbw.model.record import ImportFinding


class _Importer(Protocol):
    """What the module of a tool has for tables in a text."""

    def body_key(self, raw: RawTable) -> Hashable:
        """Of tables whose rows can get their meaning together."""

    def body(self, raw: RawTable, columns: Columns) -> Body:
        """The rows with their meaning."""

    def interpret(self, raw: RawTable, body: Body) -> Table:
        """What the table says."""


_TOOLS: Final[dict[str, _Importer]] = {
    NCCL_TESTS: nccl_tests,
    NCCOM_TEST: nccom_test,
    OSU: osu,
    IMB: imb,
}
_CHUNK_BYTES: Final = 2**20
# Some hundred tables as most tests print them.
PART_ROWS: Final = 20_000
# A JSON report is read whole; a log is not. 1,024 ranks x 60 sizes x 1,000 iterations are about this much.
_MOST_JSON_BYTES: Final = 2**30
# Stands in every report; a trace of a profiler is long, and not one.
_RESULTS: Final = b'"results'


class UnreadableError(UsageError):
    """A file cannot be read: others beside it may be."""


@dataclass(frozen=True)
class Reading:
    """What one file holds, or a part of it. ``is_log`` tells a test's log without a row from a file that is
    none. ``first_table`` counts the tables of the file from 1; ``lines`` is 0 where more parts follow, and
    ``evidence`` is that up to the end of the part.
    """

    path: str
    tables: tuple[Table, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    first_table: int = 1
    is_log: bool = False
    lines: int = 0
    last_words: str = ""
    sha256: str = ""
    created: str = ""
    created_from: str = "file"
    findings: tuple[ImportFinding, ...] = ()  # those of no table
    no_text: str = ""  # why the file is none

    @property
    def numbered(self) -> list[tuple[int, Table]]:
        """The tables with their numbers; parts of a table have the same."""
        found, number = [], self.first_table - 1
        for table in self.tables:
            number += table.part == 1
            found.append((number, table))
        return found

    def with_all_told(self) -> Reading:
        """The findings of no table are the last one's, where there is one: its record says then that
        something of the file is lost.
        """
        if not self.tables or not self.findings:
            return self
        *others, last = self.tables
        return replace(self, tables=(*others, last.with_findings(*self.findings)), findings=())


def log_files(folder: Path) -> list[Path]:
    """The files of a folder and those below it, in order; hidden ones, records of busbw, and what is read
    with the logs beside it are left out.
    """
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.name != "run.json"
        and not NAME_BESIDE.fullmatch(path.name)
    )


def read_file(path: Path, tool: str = "") -> Reading:
    """Read a log, a JSON report or a results CSV, compressed or not. ``tool`` says whose the text is: no
    other tool's tables are looked for. Raises UnreadableError where it cannot be read.
    """
    (reading,) = read_file_parts(path, tool, None)
    return reading


def read_file_parts(path: Path, tool: str = "", part_rows: int | None = PART_ROWS) -> Iterator[Reading]:
    """``read_file``, a part of so many rows at a time where the file is a text; all at once for None."""
    digest, name = "", os.fsencode(path).decode("utf-8", "replace")  # a terminal prints no other names
    try:
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        with path.open("rb") as stream:
            for reading in read_stream_parts(stream, name, tool, part_rows):
                if not digest and not reading.no_text:  # a checkpoint among the logs has gigabytes
                    digest = _sha256(path)
                yield replace(
                    reading,
                    sha256=digest,
                    created=reading.created or changed,
                    created_from=reading.created_from if reading.created else "file",
                )
    except OSError as error:
        words = f"cannot read {name}: {error.strerror or error}"
        raise UnreadableError(words, hint="give a log that you can read") from error


def read_stream(stream: IO[bytes], path: str, tool: str = "") -> Reading:
    """Read an open log, such as standard input; ``path`` is its name, ``tool`` as in ``read_file``."""
    (reading,) = read_stream_parts(stream, path, tool, None)
    return reading


def read_stream_parts(
    stream: IO[bytes], path: str, tool: str = "", part_rows: int | None = PART_ROWS
) -> Iterator[Reading]:
    """``read_stream``, a part at a time as in ``read_file_parts``."""
    text = open_text(stream)
    if text.no_text:
        yield Reading(path, no_text=text.no_text)
        return
    for reading in _read_text(text, path, tool, part_rows):
        damage = text.gunzip.damage if text.gunzip is not None else ""
        cut = (ImportFinding("cut", damage, reading.lines),) if damage else ()
        lost: tuple[ImportFinding, ...] = ()
        if text.nuls and reading.first_table == 1:
            words = f"{text.nuls} NUL bytes stand before the first letter: what was there is lost"
            lost = (ImportFinding("damaged", words, 1),)
        yield replace(reading, findings=(*lost, *reading.findings, *cut))


def _read_text(text: Text, path: str, tool: str, part_rows: int | None) -> Iterator[Reading]:
    head, stream, why = text.head, text.stream, ""
    start = head.lstrip()
    if start[:1] == b"{":
        head += stream.read(_MOST_JSON_BYTES)
        found = document(head) if _RESULTS in head else None
        reading = _read_json(found, path, tool) if found is not None else None
        if reading is not None:
            yield reading
            return
        if _RESULTS in head:
            why = "its JSON cannot be read" + (f" from line {found.cut_line} on" if found else "")
    elif _RESULTS in head:  # a report among other words, or behind a launcher's prefix
        head += stream.read(_MOST_JSON_BYTES)
        found = embedded(head)
        reading = _read_json(found, path, tool) if found is not None else None
        if reading is not None and reading.tables:
            yield reading
            return
    if nccl_tests_csv.is_csv(start.split(b"\n", 1)[0].decode("utf-8", "replace")) and _is_asked(
        NCCL_TESTS, tool
    ):
        rows = (head + stream.read()).decode("utf-8", "replace").splitlines()
        tables = _as(tool, nccl_tests_csv.tables(rows))
        words = "the heading of the CSV file has no columns for size, count, time and bandwidth"
        findings = () if tables else (ImportFinding("damaged", words, 1),)
        yield Reading(path, tables, is_log=True, lines=len(rows), findings=findings)
        return
    first, created = 1, ""
    for log in scan_parts(_chunks(head, stream), tool, part_rows):
        reading = _read_log(log, path, tool, first)
        first = next((number + 1 for number, _ in reversed(reading.numbered)), first)
        created = created or reading.created
        yield replace(reading, created=created, no_text="" if reading.tables or first > 1 else why)


def _is_asked(format_tool: str, tool: str) -> bool:
    """Whether a format is that of the tool the user named; rccl-tests writes those of nccl-tests."""
    return tool in ("", format_tool) or (tool, format_tool) == (RCCL_TESTS, NCCL_TESTS)


def _as(tool: str, tables: Iterable[Table]) -> tuple[Table, ...]:
    return tuple(replace(table, tool=tool) if tool not in ("", table.tool) else table for table in tables)


def _read_log(log: Log, path: str, tool: str, first: int) -> Reading:
    asked = [table for table in log.tables if _is_asked(table.layout.tool, tool)]
    tables = _without_words(list(_as(tool, map(interpret, asked))))
    if not tables and first == 1 and log.facts.header.get("program") and _is_asked(NCCL_TESTS, tool):
        tables = [without_rows(log.facts, log.job)]
    created = ""
    for table in tables:
        if "date" in table.header and not created:
            created = _date(str(table.header["date"]))
    return Reading(
        path,
        tuple(tables),
        evidence=log.evidence,
        first_table=first,
        is_log=bool(tables or log.job),
        lines=log.lines,
        last_words=log.last_words,
        findings=log.findings,
        created=created,
        created_from="header",
    )


def _without_words(tables: list[Table]) -> list[Table]:
    """Tables between those of our own export without a line of ours above them: it is damaged."""
    if not any("own_collective" in table.header for table in tables):
        return tables
    text = (
        "the line of busbw above this table is missing or damaged: placement and ranks are not those it said"
    )
    return [
        table
        if "own_collective" in table.header
        else table.with_findings(ImportFinding("damaged", text, table.first_line))
        for table in tables
    ]


def interpret(raw: RawTable) -> Table:
    """The meaning of a table that stands in a log."""
    table = _TOOLS[raw.layout.tool].interpret(raw, _body(raw))
    time = raw.facts.header.get("time_is")
    if time is not None:
        table = replace(table, time=str(time))
    if raw.calls is not None:
        calls = tuple(raw.calls.as_dict()[TUNING])
        table = replace(table, calls=calls).with_findings(*raw.calls.findings())
    return table if raw.number == 1 and not raw.goes_on else _one_of_several(raw, table)


def _one_of_several(raw: RawTable, table: Table) -> Table:
    begin = int(table.lines[0]) if len(table) else table.last_line
    text = f"part {raw.number} of a table that is too long for one run: its rows from here"
    text += f" to line {table.last_line}" if raw.goes_on else " on"
    table = replace(table, part=raw.number, earlier=raw.earlier)
    return table.with_findings(ImportFinding("part", text, begin))


def _body(raw: RawTable) -> Body:
    """Its rows. Those of tables whose rows were found together get their meaning together."""
    tool = _TOOLS[raw.layout.tool]
    run = raw.only_run
    if run is None:
        return tool.body(raw, raw.columns or convert(raw.layout, (), (), ()))
    found, begin, end = run
    key = tool.body_key(raw)
    if key not in found.bodies:
        found.bodies[key] = tool.body(raw, found)
    return BodyPart(found.bodies[key], begin, end)


def without_rows(facts: Facts | None = None, job: dict[str, Any] | None = None) -> Table:
    """The table of a test of nccl-tests that ended before its first row."""
    return interpret(RawTable(usual_layout(), "", 0, facts or Facts(), job or {}))


def _read_json(found: Document, path: str, tool: str) -> Reading | None:
    """None where the text is that of no tool."""
    content = found.content
    if nccl_tests_json.is_nccl_tests(content) and _is_asked(NCCL_TESTS, tool):
        dumped = nccl_tests_json.environment(content)
        kept = variables(dumped.items()) if dumped else {}
        created = _date(str(content.get("start_time", "")))
        tables = _as(tool, nccl_tests_json.tables(found))
        return Reading(path, tables, environment=kept, is_log=True, created=created, created_from="header")
    if nccom_test_json.is_nccom_test(content) and _is_asked(NCCOM_TEST, tool):
        return Reading(path, tuple(nccom_test_json.tables(found)), is_log=True)
    return Reading(path) if not found.cut_line else None


def _date(text: str) -> str:
    """ISO 8601 of a date in a header, which has no zone; empty where it is none."""
    for form in ("%Y-%m-%d %H:%M:%S", "%a %b %d %H:%M:%S %Y"):
        try:
            return datetime.strptime(text, form).isoformat()  # noqa: DTZ007 (the log does not say the zone)
        except ValueError:
            continue
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _chunks(head: bytes, stream: IO[bytes]) -> Iterator[bytes]:
    # Lines of old Macs and of some web pages end with a return; a log with other ends has one soon.
    returns = b"\r" in head and b"\n" not in head
    for at in range(0, len(head), _CHUNK_BYTES):
        chunk = head[at : at + _CHUNK_BYTES]
        yield chunk.replace(b"\r", b"\n") if returns else chunk
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk.replace(b"\r", b"\n") if returns else chunk
