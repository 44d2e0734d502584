"""A Markdown table: one a collective, both placements side by side, with units, intervals and remarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from busbw.foreign.forms.remarks import notes, origin, remarks, status_word
from busbw.foreign.forms.rows import Row, Table
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.units import NS_PER_US, format_share

NOT_APPLICABLE: Final = "n/a"
NOT_CHECKED: Final = "N/A"
_CASE: Final = ("size (B)", "count", "type", "redop", "root")


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """What was measured as a list, then the tables."""
    first = origin(record)
    others = notes(record, "Markdown")[1:]  # the first names the layout of another tool
    lines = [_text(f"{first[0].upper()}{first[1:]}."), "", *(f"- {_text(note)}" for note in others)]
    for table in tables:
        lines += ["", f"### {table.collective}", "", *_table(table)]
        lines += ["", *(f"- {_text(remark)}" for remark in remarks(table.rows))]
    return ("\n".join(lines).rstrip() + "\n").encode()


def _table(table: Table) -> list[str]:
    sides = [f"{placement.value} {title}" for placement in Placement for title, _ in _SIDE]
    right = ["---:", "---:", "---", "---", "---:"] + ["---:"] * len(sides)
    return [f"| {' | '.join(cells)} |" for cells in ([*_CASE, *sides], right, *map(_cells, table.rows))]


def _cells(row: Row) -> list[str]:
    case = row.case
    words = (case.size_bytes, case.count, case.dtype or NOT_APPLICABLE, case.op or "none", case.root)
    cells = [_text(str(word)) for word in words]
    for result in row.sides:
        absent = [*[NOT_APPLICABLE] * (len(_SIDE) - 1), NOT_CHECKED]
        cells += absent if result is None else [of(result) for _, of in _SIDE]
    return cells


def _time(result: CaseResult) -> str:
    """The time, or why it is missing."""
    if result.time_ns is not None:
        return f"{result.time_ns / NS_PER_US:.2f}"
    return NOT_APPLICABLE if result.status is Status.NOT_APPLICABLE else status_word(result)


def _bandwidth(value: float | None, result: CaseResult) -> str:
    if value is not None:
        return f"{value:.2f}"
    return "WRONG" if result.status is Status.WRONG else NOT_APPLICABLE


_SIDE: Final[tuple[tuple[str, Callable[[CaseResult], str]], ...]] = (
    ("time (us)", _time),
    (
        "+-95%",
        lambda result: NOT_APPLICABLE if result.half_width is None else format_share(result.half_width),
    ),
    ("algbw (GB/s)", lambda result: _bandwidth(result.algbw_gb_per_s, result)),
    ("busbw (GB/s)", lambda result: _bandwidth(result.busbw_gb_per_s, result)),
    ("#wrong", lambda result: NOT_CHECKED if result.wrong is None else str(result.wrong)),
)


def _text(text: str) -> str:
    """Text that Markdown leaves as it is."""
    for character in "\\|`*_<>[]":
        text = text.replace(character, f"\\{character}")
    return text
