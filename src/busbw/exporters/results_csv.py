"""The results file of the AWS kit's converter (nccl_to_csv.py): its 15 columns by name and place, then ours.

A file read by column name or by position reads on. Two things differ from the converter's: numbers have all
their digits, and where nothing was checked Errors is N/A, which the converter turns into a 0.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Final

from busbw.exporters.remarks import one_line, reason, time_words
from busbw.exporters.rows import Row, Table, ranks
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult
from busbw.units import NS_PER_US

# The converter's KB and MB are powers of 1024.
_KB_BYTES: Final = 2**10
_MB_BYTES: Final = 2**20

_CASE: Final = ("Size_Bytes", "Size_KB", "Size_MB", "Count", "Data_Type", "Operation", "Root")
_SIDE: Final = ("Time_us", "AlgBW_GBps", "BusBW_GBps", "Errors")
_OWN_SIDE: Final = ("Status", "Low_us", "High_us", "Samples", "Calls_Per_Sample", "Marks", "Reason")
_SIDES: Final = ("OOP", "IP")
COLUMNS: Final = (
    *_CASE,
    *(f"{side}_{name}" for side in _SIDES for name in _SIDE),
    "Collective",
    "Ranks",
    "Cycle",
    *(f"{side}_{name}" for side in _SIDES for name in _OWN_SIDE),
    "Time_Is",
)
# Of operations that ran at once; where there are none, the columns are those above.
STREAM_COLUMNS: Final = ("Stream", "Beside", "Overlap")
# Where any result has it.
_TOLD: Final[dict[str, Callable[[CaseResult], str | int | None]]] = {
    "Algorithm": lambda result: result.algorithm or None,
    "Input_Bytes": lambda result: result.input_bytes,
    "Output_Bytes": lambda result: result.output_bytes,
}


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """One line a size, all collectives below each other."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    told = [name for name, of in _TOLD.items() if any(of(each) is not None for each in record.results)]
    streams = STREAM_COLUMNS if record.plan.streams else ()
    writer.writerow((*COLUMNS, *streams, *(f"{side}_{name}" for name in told for side in _SIDES)))
    for table in tables:
        for row in table.rows:
            sides = [result for _, result in row.sides]
            cells = [result and _TOLD[name](result) for name in told for result in sides]
            # The csv module writes None as an empty cell.
            writer.writerow([*_line(record, row), *cells])
    return buffer.getvalue().encode()


def _line(record: RunRecord, row: Row) -> list[object]:
    case = row.case
    count = ranks(record)
    return [
        *(case.size_bytes, round(case.size_bytes / _KB_BYTES, 2), round(case.size_bytes / _MB_BYTES, 2)),
        *(case.count, case.dtype, case.op or "none", case.root),
        *(cell for _, result in row.sides for cell in _numbers(result)),
        *(case.collective, "n/a" if count is None else count, case.cycle),
        *(cell for _, result in row.sides for cell in _behind(result)),
        one_line(time_words(record)),
        *(_beside(row) if record.plan.streams else ()),
    ]


def _beside(row: Row) -> tuple[object, ...]:
    overlap = row.results[0].overlap
    return row.case.stream, "; ".join(row.case.beside), "nan" if overlap is None else overlap


def _numbers(result: CaseResult | None) -> tuple[object, ...]:
    if result is None:
        return ("nan", "nan", "nan", "N/A")
    return (
        _us(result.time_ns),
        _number(result.algbw_gb_per_s),
        _number(result.busbw_gb_per_s),
        "N/A" if result.wrong is None else result.wrong,
    )


def _behind(result: CaseResult | None) -> tuple[object, ...]:
    if result is None:
        return ("not-in-run", "nan", "nan", 0, 0, "", "")
    return (
        result.status.value,
        _us(result.low_ns),
        _us(result.high_ns),
        result.samples,
        result.calls_per_sample,
        " ".join(result.marks),
        reason(result),
    )


def _us(time_ns: float | None) -> object:
    return "nan" if time_ns is None else time_ns / NS_PER_US


def _number(value: float | None) -> object:
    return "nan" if value is None else value
