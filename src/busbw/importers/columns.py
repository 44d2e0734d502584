"""Rows of words to columns of numbers, many rows at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from busbw.importers.printed import Printed, integers, is_integer, is_number, printed

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# What stands for a count of wrong elements where nothing was checked.
NOT_CHECKED: Final = "N/A"
NO_REDUCTION: Final = "none"
# What rccl-tests put behind a deviation beyond its limit, as long as it printed deviations.
TOO_LARGE: Final = "*"
# What stands for an algorithm that is not known, in tables of busbw.
NO_ALGORITHM: Final = "-"
_WORD: Final = re.compile(rf"[A-Za-z]\w*|{NO_ALGORITHM}", re.ASCII)


class Kind(Enum):
    """What the words of a column may be."""

    INTEGER = "whole number"
    WORD = "word"
    MEASURE = "number"
    WRONG = "number or N/A"
    DEVIATION = "number, with * where it is too large, or N/A"
    ANY = "anything"


@dataclass(frozen=True)
class Column:
    """One word of a row. ``placement`` counts the repetitions of a column: 0 out-of-place, 1 in-place."""

    name: str
    kind: Kind
    placement: int = 0


@dataclass(frozen=True)
class Layout:
    """What the heading of a table says: the tool, the columns, the unit of its times ("" where it says none).

    ``breaks`` are pairs (columns, offset): where the tool prints a row in pieces, between which other output
    of the job can get, the number of columns so far and the offset in the line where the piece ends.
    ``width`` is the length of the heading. ``blank`` is a column that some versions leave empty: its place
    among the columns, and where its field begins and ends in the line. ``left`` is the width of a first
    column that stands at the left of its field; all others stand at the right.
    """

    tool: str
    columns: tuple[Column, ...]
    time_unit: str = "us"
    breaks: tuple[tuple[int, int], ...] = ()
    width: int = 0
    blank: tuple[int, int, int] | None = None
    left: int = 0

    @cached_property
    def names(self) -> frozenset[str]:
        """Of the columns."""
        return frozenset(column.name for column in self.columns)


@dataclass(eq=False)
class Columns:
    """The rows of a table, by column; ``lines`` count from 1, ``widths`` are lengths of the lines."""

    lines: IntArray
    widths: IntArray
    whole: dict[str, IntArray] = field(default_factory=dict)
    words: dict[str, list[str]] = field(default_factory=dict)
    measures: dict[tuple[str, int], Printed] = field(default_factory=dict)
    bodies: dict[Hashable, Any] = field(default_factory=dict)  # what they mean, where that was asked for

    def __len__(self) -> int:
        return len(self.lines)


_IS: Final[dict[Kind, Callable[[str], bool]]] = {
    Kind.INTEGER: is_integer,
    Kind.WORD: lambda token: _WORD.fullmatch(token) is not None and not is_number(token),
    Kind.MEASURE: is_number,
    Kind.WRONG: lambda token: token == NOT_CHECKED or is_number(token),
    Kind.DEVIATION: lambda token: token == NOT_CHECKED or is_number(token.removesuffix(TOO_LARGE)),
    Kind.ANY: lambda token: True,
}


def fits(kind: Kind, token: str) -> bool:
    """Whether the token is one of this kind."""
    return _IS[kind](token)


def fault(columns: Sequence[Column], tokens: Sequence[str]) -> str:
    """Why the tokens are not these columns; empty where they are."""
    if len(tokens) != len(columns):
        return f"{len(tokens)} of {len(columns)} fields"
    for column, token in zip(columns, tokens, strict=True):
        if not token.isascii() or not _IS[column.kind](token):
            return f"{column.name} is {token[:24]!r}, not a {column.kind.value}"
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


def convert(
    layout: Layout, rows: Sequence[Sequence[str]], lines: Sequence[int], widths: Sequence[int]
) -> Columns:
    """Columns of rows that all have the layout's number of words. Raises ValueError where one has a fault."""
    found = Columns(np.array(lines, np.int64), np.array(widths, np.int64))
    by_column = zip(*rows, strict=True) if rows else ((),) * len(layout.columns)
    for column, tokens in zip(layout.columns, by_column, strict=True):
        if column.kind is Kind.INTEGER:
            found.whole[column.name] = integers(tokens)
        elif column.kind is Kind.WORD:
            if not all(map(_IS[Kind.WORD], set(tokens))):
                raise ValueError(f"{column.name} has numbers")
            found.words[column.name] = list(tokens)
        elif column.kind is Kind.MEASURE:
            found.measures[column.name, column.placement] = printed(tokens)
        elif column.kind in (Kind.WRONG, Kind.DEVIATION):
            found.measures[column.name, column.placement] = printed(list(map(_plain, tokens)))
    return found


def _plain(token: str) -> str:
    """NaN for what was not checked, infinite for a deviation that is too large."""
    if token == NOT_CHECKED:
        return "nan"
    return "inf" if token.endswith(TOO_LARGE) else token


def join(parts: Sequence[Columns]) -> Columns:
    """All rows of the parts, which have the same columns."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return Columns(
        np.concatenate([part.lines for part in parts]),
        np.concatenate([part.widths for part in parts]),
        {name: np.concatenate([part.whole[name] for part in parts]) for name in first.whole},
        {name: [word for part in parts for word in part.words[name]] for name in first.words},
        {
            key: Printed(
                np.concatenate([part.measures[key].value for part in parts]),
                np.concatenate([part.measures[key].half for part in parts]),
            )
            for key in first.measures
        },
    )


def part(columns: Columns, rows: slice | IntArray) -> Columns:
    """Some rows; the arrays of a slice share the memory of the whole."""
    return Columns(
        columns.lines[rows],
        columns.widths[rows],
        {name: values[rows] for name, values in columns.whole.items()},
        {
            name: words[rows] if isinstance(rows, slice) else [words[row] for row in rows.tolist()]
            for name, words in columns.words.items()
        },
        {key: values.rows(rows) for key, values in columns.measures.items()},
    )


def keep(columns: Columns, mask: BoolArray) -> Columns:
    """The rows of a mask."""
    return columns if mask.all() else part(columns, np.flatnonzero(mask))
