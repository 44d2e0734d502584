"""Text with colours for a terminal: spans, lines and tables. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from busbw.report.plots import Table
from busbw.report.style import STYLES

if TYPE_CHECKING:
    from rich.text import Text

Span = tuple[str, str]
"""Text, and the name of its colour (of ``report.plots``), empty for the terminal's own."""
Line = tuple[Span, ...]

_GAP: Final = 2


@dataclass(frozen=True)
class Form:
    """What a terminal can show: its columns, and whether it has more letters than ASCII."""

    columns: int = 80
    unicode: bool = False


def plain(line: Sequence[Span]) -> str:
    """Without colours."""
    return "".join(text for text, _ in line).rstrip()


def coloured(line: Sequence[Span]) -> Text:
    """For a terminal."""
    from rich.text import Text

    text = Text.assemble(*((text, STYLES[colour] if colour else "") for text, colour in line))
    text.rstrip()  # blanks beyond the last column would begin a line
    return text


def fitted(text: str, width: int) -> str:
    """At most so long: the middle is left out, since names differ at both ends."""
    kept = width - 2
    return text if len(text) <= width else f"{text[: kept - kept // 2]}..{text[len(text) - kept // 2 :]}"


def table_lines(table: Table, form: Form) -> Iterator[Line]:
    """Every number, then the notes. No cell is cut, even where it is wider than the terminal."""
    names = [name.replace("\n", " ") for name in table.head]
    widths = [max(map(len, column)) for column in zip(names, *table.rows, strict=True)]
    keys = list(range(table.keys))
    for at, part in enumerate(_parts(widths, table.keys, form.columns)):
        yield from ((),) if at else ()
        chosen = [*keys, *part]
        yield ((_line(names, chosen, widths, table.keys), "soft"),)
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
