"""Scaling as text: bus bandwidth and percentiles against the number of nodes, for every size. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from busbw.judge.scaling import NAMES, ScalingRow
from busbw.report.compare import csv_of
from busbw.report.fields import Field, attributes, heading_of, row_of
from busbw.units import NS_PER_US, format_size


def table(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Lines for people: a block an operation and setup, with the nodes of each size below one another."""
    last = None
    for row in rows:
        setup = f"setup {row.setup}; " if row.setup else ""
        where = f"# {row.key.kind}; {setup}{row.version or 'version not stated'}; {row.definition}"
        if where != last:
            yield where
            yield heading_of(_FIELDS, "").rstrip()
            last = where
        failed = f"  {row.failed} FAILED: {row.why}" if row.failed else ""
        yield row_of(_FIELDS, row) + failed + (f"  runs differ in {row.differs}" if row.differs else "")


def _us(time_ns: float | None) -> str:
    return "n/a" if time_ns is None else f"{time_ns / NS_PER_US:.2f}"


def _percentile(name: str) -> Field[ScalingRow]:
    return Field(f"{name} us", 11, lambda row: _us(row.spread.get(name)))


_FIELDS: Final[tuple[Field[ScalingRow], ...]] = (
    Field("size", 10, lambda row: format_size(row.size_bytes) if row.has_case else "n/a"),
    Field("nodes", 6, lambda row: str(row.nodes or "n/a")),
    Field("ranks", 6, lambda row: str(row.ranks or "n/a")),
    Field("runs", 5, lambda row: str(row.runs)),
    Field("GB/s", 9, lambda row: "n/a" if row.busbw_gb_per_s is None else f"{row.busbw_gb_per_s:.2f}"),
    Field("time us", 11, lambda row: _us(row.time_ns)),
    *map(_percentile, NAMES),
)


# Of a row, in the order of its columns.
_OF_ROW: Final[Mapping[str, Callable[[ScalingRow], Any]]] = {
    **attributes("curve.collective", "curve.dtype", "curve.op", "curve.placement", "definition", "version"),
    "size_bytes": lambda row: row.size_bytes if row.has_case else None,
    "nodes": lambda row: row.nodes or None,
    "ranks": lambda row: row.ranks or None,
    **attributes("runs", "failed", "busbw_gb_per_s", "time_ns"),
    "p50_ns": lambda row: row.spread.get("p50"),
    "p95_ns": lambda row: row.spread.get("p95"),
    "p99_ns": lambda row: row.spread.get("p99"),
    "max_ns": lambda row: row.spread.get("max"),
    **attributes("why", "setup", "curve.pattern", "differs"),
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
