"""What is nearly a row: one without a heading, before other output, of a failed size, damaged or cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from busbw.foreign.logs.operations import TYPE_BYTES
from busbw.foreign.logs.row_words import Kind, Layout, PrintedRow, fault, filled, is_number
from busbw.foreign.logs.table import Failure, Table, Tool
from busbw.model.record import DAMAGED, OTHER_OUTPUT

# What stands in the place of numbers: nccom-test: Failure running; IMB: out-of-mem., int-overflow, time-out.
_FAILED: Final = ("fail", "out-of-mem", "int-overflow", "time-out")
_VERDICTS: Final = ("Pass", "Fail")
_DECIMALS: Final = 2  # of the last number of a row, in every tool whose rows end with a measure


def beginning_of_row(table: Table, line: str, number: int) -> PrintedRow | None:
    """A row or its beginning, behind which other output begins in the same line: nccl-tests prints a row in
    two or three pieces, and its line end behind them. It counts only where what follows it is no part of a
    row: of a line that was broken somewhere else, inside a number or between two, the halves could be joined
    to a row that was never printed.
    """
    for count, offset in reversed(table.layout.breaks):
        words = filled(table.layout, line[:offset].split(), line, count)
        if _is_interrupted(line, offset) and not fault(table.layout.columns[:count], words):
            return PrintedRow(number, words)
    return None


def _is_interrupted(line: str, end: int) -> bool:
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


def looks_like_row(table: Table, line: str, words: list[str], least: float) -> bool:
    """Whether a line that is no row was one, more or less: with so many numbers among the words of a row; in
    its own stream, a number in front is enough. Where rows have two words, one of two that is a number is.
    """
    if line.startswith("#"):
        return False
    numbers, expected = sum(map(is_number, words)), len(table.layout.columns)
    if words[0][:1].isdigit() and least < 0.5:
        return True
    if expected == 2 == len(words):
        return numbers > 0
    return numbers >= max(2, int(expected * least))


def note_damage(table: Table, words: list[str], number: int) -> None:
    """Keep that a line is not a whole row, and why; or that it is no row."""
    why = fault(table.layout.columns, words) or "line is not printable"
    kind = OTHER_OUTPUT if "count" not in table.layout.names and _is_text(words) else DAMAGED
    table.note(kind, f"not a whole row ({why}): {' '.join(words)[:80]}", number)


def _is_text(words: list[str]) -> bool:
    """Whether a line cannot have been a row of size and times, nor hold the rest of one: it has no size in
    front, and is of words beside numbers, as `time` prints: ``real 12.3``, ``12.3 seconds``.
    """
    plain = [word.rstrip(":,").isalpha() and not is_number(word) for word in words]
    mixed = any(not is_plain and not is_number(word) for word, is_plain in zip(words, plain, strict=True))
    return any(plain) and not mixed and not words[0].isdigit()


def is_cut(table: Table) -> bool:
    """Whether the last word of the last row is shorter than the tool prints it."""
    *others, last = table.lines
    column, word, before = table.layout.columns[-1], last.words[-1], [row.words[-1] for row in others]
    if column.kind is Kind.WORD:
        whole = {*_VERDICTS, *before}
        return word not in whole and any(known.startswith(word) for known in whole)
    if column.kind is Kind.DEVIATION:
        return word[-1].isdigit() and "e" not in word
    if column.kind is not Kind.MEASURE or not word[-1].isdigit():
        return False
    return _decimals(word) < max(map(_decimals, before), default=_DECIMALS)


def _decimals(word: str) -> int:
    return len(word) - word.find(".") - 1 if "." in word and word[-1].isdigit() else 0


# ---- without a heading -------------------------------------------------------------------------------------


def layout_of_row(words: Sequence[str], tools: Sequence[Tool]) -> tuple[Tool, Layout] | None:
    """The tool and layout of a table that begins with this row; None where the row does not say it: as many
    words of the right kinds as the tool prints without further options, among them a type that is known.
    """
    for tool in tools:
        layout = tool.usual
        if layout is not None and layout.fits(words):
            names = [column.name for column in layout.columns]
            if words[names.index("type")] in TYPE_BYTES:
                return tool, layout
    return None
