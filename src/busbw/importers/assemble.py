"""A table to a RunRecord, with a word for every field on where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from busbw._version import __version__
from busbw.errors import UndecidedError
from busbw.importers.average import mean_busbw
from busbw.importers.bandwidth import Bandwidths, bandwidths
from busbw.importers.case_columns import CaseColumns
from busbw.importers.cases import CaseValues, cases
from busbw.importers.check import Checked, check, foreign
from busbw.importers.decide import Decision, Given, decide, named_by_path
from busbw.importers.deviations import with_wrong_rows
from busbw.importers.evidence import TUNING
from busbw.importers.headings import IMB, NCCL_TESTS, NCCOM_TEST, OSU, RCCL_TESTS
from busbw.importers.label_checks import FLAG, Labelled, against_labels
from busbw.importers.mpi import with_operation
from busbw.importers.roots import within_ranks
from busbw.importers.table import Table
from busbw.importers.world import library_version, world
from busbw.model.plan import CallOptions, Limits, Plan
from busbw.model.record import SCHEMA_VERSION, ImportFinding, ImportSource, Method, RunRecord, RunStatus

_BACKENDS: Final = {NCCL_TESTS: "nccl", RCCL_TESTS: "rccl", NCCOM_TEST: "nccom", OSU: "mpi", IMB: "mpi"}


@dataclass(frozen=True)
class Origin:
    """Where a table was found. ``created`` (ISO 8601) is when the log was made, ``created_from`` by whose
    word, as ``environment_from`` is that of ``environment``; ``table`` counts the tables of the log from 1,
    ``log_lines`` its lines. ``labels_from`` says for labels that are not the path's whose they are.
    """

    path: str
    sha256: str = ""
    table: int = 1
    log_lines: int = 0
    created: str = ""
    created_from: str = "file"
    labels: dict[str, str] = field(default_factory=dict)
    labels_from: dict[str, str] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    environment_from: str = ""
    last_words: str = ""


def assumed_operation(origin: Origin, given: Given) -> str:
    """The operation of tables that name none, by the user or the path; empty where these do not either."""
    return given.operation or named_by_path(origin.path, origin.labels)


@dataclass(frozen=True)
class Assembled:
    """The record of a table: ``head`` is all of it but its cases and results, which are ``rows``."""

    head: RunRecord
    rows: CaseColumns | CaseValues

    def record(self) -> RunRecord:
        """The whole record."""
        plan = replace(self.head.plan, cases=self.rows.cases())
        return replace(self.head, plan=plan, results=self.rows.results())


def assemble(
    table: Table, origin: Origin, given: Given, run_id: str, checked: Checked | None = None
) -> RunRecord:
    """The record of a table. Raises UndecidedError where operation or ranks are neither said nor solvable.

    ``checked`` is what ``check`` says of the table, where that is known already.
    """
    return assembled(table, origin, given, run_id, checked).record()


def assembled(
    table: Table, origin: Origin, given: Given, run_id: str, checked: Checked | None = None
) -> Assembled:
    """As ``assemble``; the cases and results are by column, and become values if they are asked for."""
    checked = checked or check(table, assumed_operation(origin, given))
    decision = _decision(checked, origin, given)
    table = checked.table
    if table.tool in (OSU, IMB):
        table = with_operation(table, decision.operation)
        table = table.with_findings(*foreign(table))
    table = within_ranks(table, decision.operation, decision.ranks, decision.interval)
    table = with_wrong_rows(table, decision.ranks)
    checked = replace(checked, table=table)
    numbers = bandwidths(checked, decision.operation, decision.ranks)
    rows = cases(table, decision, numbers)
    told = _labelled(origin, given)
    label = told.labels.get("version", "")
    version = library_version(table, origin.evidence, label, told.by("version"))
    findings = (
        *table.findings,
        *decision.findings,
        *against_labels(table, told, (decision.ranks, decision.ranks_from), origin.evidence),
        *numbers.findings,
        *_average(table),
        *_beyond_header(table),
        *_cut(table, origin),
        *_repeated(table, rows),
        *_out_of_order(table),
    )
    head = RunRecord(
        schema=SCHEMA_VERSION,
        run_id=run_id,
        busbw_version=__version__,
        created=origin.created,
        argv=(),
        settings={"import": {"op": given.operation, "ranks": given.ranks, **given.labels}},
        plan=_plan(table, rows),
        status=_status(table, origin, rows),
        method=_method(table),
        world=world(table, decision.ranks, version[0]) if decision.ranks else None,
        environment=dict(origin.environment),
        ended=str(table.header.get("end_time", "")),
        error=_error(table, origin, rows),
        source=_source(table, origin, given, _fields(table, decision, numbers, origin, version[1]), findings),
    )
    return Assembled(head, rows)


def _labelled(origin: Origin, given: Given) -> Labelled:
    """The labels of a log, those of the user above all others."""

    def whose(name: str) -> str:
        return FLAG if name in given.labels else origin.labels_from.get(name, "path")

    return Labelled({**origin.labels, **given.labels}, whose)


def _source(
    table: Table,
    origin: Origin,
    given: Given,
    fields: dict[str, str],
    findings: tuple[ImportFinding, ...],
) -> ImportSource:
    return ImportSource(
        path=origin.path,
        tool=table.tool,
        sha256=origin.sha256,
        table=origin.table,
        first_line=table.first_line,
        last_line=table.last_line,
        stream=table.stream,
        fields=fields,
        header=_header(table),
        labels={**origin.labels, **given.labels},
        evidence=dict(origin.evidence) | ({TUNING: list(table.calls)} if table.calls else {}),
        findings=findings,
    )


def _decision(checked: Checked, origin: Origin, given: Given) -> Decision:
    """A job that ended before its first row is a failed run, whether or not it says its ranks."""
    try:
        return decide(checked, origin.path, origin.labels, given, origin.labels_from)
    except UndecidedError:
        if len(checked.table) or checked.table.failures or checked.table.findings_of("damaged"):
            raise
        return Decision(given.operation, "not stated", 0, "not stated", None, ())


def _error(table: Table, origin: Origin, rows: CaseColumns | CaseValues) -> str:
    """Why the run is not what its test was to be."""
    said = [finding.text for finding in table.findings_of("cut")]
    if rows or said:
        return said[0] if said else ""
    return "the log has no rows" + (f"; it ends with: {origin.last_words}" if origin.last_words else "")


def _status(table: Table, origin: Origin, rows: CaseColumns | CaseValues) -> RunStatus:
    if not rows:
        return RunStatus.FAILED
    is_cut = bool(_cut(table, origin) or table.findings_of("cut"))
    return RunStatus.INTERRUPTED if is_cut else RunStatus.COMPLETE


def _cut(table: Table, origin: Origin) -> list[ImportFinding]:
    """A log that ends in the middle of a row was not edited into an excerpt: its job ended there."""
    if table.ended or not origin.log_lines or not len(table):
        return []
    last = any(finding.kind == "damaged" and finding.line == origin.log_lines for finding in table.findings)
    return [ImportFinding("cut", "the log ends in the middle of a row", origin.log_lines)] if last else []


def _average(table: Table) -> list[ImportFinding]:
    """The printed average must be that of the rows; if it is not, rows are missing."""
    mean = mean_busbw(table.timings, table.earlier) if table.average is not None and len(table) else None
    if table.average is None or mean is None or mean.fits(table.average):
        return []
    rows = f"its {len(table)} rows here" if table.part == 1 else "the rows of all its parts"
    text = (
        f"the log prints an average bus bandwidth of {table.average.value:g} GB/s, {rows} have"
        f" {mean.value:.6g}: rows are missing or changed"
    )
    return [ImportFinding("rows-missing", text, table.last_line)]


def _beyond_header(table: Table) -> list[ImportFinding]:
    """Rows that the options in the header could not have made: header and rows are from two logs."""
    low, high = table.header.get("min_bytes"), table.header.get("max_bytes")
    if not len(table) or not isinstance(low, int) or not isinstance(high, int):
        return []
    largest = int(table.sizes.max())
    if largest <= high:
        return []
    text = f"the header says sizes up to {high} B, the rows go to {largest} B"
    return [ImportFinding("contradiction", text, table.first_line)]


def _header(table: Table) -> dict[str, Any]:
    """The log's own words; where a device list is part of them, its length too."""
    listed = {"ranks_listed": len(table.ranks)} if table.ranks else {}
    claims = {f"ranks_by_{source}": ranks for source, ranks in table.claims}
    average = {"average": table.average.value} if table.average is not None else {}
    return {**table.header, **average, **listed, **claims}


