"""Files to tables: recognise the format of a text, and give it to the reader of its tool."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from busbw.errors import UsageError
from busbw.foreign.aws_kit import read_csv
from busbw.foreign.logs.assemble import Origin
from busbw.foreign.logs.json_text import Document, document, word
from busbw.foreign.logs.labels import BESIDE, variables
from busbw.foreign.logs.lines import HEAD_BYTES, read_text
from busbw.foreign.logs.operations import operation
from busbw.foreign.logs.scan import scan
from busbw.foreign.logs.table import Table, Tool
from busbw.foreign.nccl_tests import read_json as nccl_tests_json
from busbw.foreign.nccl_tests import read_rccl_file as rccl_tests_rows
from busbw.foreign.nccl_tests.read import NCCL_TESTS, RCCL_TESTS
from busbw.foreign.nccom import read_json as nccom_test_json
from busbw.foreign.nccom.read import NCCOM_TEST
from busbw.foreign.osu_imb.read import IMB, OSU
from busbw.model.record import DAMAGED, ImportFinding

# Asked in this order; rccl-tests writes the tables of nccl-tests.
TOOLS: Final[tuple[Tool, ...]] = (NCCL_TESTS, NCCOM_TEST, OSU, IMB)
_NAMED: Final = {tool.name: tool for tool in (NCCL_TESTS, RCCL_TESTS)}
# Every report has it; the trace of a profiler, which is long, does not.
_RESULTS: Final = b'"results'
# Tables that busbw exported do not say which placement, type and reduction they are of.
_EXPORT: Final = re.compile(rb"busbw: .* written in the layout of nccom-test")
# Tests of tools that are read, whose tables have no time of a collective.
_NOT_READ: Final = (
    (
        "a bandwidth, rate or non-blocking test of OSU",
        rb"\bOSU \S+ (?:.* )?(?:Bandwidth|Rate|Non-blocking)\b.*Test",
    ),
    ("a bandwidth or non-blocking test of IMB", rb"\bt_ovrl\[usec\]|#bytes +#repetitions +Mbytes/sec"),
)


class UnreadableError(UsageError):
    """A file cannot be read; the other files of the import may still be read."""


@dataclass(frozen=True)
class Reading:
    """What one file holds. ``is_log`` is true for the log of a test, even if it has no row."""

    origin: Origin  # of the first table, without the labels of its path
    tables: tuple[Table, ...] = ()
    is_log: bool = False
    findings: tuple[ImportFinding, ...] = ()  # those that belong to no table
    no_text: str = ""  # why the file is not a text that can be read

    def with_all_findings(self, test: str = "") -> Reading:
        """The last table gets the findings that belong to no table, so that its record says what is lost. A
        file without a table, but with a ``test`` in its path, is a test that failed: it gets a table without
        rows.
        """
        if not self.tables and not self.no_text and operation(test):
            return replace(self, tables=(NCCL_TESTS.without_rows(),))
        if not self.tables or not self.findings:
            return self
        *others, last = self.tables
        return replace(self, tables=(*others, last.with_findings(*self.findings)), findings=())


def log_files(folder: Path) -> list[Path]:
    """All files in a folder, sorted, without hidden files, records of busbw, and the files that describe a
    log beside them.
    """
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.name != "run.json"
        and not BESIDE.fullmatch(path.name)
    )


def read_file(path: Path, tool: str = "") -> Reading:
    """Read a log, a JSON report or a results CSV, compressed or not. ``tool`` limits the search to the tables
    of one tool. Raises UnreadableError if the file cannot be read.
    """
    name = os.fsencode(path).decode("utf-8", "replace")  # a terminal prints no other names
    try:
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        with path.open("rb") as stream:
            reading = read_stream(stream, name, tool, changed)
        # A checkpoint among the logs has gigabytes.
        digest = "" if reading.no_text else _sha256(path)
    except OSError as error:
        words = f"cannot read {name}: {error.strerror or error}"
        raise UnreadableError(words, hint="give a log that you can read") from error
    return replace(reading, origin=replace(reading.origin, sha256=digest))


def read_stream(stream: IO[bytes], path: str, tool: str = "", changed: str = "") -> Reading:
    """Read an open log, such as standard input; ``path`` is its name, ``tool`` as in ``read_file``,
    ``changed`` when it was written (ISO 8601), where that is known.
    """
    text = read_text(stream)
    if text.no_text:
        return Reading(Origin(path), no_text=text.no_text)
    reading = _read_text(text.data, path, tool)
    origin = reading.origin
    if not origin.created:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        by = "file" if changed else "time of the import"
        origin = replace(origin, created=changed or now, created_from=by)
    damage = (ImportFinding("cut", text.damage, origin.log_lines),) if text.damage else ()
    return replace(reading, origin=origin, findings=(*reading.findings, *damage))


def _read_text(data: bytes, path: str, tool: str) -> Reading:
    start, why = data[:HEAD_BYTES].lstrip(), ""
    if rccl_tests_rows.is_rows(start) and tool in ("", RCCL_TESTS.name):
        found_tables = tuple(rccl_tests_rows.tables(data))
        return Reading(Origin(path, log_lines=len(data.splitlines())), found_tables, is_log=True)
    is_whole = start[:1] == b"{"
    if _RESULTS in (data if is_whole else start):  # which may stand among other words, or behind a prefix
        found = document(data)
        reading = _read_json(found, path, tool) if found is not None else None
        if reading is not None and (is_whole or reading.tables):
            return reading
        if is_whole:
            why = "its JSON cannot be read" + (f" from line {found.cut_line} on" if found else "")
    first_line = start.split(b"\n", 1)[0].decode("utf-8", "replace")
    if read_csv.is_csv(first_line) and _is_asked(NCCL_TESTS.name, tool):
        return _read_csv(data.decode("utf-8", "replace").splitlines(), path, tool)
    if _EXPORT.search(start):
        why = "it is a table that busbw exported: use the run itself, or export it as csv"
        return Reading(Origin(path), no_text=why)
    return _read_log(data, path, tool, why)


def _is_asked(name: str, tool: str) -> bool:
    """Whether the tool that the user named writes this format; rccl-tests writes those of nccl-tests."""
    return tool in ("", name) or (tool, name) == (RCCL_TESTS.name, NCCL_TESTS.name)


def _as(tool: str, tables: Iterable[Table]) -> tuple[Table, ...]:
    """The tables with the name of the tool that the user gave."""
    named = _NAMED.get(tool)
    return tuple(tables) if named is None else tuple(replace(table, tool=named) for table in tables)


# ---- each format -------------------------------------------------------------------------------------------


def _read_csv(rows: list[str], path: str, tool: str) -> Reading:
    tables = _as(tool, read_csv.tables(rows))
    words = "the heading of the CSV file has no columns for size, count, time and bandwidth"
    findings = () if tables else (ImportFinding(DAMAGED, words, 1),)
    return Reading(Origin(path, log_lines=len(rows)), tables, is_log=True, findings=findings)


def _read_json(found: Document, path: str, tool: str) -> Reading | None:
    """None if the text is not of a known tool."""
    content = found.content
    if nccl_tests_json.is_nccl_tests(content) and _is_asked(NCCL_TESTS.name, tool):
        dumped = nccl_tests_json.environment(content)
        kept = variables(dumped.items()) if dumped else {}
        created = _date(word(content.get("start_time")))
        tables = _as(tool, [nccl_tests_json.table(found)])
        origin = Origin(
            path, created=created, created_from="header", environment=kept, environment_from="header"
        )
        return Reading(origin, tables, is_log=True)
    if nccom_test_json.is_nccom_test(content) and _is_asked(NCCOM_TEST.name, tool):
        return Reading(Origin(path), tuple(nccom_test_json.tables(found)), is_log=True)
    return Reading(Origin(path)) if not found.cut_line else None


def _read_log(data: bytes, path: str, tool: str, why: str) -> Reading:
    """Without a table, ``why`` or the test that it looks like is why it is not read."""
    log = scan(data, [each for each in TOOLS if _is_asked(each.name, tool)])
    tables = _as(tool, (found.tool.interpret(found) for found in log.tables))
    if not tables and not why and not log.has_command:
        looks = (name for name, form in _NOT_READ if re.search(form, data))
        why = next((f"it looks like {name}, which busbw does not read" for name in looks), "")
    no_text = "" if tables else why
    dates = [_date(str(table.header["date"])) for table in tables if "date" in table.header]
    created = next(filter(None, dates), "")
    origin = Origin(path, "", 1, log.lines, created, "header", last_words=log.last_words)
    findings = () if no_text else log.findings
    return Reading(origin, tables, bool(tables) or log.has_command, findings, no_text)


def _date(text: str) -> str:
    """ISO 8601 of a date in a header, which has no zone; empty if it is not a date."""
    for form in ("%Y-%m-%d %H:%M:%S", "%a %b %d %H:%M:%S %Y"):
        try:
            return datetime.strptime(text, form).isoformat()  # noqa: DTZ007 (the log does not say the zone)
        except ValueError:
            continue
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
