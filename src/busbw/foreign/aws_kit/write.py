"""The two files of the AWS kit's converter (nccl_to_csv.py): results and their summary.

Results have its 15 columns by name and place, then ours, so a file that is read by column name or by position
reads on. Two things differ from the converter's: numbers have all their digits, and where nothing was checked
Errors is N/A, which the converter turns into a 0. The summary is Metric,Value: its metrics first, then what
they leave out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from busbw.foreign.forms.remarks import one_line, provenance, reason, time_words
from busbw.foreign.forms.rows import Row, Table, average_busbw_gb_per_s, ranks
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.units import NS_PER_US

# The converter's KB and MB are powers of 1024.
_KB_BYTES: Final = 2**10
_MB_BYTES: Final = 2**20
_NO_NUMBER: Final = "nan"


def _or_nan(value: float | None, unit: float = 1) -> object:
    return _NO_NUMBER if value is None else value / unit


# Columns of a placement: what a result has there, and what stands there where the run has no such placement.
_Columns = Mapping[str, tuple[Callable[[CaseResult], object], object]]
_SIDE: Final[_Columns] = {
    "Time_us": (lambda result: _or_nan(result.time_ns, NS_PER_US), _NO_NUMBER),
    "AlgBW_GBps": (lambda result: _or_nan(result.algbw_gb_per_s), _NO_NUMBER),
    "BusBW_GBps": (lambda result: _or_nan(result.busbw_gb_per_s), _NO_NUMBER),
    "Errors": (lambda result: "N/A" if result.wrong is None else result.wrong, "N/A"),
}
_OWN_SIDE: Final[_Columns] = {
    "Status": (lambda result: result.status.value, "not-in-run"),
    "Low_us": (lambda result: _or_nan(result.low_ns, NS_PER_US), _NO_NUMBER),
    "High_us": (lambda result: _or_nan(result.high_ns, NS_PER_US), _NO_NUMBER),
    "Samples": (lambda result: result.samples, 0),
    "Calls_Per_Sample": (lambda result: result.calls_per_sample, 0),
    "Marks": (lambda result: " ".join(result.marks), ""),
    "Conditions": (lambda result: " ".join(result.conditions), ""),
    "Reason": (reason, ""),
}
# Where any result has it. The csv module writes None as an empty cell.
_TOLD: Final[_Columns] = {
    "Algorithm": (lambda result: result.algorithm or None, None),
    "Input_Bytes": (lambda result: result.input_bytes, None),
    "Output_Bytes": (lambda result: result.output_bytes, None),
}
_SIDES: Final = ("OOP", "IP")


def write_results(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """One line a size, all collectives below each other."""
    told = {
        name: column
        for name, column in _TOLD.items()
        if any(column[0](result) is not None for result in record.results)
    }
    titles = (
        *("Size_Bytes", "Size_KB", "Size_MB", "Count", "Data_Type", "Operation", "Root"),
        *(f"{side}_{name}" for side in _SIDES for name in _SIDE),
        *("Collective", "Ranks", "Cycle"),
        *(f"{side}_{name}" for side in _SIDES for name in _OWN_SIDE),
        "Time_Is",
        # Of operations that ran at once; where there are none, the columns are those above.
        *(("Stream", "Beside", "Overlap") if record.plan.streams else ()),
        *(f"{side}_{name}" for name in told for side in _SIDES),
    )
    rows = (row for table in tables for row in table.rows)
    return _csv([titles, *(_line(record, row, told) for row in rows)])


def _csv(lines: Iterable[Iterable[object]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue().encode()


def _line(record: RunRecord, row: Row, told: _Columns) -> list[object]:
    case, count = row.case, ranks(record)
    line = [
        *(case.size_bytes, round(case.size_bytes / _KB_BYTES, 2), round(case.size_bytes / _MB_BYTES, 2)),
        *(case.count, case.dtype, case.op or "none", case.root),
        *_cells(row, _SIDE),
        *(case.collective, "n/a" if count is None else count, case.cycle),
        *_cells(row, _OWN_SIDE),
        one_line(time_words(record)),
    ]
    if record.plan.streams:
        overlap = next(iter(row.found.values())).overlap
        line += [case.stream, "; ".join(case.beside), _or_nan(overlap)]
    return line + [cell for name in told for cell in _cells(row, {name: told[name]})]


def _cells(row: Row, columns: _Columns) -> list[object]:
    """The cells of both placements, out-of-place first."""
    return [
        absent if result is None else of(result) for result in row.sides for of, absent in columns.values()
    ]


# ---- summary ------------------------------------------------------------------------------------------


def write_summary(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """The metrics of the only table: what the converter writes, under its names and with its digits; then
    the unit and reduction of them, and how many cases they are not made from.
    """
    (table,) = tables
    sizes = [row.case.size_bytes for row in table.rows]
    sides = list(zip(_SIDES, zip(*(row.sides for row in table.rows), strict=True), strict=True))
    checked = [result.wrong for result in table.results if result.wrong is not None]
    average, counted = average_busbw_gb_per_s(table.results)
    statuses = [result.status for result in table.results]
    return _csv(
        [
            ("Metric", "Value"),
            ("Total Test Points", len(table.rows)),
            ("Min Message Size (Bytes)", min(sizes)),
            ("Max Message Size (Bytes)", max(sizes)),
            *((f"Peak {name} Bus BW (GB/s)", _rounded(_peak(side))) for name, side in sides),
            *(
                (f"Avg {name} Bus BW (GB/s)", _rounded(average_busbw_gb_per_s(side)[0]))
                for name, side in sides
            ),
            ("Total Errors", sum(checked) if checked else "N/A"),
            ("NCCL Reported Avg Bus BW (GB/s)", _NO_NUMBER if average is None else f"{average:g}"),
            ("Collective", table.collective),
            ("Time Is", one_line(time_words(record))),
            ("GB/s Is", "10^9 bytes/s"),
            ("Averages Are", "plain means over the sizes of this run; not comparable with other sizes"),
            ("Cases In Averages", counted),
            ("Cases", len(statuses)),
            *((f"Cases {status.value}", statuses.count(status)) for status in Status),
            ("Cases Not Checked", len(statuses) - len(checked)),
            ("Run", one_line(provenance(record))),
        ]
    )


def _peak(side: Iterable[CaseResult | None]) -> float | None:
    return max((each.busbw_gb_per_s for each in side if each and each.busbw_gb_per_s), default=None)


def _rounded(value: float | None) -> object:
    return _NO_NUMBER if value is None else round(value, 2)