def _fields(
    table: Table, decision: Decision, numbers: Bandwidths, origin: Origin, version_from: str
) -> dict[str, str]:
    allowed = f" ({decision.interval} fit the rows)" if decision.interval is not None else ""
    fields = {
        "operation": decision.operation_from,
        "ranks": decision.ranks_from + allowed,
        "created": origin.created_from,
        "size_bytes": "rows: share of one rank times ranks" if table.shares else "rows",
        "count": "rows" if _prints_call_counts(table) else "size / size of an element, of one block",
        "dtype": table.words_from.get("dtype", "rows"),
        "op": table.words_from.get("op", "rows"),
        "root": table.words_from.get("root", "rows"),
        "placement": _placement_word(table),
        "time_ns": "rows" if table.trusted_time else "size / algbw: the printed time is that of the CPU (-C)",
        "algbw_gb_per_s": numbers.algbw_from,
        "busbw_gb_per_s": numbers.busbw_from,
        "hosts": "header" if table.ranks else "not stated",
        "library_version": version_from,
        "calls": "header" if "iters" in table.header else "not stated",
    }
    if origin.environment:
        fields["environment"] = origin.environment_from
    if table.out_of_bounds is not None and table.header.get("out_of_bounds") is not None:
        fields["wrong"] = "rows, and the line below the table"
    return fields


