"""Words of a row and what they mean: the columns that a heading announces, printed numbers with what their
digits leave open.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

# What stands for a count of wrong elements where nothing was checked.
NOT_CHECKED: Final = "N/A"
NO_REDUCTION: Final = "none"
# What rccl-tests put behind a deviation beyond its limit, as long as it printed deviations.
TOO_LARGE: Final = "*"
# What stands for an algorithm that is not known, in tables that busbw's front door prints.
NO_ALGORITHM: Final = "-"
# What printf writes for %f, %g and %e of something measured, and the words for what is no number. float()
# takes much more.
_NUMBER: Final = r"(?:(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-][01]\d)?|-?(?:nan|inf))"
_IS_NUMBER: Final = re.compile(_NUMBER, re.ASCII)


class Number(NamedTuple):
    """A value and half a unit of its last printed digit: the number that was printed lies within +-half. NaN
    for what is not there or was not checked, infinite for a deviation that is too large.
    """

    value: float
    half: float

    @property
    def low(self) -> float:
        """Lower end, not below zero."""
        return max(self.value - self.half, 0.0)

    @property
    def high(self) -> float:
        """Upper end."""
        return self.value + self.half

    def scaled(self, unit: float) -> Number:
        """The number in another unit."""
        return Number(self.value * unit, self.half * unit)


NO_NUMBER: Final = Number(math.nan, 0.0)


def is_number(token: str) -> bool:
    """Whether the token is a number as printf writes them."""
    return _IS_NUMBER.fullmatch(token) is not None


@lru_cache(4096)  # many are 0 or 0.00
def printed(word: str) -> Number:
    """What a word of a column of numbers says."""
    plain = "nan" if word == NOT_CHECKED else "inf" if word.endswith(TOO_LARGE) else word
    if not plain[-1].isdigit():
        return Number(float(plain), 0.0)
    mantissa, _, exponent = plain.partition("e")
    _, _, decimals = mantissa.partition(".")
    return Number(float(plain), 0.5 * float(10.0 ** (int(exponent or 0) - len(decimals))))


class PrintedRow(NamedTuple):
    """A row by its words. ``width`` is the length of its line; 0 where it is not that of one line."""

    line: int
    words: list[str]
    width: int = 0


class Kind(Enum):
    """What the words of a column may be, and their form: behind each, a blank or the row's end follows."""

    INTEGER = "whole number", r"(?:0|-?[1-9]\d{0,17})"
    WORD = "word", rf"(?!-?(?:nan|inf)\b)(?:[A-Za-z]\w*|{NO_ALGORITHM})"
    MEASURE = "number", _NUMBER
    WRONG = "number or N/A", rf"(?:{NOT_CHECKED}|{_NUMBER})"
    DEVIATION = "number, with * where it is too large, or N/A", rf"(?:{NOT_CHECKED}|{_NUMBER}\*?)"
    ANY = "anything", r"[!-~]+"


@dataclass(frozen=True)
class Column:
    """One word of a row. ``placement`` counts the repetitions of a column: 0 out-of-place, 1 in-place."""

    name: str
    kind: Kind
    placement: int = 0


@dataclass(frozen=True)
class Layout:
    """What the heading of a table announces.

    ``breaks`` are pairs (columns, offset): where the tool prints a row in pieces, between which other output
    of the job can get, the number of columns so far and the offset in the line where the piece ends.
    ``blank`` is a column that some versions leave empty: its place among the columns, and where its field
    begins and ends in the line.
    """

    columns: tuple[Column, ...]
    breaks: tuple[tuple[int, int], ...] = ()
    blank: tuple[int, int, int] | None = None

    @cached_property
    def names(self) -> frozenset[str]:
        """Of the columns."""
        return frozenset(column.name for column in self.columns)

    @cached_property
    def row(self) -> re.Pattern[str]:
        """What a row is, by its words with a blank between them."""
        return re.compile(" ".join(column.kind.value[1] for column in self.columns), re.ASCII)

    def fits(self, words: Sequence[str]) -> bool:
        """Whether the words are a row."""
        return self.row.fullmatch(" ".join(words)) is not None


def fault(columns: Sequence[Column], tokens: Sequence[str]) -> str:
    """Why the tokens are not these columns; empty where they are."""
    if len(tokens) != len(columns):
        return f"{len(tokens)} of {len(columns)} fields"
    for column, token in zip(columns, tokens, strict=True):
        words, form = column.kind.value
        if re.fullmatch(form, token, re.ASCII) is None:
            return f"{column.name} is {token[:24]!r}, not a {words}"
    return ""


def filled(layout: Layout, words: list[str], line: str, count: int) -> list[str]:
    """The words of ``count`` columns, with ``none`` where the line leaves the blank column empty.

    Tests of nccl-tests that reduce nothing pass an empty name: alltoall 2.9 to 2.13.3, all_gather, broadcast,
    gather and scatter 2.13.0 to 2.13.3, hypercube from 2.13.0 on; in rccl-tests alltoallv too.
    """
    if layout.blank is None or len(words) != count - 1:
        return words
    at, begin, end = layout.blank
    return [*words[:at], NO_REDUCTION, *words[at:]] if not line[begin:end].strip() else words
