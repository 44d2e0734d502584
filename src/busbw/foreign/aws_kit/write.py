"""The two files of the AWS kit's converter (nccl_to_csv.py): results and their summary.

Results have its 15 columns by name and place, then ours, so a file that is read by column name or by position
reads on. Two things differ from the converter's: numbers have all their digits, and where nothing was checked
Errors is N/A, which the converter turns into a 0. The summary is Metric,Value: its metrics first, then what
they leave out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Final

from busbw.foreign.forms.remarks import one_line, provenance, reason, time_words
from busbw.foreign.forms.rows import Row, Table, average_busbw_gb_per_s, ranks
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.units import NS_PER_US

# The converter's KB and MB are powers of 1024.
_KB_BYTES: Final = 2**10
_MB_BYTES: Final = 2**20

_CASE: Final = ("Size_Bytes", "Size_KB", "Size_MB", "Count", "Data_Type", "Operation", "Root")
_SIDE: Final = ("Time_us", "AlgBW_GBps", "BusBW_GBps", "Errors")
_OWN_SIDE: Final = (
    "Status",
    "Low_us",
    "High_us",
    "Samples",
    "Calls_Per_Sample",
    "Marks",
    "Conditions",
    "Reason",
)
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


def write_results(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """One line a size, all collectives below each other."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    more = [name for name, of in _TOLD.items() if any(of(each) is not None for each in record.results)]
    streams = STREAM_COLUMNS if record.plan.streams else ()
    writer.writerow((*COLUMNS, *streams, *(f"{side}_{name}" for name in more for side in _SIDES)))
    for table in tables:
        for row in table.rows:
            sides = [result for _, result in row.sides]
            cells = [result and _TOLD[name](result) for name in more for result in sides]
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
        _number(result.time_ns, NS_PER_US),
        _number(result.algbw_gb_per_s),
        _number(result.busbw_gb_per_s),
        "N/A" if result.wrong is None else result.wrong,
    )


def _behind(result: CaseResult | None) -> tuple[object, ...]:
    if result is None:
        return ("not-in-run", "nan", "nan", 0, 0, "", "", "")
    return (
        result.status.value,
        _number(result.low_ns, NS_PER_US),
        _number(result.high_ns, NS_PER_US),
        result.samples,
        result.calls_per_sample,
        " ".join(result.marks),
        " ".join(result.conditions),
        reason(result),
    )


def _number(value: float | None, unit: float = 1) -> object:
    return "nan" if value is None else value / unit


# ---- summary ------------------------------------------------------------------------------------------


def write_summary(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """The metrics of the only table."""
    (table,) = tables
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("Metric", "Value"))
    writer.writerows([*_metrics(table), *_summary_notes(record, table)])
    return buffer.getvalue().encode()


def _metrics(table: Table) -> list[tuple[str, object]]:
    """What the converter writes, under its names and with its digits."""
    sizes = [row.case.size_bytes for row in table.rows]
    sides = [[row.side(placement) for row in table.rows] for placement in Placement]
    peaks = [
        max((result.busbw_gb_per_s for result in side if result and result.busbw_gb_per_s), default=None)
        for side in sides
    ]
    means = [average_busbw_gb_per_s(side)[0] for side in sides]
    checked = [result.wrong for result in table.results if result.wrong is not None]
    average, _ = average_busbw_gb_per_s(table.results)
    return [
        ("Total Test Points", len(table.rows)),
        ("Min Message Size (Bytes)", min(sizes)),
        ("Max Message Size (Bytes)", max(sizes)),
        ("Peak OOP Bus BW (GB/s)", _rounded(peaks[0])),
        ("Peak IP Bus BW (GB/s)", _rounded(peaks[1])),
        ("Avg OOP Bus BW (GB/s)", _rounded(means[0])),
        ("Avg IP Bus BW (GB/s)", _rounded(means[1])),
        ("Total Errors", sum(checked) if checked else "N/A"),
        ("NCCL Reported Avg Bus BW (GB/s)", "nan" if average is None else f"{average:g}"),
    ]


def _summary_notes(record: RunRecord, table: Table) -> list[tuple[str, object]]:
    """The unit and reduction of the above, and how many cases they are not made from."""
    _, counted = average_busbw_gb_per_s(table.results)
    statuses = [result.status for result in table.results]
    return [
        ("Collective", table.collective),
        ("Time Is", one_line(time_words(record))),
        ("GB/s Is", "10^9 bytes/s"),
        ("Averages Are", "plain means over the sizes of this run; not comparable with other sizes"),
        ("Cases In Averages", counted),
        ("Cases", len(statuses)),
        *((f"Cases {status.value}", statuses.count(status)) for status in Status),
        ("Cases Not Checked", sum(result.wrong is None for result in table.results)),
        ("Run", one_line(provenance(record))),
    ]


def _rounded(value: float | None) -> object:
    return "nan" if value is None else round(value, 2)