def _placement_word(table: Table) -> str:
    if "own_placement" in table.header:
        return "header"
    if len(table.timings) > 1 or table.tool in (NCCL_TESTS, RCCL_TESTS):
        return "rows"
    return "assumed: separate buffers, the tool's default"


def _prints_call_counts(table: Table) -> bool:
    """Whether the count of a row is that of the call: nccom-test's is of the whole buffer."""
    return table.tool != NCCOM_TEST and len(table) > 0 and int(table.counts[0]) >= 0


def _repeated(table: Table, rows: CaseColumns | CaseValues) -> list[ImportFinding]:
    """Cases that the table has more than once: several sweeps, or a line that was copied."""
    again, copies = rows.repeated(table.cycle)
    if not again:
        return []
    text = f"{again} of {len(rows)} cases repeat an earlier one and were kept as further cycles"
    if copies:
        text += f"; {copies} have the same time too: perhaps lines that were copied"
    return [ImportFinding("repeated", text, table.first_line)]


def _out_of_order(table: Table) -> list[ImportFinding]:
    """Sizes that go down, though not to where a sweep begins: as no tool prints them."""
    sizes = table.sizes
    if len(table) < 2 or "own_collective" in table.header:
        return []
    places = np.flatnonzero((sizes[1:] < sizes[:-1]) & (sizes[1:] != sizes.min())) + 1
    kinds = (table.types, table.redops, table.roots)
    down = [row for row in places.tolist() if all(words[row] == words[row - 1] for words in kinds)]
    if not down:
        return []
    text = f"sizes go down, here to {sizes[down[0]]} B: rows of several jobs, or lines in another order"
    return [ImportFinding("order", text, int(table.lines[down[0]]))]


def _plan(table: Table, rows: CaseColumns | CaseValues) -> Plan:
    header = table.header
    sizes = rows.sizes
    checked = any(timing.wrong is not None and not np.isnan(timing.wrong).all() for timing in table.timings)
    return Plan(
        backend=_BACKENDS[table.tool],
        cases=(),
        buffer_bytes=max([*sizes, _number(header, "max_bytes", 0)], default=0),
        limits=Limits(
            calls=_number(header, "iters", 0),
            warmup_calls=_number(header, "warmup_iters", 0) if "warmup_iters" in header else None,
        ),
        checks=_number(header, "validation", int(checked)),
        seed=0,
        options=CallOptions(
            aggregate=max(_number(header, "agg_iters", 1), 1),
            graph=_number(header, "graph", 0),
            unalign=_number(header, "unalign", 0),
        ),
        show=rows.told,
    )


def _number(header: Mapping[str, Any], name: str, default: int) -> int:
    value = header.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _method(table: Table) -> Method:
    return Method(
        mode="imported",
        time=table.time,
        interval="none: the log has one number a case",
        buffers="not stated",
        units="GB/s = 10^9 bytes/s; time in ns",
        retention="no samples: imported from a log",
    )


__all__ = ["Checked", "Origin", "assemble"]
