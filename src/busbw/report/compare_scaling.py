"""Scaling as text: bus bandwidth and percentiles against the number of nodes, for every size. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from busbw.judge.scaling import NAMES, ScalingRow
from busbw.report.fields import Field, attributes, csv_of, shown, table_lines, values_of
from busbw.units import NS_PER_US, format_size


def table(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Lines for people: a block an operation and setup, with the nodes of each size below one another."""
    for where, own in groupby(rows, _where):
        yield where
        yield from table_lines(_FIELDS, list(own), words=_remarks)


def _where(row: ScalingRow) -> str:
    setup = f"setup {row.setup}; " if row.setup else ""
    return f"# {row.key.kind}; {setup}{row.version or 'version not stated'}; {row.definition}"


def _remarks(row: ScalingRow) -> str:
    failed = f"{row.failed} FAILED: {row.why}" if row.failed else ""
    return "  ".join(filter(None, (failed, row.differs and f"runs differ in {row.differs}")))


Times = Callable[[ScalingRow], float | None]


def _spread(name: str) -> Times:
    return lambda row: row.spread.get(name)


def _time(name: str, of: Times) -> Field[ScalingRow]:
    return Field(f"{name} us", lambda row: shown((ns := of(row)) and ns / NS_PER_US, ".2f"))


_FIELDS: Final[tuple[Field[ScalingRow], ...]] = (
    Field("size", lambda row: format_size(row.size_bytes) if row.has_case else "n/a"),
    Field("nodes", lambda row: str(row.nodes or "n/a")),
    Field("ranks", lambda row: str(row.ranks or "n/a")),
    Field("runs", lambda row: str(row.runs)),
    Field("GB/s", lambda row: shown(row.busbw_gb_per_s, ".2f")),
    _time("time", lambda row: row.time_ns),
    *(_time(name, _spread(name)) for name in NAMES),
)


# Of a row, in the order of its columns.
_OF_ROW: Final[Mapping[str, Callable[[ScalingRow], Any]]] = {
    **attributes("curve.collective", "curve.dtype", "curve.op", "curve.placement", "definition", "version"),
    "size_bytes": lambda row: row.size_bytes if row.has_case else None,
    "nodes": lambda row: row.nodes or None,
    "ranks": lambda row: row.ranks or None,
    **attributes("runs", "failed", "busbw_gb_per_s", "time_ns"),
    **{f"{name}_ns": _spread(name) for name in NAMES},
    **attributes("why", "setup", "curve.pattern", "differs"),
}


def csv_text(rows: Sequence[ScalingRow]) -> str:
    """One line a row, with a heading."""
    return csv_of(_OF_ROW, (values_of(_OF_ROW, row) for row in rows))


def json_text(rows: Sequence[ScalingRow]) -> str:
    """As JSON."""
    return json.dumps({"rows": [values_of(_OF_ROW, row) for row in rows]}, indent=1) + "\n"
