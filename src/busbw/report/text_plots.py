"""Plots in letters: the same values as the pictures, in ASCII, to be read without colour. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final

import numpy as np

from busbw.report.plots import LOG, Plot, Row, names_of, value_ends, value_label
from busbw.units import format_size

# Cells by their colour, lines by their kind.
_CELLS: Final[Mapping[str, str]] = {
    "low2": "<", "low1": "-", "mid": ".", "high1": "+", "high2": "#", "none": "?", "failed": "X",
    "s1": ".", "s2": ":", "s3": "-", "s4": "+", "s5": "*", "s6": "#",
}  # fmt: skip
_LINES: Final = {"measured": ".", "limit": "=", "reference": "-"}
_POINTS: Final = "ox+#@%*^v$"
_SEVERAL: Final = "&"
_ROWS: Final = 14  # of a curve
_TICKS: Final = 4
_LABEL: Final = 9  # columns left of its axis
_MOST_NAME, _LEAST_NAME = 32, 6
_WIDEST: Final = 8  # columns of a cell without its number
_MOST_CURVE: Final = 110  # columns
_BAR: Final = 32
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


class _Grid:
    """Letters; what is put later lies above, what is beside the grid is left out."""

    def __init__(self, rows: int, columns: int) -> None:
        self.columns = columns
        self._cells = [[" "] * columns for _ in range(rows)]

    def put(self, row: int, column: int, text: str) -> None:
        for at, letter in enumerate(text, column):
            if 0 <= row < len(self._cells) and 0 <= at < self.columns:
                self._cells[row][at] = letter

    def put_fitting(self, names: Iterable[tuple[int, str]]) -> list[int]:
        """Put names into the first row, those that have room, and give their places; the first come first."""
        kept: list[range] = []
        for place, name in names:
            own = range(place, place + len(name) + 1)
            if own.stop <= self.columns + 1 and all(
                own.stop <= each.start or each.stop <= place for each in kept
            ):
                self.put(0, place, name)
                kept.append(own)
        return [each.start for each in kept]

    def lines(self) -> list[str]:
        return ["".join(cells).rstrip() for cells in self._cells]


def drawing(plot: Plot, columns: int) -> list[str]:
    """The drawing, in so many columns, and the meaning of its letters; empty for a kind that has none."""
    return list(DRAWINGS[plot.kind](plot, columns)) if plot.kind in DRAWINGS else []


def _legend(entries: Iterable[tuple[str, str]], columns: int) -> Iterator[str]:
    """Letter and meaning of each, as many a line as fit."""
    line = ""
    for letter, word in entries:
        added = f"{letter} {word}"
        if line and len(line) + 3 + len(added) > columns:
            yield line
            line = ""
        line += f"   {added}" if line else added
    yield line


def _curve(plot: Plot, columns: int) -> Iterator[str]:
    """Points with their intervals, the lines between them, two axes; sizes at equal distances."""
    log = plot.scales[0] == LOG
    warp = math.log10 if log else float
    rows = [row for row in plot.rows if row["x"] > 0 and (row["y"] > 0 or not log)]
    if not rows:
        return
    ends = value_ends(rows, is_log=log)
    grid = _Grid(_ROWS, max(20, min(columns, _MOST_CURVE) - _LABEL - 2))
    across = scale([math.log2(row["x"]) for row in rows], grid.columns - 1)
    up = scale([warp(end) for end in ends], _ROWS - 1)

    def place(row: Row, key: str = "y") -> tuple[int, int]:
        return _ROWS - 1 - up(warp(row[key])), across(math.log2(row["x"]))

    kinds = {row["series"]: row["kind"] for row in rows}
    letters = {
        name: _POINTS[at % len(_POINTS)] if kind == "measured" else _LINES[kind]
        for at, (name, kind) in enumerate(kinds.items())
    }
    points: dict[tuple[int, int], set[str]] = defaultdict(set)
    for name, kind in sorted(kinds.items(), key=lambda item: item[1] == "measured"):  # limits lie below
        own = sorted((row for row in rows if row["series"] == name), key=lambda row: row["x"])
        heights, places = zip(*map(place, own), strict=True)
        for column in range(places[0], places[-1] + 1):
            grid.put(round(np.interp(column, places, heights)), column, _LINES[kind])
        for row in own if kind == "measured" else ():
            if row["low"] is not None and row["high"] is not None:
                for line in range(place(row, "high")[0], place(row, "low")[0] + 1):
                    grid.put(line, place(row)[1], "|")
            points[place(row)].add(letters[name])
    several = any(len(found) > 1 for found in points.values())
    for at, found in points.items():
        grid.put(*at, _SEVERAL if len(found) > 1 else found.pop())
    yield from _framed(grid, plot, rows, ends)
    words = [(letter, name) for name, letter in letters.items()]
    yield from _legend([*words, *([(_SEVERAL, "several")] if several else [])], columns)


def _framed(grid: _Grid, plot: Plot, rows: Sequence[Row], ends: tuple[float, float]) -> Iterator[str]:
    """The grid between its axes: values at the ticks, and under their places as many as fit."""
    (low, high), (x, y) = ends, (plot.words["x"], str(plot.words["y"]))
    ticks = {round(at * (_ROWS - 1) / _TICKS) for at in range(_TICKS + 1)}
    yield y
    for at, line in enumerate(grid.lines()):
        share = 1 - at / (_ROWS - 1)
        value = low * (high / low) ** share if plot.scales[0] == LOG else low + share * (high - low)
        yield f"{value_label(y, value) if at in ticks else '':>{_LABEL}} {'|+'[at in ticks]}{line}"
    yield f"{'':>{_LABEL}} +{'-' * grid.columns}"
    across = scale([math.log2(row["x"]) for row in rows], grid.columns - 1)
    names = {
        value: format_size(value) if x == "size" else f"{value:g}" for value in {row["x"] for row in rows}
    }
    axis = _Grid(1, _LABEL + 2 + grid.columns)
    axis.put_fitting([(0, f"{x:.{_LABEL}}")] + [
        (min(_LABEL + 2 + across(math.log2(value)) - len(name) // 2, axis.columns - len(name)), name)
        for value, name in sorted(names.items(), key=lambda item: (item[0] != max(names), item[0]))
    ])  # fmt: skip
    yield from axis.lines()


def _heat(plot: Plot, columns: int) -> Iterator[str]:
    """A number and a letter a cell; where numbers do not fit, letters, which go on below if they must."""
    across, down = names_of(plot)
    bins: Mapping[str, str] = plot.words["bins"]
    numbers = {(row["x"], row["y"]): f"{row['cell']} {_CELLS[bins[row['bin']]]}" for row in plot.rows}
    longest = max(map(len, down))
    each = max(map(len, numbers.values())) + 2
    width = longest
    if width + 1 + each * len(across) > columns:
        numbers = {place: text[-1] for place, text in numbers.items()}
        width = min(longest, max(_LEAST_NAME, min(_MOST_NAME, columns - 2 * len(across) - 1)))
        each = max(1, min(_WIDEST, (columns - width - 1) // len(across)))
    most = (columns - width - 1) // each
    for first in range(0, len(across), most):
        shown = across[first : first + most]
        heads = _Grid(2, columns)  # names as fit, each over a stroke that shows its column
        names = [(width + 1 + at * each, _fitted(name, _MOST_NAME)) for at, name in enumerate(shown)]
        for place in heads.put_fitting(names):
            heads.put(1, place, "|")
        yield from heads.lines()
        for name in down:
            cells = "".join(f"{numbers.get((column, name), ''):<{each}}" for column in shown)
            yield f"{_fitted(name, width):<{width}} {cells}".rstrip()
        yield ""
    yield from _legend(((_CELLS[colour], word) for word, colour in bins.items()), columns)


def _fitted(text: str, width: int) -> str:
    """At most so long: the middle is left out, since names differ at both ends."""
    kept = width - 2
    return text if len(text) <= width else f"{text[: kept - kept // 2]}..{text[len(text) - kept // 2 :]}"


def _histogram(plot: Plot, columns: int) -> Iterator[str]:
    """A bar for every bin, empty ones too; one with samples has a letter at least."""
    width, most = max(len(row["text"]) for row in plot.rows), max(row["count"] for row in plot.rows)
    longest = max(1, min(_BAR, columns - width - 2))
    for row in plot.rows:
        bar = "*" * math.ceil(longest * row["count"] / most)
        yield f"{row['text']:>{width}}  {bar}".rstrip()


def _history(plot: Plot, columns: int) -> Iterator[str]:
    """The course of a series of launches, with the ends of its scale."""
    values = [row["y"] for row in plot.rows]
    yield sparkline(values, columns, unicode=False)
    of = str(plot.words["y"])
    yield f"{of}: {value_label(of, min(values))} to {value_label(of, max(values))}"


# A kind of plot in letters: a row each, as plots.CHARTS has one for pictures. Tables say all of the others.
DRAWINGS: Final[Mapping[str, Callable[[Plot, int], Iterator[str]]]] = {
    "curve": _curve, "heat": _heat, "histogram": _histogram, "history": _history,
}  # fmt: skip
