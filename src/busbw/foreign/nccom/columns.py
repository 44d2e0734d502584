"""nccom-test's table: its columns, its rows as lines of text and as entries of its JSON file.

Columns are right-aligned under headings four spaces apart; a row that failed has its size and a text instead
of numbers. Bandwidths are decimal, as in nccom-test from the headings ``time:...(us)`` on, and made from the
first of the time columns; under its older ``time(us)`` they are GiB/s, so that heading is not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from busbw.foreign.logs.operations import element_type
from busbw.model.case import Case
from busbw.model.result import CaseResult
from busbw.units import NS_PER_US

# Names that nccom-test accepts as its operand, and the collective that each is.
OPERANDS: Final = {
    "all_reduce": "all_reduce",
    "allr": "all_reduce",
    "all_gather": "all_gather",
    "allg": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "redsct": "reduce_scatter",
    "alltoall": "alltoall",
    "alltoallv": "alltoallv",
    "all_gatherv": "all_gatherv",
    "allgv": "all_gatherv",
    "sendrecv": "sendrecv",
    "permute": "permute",
}
SIZE: Final = "size(B)"
COUNT: Final = "count(elems)"
INPUT: Final = "total_input_size(B)"
OUTPUT: Final = "total_output_size(B)"
TYPE: Final = "type"
ALGBW: Final = "algbw(GB/s)"
BUSBW: Final = "busbw(GB/s)"
ALGORITHM: Final = "algorithm"
_BETWEEN: Final = "    "
# A first line is printed before the last size is known: wide enough for 999 GiB.
_LEAST_WIDTHS: Final = {SIZE: 12, COUNT: 12, TYPE: 6}
_UNKNOWN: Final = "-"


@dataclass(frozen=True)
class Columns:
    """Which columns a table has; ``stats`` are the words of the time columns (avg, pNN), in their order."""

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
    """One size. Times in ns by statistic, None where nothing says it; ``failure`` instead of numbers."""

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


def time_title(statistic: str) -> str:
    """The heading of a time column."""
    return f"time:{statistic}(us)"


def type_word(dtype: str) -> str:
    """fp32 for float: floating types by their width. Types that nccom-test does not have keep our name."""
    row = element_type(dtype)
    aliases = row.aliases if row is not None else ()
    return next((alias for alias in aliases if alias.startswith(("fp", "bf"))), dtype)


def count(case: Case) -> int:
    """Elements in size(B): of the whole buffer, not the count of the call."""
    row = element_type(case.dtype)
    return case.count if row is None else case.size_bytes // row.size_bytes


def row_of(case: Case, **own: Any) -> Row:  # noqa: ANN401 (fields of Row)
    """The row of a case."""
    return Row(case.size_bytes, count(case), type_word(case.dtype), **own)


def measured(case: Case, result: CaseResult, times_ns: Mapping[str, float | None], first: str) -> Row:
    """The row of a result, with bandwidths at the ``first`` of its times, not at the headline; none where
    groups have several sizes.
    """
    time_ns, headline_ns = times_ns[first], result.time_ns
    scale = headline_ns / time_ns if time_ns and headline_ns is not None else None

    def scaled(value: float | None) -> float | None:
        return None if value is None or scale is None else value * scale

    return row_of(
        case,
        times_ns=times_ns,
        algbw_gb_per_s=scaled(result.algbw_gb_per_s),
        busbw_gb_per_s=scaled(result.busbw_gb_per_s),
        input_bytes=result.input_bytes,
        output_bytes=result.output_bytes,
        algorithm=result.algorithm,
    )


# ---- text ---------------------------------------------------------------------------------------------


def heading(columns: Columns) -> str:
    """The first line of a table."""
    return _line(columns.titles, columns)


def line(row: Row, columns: Columns) -> str:
    """A row as text."""
    if row.failure:
        return f"{row.size_bytes:>{_LEAST_WIDTHS[SIZE]}}{_BETWEEN}{row.failure}"
    return _line([_cell(value) for value in _values(row, columns).values()], columns)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return "nan" if value is None else str(value)


def _line(cells: Sequence[str], columns: Columns) -> str:
    widths = [max(len(title), _LEAST_WIDTHS.get(title, 0)) for title in columns.titles]
    return _BETWEEN.join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def footer(average: float | None, errors: int, notes: Sequence[str] = ()) -> list[str]:
    """The lines below a table: the mean of the busbw column, ``notes`` on it, and how many rows failed."""
    lines = [f"Avg bus bandwidth:\t{average:.4f}GB/s", *notes] if average is not None else []
    return lines + ([f"{errors} errors found - test failed"] if errors else [])


# ---- JSON ---------------------------------------------------------------------------------------------


def fields(row: Row, columns: Columns) -> dict[str, Any]:
    """A row as an entry of ``results``: the headings as keys, all digits, bandwidths before times."""
    if row.failure:
        return {SIZE: row.size_bytes, COUNT: row.count, TYPE: row.type, "error": row.failure}
    values = _values(row, columns)
    times = {title: values.pop(title) for title in map(time_title, columns.stats)}
    return {**values, **times}


def _values(row: Row, columns: Columns) -> dict[str, Any]:
    """The values of a row by heading, in the order of the columns; times in us."""
    sizes = {INPUT: row.input_bytes, OUTPUT: row.output_bytes} if columns.sizes else {}
    times = {time_title(word): _us(row.times_ns.get(word)) for word in columns.stats}
    # One small word, as nccom-test has it.
    algorithm = {ALGORITHM: next(iter(row.algorithm.lower().split()), _UNKNOWN)} if columns.algorithm else {}
    return {
        SIZE: row.size_bytes,
        COUNT: row.count,
        **sizes,
        TYPE: row.type,
        **times,
        ALGBW: row.algbw_gb_per_s,
        BUSBW: row.busbw_gb_per_s,
        **algorithm,
    }


def _us(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / NS_PER_US
