"""What the two formats of nccom-test share: its columns, its words, its rows.

Bandwidths are decimal, as in nccom-test from the headers ``time:...(us)`` on; under its older ``time(us)``
they are GiB/s, so that header is not written. Its percentiles are p50 and so on: the median that busbw prints
stands under ``time:p50(us)``, the mean over the same samples under ``time:avg(us)``, and bandwidths are made
from the first of the columns, as there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.exporters.remarks import reason, status_word, time_statistic
from busbw.exporters.rows import Row, Table, element_type
from busbw.model.case import Case
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.units import NS_PER_US

SIZE: Final = "size(B)"
COUNT: Final = "count(elems)"
INPUT: Final = "total_input_size(B)"
OUTPUT: Final = "total_output_size(B)"
TYPE: Final = "type"
ALGBW: Final = "algbw(GB/s)"
BUSBW: Final = "busbw(GB/s)"
ALGORITHM: Final = "algorithm"
_OPERANDS: Final = {
    "all_reduce": "allr",
    "all_gather": "allg",
    "all_gatherv": "allgv",
    "reduce_scatter": "redsct",
    "alltoall": "alltoall",
    "alltoallv": "alltoallv",
    "sendrecv": "sendrecv",
    "permute": "permute",
}
_PERCENTILE: Final = re.compile(r"p\d+(?:\.\d+)?")


@dataclass(frozen=True)
class TimeColumn:
    """A time column: its name and the time of a result in ns, None where there is none."""

    name: str
    of: Callable[[CaseResult], float | None]

    def us(self, result: CaseResult) -> float | None:
        """The time in us."""
        time_ns = self.of(result)
        return None if time_ns is None else time_ns / NS_PER_US


def time_columns(record: RunRecord, table: Table) -> tuple[TimeColumn, ...]:
    """The headline first, then the mean and the percentiles that any case of the table has."""
    headline = time_statistic(record)
    columns = {headline: TimeColumn(time_title(headline), lambda result: result.time_ns)}
    if any(result.mean_ns is not None for result in table.results):
        columns.setdefault("avg", TimeColumn(time_title("avg"), lambda result: result.mean_ns))
    words = {word for result in table.results for word, value in result.stats.items() if value is not None}
    for word in sorted(filter(_PERCENTILE.fullmatch, words), key=lambda word: float(word[1:])):
        columns.setdefault(word, TimeColumn(time_title(word), _statistic(word)))
    return tuple(columns.values())


def column_notes(record: RunRecord, times: Sequence[TimeColumn]) -> list[str]:
    """What the columns beside the headline are."""
    if record.source is not None:
        return []  # they are the log's own
    what = {True: "mean over the same samples", False: "of single calls"}
    return [f"{column.name} = {what[column.name == time_title('avg')]}" for column in times[1:]]


def time_title(statistic: str) -> str:
    """The heading of a time column."""
    return f"time:{statistic}(us)"


def _statistic(word: str) -> Callable[[CaseResult], float | None]:
    return lambda result: result.stats.get(word)


def operand(collective: str) -> str:
    """What nccom-test calls the operation on its command line; empty where it does not have it."""
    return _OPERANDS.get(collective, "")


def type_word(dtype: str) -> str:
    """fp32 for float: floating types by their width. Types that nccom-test does not have keep our name."""
    row = element_type(dtype)
    aliases = row.aliases if row is not None else ()
    return next((alias for alias in aliases if alias.startswith(("fp", "bf"))), dtype)


def count(case: Case) -> int:
    """Elements in size(B): of the whole buffer, not the count of the call."""
    row = element_type(case.dtype)
    return case.count if row is None else case.size_bytes // row.size_bytes


def has_row(result: CaseResult | None) -> bool:
    """Whether nccom-test would print numbers: it does for what was measured and found right."""
    return result is not None and result.status is Status.GOOD and result.time_ns is not None


def has_sizes(result: CaseResult) -> bool:
    """Whether the columns of --show-input-output-size are known."""
    return result.input_bytes is not None and result.output_bytes is not None


def failure(result: CaseResult | None) -> str:
    """What stands in a row instead of numbers."""
    if result is None:
        return "not in this run"
    why = reason(result)
    return f"{status_word(result)}: {why}" if why else status_word(result)


def errors(rows: Sequence[CaseResult | None]) -> int:
    """How many rows are errors of the test: what was wrong or failed."""
    return sum(result is not None and result.status in (Status.WRONG, Status.FAILED) for result in rows)


def kind(row: Row) -> tuple[str, str, int, int]:
    """What a table of nccom-test has one of: reduction, root and cycle have no column there, and rows that
    failed have no type.
    """
    return row.case.dtype, row.case.op, row.case.root, row.case.cycle


def algorithm(result: CaseResult) -> str:
    """The algorithm's name as one small word, as nccom-test has it; - where it is not known."""
    return (result.algorithm.lower().split() or ["-"])[0]
