"""Plots in a terminal: the same values as the pictures, in letters. Every plot reads without colour and in
ASCII. Pure.
"""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np

from busbw.report.plots import LOG, SERIES, Plot, names_of, value_ends, value_label
from busbw.report.sparkline import scale, sparkline
from busbw.report.text import Form, Line, Span, fitted
from busbw.units import format_size

# A letter of ASCII, and the one of a terminal that has more: cells by their colour, lines by their kind.
_CELLS: Final[Mapping[str, str]] = {
    "low2": "<▼", "low1": "-▽", "mid": ".·", "high1": "+△", "high2": "#▲", "none": "??", "failed": "XX",
    "s1": ".·", "s2": "::", "s3": "-░", "s4": "+▒", "s5": "*▓", "s6": "#█", "": "  ",
}  # fmt: skip
_LINES: Final = {"measured": ".·", "limit": "=═", "reference": "--"}
_POINTS: Final = ("o●", "x○", "+▲", "#△", "@■", "%□", "*◆", "^◇", "v▼", "$▽")
_SEVERAL: Final = "&"
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

    def put_fitting(self, names: Iterable[tuple[int, str]]) -> list[int]:
        """Put names into the first row, those that have room, and give their places; the first come first."""
        kept: list[range] = []
        for place, name in names:
            own = range(place, place + len(name) + 1)
            if own.stop <= self.columns + 1 and all(
                own.stop <= each.start or each.stop <= place for each in kept
            ):
                self.put(0, place, name, "soft")
                kept.append(own)
        return [each.start for each in kept]

    def lines(self) -> list[Line]:
        """Row by row, neighbours of one colour together."""
        runs = (groupby(cells, key=lambda cell: cell[1]) for cells in self._cells)
        return [tuple(("".join(each for each, _ in own), colour) for colour, own in row) for row in runs]


def plot_lines(plot: Plot, form: Form) -> Iterator[Line]:
    """Title, what to know, the drawing, and the words of its letters."""
    yield ((plot.title, "bold"),)
    yield from (((text, "soft"),) for text in textwrap.wrap(plot.note, form.columns))
    yield ()
    yield from TEXTS[plot.kind](plot, form) if plot.kind in TEXTS else ()


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


def _curve(plot: Plot, form: Form) -> Iterator[Line]:
    """Points with their intervals, the lines between them, two axes; sizes at equal distances."""
    log = plot.scales[0] == LOG
    warp = math.log10 if log else float
    rows = [row for row in plot.rows if row["x"] > 0 and (row["y"] > 0 or not log)]
    if not rows:
        return
    ends = value_ends(rows, is_log=log)
    grid = _Grid(_ROWS, max(20, form.columns - _LABEL - 2))
    across = scale([math.log2(row["x"]) for row in rows], grid.columns - 1)
    up = scale([warp(end) for end in ends], _ROWS - 1)

    def place(row: Mapping[str, Any], key: str = "y") -> tuple[int, int]:
        return _ROWS - 1 - up(warp(row[key])), across(math.log2(row["x"]))

    looks = _looks({row["series"]: row["kind"] for row in rows}, form)
    # Letters at a place, with their colours.
    points: dict[tuple[int, int], dict[str, str]] = defaultdict(dict)
    for name, (kind, letter, colour) in sorted(looks.items(), key=lambda item: item[1][0] == "measured"):
        own = sorted((row for row in rows if row["series"] == name), key=lambda row: row["x"])
        heights, columns = zip(*map(place, own), strict=True)
        for column in range(columns[0], columns[-1] + 1):  # limits lie below
            grid.put(round(np.interp(column, columns, heights)), column, _LINES[kind][form.unicode], colour)
        for row in own if kind == "measured" else ():
            if row["low"] is not None and row["high"] is not None and (row["low"] > 0 or not log):
                for line in range(place(row, "high")[0], place(row, "low")[0] + 1):
                    grid.put(line, place(row)[1], "|│"[form.unicode], colour)
            points[place(row)][letter] = colour
    several = any(len(letters) > 1 for letters in points.values())
    for at, letters in points.items():
        grid.put(*at, *((_SEVERAL, "") if len(letters) > 1 else letters.popitem()))
    yield from _framed(grid, plot, rows, ends, form)
    words = [(letter, colour, name) for name, (_, letter, colour) in looks.items()]
    yield from _legend([*words, *([(_SEVERAL, "", "several")] if several else [])], form)


def _looks(kinds: Mapping[str, str], form: Form) -> dict[str, tuple[str, str, str]]:
    """Kind, letter and colour of each series, by its name."""
    return {
        name: (kind, _POINTS[at % len(_POINTS)][form.unicode], SERIES[at % len(SERIES)])
        if kind == "measured"
        else (kind, _LINES[kind][form.unicode], kind)
        for at, (name, kind) in enumerate(kinds.items())
    }


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


def _heat(plot: Plot, form: Form) -> Iterator[Line]:
    """A letter a cell; columns that do not fit go on below."""
    across, down = names_of(plot)
    bins: Mapping[str, str] = plot.words["bins"]
    cells = {(row["x"], row["y"]): bins[row["bin"]] for row in plot.rows}
    most = max(_LEAST_NAME, min(_MOST_NAME, form.columns - 2 * len(across) - 1))
    width = min(most, max(len(str(name)) for name in down))
    room = form.columns - width - 1
    each = max(1, min(_WIDEST, room // len(across)))
    for first in range(0, len(across), room // each):
        shown = across[first : first + room // each]
        heads = _Grid(2, form.columns)  # names as fit, each over a stroke that shows its column
        names = [(width + 1 + at * each, fitted(str(name), _MOST_NAME)) for at, name in enumerate(shown)]
        for place in heads.put_fitting(names):
            heads.put(1, place, "|", "soft")
        yield from heads.lines()
        for name in down:
            colours = [cells.get((column, name), "") for column in shown]
            letters = [(f"{_CELLS[colour][form.unicode]:<{each}}", colour) for colour in colours]
            yield ((f"{fitted(str(name), width):<{width}} ", ""), *letters)
        yield ()
    yield from _legend(((_CELLS[colour][form.unicode], colour, word) for word, colour in bins.items()), form)


def _history(plot: Plot, form: Form) -> Iterator[Line]:
    """The course of a series of launches, with the ends of its scale."""
    values = [row["y"] for row in plot.rows]
    yield ((sparkline(values, form.columns, unicode=form.unicode), "c1"),)
    of = str(plot.words["y"])
    yield ((f"{of}: {value_label(of, min(values))} to {value_label(of, max(values))}", "soft"),)


# A kind of plot in letters: a row each, as plots.CHARTS has one for pictures. Tables say all of the others.
TEXTS: Final[Mapping[str, Callable[[Plot, Form], Iterator[Line]]]] = {
    "curve": _curve, "heat": _heat, "history": _history,
}  # fmt: skip
