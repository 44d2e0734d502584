"""Rows that no printf has written: in a table, every column has one form.

A column is as wide in all rows, but where a word fills it and more; and numbers have as many decimals, or
fewer where they are larger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from busbw.foreign.logs.row_words import Kind, Layout, Row

# A column with a word as wide as itself or wider still has these blanks before it (nccl-tests).
_LEAST_BLANKS: Final = 2
# Of three rows two must agree on how wide a column is, and on all columns: else a page or an editor has
# changed the blanks.
_MOST: Final = 2 / 3


def misprinted(layout: Layout, rows: Sequence[Row]) -> dict[int, str]:
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


def misaligned(layout: Layout, rows: Sequence[Row]) -> dict[int, frozenset[str]]:
    """Lines in which columns are not as wide as in most rows, and the names of these columns; the heading
    counts as a row. A digit was lost there, or only a blank.
    """
    known = [row for row in rows if row.fields]
    if not known or len(layout.columns) < 2:
        return {}
    fields = np.array([row.fields for row in known])
    blanks = fields - [[len(word) for word in row.words] for row in known]
    heading = [layout.fields] if len(layout.fields) == len(layout.columns) else []
    votes = np.concatenate([fields, np.array(heading, np.int64).reshape(-1, fields.shape[1])])
    if "count" not in layout.names:  # by which a digit of the size that is lost is known from a lost blank
        fields[:, 1] += fields[:, 0]
        votes[:, 1] += votes[:, 0]
    odd = np.zeros(fields.shape, bool)
    for place in range(1, fields.shape[1]):
        values, counts = np.unique(votes[:, place], return_counts=True)
        if counts.max() >= _MOST * len(votes):
            usual, own = values[counts.argmax()], fields[:, place]
            odd[:, place] = (own < usual) | ((own > usual) & (blanks[:, place] > _LEAST_BLANKS))
    lines = odd.any(axis=1)
    if lines.sum() > max(1, (1 - _MOST) * len(known)):
        return {}
    return {
        known[row].line: frozenset(layout.columns[place].name for place in np.flatnonzero(odd[row]))
        for row in np.flatnonzero(lines)
    }


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
