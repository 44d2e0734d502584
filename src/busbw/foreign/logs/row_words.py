"""Words of a row and what they mean: the columns that a heading announces, printed numbers with what their
digits leave open.
"""

from __future__ import annotations

import math
import re
from collections import Counter
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

_FIELD: Final = re.compile(r"(?:#+ )? *[^ ]+")


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
    """A row by its words. ``fields`` are their lengths with the blanks before them; empty where these were
    lost.
    """

    line: int
    words: list[str]
    fields: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """The length of its line; 0 where it is not known."""
        return sum(self.fields)


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
    ``fields`` are those of the heading (see ``fields_of``). ``blank`` is a column that some versions leave
    empty: its place among the columns, and where its field begins and ends in the line.
    """

    columns: tuple[Column, ...]
    breaks: tuple[tuple[int, int], ...] = ()
    fields: tuple[int, ...] = ()
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


def fields_of(line: str) -> tuple[int, ...]:
    """The length of each word with the blanks before it; the sign of a comment is not a word."""
    return tuple(map(len, _FIELD.findall(line)))


def aligned(layout: Layout, line: str) -> tuple[int, ...]:
    """The fields of a row; none where its columns are not aligned."""
    found = fields_of(line.rstrip()) if "  " in line.strip() else ()
    if layout.blank is not None and len(found) == len(layout.columns) - 1:
        at = layout.blank[0]
        found = (*found[:at], 0, *found[at:])
    return found if len(found) == len(layout.columns) else ()


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


# ---- rows that no printf has written: in a table, every column has one form --------------------------------
# A column is as wide in all rows, but where a word fills it and more; and numbers have as many decimals, or
# fewer where they are larger.

# A column with a word as wide as itself or wider still has these blanks before it (nccl-tests).
_LEAST_BLANKS: Final = 2
# Of three rows two must agree on how wide a column is, and on all columns: else a page or an editor has
# changed the blanks.
_MOST: Final = 2 / 3


def misprinted(layout: Layout, rows: Sequence[PrintedRow]) -> dict[int, str]:
    """Lines with a number that has not the decimals of its column, and why; nothing of rows that were never a
    text.
    """
    found: dict[int, str] = {}
    if not layout.fields and not any(row.fields for row in rows):
        return found
    for place, column in enumerate(layout.columns):
        if column.kind is Kind.MEASURE:
            odd = _odd_forms([row.words[place] for row in rows])
            why = f"{column.name} has other decimals than in the other rows"
            found |= {row.line: why for row in rows if _form(row.words[place]) in odd}
    return found


def misaligned(layout: Layout, rows: Sequence[PrintedRow]) -> dict[int, set[str]]:
    """Lines in which columns are not as wide as in most rows, and the names of these columns; the heading
    counts as a row. A digit was lost there, or only a blank.
    """
    columns = layout.columns
    known = [(row, _widths(layout, row.fields)) for row in rows if row.fields]
    votes = [widths for _, widths in known]
    if len(layout.fields) == len(columns):
        votes.append(_widths(layout, layout.fields))
    odd: dict[int, set[str]] = {}
    for place in range(1, len(columns) if known else 0):
        ((usual, count),) = Counter(widths[place] for widths in votes).most_common(1)
        for row, widths in known if count >= _MOST * len(votes) else ():
            blanks = row.fields[place] - len(row.words[place])
            if widths[place] < usual or (widths[place] > usual and blanks > _LEAST_BLANKS):
                odd.setdefault(row.line, set()).add(columns[place].name)
    return odd if len(odd) <= max(1, (1 - _MOST) * len(known)) else {}


def _widths(layout: Layout, fields: Sequence[int]) -> Sequence[int]:
    """The widths that are compared. A column of counts tells a lost digit of the size from a lost blank;
    without one, the column behind the size has to end in its place.
    """
    return fields if "count" in layout.names else (fields[0], sum(fields[:2]), *fields[2:])


_Form = tuple[int, int]  # digits before and behind the point


def _form(word: str) -> _Form | None:
    """None of what is no plain number, and of what was rounded up to a power of ten: 99.996 is 100.00."""
    whole, _, part = word.partition(".")
    is_plain = (whole + part).isdigit() and word.strip("0.") != "1"
    return (len(whole), len(part)) if is_plain else None


def _odd_forms(words: Sequence[str]) -> set[_Form]:
    """Forms without which more numbers agree. Numbers agree that have one form where they are as long before
    the point, and no more decimals than shorter ones.
    """
    counts = Counter(form for word in words if (form := _form(word)) is not None)

    def most(own: _Form, sign: int) -> int:
        """How many numbers agree at most, of this form and longer ones (shorter for -1)."""
        further = (
            form for form in counts if sign * form[0] > sign * own[0] and sign * form[1] <= sign * own[1]
        )
        return counts[own] + max((most(form, sign) for form in further), default=0)

    agree = {form: most(form, 1) + most(form, -1) - count for form, count in counts.items()}
    return {form for form in agree if agree[form] < max(agree.values())}
