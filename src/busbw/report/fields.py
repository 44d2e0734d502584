"""Tables as text: columns that line up; with a row a case, which of them a terminal has room for. Pure."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from busbw.units import format_size

UNBOUND: Final = 10_000  # columns of what is no terminal
REGIME: Final = 17  # columns of a range of sizes
_DETAILED: Final = 120  # columns from which on details are shown

Row = TypeVar("Row")


@dataclass(frozen=True)
class Field(Generic[Row]):
    """A column: its title and its ``unit`` above each other, and a row's cell; a ``detail`` is left out where
    a terminal is narrow. ``width`` is for rows that are written one by one.
    """

    title: str
    cell: Callable[[Row], str]
    width: int = 0
    detail: bool = False
    unit: str = ""


def table_lines(
    fields: Sequence[Field[Row]],
    rows: Sequence[Row],
    columns: int = UNBOUND,
    words: Callable[[Row], str] = lambda row: "",
    last: str = "",
) -> Iterator[str]:
    """A heading and a line a row, on a terminal of so many columns, each column as wide as its widest cell;
    ``words`` stand behind a row, below ``last``.
    """
    shown = [field for field in fields if columns >= _DETAILED or not field.detail]
    heads = [[field.title for field in shown], [field.unit for field in shown]]
    heads = heads if any(heads[1]) else heads[:1]
    lines = aligned([*heads, *([field.cell(row) for field in shown] for row in rows)], range(len(shown)))
    behind = [last, *[""] * (len(heads) - 1), *map(words, rows)]
    for at, (line, word) in enumerate(zip(lines, behind, strict=True)):
        yield f"{'#' if at < len(heads) else ' '} {line}  {word}".rstrip()


def shown(value: float | None, form: str) -> str:
    """A number in a form of ``format``, or that there is none."""
    return "n/a" if value is None else f"{value:{form}}"


def row_of(fields: Sequence[Field[Row]], row: Row) -> str:
    """The cells of one row, in their columns' widths."""
    return " ".join(f"{field.cell(row):>{field.width}}" for field in fields)


def folded(text: str, columns: int, first: str = "", rest: str = "") -> list[str]:
    """Prose as lines of so many columns, the ``first`` and the ``rest`` behind these. Words (paths, lists)
    stay whole, so that they can be copied.
    """
    return textwrap.wrap(
        text, columns, initial_indent=first, subsequent_indent=rest, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def remark(text: str, columns: int) -> list[str]:
    """Prose as lines that begin with # and fit so many columns."""
    return folded(text, columns, "# ", "#   ")


def fact(name: str, text: str) -> str:
    """What is to be known beside a table, behind its name."""
    return f"# {name:<8} {text}"


def facts(found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names and texts, a line each."""
    return (fact(name, text) for name, text in found)


def sizes(first_bytes: int, last_bytes: int, between: str = " to ") -> str:
    """A range of sizes, which may be one."""
    return between.join(dict.fromkeys(map(format_size, (first_bytes, last_bytes))))


def regime_line(first_bytes: int, last_bytes: int, words: str) -> str:
    """An answer behind the sizes that have it."""
    return f"  {sizes(first_bytes, last_bytes, ' - '):{REGIME}}  {words}"


def counts_of(counts: Iterable[tuple[str, int]], *, every_row: bool) -> tuple[str, str]:
    """How many cases have which answer, as a fact."""
    words = ", ".join(f"{count} {answer}" for answer, count in counts if count)
    return "cases", f"{words or 'none'}{'' if every_row else '; --all shows each'}"


def attributes(*paths: str) -> dict[str, Callable[[Any], Any]]:
    """Columns for programs that are attributes of a row, by the last word of their path."""
    return {path.rpartition(".")[2]: attrgetter(path) for path in paths}


def values_of(columns: Mapping[str, Callable[[Row], Any]], row: Row) -> dict[str, Any]:
    """A row for programs, by the names of the columns."""
    return {name: value(row) for name, value in columns.items()}


def csv_of(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A heading, and a line a row."""
    out = io.StringIO()
    writer = csv.DictWriter(out, tuple(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Lines with columns as wide as their widest cell, two blanks apart; those at ``right`` end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (
        [f"{cell:{'>' if at in right else '<'}{widths[at]}}" for at, cell in enumerate(row)] for row in rows
    )
    return ["  ".join(cells).rstrip() for cells in padded]
