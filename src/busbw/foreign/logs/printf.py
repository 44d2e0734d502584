"""Rows that no printf has written: in a table, every column has one form.

A column is as wide in all rows, but where a word fills it and more; and numbers have as many decimals, or
fewer where they are larger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from busbw.foreign.logs.row_words import Kind, Layout, PrintedRow

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
