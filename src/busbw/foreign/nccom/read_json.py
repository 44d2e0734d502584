"""The JSON file of nccom-test (--report-to-json-file): the text table's columns at full precision."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from busbw.foreign.logs.json_text import Document, count, is_number, number, sequence, text_of
from busbw.foreign.logs.operations import operation
from busbw.foreign.logs.own import Outcome, cut, outcome, outcome_of, run_words
from busbw.foreign.logs.own import numbers as own_numbers
from busbw.foreign.logs.row_words import FloatArray, Printed
from busbw.foreign.logs.table import Failure, Table, Timing
from busbw.foreign.nccom.read import (
    GB_SIZES,
    NAME,
    NOT_STATED,
    OPERATIONS,
    PLACEMENT_ASSUMED,
    algorithm,
    time_words,
    with_reduction,
)
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding
from busbw.model.result import Status
from busbw.units import NS_PER_US

_TIME: Final = re.compile(r"time(?::(avg|p\d+(?:\.\d+)?))?\(us\)")
# Times are rounded to 10 ns, bandwidths are made from what they were before.
_TIME_HALF_US: Final = 0.005
_BANDWIDTH_HALF: Final = 1e-9
_OWN: Final = ("placement", "redop", "root", "cycle")
_PLACEMENTS: Final = {placement.value for placement in Placement}
_OF_STREAMS: Final = ("stream", "operation", "ranks")  # in rows of operations that ran at once
_Rows = list[tuple[int, dict[str, Any]]]


def is_nccom_test(content: dict[str, Any]) -> bool:
    """Whether a JSON document is one of nccom-test."""
    return any(isinstance(row, dict) and "size(B)" in row for row in sequence(content.get("results")))


def tables(document: Document) -> list[Table]:
    """The table of a document; of our own exports one for each placement, reduction, root and cycle."""
    content = document.content
    entries = [*sequence(content.get("results")), *sequence(content.get("results_in_place"))]
    columns = next((found for row in entries if (found := _time_columns(row))), [])
    is_own = any(isinstance(row, dict) and "placement" in row for row in entries)
    findings = []
    groups: dict[tuple[object, ...], _Rows] = {}
    for index, row in enumerate(entries, 1):
        if (_is_row(row, columns) or _is_failed(row)) and (not is_own or _has_own(row)):
            groups.setdefault(_group(row), []).append((index, row))
        else:
            findings.append(ImportFinding("damaged", "an entry of results is not a whole row", index))
    findings += cut(document, len(entries))
    header = {key: value for key, value in content.items() if _is_plain(value)} | run_words(content)
    made = []
    for rows in groups.values():
        made.append(_table(rows, columns or ["time(us)"], header, findings, ended=not document.cut_line))
        findings = []  # said once
    return made


def _has_own(row: dict[str, Any]) -> bool:
    """Whether a row of our own export says what it is."""
    if row.get("status") == Status.GOOD.value and not _time_columns(row):
        return False
    words = row.get("placement") in _PLACEMENTS and isinstance(row.get("redop"), str)
    return (
        words
        and outcome(text_of(row.get("status")), "") is not None
        and "wrong" in row
        and all(isinstance(row.get(key), int) for key in ("root", "cycle"))
    )


def _group(row: dict[str, Any]) -> tuple[object, ...]:
    """What a table has one of. Rows of nccom-test itself have none of these keys."""
    return tuple(text_of(row.get(key)) or count(row.get(key)) for key in (*_OWN, *_OF_STREAMS))


def _table(
    rows: _Rows, columns: list[str], header: dict[str, Any], findings: list[ImportFinding], *, ended: bool
) -> Table:
    measured = [(index, row) for index, row in rows if _is_row(row, columns)]
    first = rows[0][1]
    own = {f"own_{key}": first[key] for key in _OWN if key in first}
    header = {**header, **own}
    if "stream" in first:
        header |= {"own_collective": first.get("operation"), "own_ranks": first.get("ranks")}
    name = operation(text_of(header.get("own_collective"))) or text_of(header.get("own_collective"))
    root = count(own.get("own_root"))
    claimed = header.get("own_ranks")
    word = "header" if name and own else NOT_STATED
    cycle = count(own.get("own_cycle")) or 0
    return Table(
        tool=NAME,
        backend="nccom",
        stream="",
        lines=np.array([index for index, _ in measured], np.int64),
        widths=np.zeros(len(measured), np.int64),
        sizes=np.array([row["size(B)"] for _, row in measured], np.int64),
        counts=np.array([row["count(elems)"] for _, row in measured], np.int64),
        types=[text_of(row.get("type")) for _, row in measured],
        redops=[text_of(own.get("own_redop"), "none")] * len(measured),
        roots=np.full(len(measured), -1 if root is None else root, np.int64),
        timings=(_timing(measured, columns, _placement(own)),),
        algorithms=[algorithm(text_of(row.get("algorithm"))) for _, row in measured],
        input_bytes=[count(row.get("total_input_size(B)")) for _, row in measured],
        output_bytes=[count(row.get("total_output_size(B)")) for _, row in measured],
        time=text_of(header.get("time_is")) or time_words(_title(columns[0])),
        operation=name,
        operation_from="header" if name else "",
        last_line=rows[-1][0],
        rank_labels=(("header", claimed),) if isinstance(claimed, int) else (),
        header={**header, "own_op": text_of(own.get("own_redop")).removeprefix("none")} if own else header,
        failures=tuple(_failures(rows, columns)),
        ended=ended,
        findings=tuple(findings),
        outcomes=dict(_outcomes(measured, _placement(own))),
        cycle=cycle,
        words_from={
            "op": word,
            "root": word,
            "placement": "header" if "own_placement" in header else PLACEMENT_ASSUMED,
        },
        gb_sizes=GB_SIZES,
        operations=OPERATIONS,
        decided=with_reduction,
    )


def _placement(own: dict[str, Any]) -> Placement:
    word = own.get("own_placement")
    return Placement.IN_PLACE if word == Placement.IN_PLACE.value else Placement.OUT_OF_PLACE


def _timing(rows: _Rows, columns: list[str], placement: Placement) -> Timing:
    is_own = any("status" in row for _, row in rows)

    def as_printed(values: FloatArray, half: float) -> Printed:
        return own_numbers(values, half) if is_own else Printed(values, np.full(len(rows), half))

    def column(key: str) -> FloatArray:
        return np.array([number(row.get(key)) for _, row in rows], np.float64)

    first, *others = columns
    return Timing(
        placement,
        as_printed(column(first), _TIME_HALF_US),
        as_printed(column("algbw(GB/s)"), _BANDWIDTH_HALF),
        as_printed(column("busbw(GB/s)"), _BANDWIDTH_HALF),
        None,
        {_statistic(key): column(key) * NS_PER_US for key in others},
    )


def _failures(rows: _Rows, columns: list[str]) -> Iterable[Failure]:
    for index, row in rows:
        if _is_row(row, columns):
            continue
        words = ", ".join(str(value) for key, value in row.items() if key not in ("size(B)", *_OWN))
        yield Failure(
            index, row["size(B)"], words[:200] or "no time", outcome_of(row), text_of(row.get("type"))
        )


def _outcomes(rows: _Rows, placement: Placement) -> Iterable[tuple[tuple[int, Placement], Outcome]]:
    for index, row in rows:
        found = outcome_of(row)
        if found is not None:
            yield (index, placement), found


def _time_columns(row: Any) -> list[str]:  # noqa: ANN401 (JSON)
    return [key for key in row if _TIME.fullmatch(key)] if isinstance(row, dict) else []


def _statistic(key: str) -> str:
    match = _TIME.fullmatch(key)
    return match[1] or "" if match is not None else ""


def _title(key: str) -> str:
    return f"time:{_statistic(key)}" if _statistic(key) else "time"


def _is_row(row: Any, columns: list[str]) -> bool:  # noqa: ANN401 (JSON)
    if not isinstance(row, dict) or not columns:
        return False
    # In exports of busbw, busbw is null on one rank, and both bandwidths are for a barrier.
    bandwidths = [row.get(key) for key in ("algbw(GB/s)", "busbw(GB/s)")]
    return (
        is_number(row.get(columns[0]))
        and all(is_number(value) or (value is None and "status" in row) for value in bandwidths)
        and all(row.get(key) is None or is_number(row.get(key)) for key in columns)
        and all(count(row.get(key)) is not None for key in ("size(B)", "count(elems)"))
        and isinstance(row.get("type", ""), str)
    )


def _is_failed(row: Any) -> bool:  # noqa: ANN401 (JSON)
    return isinstance(row, dict) and count(row.get("size(B)")) is not None and not _time_columns(row)


def _is_plain(value: Any) -> bool:  # noqa: ANN401 (JSON)
    return isinstance(value, str | int | float | bool)
