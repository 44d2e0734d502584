"""Scaling as text: bus bandwidth and percentiles against the number of nodes, for every size. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from busbw.judge.scaling import ScalingRow
from busbw.report.compare import csv_of
from busbw.units import NS_PER_US, format_size

CSV_COLUMNS = (
    "collective", "dtype", "op", "placement", "definition", "version", "size_bytes", "nodes", "ranks", "runs",
    "failed", "busbw_gb_per_s", "time_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns", "why", "setup",
    "pattern", "differs",
)  # fmt: skip


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


def row_fields(row: ScalingRow) -> dict[str, Any]:
    """One row as plain values, by CSV_COLUMNS."""
    return {
        "collective": row.key.collective,
        "dtype": row.key.dtype,
        "op": row.key.op,
        "placement": row.key.placement,
        "definition": row.definition,
        "version": row.version,
        "size_bytes": row.key.size_bytes if row.has_case else None,
        "nodes": row.nodes or None,
        "ranks": row.ranks or None,
        "runs": row.runs,
        "failed": row.failed,
        "busbw_gb_per_s": row.busbw_gb_per_s,
        "time_ns": row.time_ns,
        "p50_ns": row.spread.p50_ns,
        "p95_ns": row.spread.p95_ns,
        "p99_ns": row.spread.p99_ns,
        "max_ns": row.spread.max_ns,
        "why": row.why,
        "setup": row.setup,
        "pattern": row.key.pattern,
        "differs": row.differs,
    }


def csv_text(rows: Sequence[ScalingRow]) -> str:
    """One line a row, with a heading."""
    return csv_of(CSV_COLUMNS, map(row_fields, rows))


def json_text(rows: Sequence[ScalingRow]) -> str:
    """As JSON."""
    return json.dumps({"rows": [row_fields(row) for row in rows]}, indent=1) + "\n"
