"""The course of values in one line of letters. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

_SPARKS: Final = (" .:-=+*#", "▁▂▃▄▅▆▇█")


def scale(values: Sequence[float], most: int) -> Callable[[float], int]:
    """From a value to a place between 0 and ``most``."""
    low, high = min(values), max(values)
    return lambda value: round(most * (value - low) / (high - low)) if high > low else round(most / 2)


def sparkline(values: Sequence[float], columns: int, *, unicode: bool) -> str:
    """The course of values in one line: a letter each, or for the median of several."""
    width = min(columns, len(values))
    parts = [values[len(values) * at // width : len(values) * (at + 1) // width] for at in range(width)]
    middles, letters = [median(part) for part in parts], _SPARKS[unicode]
    up = scale(middles, len(letters) - 1)
    return "".join(letters[up(middle)] for middle in middles)
