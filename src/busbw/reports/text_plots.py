"""Plots in a terminal: the same values as the pictures, in letters. Every plot reads without colour and in
ASCII. Pure.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from busbw.reports.canvas import Canvas, Form, Line
from busbw.reports.plots import Plot, names_of
from busbw.reports.text_curve import curve_lines

# Of colours that stand for a value: the letter in a cell, and that of a terminal with more than ASCII.
_CELLS: Final[Mapping[str, tuple[str, str]]] = {
    "low2": ("<", "\N{BLACK DOWN-POINTING TRIANGLE}"), "low1": ("-", "\N{WHITE DOWN-POINTING TRIANGLE}"),
    "mid": (".", "\N{MIDDLE DOT}"), "high1": ("+", "\N{WHITE UP-POINTING TRIANGLE}"),
    "high2": ("#", "\N{BLACK UP-POINTING TRIANGLE}"), "none": ("?", "?"), "failed": ("X", "X"),
    "s1": (".", "\N{MIDDLE DOT}"), "s2": (":", ":"), "s3": ("-", "\N{LIGHT SHADE}"),
    "s4": ("+", "\N{MEDIUM SHADE}"), "s5": ("*", "\N{DARK SHADE}"), "s6": ("#", "\N{FULL BLOCK}"),
}  # fmt: skip
_MOST_LABEL: Final = 32
_WIDEST: Final = 8  # columns of a cell
_LEAST_LABEL: Final = 6
_BINS: Final = 24  # of a histogram: neighbours are drawn as one


def plot_lines(plot: Plot, form: Form) -> Iterator[Line]:
    """Title, what to know, the drawing, and the words of its letters."""
    yield ((plot.title, "bold"),)
    for text in textwrap.wrap(plot.note, form.columns):
        yield ((text, "soft"),)
    yield ()
    yield from TEXTS[plot.kind](plot, form)


def fitted(text: str, width: int) -> str:
    """At most so long: the middle is left out, since names differ at both ends."""
    if len(text) <= width:
        return text
    kept = width - 2
    return f"{text[: kept - kept // 2]}..{text[len(text) - kept // 2 :]}"


def _label_width(labels: Sequence[str], columns: int, beside: int) -> int:
    """Columns of the labels of rows, with ``beside`` columns that come after them."""
    most = max(_LEAST_LABEL, min(_MOST_LABEL, columns - beside))
    return min(max(map(len, labels)), most)


def _heat(plot: Plot, form: Form) -> Iterator[Line]:
    across, down = names_of(plot)
    bins: Mapping[str, str] = plot.words["bins"]
    cells = {(row["x"], row["y"]): bins[row["bin"]] for row in plot.rows}
    labels = [str(name) for name in down]
    width = _label_width(labels, form.columns, 2 * len(across) + 1)
    each = max(1, min(_WIDEST, (form.columns - width - 1) // len(across)))
    room = form.columns - width - 1
    for first in range(0, len(across), room // each):
        shown = across[first : first + room // each]
        yield from _heads(shown, width, each, form.columns)
        for name in down:
            line: list[tuple[str, str]] = [(f"{fitted(str(name), width):<{width}} ", "")]
            for column in shown:
                colour = cells.get((column, name), "")
                line.append((f"{_cell(colour, form):<{each}}", colour))
            yield tuple(line)
        yield ()
    yield from _words(bins, form)


def _cell(colour: str, form: Form) -> str:
    return form.pick(*reversed(_CELLS[colour])) if colour else " "


def _heads(names: Sequence[str], width: int, each: int, columns: int) -> Iterator[Line]:
    """Names over their columns, as many as fit beside each other; a stroke shows which column is meant."""
    head = Canvas(2, columns)
    free = 0
    for at, name in enumerate(names):
        place = width + 1 + at * each
        text = fitted(name, _MOST_LABEL)
        if place >= free and place + len(text) <= columns:
            head.put(0, place, text, "soft")
            head.put(1, place, "|", "soft")
            free = place + len(text) + 1
    yield from head.lines()


def _words(bins: Mapping[str, str], form: Form) -> Iterator[Line]:
    """What the letters mean."""
    line: list[tuple[str, str]] = []
    for word, colour in bins.items():
        added = [(_cell(colour, form), colour), (f" {word}   ", "")]
        if sum(len(text) for text, _ in (*line, *added)) - 3 > form.columns:
            yield tuple(line)
            line = []
        line += added
    yield tuple(line)


def _bars(plot: Plot, form: Form) -> Iterator[Line]:
    """A bar a row, with its number; the line rate as a stroke."""
    bins: Mapping[str, str] = plot.words["bins"]
    numbers = [f"{row['x']:.4g} {plot.words['x']}, {row['state']}" for row in plot.rows]
    beside = max(map(len, numbers)) + 2
    width = _label_width([str(row["y"]) for row in plot.rows], form.columns, beside + 20)
    room = max(8, form.columns - width - beside - 2)
    most = max(max(row["x"], row["rate"] or 0.0) for row in plot.rows) or 1.0
    for row, number in zip(plot.rows, numbers, strict=True):
        bar = Canvas(1, room + 1)
        length = math.ceil(room * row["x"] / most)
        bar.put(0, 0, form.pick("\N{FULL BLOCK}", "*") * length, bins[row["state"]])
        if row["rate"] is not None:
            bar.put(0, round(room * row["rate"] / most), "|", "limit")
        yield (
            (f"{fitted(str(row['y']), width):<{width}} ", ""), *bar.lines()[0],
            (f" {number}", "" if row["x"] else "limit"),
        )  # fmt: skip
    if any(row["rate"] is not None for row in plot.rows):
        yield (("|", "limit"), (" line rate", ""))


def _histogram(plot: Plot, form: Form) -> Iterator[Line]:
    """A bar a bin, with what lies in it."""
    rows = _joined(plot.rows)
    edges = [_edge(row["low"], rows) for row in rows]
    width = max(map(len, edges)) + 2
    marks = [_marks(plot, row, last=row is rows[-1]) for row in rows]
    room = max(8, form.columns - width - 8 - max(map(len, marks)) - 2)
    most = max(row["count"] for row in rows) or 1
    yield ((f"{'from us':>{width}} {'count':>6}", "soft"),)
    for row, edge, mark in zip(rows, edges, marks, strict=True):
        length = math.ceil(room * row["count"] / most)
        block = form.pick("\N{FULL BLOCK}", "*") * length
        yield (
            (f"{edge:>{width}} {row['count']:>6} ", ""), (f"{block:<{room}}", "c1"), (f" {mark}", "bold"),
        )  # fmt: skip


def _joined(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Bins as many as fit a screen."""
    step = -(-len(rows) // _BINS)
    parts = [rows[at : at + step] for at in range(0, len(rows), step)]
    return [
        {"low": part[0]["low"], "high": part[-1]["high"], "count": sum(row["count"] for row in part)}
        for part in parts
    ]


def _edge(value: float, rows: Sequence[Mapping[str, Any]]) -> str:
    """As many digits as neighbouring edges take to differ."""
    least = min((row["high"] - row["low"] for row in rows if row["high"] > row["low"]), default=1.0)
    return f"{value:.{max(0, 1 - math.floor(math.log10(least)))}f}"


def _marks(plot: Plot, row: Mapping[str, Any], *, last: bool) -> str:
    return " ".join(
        name.partition(" (")[0]
        for name, value, _ in plot.words["marks"]
        if row["low"] <= value and (value < row["high"] or (last and value <= row["high"]))
    )


def _curve(plot: Plot, form: Form) -> Iterator[Line]:
    return curve_lines(plot, form)


# A kind of plot in letters: a row each, as plots.CHARTS has one for pictures.
TEXTS: Final[Mapping[str, Callable[[Plot, Form], Iterator[Line]]]] = {
    "curve": _curve,
    "heat": _heat,
    "bars": _bars,
    "histogram": _histogram,
}
