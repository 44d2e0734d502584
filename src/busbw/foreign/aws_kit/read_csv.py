"""The results CSV that the AWS kit's converter makes from a log of nccl-tests."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from busbw.foreign.logs.operations import operation
from busbw.foreign.logs.own import Outcome, outcome
from busbw.foreign.logs.row_words import NOT_CHECKED, is_integer, is_number, printed
from busbw.foreign.logs.table import Table, Timing
from busbw.foreign.nccl_tests.read import NAME, TIME, with_wrong_rows
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding
from busbw.units import NS_PER_US

_CASE: Final = {
    "size": "size_bytes",
    "count": "count",
    "type": "data_type",
    "redop": "operation",
    "root": "root",
}
_MEASURES: Final = {"time": "time_us", "algbw": "algbw_gbps", "busbw": "busbw_gbps", "wrong": "errors"}
# Columns of busbw's own exports behind the converter's.
_OWN: Final = {"collective": "collective", "ranks": "ranks", "cycle": "cycle", "time_is": "time_is"}
_COUNTS: Final = ("samples", "calls_per_sample", "input_bytes", "output_bytes")
_OWN_SIDE: Final = ("status", "low_us", "high_us", *_COUNTS, "marks", "conditions", "reason", "algorithm")
_Rows = list[tuple[int, list[str]]]
_SIDES: Final = {"oop": Placement.OUT_OF_PLACE, "ip": Placement.IN_PLACE}


def is_csv(first_line: str) -> bool:
    """Whether a line is the heading of such a file, or its beginning."""
    plain = first_line.lstrip("\ufeff \"'").lower()
    return plain.startswith("size_bytes") and _delimiter(first_line) in plain


def _delimiter(heading: str) -> str:
    """What separates the columns: a program of another language writes semicolons, or tabs."""
    return max((",", ";", "\t"), key=heading.count)


def _columns(names: Sequence[str]) -> dict[str, int]:
    """Positions by our names: ``time_oop`` for OOP_Time_us."""
    plain = [name.strip().lstrip("\ufeff").lower() for name in names]
    found = {ours: plain.index(theirs) for ours, theirs in (_CASE | _OWN).items() if theirs in plain}
    for side in _SIDES:
        for ours, theirs in _MEASURES.items():
            if f"{side}_{theirs}" in plain:
                found[f"{ours}_{side}"] = plain.index(f"{side}_{theirs}")
        for theirs in _OWN_SIDE:
            if f"{side}_{theirs}" in plain:
                found[f"{theirs.removesuffix('_us')}_{side}"] = plain.index(f"{side}_{theirs}")
    return found


def tables(lines: Sequence[str]) -> list[Table]:
    """The one table of a file, or one for each operation of an export of busbw; none where its columns are
    others.
    """
    reader = csv.reader(lines, delimiter=_delimiter(lines[0]) if lines else ",")
    try:
        names = next(reader, [])
    except csv.Error:
        return []
    positions = _columns(names)
    sides = [
        side for side in _SIDES if all(f"{name}_{side}" in positions for name in ("time", "algbw", "busbw"))
    ]
    if not sides or not {"size", "count"} <= set(positions):
        return []
    rows, findings = _read(reader, len(names), positions, sides)
    if any(is_number(name.strip()) for name in names):
        findings.insert(0, ImportFinding("damaged", "a row stands in the line of the heading", 1))
    groups: dict[tuple[str, str, str], _Rows] = {}
    for number, cells in rows:
        key = tuple(_cell(cells, positions, name) for name in ("collective", "ranks", "time_is"))
        groups.setdefault((key[0], key[1], key[2]), []).append((number, cells))
    made = []
    for (collective, ranks, time), members in (groups or {("", "", ""): []}).items():
        made.append(_table(members, positions, sides, (collective, ranks, time), reader.line_num, findings))
        findings = []  # said once
    return made


def _read(
    reader: Any,  # noqa: ANN401 (a csv.reader, whose type has no name)
    width: int,
    positions: dict[str, int],
    sides: Sequence[str],
) -> tuple[_Rows, list[ImportFinding]]:
    rows: _Rows = []
    findings = []
    while True:
        before = reader.line_num
        try:
            cells = next(reader, None)
        except csv.Error as error:
            findings.append(ImportFinding("damaged", f"not a line of a CSV file: {error}", reader.line_num))
            continue
        if cells is None:
            return rows, findings
        # A quote or a line end that was lost joins two rows.
        is_one = len(cells) <= width and reader.line_num == before + 1
        if is_one and _is_row(cells, positions, sides):
            rows.append((reader.line_num, cells))
        elif any(cells):
            text = f"not a whole row: {','.join(cells)[:80]}"
            findings.append(ImportFinding("damaged", text, reader.line_num))


def _cell(cells: list[str], positions: dict[str, int], name: str) -> str:
    return cells[positions[name]].strip() if name in positions else ""


def _table(
    rows: _Rows,
    positions: dict[str, int],
    sides: Sequence[str],
    said: tuple[str, str, str],
    last_line: int,
    findings: list[ImportFinding],
) -> Table:
    def column(name: str, missing: str = "") -> list[str]:
        at = positions.get(name)
        return [missing] * len(rows) if at is None else [cells[at].strip() for _, cells in rows]

    collective, ranks, time = said
    own = "collective" in positions
    cycles = [int(word) for word in column("cycle", "0") if word.isdecimal() and len(word) < 9]
    return Table(
        tool=NAME,
        backend="nccl",
        library="NCCL",
        stream="",
        lines=np.array([number for number, _ in rows], np.int64),
        widths=np.zeros(len(rows), np.int64),
        sizes=np.array([int(cell) for cell in column("size")], np.int64),
        counts=np.array([int(cell) for cell in column("count")], np.int64),
        types=column("type"),
        redops=column("redop", "none"),
        roots=np.array([int(cell) for cell in column("root", "-1")], np.int64),
        timings=tuple(_timing(column, side, own=own) for side in sides),
        time=time or TIME,
        operation=operation(collective) or collective,
        operation_from="header" if collective else "",
        formulas="today's",
        decided=with_wrong_rows,
        rank_labels=(("header", int(ranks)),) if ranks.isdecimal() and len(ranks) < 10 else (),
        first_line=rows[0][0] if rows else 1,
        last_line=rows[-1][0] if rows else last_line,
        ended=True,
        findings=tuple(findings),
        outcomes=dict(_outcomes(rows, positions, sides)),
        cycle=min(cycles, default=0),
    )


def _timing(column: Callable[..., list[str]], side: str, *, own: bool) -> Timing:
    # The AWS kit's converter writes 0 for N/A, so its 0 does not say that anything was checked. Ours does.
    wrong = [
        math.nan if cell in (NOT_CHECKED, "") else float(cell)
        for cell in column(f"wrong_{side}", NOT_CHECKED)
    ]
    return Timing(
        _SIDES[side],
        printed(column(f"time_{side}")),
        printed(column(f"algbw_{side}")),
        printed(column(f"busbw_{side}")),
        np.array(wrong if own else [count or math.nan for count in wrong], np.float64),
    )


def _outcomes(
    rows: _Rows, positions: dict[str, int], sides: Sequence[str]
) -> Iterator[tuple[tuple[int, Placement], Outcome]]:
    """What our own columns say beside the converter's: status, interval, samples, marks and reason."""
    for number, cells in rows:
        for side in sides:

            def cell(name: str, side: str = side, cells: list[str] = cells) -> str:
                return _cell(cells, positions, f"{name}_{side}")

            found = outcome(cell("status"), cell("reason"))
            if found is None:
                continue
            fields: dict[str, Any] = dict(found.fields)
            for name in ("low", "high"):
                if is_number(cell(name)) and "nan" not in cell(name):
                    fields[f"{name}_ns"] = float(cell(name)) * NS_PER_US
            for name in _COUNTS:
                if is_integer(cell(name)):
                    fields[name] = int(cell(name))
            words = {name: tuple(cell(name).split()) for name in ("marks", "conditions")}
            said = {**words, "algorithm": cell("algorithm")}
            fields |= {name: value for name, value in said.items() if value}
            yield (number, _SIDES[side]), Outcome(found.status, fields)


def _is_row(cells: list[str], positions: dict[str, int], sides: Sequence[str]) -> bool:
    if len(cells) <= max(positions.values()):
        return False
    whole = [positions[name] for name in ("size", "count", "root") if name in positions]
    numbers = [positions[f"{name}_{side}"] for side in sides for name in ("time", "algbw", "busbw")]
    wrong = [positions[f"wrong_{side}"] for side in sides if f"wrong_{side}" in positions]
    return (
        all(is_integer(cells[at].strip()) for at in whole)
        and all(is_number(cells[at].strip()) for at in numbers)
        and all(is_number(cells[at].strip()) or cells[at].strip() in (NOT_CHECKED, "") for at in wrong)
    )
