"""A table to a RunRecord that says for every field where it comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any, Final

from busbw._version import __version__
from busbw.errors import UndecidedError
from busbw.foreign.logs.cases import Made, cases, repeated, unit_findings
from busbw.foreign.logs.check import check, has_counts
from busbw.foreign.logs.context import VERSION
from busbw.foreign.logs.decide import Given, decide, named_by_path
from busbw.foreign.logs.table import Table
from busbw.foreign.logs.whole import ending, with_its_end, without_false_damage
from busbw.model.plan import CallOptions, Limits, Plan
from busbw.model.record import (
    DAMAGED,
    NOT_STATED,
    SCHEMA_VERSION,
    ImportFinding,
    ImportSource,
    Method,
    RankInfo,
    RunRecord,
    WorldInfo,
)
from busbw.redact import redact_all, redact_text


@dataclass(frozen=True)
class Origin:
    """Where a table was found. ``created`` (ISO 8601) is when the log was made, ``created_from`` by whose
    word, as ``environment_from`` is that of ``environment``; ``table`` counts the tables of the log from 1,
    ``log_lines`` its lines.
    """

    path: str
    sha256: str = ""
    table: int = 1
    log_lines: int = 0
    created: str = ""
    created_from: str = "file"
    labels: dict[str, str] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    environment_from: str = ""
    last_words: str = ""


def assemble(table: Table, origin: Origin, given: Given, run_id: str) -> RunRecord:
    """The record of a table. Raises UndecidedError if operation or ranks are neither stated nor solvable."""
    table = check(without_false_damage(table), given.operation or named_by_path(origin.path, origin.labels))
    table = _decided(with_its_end(table, origin.log_lines), origin, given)
    made = cases(table)
    status, error = ending(table, has_cases=bool(made.cases), last_words=origin.last_words)
    version, version_from = library_version(table, origin, given)
    findings = (
        *table.findings,
        *unit_findings(table),
        *_shared_devices(table),
        *(() if table.findings_of("separate") else repeated(table, made.cases)),
    )
    fields = _fields(table, made, origin) | {"library_version": version_from}
    # Logs quote command lines and variables, and records are made to be shared: no secret stays.
    return RunRecord(
        schema=SCHEMA_VERSION,
        run_id=run_id,
        busbw_version=__version__,
        created=origin.created,
        argv=(),
        settings=redact_all({"import": {"op": given.operation, "ranks": given.ranks, **given.labels}}),
        plan=_plan(table, made),
        status=status,
        method=Method(
            mode="imported",
            time=table.time,
            interval="none: the log has one number a case",
            buffers="not stated",
            units="GB/s = 10^9 bytes/s; time in ns",
            retention="no samples: imported from a log",
        ),
        world=_world(table, version) if table.world_size else None,
        environment=redact_all(dict(origin.environment)),
        results=made.results,
        ended=str(table.header.get("end_time", "")),
        error=redact_text(error),
        source=_source(table, origin, given, fields, findings),
    )


def _decided(table: Table, origin: Origin, given: Given) -> Table:
    """A job that ended before its first row is a failed run, whether or not it says its ranks."""
    try:
        table = decide(table, origin.path, origin.labels, given)
    except UndecidedError:
        if table.rows or table.failures or table.findings_of(DAMAGED):
            raise
        table = replace(table, operation=given.operation, operation_from=NOT_STATED, ranks_from=NOT_STATED)
    return table.tool.decided(table)


# ---- who took part -----------------------------------------------------------------------------------------


def _world(table: Table, version: str) -> WorldInfo:
    """``size`` is the communicator's, ``ranks`` are those that the log names, or one that stands for all
    where it does not name them all; ``version`` is that of the library.
    """
    on_host: Counter[str] = Counter()
    unknown = RankInfo(0, NOT_STATED, 0, 0, NOT_STATED, library=table.tool.library, library_version=version)
    infos = []
    for line in table.ranks if _are_all_listed(table) else ():
        host, device = line.host or NOT_STATED, line.device_name or NOT_STATED
        facts = {"device_index": line.device, "bus_id": line.bus_id, "group": line.group}
        named = RankInfo(line.rank, host, line.pid, on_host[host], device)
        infos.append(replace(named, library=table.tool.library, library_version=version, facts=facts))
        on_host[host] += 1
    return WorldInfo(
        kind="imported", launcher=NOT_STATED, size=table.world_size, ranks=tuple(infos or [unknown])
    )


def _are_all_listed(table: Table) -> bool:
    """Whether the device list is that of these ranks: else neither hosts nor devices are known. That of
    several processes, each with a rank 0, is of none of their rows.
    """
    groups, places = {line.group for line in table.ranks}, {(line.rank, line.group) for line in table.ranks}
    return len(table.ranks) == len(places) == table.world_size * max(len(groups), 1) > 0


def _hosts_from(table: Table) -> str:
    if not table.ranks:
        return NOT_STATED
    if _are_all_listed(table):
        return "header"
    return f"{NOT_STATED}: the log lists {len(table.ranks)} of {table.world_size} ranks"


def _shared_devices(table: Table) -> list[ImportFinding]:
    """Ranks that the device list puts on one device."""
    places = Counter((line.host, line.device, line.bus_id) for line in table.ranks if line.host)
    return [
        ImportFinding(
            "shared-device", f"{count} ranks share device {device} [{bus_id}] of {host}", table.first_line
        )
        for (host, device, bus_id), count in places.items()
        if count > 1 and bus_id
    ]


def library_version(table: Table, origin: Origin, given: Given) -> tuple[str, str]:
    """The version and its source: the header (22707 is 2.27.7), NCCL's own lines if they agree, or a label;
    empty and "not stated" if there is none.
    """
    code = table.header.get("library_version")
    if isinstance(code, int) and code >= 1000:
        # NCCL_VERSION: X*1000 + Y*100 + Z before 2.9, X*10000 + Y*100 + Z since.
        unit = 10000 if code >= 10000 else 1000
        return f"{code // unit}.{code % unit // 100}.{code % 100}", "header"
    said = [str(words).split(" ")[-1] for words in table.evidence.get(VERSION, ())]
    if said:
        return (said[0], "evidence") if len(said) == 1 else ("", NOT_STATED)
    label = given.labels.get("version", origin.labels.get("version", ""))
    by = "flag" if "version" in given.labels else "path"
    return (label, by) if label else ("", NOT_STATED)


# ---- where everything comes from ---------------------------------------------------------------------------


def _source(
    table: Table, origin: Origin, given: Given, fields: dict[str, str], findings: tuple[ImportFinding, ...]
) -> ImportSource:
    return ImportSource(
        path=redact_text(origin.path),
        tool=table.tool.name,
        sha256=origin.sha256,
        table=origin.table,
        first_line=table.first_line,
        last_line=table.last_line,
        stream=table.stream,
        fields=redact_all(fields),
        header=redact_all(_header(table)),
        labels=redact_all({**origin.labels, **given.labels}),
        evidence=redact_all({key: list(texts) for key, texts in (table.evidence | table.calls).items()}),
        findings=tuple(replace(each, text=redact_text(each.text)) for each in findings),
    )


def _header(table: Table) -> dict[str, Any]:
    """The log's own words; where a device list is part of them, its length too."""
    listed = {"ranks_listed": len(table.ranks)} if table.ranks else {}
    claims = {f"ranks_by_{source}": ranks for source, ranks in table.claims}
    average = {"average": table.average.value} if table.average is not None else {}
    return {**table.header, **average, **listed, **claims}


