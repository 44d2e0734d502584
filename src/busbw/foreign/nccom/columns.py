"""nccom-test's table: its columns, its rows as lines of text and as entries of its JSON file.

Columns are right-aligned under headings four spaces apart; a row that failed has its size and a text instead
of numbers. Bandwidths are decimal, as in nccom-test from the headings ``time:...(us)`` on, and made from the
first of the time columns; under its older ``time(us)`` they are GiB/s, so that heading is not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from busbw.foreign.logs.operations import element_type, operation
from busbw.model.case import Case
from busbw.model.result import CaseResult
from busbw.units import NS_PER_US

# Names that nccom-test accepts as its operand, and the collective that each is.
OPERANDS: Final = {
    word: operation(word)
    for word in (
        *("all_reduce", "allr", "all_gather", "allg", "reduce_scatter", "redsct", "alltoall", "alltoallv"),
        *("all_gatherv", "allgv", "sendrecv", "permute"),
    )
}
SIZE: Final = "size(B)"
COUNT: Final = "count(elems)"
INPUT: Final = "total_input_size(B)"
OUTPUT: Final = "total_output_size(B)"
TYPE: Final = "type"
ALGBW: Final = "algbw(GB/s)"
BUSBW: Final = "busbw(GB/s)"
ALGORITHM: Final = "algorithm"
ERROR: Final = "error"  # of the JSON file alone
_BETWEEN: Final = "    "
# A first line is printed before the last size is known: wide enough for 999 GiB.
_LEAST_WIDTHS: Final = {SIZE: 12, COUNT: 12, TYPE: 6}
_UNKNOWN: Final = "-"

# One size: the values of all columns by heading, as an entry of the JSON file has them, times in us and None
# where there is no number; of a row that failed size, count, type and ERROR, the text instead of numbers.
Row = Mapping[str, Any]


def titles(stats: Sequence[str], *, sizes: bool = False, algorithm: bool = False) -> tuple[str, ...]:
    """The headings of a table, left to right; ``stats`` are the words of the time columns (avg, pNN)."""
    return (
        *(SIZE, COUNT),
        *((INPUT, OUTPUT) if sizes else ()),
        *(TYPE, *map(time_title, stats), ALGBW, BUSBW),
        *((ALGORITHM,) if algorithm else ()),
    )


def time_title(statistic: str) -> str:
    """The heading of a time column."""
    return f"time:{statistic}(us)"


def failed(case: Case, words: str) -> Row:
    """The row of a case that has no numbers."""
    count, kind = _count_and_type(case)
    return {SIZE: case.size_bytes, COUNT: count, TYPE: kind, ERROR: words}


def measured(case: Case, result: CaseResult, times_ns: Mapping[str, float | None]) -> Row:
    """The row of a result. ``times_ns`` are by statistic, in the order of the columns; bandwidths are at the
    first of them, not at the headline, and None where groups have several sizes.
    """
    count, kind = _count_and_type(case)
    first_ns, headline_ns = next(iter(times_ns.values())), result.time_ns
    scale = headline_ns / first_ns if first_ns and headline_ns is not None else None

    def scaled(value: float | None) -> float | None:
        return None if value is None or scale is None else value * scale

    return {
        SIZE: case.size_bytes,
        COUNT: count,
        INPUT: result.input_bytes,
        OUTPUT: result.output_bytes,
        TYPE: kind,
        ALGBW: scaled(result.algbw_gb_per_s),
        BUSBW: scaled(result.busbw_gb_per_s),
        # One small word, as nccom-test has it.
        ALGORITHM: next(iter(result.algorithm.lower().split()), _UNKNOWN),
        **{time_title(word): None if ns is None else ns / NS_PER_US for word, ns in times_ns.items()},
    }


def _count_and_type(case: Case) -> tuple[int, str]:
    """Elements in size(B), of the whole buffer and not of the call; and fp32 for float: floating types by
    their width. Types that nccom-test does not have keep our name.
    """
    row = element_type(case.dtype)
    if row is None:
        return case.count, case.dtype
    names = (alias for alias in row.aliases if alias.startswith(("fp", "bf")))
    return case.size_bytes // row.size_bytes, next(names, case.dtype)


# ---- text and JSON ------------------------------------------------------------------------------------


def line(row: Row, columns: Sequence[str]) -> str:
    """A row as text, with the columns of these titles."""
    if ERROR in row:
        return f"{row[SIZE]:>{_LEAST_WIDTHS[SIZE]}}{_BETWEEN}{row[ERROR]}"
    return heading(columns, [_cell(row[title]) for title in columns])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return "nan" if value is None else str(value)


def heading(columns: Sequence[str], cells: Sequence[str] = ()) -> str:
    """The first line of a table, or ``cells`` below it."""
    widths = [max(len(title), _LEAST_WIDTHS.get(title, 0)) for title in columns]
    return _BETWEEN.join(f"{cell:>{width}}" for cell, width in zip(cells or columns, widths, strict=True))


def footer(average: float | None, errors: int, notes: Sequence[str] = ()) -> list[str]:
    """The lines below a table: the mean of the busbw column, ``notes`` on it, and how many rows failed."""
    lines = [f"Avg bus bandwidth:\t{average:.4f}GB/s", *notes] if average is not None else []
    return lines + ([f"{errors} errors found - test failed"] if errors else [])


def entry(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    """A row as an entry of ``results``: the headings as keys, all digits, bandwidths before times."""
    keys = {*columns, ERROR}
    return {title: value for title, value in row.items() if title in keys}
