"""Letters with colours on a grid: what plots in a terminal are drawn on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.text import Text

Span = tuple[str, str]
"""Text, and the name of its colour (of ``reports.plots``), empty for the terminal's own."""
Line = tuple[Span, ...]

# Of sixteen that every terminal has on its own background, dark or light.
_STYLES: Final[Mapping[str, str]] = {
    "c1": "bold blue", "c2": "yellow", "c3": "green", "c4": "magenta", "c5": "red", "c6": "cyan",
    "limit": "red", "reference": "dim", "soft": "dim", "bold": "bold", "failed": "reverse", "none": "magenta",
    "low2": "bold cyan", "low1": "cyan", "mid": "dim", "high1": "yellow", "high2": "bold red",
    "s1": "bold red", "s2": "yellow", "s3": "dim", "s4": "dim", "s5": "cyan", "s6": "bold cyan",
    "yes": "bold green", "no": "bold red", "undecided": "bold yellow",
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """What a terminal can show: its columns, and whether it has more letters than ASCII."""

    columns: int = 80
    unicode: bool = False

    def pick(self, letter: str, plain: str) -> str:
        """The letter, or what stands for it in ASCII."""
        return letter if self.unicode else plain


class Canvas:
    """A grid of ``rows`` x ``columns``, the first row on top. What is put later lies above."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self._cells: list[list[Span]] = [[(" ", "")] * columns for _ in range(rows)]

    def put(self, row: int, column: int, text: str, colour: str = "") -> None:
        """Letters from a place on; what is beside the grid is left out."""
        for at, letter in enumerate(text, column):
            if 0 <= row < self.rows and 0 <= at < self.columns:
                self._cells[row][at] = (letter, colour)

    def at(self, row: int, column: int) -> Span:
        """What is there."""
        return self._cells[row][column]

    def lines(self) -> list[Line]:
        """Row by row, neighbours of one colour together."""
        return [
            tuple(
                ("".join(letter for letter, _ in own), colour)
                for colour, own in groupby(cells, key=lambda cell: cell[1])
            )
            for cells in self._cells
        ]


def plain(line: Sequence[Span]) -> str:
    """Without colours."""
    return "".join(text for text, _ in line).rstrip()


def coloured(line: Sequence[Span]) -> Text:
    """For a terminal."""
    from rich.text import Text

    text = Text.assemble(*((text, _STYLES[colour] if colour else "") for text, colour in line))
    text.rstrip()  # blanks beyond the last column would begin a line
    return text
