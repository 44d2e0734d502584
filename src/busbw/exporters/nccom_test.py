"""The text table of nccom-test: right-aligned columns four spaces apart, one table for each of its runs.

It knows one reduction, one root and one placement a run, so every combination has a table of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from busbw.exporters.nccom import (
    ALGBW,
    ALGORITHM,
    BUSBW,
    COUNT,
    INPUT,
    OUTPUT,
    SIZE,
    TYPE,
    TimeColumn,
    algorithm,
    column_notes,
    count,
    errors,
    failure,
    has_row,
    has_sizes,
    kind,
    operand,
    time_columns,
    type_word,
)
from busbw.exporters.remarks import notes, remarks, table_line
from busbw.exporters.rows import Row, Table, average_busbw_gb_per_s, is_applicable, ranks, split
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult

_BETWEEN = "    "


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """All tables below each other, as several runs of nccom-test in one log."""
    lines = [f"# busbw: {note}" for note in notes(record, "nccom-test")]
    for table in tables:
        times = time_columns(record, table)
        lines += [f"# busbw: {table.collective}: {note}" for note in column_notes(record, times)]
        for rows in split(table.rows, kind).values():
            for placement in Placement:
                if is_applicable(rows, placement):
                    lines += _table(record, rows, placement, times)
                else:
                    lines += [f"# busbw: {table.collective}: {line}" for line in remarks(rows, (placement,))]
    return ("\n".join(lines) + "\n").encode()


def _table(
    record: RunRecord, rows: Sequence[Row], placement: Placement, times: Sequence[TimeColumn]
) -> list[str]:
    case = rows[0].case
    results = [row.side(placement) for row in rows]
    number = ranks(record)
    average, counted = average_busbw_gb_per_s(results)
    wrong = errors(results)
    lines = [f"# busbw: {table_line(case, placement, number, results)}"]
    if number is not None and operand(case.collective):
        lines.append(f"# nccom-test -r {number} {operand(case.collective)}")
    lines += _aligned(rows, results, times)
    if average is not None:
        lines.append(f"Avg bus bandwidth:\t{average:.4f}GB/s")
        lines.append(
            f"# busbw: the average is over {counted} of {len(rows)} rows; other sizes, other average"
        )
    if wrong:
        lines.append(f"{wrong} errors found - test failed")
    return lines + [f"# busbw: {line}" for line in remarks(rows, (placement,))]


def _aligned(
    rows: Sequence[Row], results: Sequence[CaseResult | None], times: Sequence[TimeColumn]
) -> list[str]:
    # The column of --show-algorithm, where one is known: the tool has it behind all others.
    told = any(result is not None and result.algorithm for result in results)
    # Those of --show-input-output-size are whole numbers in every row, or there are none.
    there = [result for result in results if result is not None and has_row(result)]
    sized = bool(there) and all(map(has_sizes, there))
    heading = [
        *(SIZE, COUNT, *((INPUT, OUTPUT) if sized else ()), TYPE),
        *(*(column.name for column in times), ALGBW, BUSBW, *([ALGORITHM] * told)),
    ]
    measured = [
        _cells(row, result, times, told=told, sized=sized) for row, result in zip(rows, results, strict=True)
    ]
    widths = [
        max(len(title), *(len(cells[at]) for cells in measured if at < len(cells)), 0)
        for at, title in enumerate(heading)
    ]
    lines = [_line(heading, widths)]
    for cells, result in zip(measured, results, strict=True):
        line = _line(cells, widths)
        lines.append(line if has_row(result) else f"{line}{_BETWEEN}{failure(result)}")
    return lines


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _BETWEEN.join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False))


def _cells(
    row: Row, result: CaseResult | None, times: Sequence[TimeColumn], *, told: bool, sized: bool
) -> list[str]:
    """The words of a row; the size alone where a failure follows."""
    case = row.case
    size = str(case.size_bytes)
    if result is None or not has_row(result):
        return [size]
    return [
        *(size, str(count(case))),
        *((str(result.input_bytes), str(result.output_bytes)) if sized else ()),
        type_word(case.dtype),
        *(_number(column.us(result)) for column in times),
        *(_number(result.algbw_gb_per_s), _number(result.busbw_gb_per_s)),
        *([algorithm(result)] * told),
    ]


def _number(value: float | None) -> str:
    return "nan" if value is None else f"{value:.2f}"
