"""Plots in a terminal: the same values as the pictures, in letters. Every plot reads without colour and in
ASCII. Pure.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import Any, Final

from busbw.report.plots import LOG, SERIES, Plot, names_of, value_label
from busbw.report.text import Form, Line, Span, fitted
from busbw.units import format_size

# A letter of ASCII, and the one of a terminal that has more: cells by their colour, lines by their kind.
_CELLS: Final[Mapping[str, str]] = {
    "low2": "<▼", "low1": "-▽", "mid": ".·", "high1": "+△", "high2": "#▲", "none": "??", "failed": "XX",
    "s1": ".·", "s2": "::", "s3": "-░", "s4": "+▒", "s5": "*▓", "s6": "#█", "": "  ",
}  # fmt: skip
_LINES: Final = {"measured": ".·", "limit": "=═", "reference": "--"}
_POINTS: Final = ("o●", "x○", "+▲", "#△", "@■", "%□", "*◆", "^◇", "v▼", "$▽")
_BAR, _SEVERAL = "*█", "&"
_SPARKS: Final = (" .:-=+*#", "▁▂▃▄▅▆▇█")
_ROWS: Final = 14  # of a curve
_TICKS: Final = 4
_LABEL: Final = 9  # columns left of its axis
_MOST_NAME, _LEAST_NAME = 32, 6
_WIDEST: Final = 8  # columns of a cell


class _Grid:
    """Letters with colours; what is put later lies above, what is beside the grid is left out."""

    def __init__(self, rows: int, columns: int) -> None:
        self.columns = columns
        self._cells: list[list[Span]] = [[(" ", "")] * columns for _ in range(rows)]

    def put(self, row: int, column: int, text: str, colour: str = "") -> None:
        for at, letter in enumerate(text, column):
            if 0 <= row < len(self._cells) and 0 <= at < self.columns:
                self._cells[row][at] = (letter, colour)

    def lines(self) -> list[Line]:
        """Row by row, neighbours of one colour together."""
        runs = (groupby(cells, key=lambda cell: cell[1]) for cells in self._cells)
        return [tuple(("".join(each for each, _ in own), colour) for colour, own in row) for row in runs]


def plot_lines(plot: Plot, form: Form) -> Iterator[Line]:
    """Title, what to know, the drawing, and the words of its letters."""
    yield ((plot.title, "bold"),)
    yield from (((text, "soft"),) for text in textwrap.wrap(plot.note, form.columns))
    yield ()
    yield from TEXTS[plot.kind](plot, form)


def _legend(entries: Iterable[tuple[str, str, str]], form: Form) -> Iterator[Line]:
    """Letter, colour and meaning of each, as many a line as fit."""
    line: list[Span] = []
    for letter, colour, word in entries:
        added = [(letter, colour), (f" {word}   ", "")]
        if line and sum(len(text) for text, _ in (*line, *added)) - 3 > form.columns:
            yield tuple(line)
            line = []
        line += added
    yield tuple(line)


def _scale(values: Sequence[float], most: int) -> Callable[[float], int]:
    """From a value to a place between 0 and ``most``."""
    low, high = min(values), max(values)
    return lambda value: round(most * (value - low) / (high - low)) if high > low else round(most / 2)


def _curve(plot: Plot, form: Form) -> Iterator[Line]:
    """Points with their intervals, the lines between them, two axes; sizes at equal distances."""
    log = plot.scales[0] == LOG
    warp = math.log10 if log else float
    rows = [row for row in plot.rows if row["x"] > 0 and (row["y"] > 0 or not log)]
    if not rows:
        return
    ends = [end for row in rows for end in (row["y"], row["low"], row["high"]) if end is not None]
    ends = [end for end in ends if end > 0] if log else [0.0, *ends]
    grid = _Grid(_ROWS, max(20, form.columns - _LABEL - 2))
    across = _scale([math.log2(row["x"]) for row in rows], grid.columns - 1)
    up = _scale([warp(end) for end in ends], _ROWS - 1)

    def place(row: Mapping[str, Any], key: str = "y") -> tuple[int, int]:
        return _ROWS - 1 - up(warp(row[key])), across(math.log2(row["x"]))

    kinds = {row["series"]: row["kind"] for row in rows}
    letters = _letters(kinds, form)
    taken: dict[tuple[int, int], str] = {}  # the letter that stands there
    for name in sorted(kinds, key=lambda name: kinds[name] == "measured"):  # limits lie below
        letter, colour, _ = letters[name]
        own = sorted((row for row in rows if row["series"] == name), key=lambda row: row["x"])
        _connect(grid, [place(row) for row in own], _LINES[kinds[name]][form.unicode], colour)
        for row in own if kinds[name] == "measured" else ():
            if row["low"] is not None and row["high"] is not None and (row["low"] > 0 or not log):
                for line in range(place(row, "high")[0], place(row, "low")[0] + 1):
                    grid.put(line, place(row)[1], "|│"[form.unicode], colour)
            taken[place(row)] = _SEVERAL if taken.get(place(row), letter) != letter else letter
    by_letter = {letter: colour for letter, colour, _ in letters.values()}
    for (line, column), letter in taken.items():
        grid.put(line, column, letter, by_letter.get(letter, ""))
    yield from _framed(grid, plot, rows, (min(ends), max(ends)), form)
    several = [(_SEVERAL, "", "several")] if _SEVERAL in taken.values() else []
    yield from _legend([*letters.values(), *several], form)


def _letters(kinds: Mapping[str, str], form: Form) -> dict[str, tuple[str, str, str]]:
    """Letter, colour and name of each series, by its name."""
    found = {}
    for at, (name, kind) in enumerate(kinds.items()):
        pair = _POINTS[at % len(_POINTS)] if kind == "measured" else _LINES[kind]
        found[name] = pair[form.unicode], SERIES[at % len(SERIES)] if kind == "measured" else kind, name
    return found


def _connect(grid: _Grid, places: Sequence[tuple[int, int]], letter: str, colour: str) -> None:
    for (row, column), (next_row, next_column) in pairwise(places if len(places) > 1 else (*places, *places)):
        steps = max(1, abs(next_row - row), abs(next_column - column))
        for step in range(steps + 1):
            share = step / steps
            at = round(row + share * (next_row - row)), round(column + share * (next_column - column))
            grid.put(*at, letter, colour)


def _framed(
    grid: _Grid, plot: Plot, rows: Sequence[Mapping[str, Any]], ends: tuple[float, float], form: Form
) -> Iterator[Line]:
    """The grid between its axes: values at the ticks, and under their places as many as fit."""
    (low, high), (x, y) = ends, (plot.words["x"], plot.words["y"])
    ticks = {round(at * (_ROWS - 1) / _TICKS) for at in range(_TICKS + 1)}
    yield ((str(y), "soft"),)
    for at, line in enumerate(grid.lines()):
        share = 1 - at / (_ROWS - 1)
        value = low * (high / low) ** share if plot.scales[0] == LOG else low + share * (high - low)
        text = value_label(str(y), value) if at in ticks else ""
        yield ((f"{text:>{_LABEL}} {('+┤' if at in ticks else '|│')[form.unicode]}", "soft"), *line)
    yield ((f"{'':>{_LABEL}} {'+└'[form.unicode]}{'-─'[form.unicode] * grid.columns}", "soft"),)
    values = sorted({row["x"] for row in rows})
    across = _scale([math.log2(value) for value in values], grid.columns - 1)
    words = [(across(math.log2(v)), format_size(v) if x == "size" else f"{v:g}") for v in values]
    axis, end = f"{x:<{_LABEL + 2}.{_LABEL}}", _LABEL + 2 + grid.columns
    for at, (place, text) in enumerate(words):
        start = min(_LABEL + 2 + place - len(text) // 2, end - len(text))
        room = end if at == len(words) - 1 else end - len(words[-1][1]) - 1
        if start >= len(axis.rstrip()) + 2 and start + len(text) <= room:
            axis = f"{axis.rstrip():<{start}}{text}"
    yield ((axis, "soft"),)


def _name_width(names: Sequence[str], columns: int) -> int:
    """Columns of the names of rows, of which so many are left for them."""
    return min(max(map(len, names)), max(_LEAST_NAME, min(_MOST_NAME, columns)))


def _heat(plot: Plot, form: Form) -> Iterator[Line]:
    """A letter a cell; columns that do not fit go on below."""
    across, down = names_of(plot)
    bins: Mapping[str, str] = plot.words["bins"]
    cells = {(row["x"], row["y"]): bins[row["bin"]] for row in plot.rows}
    width = _name_width([str(name) for name in down], form.columns - 2 * len(across) - 1)
    room = form.columns - width - 1
    each = max(1, min(_WIDEST, room // len(across)))
    for first in range(0, len(across), room // each):
        shown = across[first : first + room // each]
        heads, free = _Grid(2, form.columns), 0
        for at, name in enumerate(shown):  # names as fit, each over a stroke that shows its column
            text, place = fitted(str(name), _MOST_NAME), width + 1 + at * each
            if free <= place <= form.columns - len(text):
                heads.put(0, place, text, "soft")
                heads.put(1, place, "|", "soft")
                free = place + len(text) + 1
        yield from heads.lines()
        for name in down:
            colours = [cells.get((column, name), "") for column in shown]
            letters = [(f"{_CELLS[colour][form.unicode]:<{each}}", colour) for colour in colours]
            yield ((f"{fitted(str(name), width):<{width}} ", ""), *letters)
        yield ()
    yield from _legend(((_CELLS[colour][form.unicode], colour, word) for word, colour in bins.items()), form)


def _bars(plot: Plot, form: Form) -> Iterator[Line]:
    """A bar a row, with its number; the line rate as a stroke."""
    numbers = [f"{row['cell']}, {row['state']}" for row in plot.rows]
    beside = max(map(len, numbers)) + 2
    width = _name_width([str(row["y"]) for row in plot.rows], form.columns - beside - 20)
    room = max(8, form.columns - width - beside - 2)
    most = max(max(row["x"], row["rate"] or 0.0) for row in plot.rows) or 1.0
    for row, number in zip(plot.rows, numbers, strict=True):
        bar = _Grid(1, room + 1)
        bar.put(
            0, 0, _BAR[form.unicode] * math.ceil(room * row["x"] / most), plot.words["bins"][row["state"]]
        )
        if row["rate"] is not None:
            bar.put(0, round(room * row["rate"] / most), "|", "limit")
        name = f"{fitted(str(row['y']), width):<{width}} "
        yield ((name, ""), *bar.lines()[0], (f" {number}", "" if row["x"] else "limit"))
    if any(row["rate"] is not None for row in plot.rows):
        yield (("|", "limit"), (" line rate", ""))


def _histogram(plot: Plot, form: Form) -> Iterator[Line]:
    """A bar a bin, with what lies in it."""
    rows = plot.rows
    least = min((row["high"] - row["low"] for row in rows if row["high"] > row["low"]), default=1.0)
    digits = max(0, 1 - math.floor(math.log10(least)))  # as many as neighbouring edges take to differ
    edges = [f"{row['low']:.{digits}f}" for row in rows]
    inside = [[name.partition(" (")[0] for name, value, _ in plot.words["marks"]
               if row["low"] <= value and (value < row["high"] or row is rows[-1])]
              for row in rows]  # fmt: skip
    marks, width = [" ".join(names) for names in inside], max(map(len, edges)) + 2
    room = max(8, form.columns - width - 8 - max(map(len, marks)) - 2)
    most = max(row["count"] for row in rows) or 1
    yield ((f"{'from us':>{width}} {'count':>6}", "soft"),)
    for row, edge, mark in zip(rows, edges, marks, strict=True):
        block = _BAR[form.unicode] * math.ceil(room * row["count"] / most)
        yield ((f"{edge:>{width}} {row['count']:>6} ", ""), (f"{block:<{room}}", "c1"), (f" {mark}", "bold"))


def sparkline(values: Sequence[float], columns: int, *, unicode: bool) -> str:
    """The course of values in one line: a letter each, or for the median of several."""
    width = min(columns, len(values))
    parts = [values[len(values) * at // width : len(values) * (at + 1) // width] for at in range(width)]
    middles, letters = [median(part) for part in parts], _SPARKS[unicode]
    up = _scale(middles, len(letters) - 1)
    return "".join(letters[up(middle)] for middle in middles)


def _history(plot: Plot, form: Form) -> Iterator[Line]:
    """The course of a series of launches, with the ends of its scale."""
    values = [row["y"] for row in plot.rows]
    yield ((sparkline(values, form.columns, unicode=form.unicode), "c1"),)
    of = str(plot.words["y"])
    yield ((f"{of}: {value_label(of, min(values))} to {value_label(of, max(values))}", "soft"),)


# A kind of plot in letters: a row each, as plots.CHARTS has one for pictures.
TEXTS: Final[Mapping[str, Callable[[Plot, Form], Iterator[Line]]]] = {
    "curve": _curve, "heat": _heat, "bars": _bars, "histogram": _histogram, "history": _history,
}  # fmt: skip
