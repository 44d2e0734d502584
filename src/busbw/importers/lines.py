"""What a line that is no row means, found once for all lines of the same shape.

The shape of a line is the line with a 0 for each of its digits. Where a launcher's prefix ends and which of
our patterns fit depends on the shape alone, and a log of many tables repeats the shapes of its headers, with
other process ids and averages: these are taken from each line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Final

from busbw.importers.devices import names_rank
from busbw.importers.evidence import Evidence
from busbw.importers.facts import Fact, fact_form
from busbw.importers.headings import heading, may_be_heading, time_unit
from busbw.importers.job import may_be_command
from busbw.importers.prefixes import prefix_of
from busbw.importers.printed import is_number

# No tool prints longer lines; what does is not searched for words, which takes the square of its length.
LONGEST_LINE: Final = 4000
_SHAPE: Final = bytes.maketrans(b"123456789", b"0" * 9)
# A log without repetition fills the memory; what is repeated is found again at once.
_MOST_SHAPES: Final = 10_000
_ADDRESS: Final = re.compile(rb"0x[0-9a-f]+")
_MOST_STRETCHES: Final = 1_000


class Kind(Enum):
    """What a line is, where it is no row."""

    EMPTY = auto()
    HEADING = auto()
    UNIT = auto()  # of the times, below a heading
    DEVICE = auto()
    FACT = auto()
    COMMAND = auto()  # maybe one that started a test
    NCCL = auto()
    COMMENT = auto()
    TEXT = auto()
    ODD = auto()  # to be read by itself


@dataclass(frozen=True)
class Meaning:
    """Of all lines of a shape. ``prefix`` is the length of the launcher's prefix, ``names`` where the parts
    of it stand that name a stream. ``begins_row``: the first word is a number, as in rows and pieces of rows.
    ``has_digits``: in a table such a comment can be a row that somebody has commented out. ``is_rowlike``: it
    has some numbers, as a row that lost its prefix.
    """

    kind: Kind
    prefix: int = 0
    names: tuple[tuple[int, int], ...] = ()
    begins_row: bool = False
    has_digits: bool = False
    is_rowlike: bool = False
    is_comment: bool = False
    fact: Fact | None = None
    evidence: tuple[int, ...] = ()

    # Kept: Python looks up members of enumerations slowly, and a table has a dozen such lines.
    @cached_property
    def is_plain(self) -> bool:
        """Whether such a line means the same between the rows of a table, where a piece of a row or a row
        that somebody has commented out can stand too.
        """
        if self.kind is Kind.COMMENT:
            return not self.has_digits
        return self.kind not in (Kind.COMMAND, Kind.TEXT, Kind.ODD) and not self.begins_row

    @cached_property
    def says_nothing(self) -> bool:
        """Whether such a line changes nothing, wherever it stands."""
        return self.kind is Kind.EMPTY or (self.kind is Kind.COMMENT and not self.has_digits)


@dataclass(frozen=True)
class Step:
    """A line of a stretch that says something, or lines of the device list: where their text stands in it,
    and the number of the last of them (from 0).
    """

    meaning: Meaning
    begin: int
    end: int
    line: int


@dataclass(frozen=True)
class Stretch:
    """Lines between two rows, all with a prefix of the same length; ``named``: it names a stream."""

    steps: tuple[Step, ...]
    lines: int
    prefix: int
    named: bool


_ODD: Final = Meaning(Kind.ODD)


class Lines:
    """Meanings by shape. ``tool``: only the headings of this one are looked for."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._known: dict[bytes, Meaning] = {}
        self._stretches: dict[bytes, Stretch | None] = {}

    def meaning(self, raw: bytes) -> Meaning:
        """The meaning of a line, which is not longer than lines of tools are."""
        shape = raw.translate(_SHAPE)
        if b"0x" in shape:  # addresses: NCCL prints one in most of its lines, and each is another
            shape = _ADDRESS.sub(b"0x0", shape)
        found = self._known.get(shape)
        if found is None:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            found = self._known[shape] = _meaning(raw, self._tool)
        return found

    def stretch(self, raw: bytes) -> Stretch | None:
        """What some lines mean together; None where each has to be read by itself."""
        shape = raw.translate(_SHAPE)
        try:
            return self._stretches[shape]
        except KeyError:
            if len(self._stretches) >= _MOST_STRETCHES:
                self._stretches.clear()
            found = self._stretches[shape] = self._stretch(raw)
            return found

    def _stretch(self, raw: bytes) -> Stretch | None:
        lines = [line + b"\n" for line in raw.removesuffix(b"\n").split(b"\n")]
        if max(map(len, lines)) > LONGEST_LINE:
            return None
        meanings = list(map(self.meaning, lines))
        first = meanings[0]
        if any(known.kind is Kind.ODD or known.is_rowlike for known in meanings):
            return None
        if any((known.prefix, known.names) != (first.prefix, first.names) for known in meanings):
            return None
        if not _is_whole(first):
            return None
        steps: list[Step] = []
        begin = 0
        for number, (line, known) in enumerate(zip(lines, meanings, strict=True)):
            end = begin + len(line)
            last = steps[-1] if steps else None
            if (
                known.kind is Kind.DEVICE
                and last is not None
                and last.end == begin
                and last.meaning.kind is Kind.DEVICE
            ):
                steps[-1] = Step(known, last.begin, end, number)
            elif not known.says_nothing:
                steps.append(Step(known, begin, end, number))
            begin = end
        return Stretch(tuple(steps), len(lines), first.prefix, bool(first.names))


def _is_whole(meaning: Meaning) -> bool:
    """Whether the prefix is the same in all lines of a stream, or names none: not both a stamp and a name."""
    return not meaning.names or (len(meaning.names) == 1 and meaning.names[0][1] == meaning.prefix)


def _meaning(raw: bytes, tool: str) -> Meaning:
    # Escapes and progress displays are taken off, tabs are blanks; some other letters are blanks or digits.
    if not raw.isascii() or not (whole := raw.decode()).rstrip().isprintable():
        return _ODD
    end, names = prefix_of(whole)
    line = whole[end:]
    words = line.split()
    if not words:
        return Meaning(Kind.EMPTY, end, names)
    kind, fact, evidence = _kind(line, tool)
    return Meaning(
        kind,
        end,
        names,
        begins_row=words[0][0].isdigit() or is_number(words[0]),
        has_digits=any(letter.isdigit() for letter in line),
        is_rowlike=kind is Kind.TEXT and sum(map(is_number, words)) >= min(2, len(words) - 1),
        is_comment=words[0].startswith("#"),
        fact=fact,
        evidence=evidence,
    )


def _kind(line: str, tool: str) -> tuple[Kind, Fact | None, tuple[int, ...]]:
    """The questions are asked in the order in which they have to be."""
    if Evidence.is_one(line):
        return Kind.NCCL, None, Evidence.forms(line)
    if may_be_heading(line):  # names of columns have digits too
        return (Kind.HEADING if heading(line, tool) is not None else Kind.ODD), None, ()
    text = line.strip()
    if time_unit(text):
        return Kind.UNIT, None, ()
    if names_rank(text):
        return Kind.DEVICE, None, ()
    fact = fact_form(text)
    if fact is not None:
        return Kind.FACT, fact, ()
    if "busbw: " in text:  # of our own exports: the words and numbers in them are many
        return Kind.ODD, None, ()
    if may_be_command(text):
        return Kind.COMMAND, None, ()
    return (Kind.COMMENT if text.startswith("#") else Kind.TEXT), None, ()
