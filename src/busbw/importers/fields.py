"""The fields of many rows at once: bytes of one column of all rows, as numpy sees them, to numbers and words.

The letters of rows of one width are an array by place and row, so that a step over a place is one over
adjacent bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.importers.columns import BoolArray, IntArray, Kind, fits
from busbw.importers.printed import FloatArray, Printed

Bytes = npt.NDArray[np.uint8]

SPACE: Final = ord(" ")
_DELETE: Final = 127
_DOT: Final = ord(".")
_ZERO: Final = ord("0")
_EXPONENT: Final = ord("e")
_SIGNS: Final = (ord("+"), ord("-"))
_PLAIN: Final = re.compile(rb"\d+(?:\.\d+)?(?:e[+-]\d\d)?")
# So many digits are exact in a double; longer numbers are left to the other reader.
_MOST_DIGITS: Final = 15
# Powers of ten up to here are exact too, so the quotient or product of both is the nearest double.
_MOST_POWER: Final = 22
_POWERS: Final[FloatArray] = np.power(10.0, np.arange(_MOST_POWER + 1))


@dataclass(frozen=True, eq=False)
class Letters:
    """Letters of rows by place and row, and what they are."""

    letter: Bytes
    digit: Bytes  # above 9: no digit
    is_digit: BoolArray
    is_blank: BoolArray
    is_dot: BoolArray

    def __getitem__(self, places: slice) -> Letters:
        return Letters(
            self.letter[places],
            self.digit[places],
            self.is_digit[places],
            self.is_blank[places],
            self.is_dot[places],
        )

    def rows(self, mask: BoolArray) -> Letters:
        """The rows of a mask."""
        return letters(self.letter[:, mask])


def letters(raw: Bytes) -> Letters:
    """Letters by place and row."""
    digit = raw - _ZERO  # wraps around: other letters are above 9
    return Letters(raw, digit, digit <= 9, raw == SPACE, raw == _DOT)


def like_prefix(found: Bytes, model: Bytes, names: Sequence[tuple[int, int]]) -> BoolArray:
    """Rows with the launcher's prefix of the model: its letters, but for the digits of a time stamp. The
    parts that name a stream are equal.
    """
    equal = np.equal(found, model)
    stamp = (model >= _ZERO) & (model <= _ZERO + 9)
    for begin, end in names:
        stamp[begin:end] = False
    equal |= stamp & ((found - _ZERO) <= 9)
    good: BoolArray = np.logical_and.reduce(equal, axis=0)
    return good


def like_words(found: Bytes, model: Bytes) -> BoolArray:
    """Printable letters where the model has some, the same blanks where it has blanks."""
    blank = model <= SPACE
    same = np.where(blank, np.equal(found, model), (found > SPACE) & (found < _DELETE))
    good: BoolArray = np.logical_and.reduce(same, axis=0)
    return good


def words(found: Bytes, model: Bytes) -> tuple[list[str], IntArray | None, BoolArray]:
    """The words that stand at the right of a field: these, which one each row has (None: all the first), and
    the rows that have one.
    """
    same = (found == model).all(axis=0)
    if same.all():
        return [model.tobytes().decode().strip()], None, same
    good = (found >= SPACE).all(axis=0)
    width = len(found)
    texts, which = np.unique(np.ascontiguousarray(found.T).view(f"S{width}").ravel(), return_inverse=True)
    known = [text.lstrip(b" ").decode("latin-1") for text in texts.tolist()]
    is_word = np.array([word.isascii() and fits(Kind.WORD, word) for word in known], bool)
    good &= is_word[which]
    return known, which, good


def numbers(field: Letters, *, left: bool, whole: bool) -> tuple[IntArray | Printed, BoolArray]:
    """The numbers of a field and the rows that have one: whole numbers or measures.

    Digits with at most one point between two of them, and for measures an exponent; blanks stand before them,
    or behind where the field is a left one.
    """
    if left:
        value, valid = _left_digits(field)
        return value, valid
    value, decimals, valid = _digits(field)
    if whole:
        return value, valid & (decimals == 0)
    power = -decimals
    if len(field.letter) > 4 and (scientific := _has_exponent(field)).any():
        mantissa, places, usable = _digits(field.rows(scientific)[:-4])
        exponent = _exponent(field, scientific)
        power[scientific] = np.clip(exponent - places, -_MOST_POWER, _MOST_POWER)
        usable &= np.abs(exponent - places) <= _MOST_POWER
        value[scientific], valid[scientific] = mantissa, usable
    shift = _POWERS[np.abs(power)]
    found, half = value / shift, 0.5 / shift
    if (up := power > 0).any():
        found, half = np.where(up, value * shift, found), np.where(up, 0.5 * shift, half)
    return Printed(found, half), valid


def is_plain(word: bytes) -> bool:
    """Whether ``numbers`` reads such a word; others are compared with the model."""
    return _PLAIN.fullmatch(word) is not None


def _has_exponent(field: Letters) -> BoolArray:
    sign = (field.letter[-3] == _SIGNS[0]) | (field.letter[-3] == _SIGNS[1])
    found: BoolArray = (field.letter[-4] == _EXPONENT) & sign & field.is_digit[-2] & field.is_digit[-1]
    return found


def _exponent(field: Letters, rows: BoolArray) -> IntArray:
    size = field.digit[-2][rows].astype(np.int64) * 10 + field.digit[-1][rows]
    exponent: IntArray = np.where(field.letter[-3][rows] == _SIGNS[1], -size, size)
    return exponent


def _digits(field: Letters) -> tuple[IntArray, IntArray, BoolArray]:
    """Digits as a whole number, how many of them follow the point, and whether it is a number at all."""
    width, rows = field.letter.shape
    dots = field.is_dot.sum(axis=0, dtype=np.uint8)
    valid = (field.is_digit | field.is_blank | field.is_dot).all(axis=0)
    valid &= field.is_digit[-1] & ~field.is_dot[0] & (dots <= 1)
    valid &= ~(field.is_blank[1:] & ~field.is_blank[:-1]).any(axis=0)
    valid &= ~(field.is_dot[1:] & ~field.is_digit[:-1]).any(axis=0)
    valid &= field.is_digit.sum(axis=0, dtype=np.uint8) <= _MOST_DIGITS
    value = np.zeros(rows, np.int64)
    decimals = np.zeros(rows, np.int64)
    has_dot: list[bool] = np.any(field.is_dot, axis=1).tolist()
    for place in np.flatnonzero(~np.all(field.is_blank, axis=1)).tolist():
        digits = np.where(field.is_digit[place], field.digit[place], 0)
        if has_dot[place]:
            value = np.where(field.is_dot[place], value, value * 10 + digits)
            decimals[field.is_dot[place]] = width - 1 - place
        else:
            value *= 10
            value += digits
    return value, np.minimum(decimals, _MOST_DIGITS + 1), valid


def _left_digits(field: Letters) -> tuple[IntArray, BoolArray]:
    """Digits at the left of a field, as a whole number."""
    valid = (field.is_digit | field.is_blank).all(axis=0) & field.is_digit[0]
    valid &= ~(field.is_digit[1:] & field.is_blank[:-1]).any(axis=0)
    value = np.zeros(field.letter.shape[1], np.int64)
    for place in np.flatnonzero(np.any(field.is_digit, axis=1)).tolist():
        here = field.is_digit[place]
        value = np.where(here, value * 10 + field.digit[place], value)
    return value, valid
