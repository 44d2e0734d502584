"""Many rows at once: numpy looks at the bytes of a column of all rows of a piece of text together.

The tools print with printf, so the rows of their tables are built alike, in all tables of a text. One row,
read word by word, is the pattern of the others; what is not built like it (another width, a negative number)
is read word by word, or becomes a pattern too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from busbw.importers.columns import BoolArray, Columns, IntArray, Kind, Layout, convert, filled, keep, part
from busbw.importers.fields import (
    SPACE,
    Bytes,
    Letters,
    is_plain,
    letters,
    like_prefix,
    like_words,
    numbers,
    words,
)
from busbw.importers.printed import Printed

_NEWLINE: Final = ord("\n")
_WORD: Final = re.compile(rb"\S+")
# A pattern costs as much as some hundred rows read word by word. It is worth it for this many.
LEAST_ROWS: Final = 64
MOST_PATTERNS: Final = 32
# After a pattern that few rows have, this many lines are read word by word before the next one is tried.
_LEAST_PAUSE: Final = 64
_LONGEST_PAUSE: Final = 50_000
_NOBODY: Final = -1
_ZERO: Final = ord("0")


@dataclass(frozen=True, eq=False)
class Pattern:
    """How rows are built: like ``row``, a row of the layout with its line end.

    The first ``prefix`` bytes are the launcher's; ``names`` are where the parts of it stand that name the
    stream. In what is left of it, which is a time stamp, digits may differ.
    """

    layout: Layout
    stream: str
    row: bytes
    prefix: int
    names: tuple[tuple[int, int], ...]

    @cached_property
    def digit(self) -> int:
        """Where every row has a digit: the end of the first number, its begin where it stands at the left."""
        word = _WORD.search(self.row, self.prefix)
        assert word is not None
        return word.start() if self.layout.left else word.end() - 1


@dataclass(eq=False)
class Part:
    """Rows of what a pattern found in a piece of text: those of the spans ``begin`` to ``end``."""

    found: Columns
    spans: list[tuple[int, int]] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(end - begin for begin, end in self.spans)

    def add(self, begin: int, end: int) -> None:
        """More rows, which lengthen the last span where they follow it."""
        if self.spans and self.spans[-1][1] == begin:
            self.spans[-1] = (self.spans[-1][0], end)
        else:
            self.spans.append((begin, end))

    @property
    def columns(self) -> Columns:
        """They alone."""
        if len(self.spans) == 1:
            return part(self.found, slice(*self.spans[0]))
        return part(self.found, np.concatenate([np.arange(*span) for span in self.spans]))


class Blocks:
    """Finds rows of known patterns in a text that comes in pieces.

    ``starts`` and ``ends`` are those of the lines of the piece; ``owners`` numbers the pattern of each line
    that is a row of one, and is negative for all others. ``run_ends`` is for each line the end of the lines
    of the same owner.
    """

    def __init__(self) -> None:
        self._patterns: list[Pattern] = []
        self._found: list[Columns] = []  # by each pattern, in this piece
        self._used: set[int] = set()
        self._bytes: Bytes = np.empty(0, np.uint8)
        self._starts: IntArray = np.empty(0, np.int64)
        self._widths: IntArray = np.empty(0, np.int64)
        self._owners: IntArray = np.empty(0, np.int64)
        self._rows: IntArray = np.empty(0, np.int64)  # their numbers among those of the same pattern
        self._first_line = 1
        self._pause = _LEAST_PAUSE
        self._next_line = 0
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.owners: list[int] = []
        self._numbers: list[int] = []
        self.run_ends: list[int] = []

    def begin(self, data: bytes, first_line: int) -> None:
        """Go on to the next piece of the text, whose lines count from ``first_line``."""
        self._first_line = first_line
        self._bytes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(self._bytes == _NEWLINE) + 1
        self._starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends
        self._widths = ends - self._starts
        self.starts, self.ends = self._starts.tolist(), ends.tolist()
        self._owners = np.full(len(ends), _NOBODY)
        self._rows = np.zeros(len(ends), np.int64)
        self._patterns.sort(key=lambda pattern: id(pattern) not in self._used)
        self._used = set()
        del self._patterns[MOST_PATTERNS:]
        self._found = []
        for pattern in self._patterns:
            self._found.append(self._find(pattern, 0))
        self._list()

    def take(self, line: int) -> tuple[Pattern, Columns, int, int]:
        """The pattern of a line that has an owner, what it found, and which of these rows the line and those
        below it are.
        """
        owner = self.owners[line]
        pattern, begin = self._patterns[owner], self._numbers[line]
        self._used.add(id(pattern))
        return pattern, self._found[owner], begin, begin + self.run_ends[line] - line

    def learn(self, pattern: Pattern, line: int) -> None:
        """Keep the pattern of a row, where many of the rows from this line on fit it."""
        number = self._first_line + line
        if number < self._next_line or len(self._starts) - line < LEAST_ROWS:
            return
        before = self._owners.copy()
        self._patterns.append(pattern)
        found = self._find(pattern, line)
        if len(found) < LEAST_ROWS:
            self._patterns.pop()
            self._owners = before
            self._next_line, self._pause = number + self._pause, min(2 * self._pause, _LONGEST_PAUSE)
            return
        self._pause = _LEAST_PAUSE
        self._found.append(found)
        self._list()

    def _find(self, pattern: Pattern, begin: int) -> Columns:
        """The rows of a pattern from a line on; they get their numbers."""
        width = len(pattern.row)
        lines = np.flatnonzero((self._widths == width) & (self._owners == _NOBODY))
        lines = lines[np.searchsorted(lines, begin) :]
        digit = self._bytes[self._starts[lines] + pattern.digit] - _ZERO
        lines = lines[digit <= 9]  # few other lines have one where a row has the end of its first number
        found = None
        if len(lines):
            windows = np.lib.stride_tricks.sliding_window_view(self._bytes, width)
            found = _matching(pattern, np.ascontiguousarray(windows[self._starts[lines]].T))
        if found is None:
            return convert(pattern.layout, (), (), ())
        columns, good = found
        lines = lines[good]
        columns.lines[:] = lines + self._first_line
        self._owners[lines] = next(place for place, known in enumerate(self._patterns) if known is pattern)
        self._rows[lines] = np.arange(len(lines))
        return columns

    def _list(self) -> None:
        """An array gives its elements one by one much more slowly than a list."""
        self.owners, self._numbers = self._owners.tolist(), self._rows.tolist()
        breaks = np.flatnonzero(np.diff(self._owners)) + 1
        ends = np.append(breaks, len(self._owners))
        self.run_ends = np.repeat(ends, np.diff(ends, prepend=0)).tolist()


def _matching(pattern: Pattern, raw: Bytes) -> tuple[Columns, BoolArray] | None:
    """The rows that fit a pattern, of letters by place and row, and which these are; None where none does."""
    row, layout = pattern.row, pattern.layout
    cells = [match.span() for match in _WORD.finditer(row, pattern.prefix)]
    texts = filled(
        layout,
        [row[begin:end].decode() for begin, end in cells],
        row[pattern.prefix :].decode(),
        len(layout.columns),
    )
    try:
        constant = convert(layout, [texts], [0], [0])
    except (ValueError, OverflowError):
        return None
    model = np.frombuffer(row, np.uint8)[:, None]
    last, count = cells[-1][1], raw.shape[1]
    good = like_prefix(raw[: pattern.prefix], model[: pattern.prefix], pattern.names)
    good &= (raw[last:] == model[last:]).all(axis=0)
    found = Columns(np.empty(count, np.int64), np.full(count, last - pattern.prefix, np.int64))
    seen = letters(raw)
    for number, begin, end in _fields(pattern, cells, len(texts)):
        column = layout.columns[number]
        if begin > pattern.prefix:
            good &= raw[begin] <= SPACE  # else it is the end of the word before
        if begin == end:
            found.words[column.name] = constant.words[column.name] * count
        elif column.kind is Kind.WORD:
            known, which, valid = words(raw[begin:end], model[begin:end])
            good &= valid
            listed = known * count if which is None else np.array(known, object)[which].tolist()
            found.words[column.name] = listed
        elif column.kind is Kind.ANY:
            good &= like_words(raw[begin:end], model[begin:end])
        else:
            if layout.left and number == 0:
                good &= (raw[pattern.prefix : begin] == SPACE).all(axis=0)
            same = None
            if not is_plain(texts[number].encode()):  # N/A, nan, -1
                same = (raw[begin:end] == model[begin:end]).all(axis=0)
            good &= _take_numbers(found, constant, layout, number, seen[begin:end], same)
    return (keep(found, good), good) if good.any() else None


def _take_numbers(
    found: Columns,
    constant: Columns,
    layout: Layout,
    number: int,
    field: Letters,
    same: BoolArray | None,
) -> BoolArray:
    """A column of numbers, and the rows that have one. Rows that are the ``same`` as the model have its."""
    column = layout.columns[number]
    left, whole = bool(layout.left) and number == 0, column.kind is Kind.INTEGER
    value, valid = numbers(field, left=left, whole=whole)
    if isinstance(value, Printed):
        key = (column.name, column.placement)
        if same is not None:
            one = constant.measures[key]
            value = Printed(np.where(same, one.value, value.value), np.where(same, one.half, value.half))
        found.measures[key] = value
    else:
        only = constant.whole[column.name]
        found.whole[column.name] = value if same is None else np.where(same, only, value)
    return valid if same is None else valid | same


def _fields(pattern: Pattern, cells: list[tuple[int, int]], columns: int) -> Iterator[tuple[int, int, int]]:
    """Number, begin and end of the field of every column: it begins where the one before ends. That of the
    column that is left empty ends where it begins.
    """
    layout, begin = pattern.layout, pattern.prefix
    empty = layout.blank[0] if layout.blank is not None and len(cells) < columns else -1
    rest = iter(cells)
    for number in range(columns):
        if number == empty:
            yield number, begin, begin
            continue
        start, end = next(rest)
        if layout.left and number == 0:
            begin, end = start, max(end, start + layout.left)
        yield number, begin, end
        begin = end
