"""Rows in pieces: nccl-tests prints a row in two or three, and other output of the job gets between them.

A piece counts only where what follows it in its line is no part of a row. A line that was broken somewhere
else, inside a number or between two, is damaged: its halves could be joined to a row that was never printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from busbw.importers.blocks import Part
from busbw.importers.columns import Columns, Kind, fault, filled
from busbw.importers.headings import IMB, NCCOM_TEST, OSU
from busbw.importers.printed import is_number
from busbw.importers.raw import RawTable, Stream
from busbw.model.record import ImportFinding

# Digits behind the point of the last number of a row.
_DECIMALS: Final = {OSU: 2, IMB: 2, NCCOM_TEST: 2}
_VERDICTS: Final = ("Pass", "Fail")


def row_before_output(stream: Stream, line: str) -> tuple[list[str], int] | None:
    """The words and the length of a whole row at whose end other output of the job begins, without a line end
    between them; None where the line does not have a row as long as the others, or as the heading.
    """
    table = stream.table
    if not stream.open or table is None:
        return None
    for width in dict.fromkeys(_widths(stream, table)):
        if width and _is_interrupted(line, width):
            words = filled(table.layout, line[:width].split(), line, stream.expected)
            if not fault(table.layout.columns, words):
                return words, width
    return None


def _widths(stream: Stream, table: RawTable) -> Iterator[int]:
    """Lengths that a row of the table can have: that of the row above, and that of the heading."""
    if stream.widths:
        yield stream.widths[-1]
    elif table.blocks:
        yield int(_last_rows(table).widths[-1])
    yield table.layout.width


def _last_rows(table: RawTable) -> Columns:
    block = table.blocks[-1]
    return block.columns if isinstance(block, Part) else block


def drop_cut_row(stream: Stream, number: int) -> None:
    """Report the last row of a text that ends without a line end, where it was cut inside its last word."""
    table = stream.table
    if table is None or not stream.rows or not _is_cut(stream, table, stream.rows[-1][-1]):
        return
    words = stream.rows.pop()
    stream.lines.pop()
    stream.widths.pop()
    text = f"the text ends inside the last word of a row: {' '.join(words)[:80]}"
    table.note(ImportFinding("damaged", text, number))


def _is_cut(stream: Stream, table: RawTable, word: str) -> bool:
    column = table.layout.columns[-1]
    others = [row[-1] for row in stream.rows[:-1]]
    before = _last_rows(table) if table.blocks and not others else None
    if column.kind is Kind.WORD:
        whole = {*_VERDICTS, *others, *(before.words[column.name][-1:] if before is not None else ())}
        return word not in whole and any(known.startswith(word) for known in whole)
    if column.kind not in (Kind.MEASURE, Kind.DEVIATION, Kind.WRONG) or not word[-1].isdigit():
        return False
    if column.kind is Kind.WRONG:  # a count that was 12 can be 1 now; rows have one length where it is whole
        width = stream.widths[-1]
        return word.strip("0") != "" and width not in {
            *stream.widths[:-1],
            *_block_widths(before),
            table.layout.width,
        }
    if column.kind is Kind.DEVIATION:
        return "e" not in word and (any("e" in other for other in others) or not others)
    least = max(map(_decimals, others), default=_DECIMALS.get(table.layout.tool, 0))
    if before is not None:
        half = before.measures[column.name, column.placement].half[-1]
        least = round(-math.log10(2 * half)) if half > 0 else least
    return _decimals(word) < least


def _block_widths(before: Columns | None) -> list[int]:
    return [] if before is None else before.widths[-1:].tolist()


def _decimals(word: str) -> int:
    return len(word) - word.find(".") - 1 if "." in word and word[-1].isdigit() else 0


def keep_piece(stream: Stream, line: str, number: int) -> bool:
    """Keep the beginning of a row into which other output was written."""
    if not stream.open or stream.table is None:
        return False
    layout = stream.table.layout
    begun = dict(layout.breaks).get(len(stream.piece), 0)
    for count, offset in reversed(layout.breaks):
        end = offset - begun
        if end > 0 and begun and _is_interrupted(line, end):
            words = line[:end].split()
            if not fault(layout.columns[:count], stream.piece + words):
                stream.piece += words  # interrupted once more
                return True
        words = filled(layout, line[:offset].split(), line, count)
        if _is_interrupted(line, offset) and not fault(layout.columns[:count], words):
            if stream.piece:
                drop_piece(stream)
            stream.piece, stream.piece_line = words, number
            return True
    return False


def _is_interrupted(line: str, end: int) -> bool:
    """Whether other output follows at once: words that no row has, or the end of the line."""
    if len(line) <= end:
        return False
    rest = line[end:]
    words = rest.split()
    return not words or not (rest[0].isspace() or is_number(words[0]) or words[0][0] in ".0123456789")


def rest_of_row(stream: Stream, words: list[str], number: int) -> bool:
    """Complete an interrupted row with the words that came after the interruption."""
    if not stream.piece or stream.table is None:
        return False
    layout = stream.table.layout
    joined = stream.piece + words
    ends = {count for count, _ in layout.breaks} | {len(layout.columns)}
    if len(joined) not in ends or fault(layout.columns[: len(joined)], joined):
        return False
    stream.piece = joined
    if len(joined) == len(layout.columns):
        stream.piece = []
        text = f"the row was interrupted by other output; its end is in line {number}"
        stream.table.note(ImportFinding("joined", text, stream.piece_line))
        stream.add(joined, stream.piece_line, 0)
    return True


def drop_piece(stream: Stream) -> None:
    """Report a piece that was never completed."""
    assert stream.table is not None
    words, stream.piece = stream.piece, []
    stream.table.note_damage(words, stream.piece_line)
