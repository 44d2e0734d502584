"""What is nearly a row: one without a heading, of a failed size, damaged or cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from busbw.foreign.logs.operations import type_bytes
from busbw.foreign.logs.row_words import Layout, fault, is_number
from busbw.foreign.logs.table import Failure, FoundTable, Tool
from busbw.model.record import DAMAGED

# What stands in the place of numbers: nccom-test: Failure running; IMB: out-of-mem., int-overflow, time-out.
_FAILED: Final = ("fail", "out-of-mem", "int-overflow", "time-out")


def is_interrupted(line: str, end: int) -> bool:
    """Whether other output follows at once: words that no row has, or the end of the line."""
    if len(line) < end:
        return False
    rest = line[end:]
    words = rest.split()
    return not words or not (rest[0].isspace() or is_number(words[0]) or words[0][0] in ".0123456789")


def failure(words: list[str], number: int) -> Failure | None:
    """A size and why it has no numbers, in the words of the tool."""
    if len(words) < 2 or not words[0].isdecimal():
        return None
    said = " ".join(words[1:])
    is_failed = "fail" in said.lower() or said.lower().startswith(_FAILED)
    return Failure(number, int(words[0][:18]), said) if is_failed and "errors found" not in said else None


def looks_like_row(table: FoundTable, line: str, words: list[str], least: float) -> bool:
    """Whether a line that is no row was one, more or less: with so many numbers among the words of a row; in
    its own stream, a number in front is enough.
    """
    if line.startswith("#"):
        return False
    numbers, expected = sum(map(is_number, words)), len(table.layout.columns)
    if words[0].isdecimal() and least < 0.5:
        return True
    return numbers >= max(2, int(expected * least))


def note_damage(table: FoundTable, words: list[str], number: int) -> None:
    """Keep that a line is not a whole row, and why."""
    why = fault(table.layout.columns, words) or "line is not printable"
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(words)[:80])
    table.note(DAMAGED, f"not a whole row ({why}): {shown}", number)


def is_cut(table: FoundTable) -> bool:
    """Whether the last number of the last row has fewer decimals than that of the row above."""
    lengths = [len(row.words[-1].partition(".")[2]) for row in table.rows[-2:]]
    return lengths[-1] < lengths[0]


# ---- without a heading -------------------------------------------------------------------------------------


def layout_of_row(words: Sequence[str], tools: Sequence[Tool]) -> tuple[Tool, Layout] | None:
    """The tool and layout of a table that begins with this row; None where the row does not say it: as many
    words of the right kinds as the tool prints without further options, among them a type that is known.
    """
    for tool in tools:
        layout = tool.usual
        if layout is None or not layout.fits(words):
            continue
        dtype = next(
            word for column, word in zip(layout.columns, words, strict=True) if column.name == "type"
        )
        if type_bytes(dtype):
            return tool, layout
    return None
