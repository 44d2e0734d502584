"""The table of a plot in letters: columns that do not fit beside one another go on below. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from busbw.reports.canvas import Form, Line
from busbw.reports.plots import Table

_GAP: Final = 2


def table_lines(table: Table, form: Form) -> Iterator[Line]:
    """Every number, then the notes. No cell is cut, even where it is wider than the terminal."""
    widths = [max(map(len, column)) for column in zip(table.head, *table.rows, strict=True)]
    keys = list(range(table.keys))
    for at, part in enumerate(_parts(widths, table.keys, form.columns)):
        yield from ((),) if at else ()
        chosen = [*keys, *part]
        yield ((_line(table.head, chosen, widths, table.keys), "soft"),)
        for row in table.rows:
            yield ((_line(row, chosen, widths, table.keys), ""),)
    for note in table.notes:
        yield from (((text, "soft"),) for text in textwrap.wrap(note, form.columns))


def _parts(widths: Sequence[int], keys: int, columns: int) -> Iterator[list[int]]:
    """Columns of values that fit beside the keys, one at least."""
    room = columns - sum(widths[:keys]) - _GAP * (keys - 1)
    part: list[int] = []
    left = room
    for at in range(keys, len(widths)):
        if part and widths[at] + _GAP > left:
            yield part
            part, left = [], room
        part.append(at)
        left -= widths[at] + _GAP
    yield part


def _line(cells: Sequence[str], chosen: Sequence[int], widths: Sequence[int], keys: int) -> str:
    """Names to the left, values to the right."""
    return (" " * _GAP).join(
        f"{cells[at]:<{widths[at]}}" if at < keys else f"{cells[at]:>{widths[at]}}" for at in chosen
    )
