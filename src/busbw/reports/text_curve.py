"""Curves in letters: points with their intervals, the lines between them, two axes. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from busbw.reports.canvas import Canvas, Form, Line
from busbw.reports.plots import SERIES, Plot
from busbw.units import format_size

_ROWS: Final = 14
_LABEL: Final = 9
_TICKS: Final = 4
# Points of series, in ASCII and beyond; several in one place.
_POINTS: Final = (
    ("o", "\N{BLACK CIRCLE}"), ("x", "\N{WHITE CIRCLE}"), ("+", "\N{BLACK UP-POINTING TRIANGLE}"),
    ("#", "\N{WHITE UP-POINTING TRIANGLE}"), ("@", "\N{BLACK SQUARE}"), ("%", "\N{WHITE SQUARE}"),
)  # fmt: skip
_LINES: Final = {"limit": ("=", "\N{BOX DRAWINGS DOUBLE HORIZONTAL}"), "reference": ("-", "\N{EN DASH}")}
_SEVERAL: Final = ("&", "&")

Place = Callable[[float], float]


def curve_lines(plot: Plot, form: Form) -> Iterator[Line]:
    """The drawing, and which letter is which series."""
    rows = [row for row in plot.rows if row["x"] > 0 and (row["y"] > 0 or not plot.words.get("log"))]
    if not rows:
        return
    canvas = Canvas(_ROWS, max(20, form.columns - _LABEL - 2))
    across = _scale([math.log2(row["x"]) for row in rows], canvas.columns - 1)
    ends = [end for row in rows for end in (row["y"], row["low"], row["high"]) if end is not None]
    warp = math.log10 if plot.words.get("log") else float
    ends = [end for end in ends if end > 0] if plot.words.get("log") else [0.0, *ends]
    up = _scale([warp(end) for end in ends], _ROWS - 1)

    def row_of(value: float) -> int:
        return _ROWS - 1 - round(up(warp(value)))

    letters = _letters(rows, form)
    series = {name: sorted((row for row in rows if row["series"] == name), key=lambda row: row["x"])
              for name in letters}  # fmt: skip
    for name, own in reversed(series.items()):
        letter, colour = letters[name]
        line = letter if own[0]["kind"] != "measured" else form.pick("\N{MIDDLE DOT}", ".")
        _connect(
            canvas, [(across(math.log2(row["x"])), float(row_of(row["y"]))) for row in own], line, colour
        )
    for name, own in series.items():
        _intervals(canvas, own, across, row_of, letters[name][1], form, log=bool(plot.words.get("log")))
    overlap = _points(canvas, series, across, row_of, letters, form)
    yield from _framed(canvas, plot, rows, (min(ends), max(ends)), form)
    yield from _legend(letters, overlap, form)


def _scale(values: Sequence[float], most: int) -> Place:
    """From a value to a place between 0 and ``most``."""
    low, high = min(values), max(values)
    return lambda value: most * (value - low) / (high - low) if high > low else most / 2


def _letters(rows: Sequence[Mapping[str, Any]], form: Form) -> dict[str, tuple[str, str]]:
    """The letter and the colour of each series, in their order."""
    kinds = {row["series"]: row["kind"] for row in rows}
    found = {}
    for at, (name, kind) in enumerate(kinds.items()):
        plain, letter = _LINES[kind] if kind in _LINES else _POINTS[at % len(_POINTS)]
        colour = kind if kind in _LINES else SERIES[at % len(SERIES)]
        found[name] = form.pick(letter, plain), colour
    return found


def _connect(canvas: Canvas, places: Sequence[tuple[float, float]], letter: str, colour: str) -> None:
    for (x, y), (x_next, y_next) in pairwise(places):
        steps = max(1, round(max(abs(x_next - x), abs(y_next - y))))
        for step in range(steps + 1):
            share = step / steps
            canvas.put(round(y + share * (y_next - y)), round(x + share * (x_next - x)), letter, colour)
    if len(places) == 1:
        canvas.put(round(places[0][1]), round(places[0][0]), letter, colour)


def _intervals(
    canvas: Canvas,
    own: Sequence[Mapping[str, Any]],
    across: Place,
    row_of: Callable[[float], int],
    colour: str,
    form: Form,
    *,
    log: bool,
) -> None:
    for row in own:
        low, high = row["low"], row["high"]
        if low is None or high is None or (log and low <= 0):
            continue
        column = round(across(math.log2(row["x"])))
        for place in range(row_of(high), row_of(low) + 1):
            canvas.put(place, column, form.pick("\N{BOX DRAWINGS LIGHT VERTICAL}", "|"), colour)


def _points(
    canvas: Canvas,
    series: Mapping[str, Sequence[Mapping[str, Any]]],
    across: Place,
    row_of: Callable[[float], int],
    letters: Mapping[str, tuple[str, str]],
    form: Form,
) -> bool:
    """Whether any two series met in one place."""
    taken: dict[tuple[int, int], str] = {}
    met = False
    for name, own in series.items():
        if own[0]["kind"] != "measured":
            continue
        for row in own:
            place = row_of(row["y"]), round(across(math.log2(row["x"])))
            several = taken.get(place, name) != name
            met = met or several
            taken[place] = name
            letter, colour = (form.pick(*_SEVERAL), "") if several else letters[name]
            canvas.put(*place, letter, colour)
    return met


def _framed(
    canvas: Canvas, plot: Plot, rows: Sequence[Mapping[str, Any]], ends: tuple[float, float], form: Form
) -> Iterator[Line]:
    """The canvas between its axes."""
    low, high = ends
    log = bool(plot.words.get("log"))
    ticks = {round(at * (_ROWS - 1) / _TICKS): 1 - at / _TICKS for at in range(_TICKS + 1)}
    bar, tick = (
        form.pick("\N{BOX DRAWINGS LIGHT VERTICAL}", "|"),
        form.pick("\N{BOX DRAWINGS LIGHT VERTICAL AND LEFT}", "+"),
    )
    yield ((f"{plot.words['y']}", "soft"),)
    for at, line in enumerate(canvas.lines()):
        label = ""
        if at in ticks:
            share = 1 - at / (_ROWS - 1)
            value = low * (high / low) ** share if log and low > 0 else low + share * (high - low)
            label = _duration(value) if plot.words["y"] == "time" else f"{value:.3g}"
        yield ((f"{label:>{_LABEL}} {tick if label else bar}", "soft"), *line)
    floor = form.pick("\N{BOX DRAWINGS LIGHT HORIZONTAL}", "-") * canvas.columns
    corner = form.pick("\N{BOX DRAWINGS LIGHT UP AND RIGHT}", "+")
    yield ((f"{'':>{_LABEL}} {corner}{floor}", "soft"),)
    yield ((_axis(canvas, plot, rows), "soft"),)


def _duration(us: float) -> str:
    for unit, least in (("s", 1e6), ("ms", 1e3), ("us", 1.0)):
        if us >= least:
            return f"{us / least:.3g} {unit}"
    return f"{us * 1e3:.3g} ns"


def _axis(canvas: Canvas, plot: Plot, rows: Sequence[Mapping[str, Any]]) -> str:
    """Values under their places, as many as fit."""
    values = sorted({row["x"] for row in rows})
    across = _scale([math.log2(value) for value in values], canvas.columns - 1)
    axis = Canvas(1, _LABEL + 2 + canvas.columns)
    free = 0
    last = len(values) - 1
    ends = _LABEL + 2 + canvas.columns
    for at, value in enumerate(values):
        text = format_size(value) if plot.words["x"] == "size" else f"{value:g}"
        place = _LABEL + 2 + round(across(math.log2(value))) - len(text) // 2
        place = min(place, ends - len(text))
        room = ends - len(format_size(values[last])) - 1
        if place >= free and (at == last or place + len(text) <= room):
            axis.put(0, place, text)
            free = place + len(text) + 2
    title = str(plot.words["x"])
    axis.put(0, 0, title[:_LABEL])
    return "".join(text for text, _ in axis.lines()[0]).rstrip()


def _legend(letters: Mapping[str, tuple[str, str]], overlap: bool, form: Form) -> Iterator[Line]:
    entries = [*((letter, colour, name) for name, (letter, colour) in letters.items())]
    if overlap:
        entries.append((form.pick(*_SEVERAL), "", "several"))
    line: list[tuple[str, str]] = []
    for letter, colour, name in entries:
        added = [(letter, colour), (f" {name}   ", "")]
        if line and sum(len(text) for text, _ in (*line, *added)) - 3 > form.columns:
            yield tuple(line)
            line = []
        line += added
    yield tuple(line)