def _fields(table: Table, made: Made, origin: Origin) -> dict[str, str]:
    allowed = f" ({table.interval} fit the rows)" if table.interval is not None else ""
    own_counts = has_counts(table) and not table.tool.operations  # nccom-test's are of the whole buffer
    fields = {
        "operation": table.operation_from,
        "ranks": table.ranks_from + allowed,
        "created": origin.created_from,
        "size_bytes": table.words_from.get("size_bytes", "rows"),
        "count": "rows" if own_counts else "size / size of an element, of one block",
        **{name: table.words_from.get(name, "rows") for name in ("dtype", "op", "root", "placement")},
        "time_ns": "rows" if table.trusted_time else "size / algbw: the printed time is that of the CPU (-C)",
        "algbw_gb_per_s": made.algbw_from,
        "busbw_gb_per_s": made.busbw_from,
        "hosts": _hosts_from(table),
        "calls": "header" if "iters" in table.header else NOT_STATED,
    }
    if origin.environment:
        fields["environment"] = origin.environment_from
    if "out_of_bounds" in table.footer:
        fields["wrong"] = "rows, and the line below the table"
    return fields


# ---- what was measured, and how ----------------------------------------------------------------------------


_SHOWN: Final = {"in": "input_bytes", "out": "output_bytes", "algorithm": "algorithm"}


def _plan(table: Table, made: Made) -> Plan:
    header = table.header
    checked = any(not isnan(side.wrong) for side in table.sides)
    sizes = [case.size_bytes for case in made.cases]
    return Plan(
        backend=table.tool.backend,
        cases=made.cases,
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
        # Words of ``--stats`` for what the log has of some row, beside its time.
        show=tuple(
            word
            for word, name in _SHOWN.items()
            if any(getattr(result, name) not in (None, "") for result in made.results)
        ),
    )


def _number(header: Mapping[str, Any], name: str, default: int) -> int:
    value = header.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
