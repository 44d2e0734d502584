"""nccom-test's table as text, row by row, and its rows as JSON: pure.

Columns are right-aligned under headings four spaces apart; a row that failed has its size and a text instead
of numbers. Bandwidths are decimal and made from the first of the time columns, as nccom-test does since its
headings name the statistic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any, Final

from busbw.exporters.nccom import ALGBW, ALGORITHM, BUSBW, COUNT, INPUT, OUTPUT, SIZE, TYPE, time_title
from busbw.units import NS_PER_US

BETWEEN: Final = "    "
# A first line is printed before the last size is known: wide enough for 999 GiB and for hours.
_WIDTHS: Final = {SIZE: 12, COUNT: 12, TYPE: 6}
_UNKNOWN: Final = "-"


@dataclass(frozen=True)
class Columns:
    """Which columns a table has; ``stats`` are the words of the time columns, in their order."""

    stats: tuple[str, ...]
    sizes: bool = False
    algorithm: bool = False

    @property
    def titles(self) -> tuple[str, ...]:
        """The headings, left to right."""
        return (
            *(SIZE, COUNT),
            *((INPUT, OUTPUT) if self.sizes else ()),
            *(TYPE, *map(time_title, self.stats), ALGBW, BUSBW),
            *((ALGORITHM,) if self.algorithm else ()),
        )


@dataclass(frozen=True)
class Row:
    """One size. Times in ns by statistic, None where nothing tells it; ``failure`` instead of numbers."""

    size_bytes: int
    count: int
    type: str
    times_ns: Mapping[str, float | None] = field(default_factory=dict)
    algbw_gb_per_s: float | None = None
    busbw_gb_per_s: float | None = None
    input_bytes: int | None = None
    output_bytes: int | None = None
    algorithm: str = ""
    failure: str = ""


def heading(columns: Columns) -> str:
    """The first line of a table."""
    return _line(columns.titles, columns.titles)


def line(row: Row, columns: Columns) -> str:
    """A row as text."""
    if row.failure:
        return f"{row.size_bytes:>{_WIDTHS[SIZE]}}{BETWEEN}{row.failure}"
    cells = [_cell(value) for value in _values(row, columns).values()]
    return _line(cells, columns.titles)


def fields(row: Row, columns: Columns) -> dict[str, Any]:
    """A row as an entry of ``results``: the headings as keys, all digits, bandwidths before times."""
    if row.failure:
        return {SIZE: row.size_bytes, COUNT: row.count, TYPE: row.type, "error": row.failure}
    values = _values(row, columns)
    times = {title: values.pop(title) for title in map(time_title, columns.stats)}
    return {**values, **times}


def average(rows: Sequence[Row]) -> float | None:
    """The mean of the busbw column; None where no row has one."""
    values = [row.busbw_gb_per_s for row in rows if row.busbw_gb_per_s is not None]
    return fsum(values) / len(values) if values else None


def footer(rows: Sequence[Row]) -> list[str]:
    """The lines below a table."""
    mean = average(rows)
    errors = sum(bool(row.failure) for row in rows)
    lines = [f"Avg bus bandwidth:\t{mean:.4f}GB/s"] if mean is not None else []
    return lines + ([f"{errors} errors found - test failed"] if errors else [])


def _values(row: Row, columns: Columns) -> dict[str, Any]:
    """The values of a row by heading, in the order of the columns; times in us."""
    sizes = {INPUT: row.input_bytes, OUTPUT: row.output_bytes} if columns.sizes else {}
    times = {time_title(word): _us(row.times_ns.get(word)) for word in columns.stats}
    return {
        SIZE: row.size_bytes,
        COUNT: row.count,
        **sizes,
        TYPE: row.type,
        **times,
        ALGBW: row.algbw_gb_per_s,
        BUSBW: row.busbw_gb_per_s,
        **({ALGORITHM: (row.algorithm.lower().split() or [_UNKNOWN])[0]} if columns.algorithm else {}),
    }


def _us(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / NS_PER_US


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return "nan" if value is None else str(value)


def _line(cells: Sequence[str], titles: Sequence[str]) -> str:
    return BETWEEN.join(
        f"{cell:>{max(len(title), _WIDTHS.get(title, 0))}}" for cell, title in zip(cells, titles, strict=True)
    )
