"""Results that come as entries by name (JSON, CSV): the columns of the tool's text table, a word each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from busbw.foreign.logs.row_words import NOT_CHECKED, Column, Kind, Layout, PrintedRow
from busbw.foreign.logs.table import Cell, Facts, Table, Tool
from busbw.model.record import DAMAGED

# What stands in a column that an entry does not have, where a row can be without it.
_ABSENT: Final = {Kind.MEASURE: "nan", Kind.WRONG: NOT_CHECKED}

Entry = tuple[int, Mapping[Cell, str]]  # line or number from 1, words


def found_table(
    tool: Tool, columns: Sequence[Column], entries: Iterable[Entry], facts: Facts, what: str
) -> Table:
    """The table of some entries, with the columns that any of them has. ``what`` an entry is called in the
    findings on those that are no whole row.
    """
    entries = list(entries)
    present = {cell for _, words in entries for cell in words}
    layout = Layout(tuple(column for column in columns if (column.name, column.placement) in present))
    if tool.usual is not None and not any("time" in name for name in layout.names):  # no entry is a row
        layout = tool.usual
    found = Table(tool, layout, "", 0, facts)
    for number, words in entries:
        row = [
            words.get((column.name, column.placement)) or _ABSENT.get(column.kind, "")
            for column in layout.columns
        ]
        if layout.fits(row):
            found.lines.append(PrintedRow(number, row))
        else:
            found.note(DAMAGED, f"{what} is not a whole row", number)
        found.last_line = max(found.last_line, number)
    return found
