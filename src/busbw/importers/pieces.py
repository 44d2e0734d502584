"""Rows in pieces: nccl-tests prints a row in two or three, and other output of the job gets between them.

A piece counts only where what follows it in its line is no part of a row. A line that was broken somewhere
else, inside a number or between two, is damaged: its halves could be joined to a row that was never printed.
"""

from __future__ import annotations

from busbw.importers.columns import fault, filled
from busbw.importers.printed import is_number
from busbw.importers.raw import Stream
from busbw.model.record import ImportFinding


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
