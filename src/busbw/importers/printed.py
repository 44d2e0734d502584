"""Printed numbers with what their digits leave open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# What printf writes for %f, %g and %e, and the words for what is no number. float() takes much more.
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d\d+)?|-?(?:nan|inf)", re.ASCII)
_INTEGER: Final = re.compile(r"-?\d{1,18}", re.ASCII)


class Printed(NamedTuple):
    """Values and half a unit of their last printed digit: the number that was printed lies within +-half."""

    value: FloatArray
    half: FloatArray

    def rows(self, which: slice | npt.NDArray[Any]) -> Printed:
        """Some of the rows."""
        return Printed(self.value[which], self.half[which])

    @property
    def low(self) -> FloatArray:
        """Lower ends, not below zero."""
        return np.maximum(self.value - self.half, 0.0)

    @property
    def high(self) -> FloatArray:
        """Upper ends."""
        return self.value + self.half


class OnePrinted(NamedTuple):
    """A value and half a unit of its last printed digit."""

    value: float
    half: float


def is_number(token: str) -> bool:
    """Whether the token is a number as printf writes them."""
    return _NUMBER.fullmatch(token) is not None


def is_integer(token: str) -> bool:
    """Whether the token is a whole number that fits 64 bits."""
    return _INTEGER.fullmatch(token) is not None


def printed(tokens: Sequence[str]) -> Printed:
    """Values of many tokens. Raises ValueError where one is no number that printf writes."""
    joined = f" {' '.join(tokens)} "
    plain = joined.replace(" ", "").replace(".", "")
    if not plain.isdigit() or not plain.isascii() or " ." in joined or ". " in joined:
        return _printed_slowly(tokens)
    value = np.fromiter(map(float, tokens), np.float64, len(tokens))
    decimals = np.fromiter(
        (len(token) - token.find(".") - 1 if "." in token else 0 for token in tokens), np.float64, len(tokens)
    )
    return Printed(value, 0.5 * 10.0**-decimals)


def _printed_slowly(tokens: Sequence[str]) -> Printed:
    for token in tokens:
        if not is_number(token):
            raise ValueError(f"not a number: {token!r}")
    value = np.array([float(token) for token in tokens], np.float64)
    half = np.array([_half_unit(token) for token in tokens], np.float64)
    return Printed(value, half)


def _half_unit(token: str) -> float:
    mantissa, _, exponent = token.partition("e")
    decimals = len(mantissa) - mantissa.find(".") - 1 if "." in mantissa else 0
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals) if token[-1].isdigit() else 0.0


def one_printed(token: str) -> OnePrinted | None:
    """The value of one token; None where it is no number that printf writes."""
    return OnePrinted(float(token), _half_unit(token)) if is_number(token) else None


def integers(tokens: Sequence[str]) -> npt.NDArray[np.int64]:
    """Whole numbers of many tokens. Raises ValueError where one is none."""
    joined = "".join(tokens)
    if not joined.isdigit() or not joined.isascii() or max(map(len, tokens), default=0) > 18:
        for token in tokens:
            if not is_integer(token):
                raise ValueError(f"not a whole number: {token!r}")
    return np.fromiter(map(int, tokens), np.int64, len(tokens))
