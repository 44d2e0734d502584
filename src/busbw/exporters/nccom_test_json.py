"""The file of ``nccom-test --report-to-json-file``: its text columns as keys, with all digits.

``results`` has the out-of-place rows, the only ones that nccom-test knows, or those in place of an operation
that has no others; ``results_in_place`` the rest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

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
    operand,
    time_columns,
    type_word,
)
from busbw.exporters.remarks import BANDWIDTH, notes, remarks, time_words
from busbw.exporters.rows import Row, Table, average_busbw_gb_per_s, is_applicable, ranks
from busbw.model.collective import Placement
from busbw.model.record import RunRecord


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """The only table as one document."""
    (table,) = tables
    times = time_columns(record, table)
    first, second = Placement.OUT_OF_PLACE, Placement.IN_PLACE
    if not is_applicable(table.rows, first):
        first, second = second, first
    document: dict[str, Any] = {"results": _rows(table, first, times)}
    if is_applicable(table.rows, second):
        document["results_in_place"] = _rows(table, second, times)
    document["busbw"] = _own(record, table, first, times)
    return (json.dumps(document, indent=4) + "\n").encode()


def _own(record: RunRecord, table: Table, first: Placement, times: Sequence[TimeColumn]) -> dict[str, Any]:
    average, counted = average_busbw_gb_per_s(row.side(first) for row in table.rows)
    return {
        "operation": operand(table.collective) or table.collective,
        "nworkers": ranks(record),
        "run_id": record.run_id,
        "status": record.status.value,
        "placement": first.value,
        "time_is": f"{times[0].name}: {time_words(record)}; of one call",
        "bandwidth_is": f"{BANDWIDTH}, from {times[0].name}",
        "average_busbw_gb_per_s": average,
        "average_is": f"plain mean over {counted} of {len(table.rows)} rows of results, all sizes",
        "errors": errors([result for row in table.rows for _, result in row.sides]),
        "notes": [
            *notes(record, "nccom-test --report-to-json-file"),
            *column_notes(record, times),
            *remarks(table.rows),
        ],
    }


def _rows(table: Table, placement: Placement, times: Sequence[TimeColumn]) -> list[dict[str, Any]]:
    return [_row(row, placement, times) for row in table.rows]


def _row(row: Row, placement: Placement, times: Sequence[TimeColumn]) -> dict[str, Any]:
    case, result = row.case, row.side(placement)
    fields: dict[str, Any] = {SIZE: case.size_bytes, COUNT: count(case), TYPE: type_word(case.dtype)}
    own = {
        "placement": placement.value,
        "redop": case.op or "none",
        "root": case.root,
        "cycle": case.cycle,
        "status": "not-in-run" if result is None else result.status.value,
        "wrong": None if result is None else result.wrong,
    }
    if result is None or not has_row(result):
        # Without a time, as a row of nccom-test that failed.
        return {**fields, "error": failure(result), **own}
    numbers = {column.name: column.us(result) for column in times}
    sizes = {INPUT: result.input_bytes, OUTPUT: result.output_bytes} if has_sizes(result) else {}
    told = {**sizes, **({ALGORITHM: algorithm(result)} if result.algorithm else {})}
    return {**fields, ALGBW: result.algbw_gb_per_s, BUSBW: result.busbw_gb_per_s, **numbers, **told, **own}
