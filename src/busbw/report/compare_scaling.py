"""Scaling as text: bus bandwidth and percentiles against the number of nodes, for every size. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from busbw.judge.scaling import ScalingRow
from busbw.report.compare import csv_of
from busbw.units import NS_PER_US, format_size


def table(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Lines for people: a block an operation and setup, with the nodes of each size below one another."""
    last = None
    for row in rows:
        kind = row.key.kind
        setup = f"setup {row.setup}; " if row.setup else ""
        where = f"# {kind}; {setup}{row.version or 'version not stated'}; {row.definition}"
        if where != last:
            yield where
            yield (
                f"#{'size':>9} {'nodes':>6} {'ranks':>6} {'runs':>5} {'GB/s':>9} {'time us':>11}"
                f" {'p50 us':>11} {'p95 us':>11} {'p99 us':>11} {'max us':>11}"
            )
            last = where
        yield _row(row)


def _row(row: ScalingRow) -> str:
    spread = row.spread
    times = (row.time_ns, spread.p50_ns, spread.p95_ns, spread.p99_ns, spread.max_ns)
    busbw = "n/a" if row.busbw_gb_per_s is None else f"{row.busbw_gb_per_s:.2f}"
    failed = f"  {row.failed} FAILED: {row.why}" if row.failed else ""
    size = format_size(row.key.size_bytes) if row.has_case else "n/a"
    differs = f"  runs differ in {row.differs}" if row.differs else ""
    return (
        f"{size:>10} {row.nodes or 'n/a':>6} {row.ranks or 'n/a':>6} {row.runs:>5}"
        f" {busbw:>9}" + "".join(f" {_us(time):>11}" for time in times) + failed + differs
    )


def _us(time_ns: float | None) -> str:
    return "n/a" if time_ns is None else f"{time_ns / NS_PER_US:.2f}"


# Of a row, in the order of its columns.
_OF_ROW: Final[Mapping[str, Callable[[ScalingRow], Any]]] = {
    "collective": lambda row: row.key.collective,
    "dtype": lambda row: row.key.dtype,
    "op": lambda row: row.key.op,
    "placement": lambda row: row.key.placement,
    "definition": lambda row: row.definition,
    "version": lambda row: row.version,
    "size_bytes": lambda row: row.key.size_bytes if row.has_case else None,
    "nodes": lambda row: row.nodes or None,
    "ranks": lambda row: row.ranks or None,
    "runs": lambda row: row.runs,
    "failed": lambda row: row.failed,
    "busbw_gb_per_s": lambda row: row.busbw_gb_per_s,
    "time_ns": lambda row: row.time_ns,
    "p50_ns": lambda row: row.spread.p50_ns,
    "p95_ns": lambda row: row.spread.p95_ns,
    "p99_ns": lambda row: row.spread.p99_ns,
    "max_ns": lambda row: row.spread.max_ns,
    "why": lambda row: row.why,
    "setup": lambda row: row.setup,
    "pattern": lambda row: row.key.pattern,
    "differs": lambda row: row.differs,
}


def row_fields(row: ScalingRow) -> dict[str, Any]:
    """One row as plain values."""
    return {name: value(row) for name, value in _OF_ROW.items()}


def csv_text(rows: Sequence[ScalingRow]) -> str:
    """One line a row, with a heading."""
    return csv_of(tuple(_OF_ROW), map(row_fields, rows))


def json_text(rows: Sequence[ScalingRow]) -> str:
    """As JSON."""
    return json.dumps({"rows": [row_fields(row) for row in rows]}, indent=1) + "\n"
