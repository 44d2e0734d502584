"""Plots as values, and their pictures: SVG and PNG by Vega-Lite (vl-convert), without a browser.

A picture in a page takes its colours from the page's style sheet, so it follows light and dark; one in a
file has them inside. Every mark that stands for a number has its words as ``aria-label``: screen readers read
them, and the page shows them as tooltips.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import groupby, zip_longest
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import UsageError
from busbw.units import NS_PER_US, format_number, format_size, format_time

if TYPE_CHECKING:
    import altair as alt

    Picture = alt.Chart | alt.LayerChart | alt.FacetChart

Row = Mapping[str, Any]
Spec = dict[str, Any]  # of a picture or a part of it, in the words of Vega-Lite

WIDTH: Final = 390  # small enough that a telephone's screen leaves its text legible
HEIGHT: Final = 250
LINEAR, LOG = "linear", "log"
_BREAK: Final = "break-paths-filter-domains"
_SHORT: Final = 20  # letters of a name beside which another one fits
_ROW: Final = 18  # of a heat map or a bar
_LETTER: Final = 6.4  # of a cell's number, in pixels
_NAME: Final = 8.3  # of a column's name
_SLANT: Final = -60  # degrees, of names that are wider than their columns
_WIDEST: Final = 90  # a cell with a short name
_MOST_TICKS: Final = 5
_BEYOND: Final = 2.0
_FEW: Final = 1500  # times the least: between powers of ten there is room for labels
# A reader's fonts may be wider than those that the layout was made with.
_PADDING: Final = {"left": 28, "right": 28, "top": 4, "bottom": 6}
_TITLE: Final = 12  # between labels and the title of an axis, for the same reason
_SCALE: Final = 2.0  # of PNG
# Colours by name. The page defines the same names; series are told apart by dashes and points too.
LIGHT: Final[Mapping[str, str]] = {
    "ink": "#1c2430", "soft": "#5b6675", "grid": "#dfe4ea", "paper": "#ffffff",
    "c1": "#0a62c4", "c2": "#c2500a", "c3": "#0b7a53", "c4": "#7a3bbd", "c5": "#a3195b", "c6": "#5f6b00",
    "limit": "#c0202b", "reference": "#5b6675",
    "low2": "#2166ac", "low1": "#92c5de", "mid": "#e8eaed", "high1": "#f4a582", "high2": "#b2182b",
    "none": "#c9b458", "failed": "#3d4654",
    "s1": "#a8480b", "s2": "#f3caa5", "s3": "#cfe0f0", "s4": "#93bbe0", "s5": "#2f6fb0", "s6": "#0c4280",
}  # fmt: skip
STEPS: Final = ("s1", "s2", "s3", "s4", "s5", "s6")  # of values, from the worst on
_STRONG: Final = ("low2", "high2", "failed", "s1", "s5", "s6")  # behind numbers in the colour of paper
SERIES: Final = ("c1", "c2", "c3", "c4", "c5", "c6")
# Of other lengths than the colours, so that series of one colour have another dash and another point.
DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3])
# Of what is no series of points: two dashes.
_LINE: Final = "M-1,-.15L-.2,-.15L-.2,.15L-1,.15ZM.2,-.15L1,-.15L1,.15L.2,.15Z"
_POINTS: Final = (
    "circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right",
    "triangle-left",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """The numbers of a plot, as text. The first ``keys`` columns name a row; a line break in a column's name
    ends what it shares with its neighbours. ``notes`` stand below the table, and say what its marks mean.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: int = 1
    notes: tuple[str, ...] = ()

    def without(self, nothing: str) -> Table:
        """Less the columns that say nothing in every row; keys always say something."""
        kept = [at for at in range(len(self.head)) if any(row[at] != nothing for row in self.rows)]
        return replace(
            self,
            head=tuple(self.head[at] for at in kept),
            rows=tuple(tuple(row[at] for at in kept) for row in self.rows),
        )


@dataclass(frozen=True)
class Plot:
    """``kind`` is a row of CHARTS, which says what ``rows`` hold; every row has ``text``, its words. ``of``
    says what it is of (run, operation, type, reduction; empty where it is of all), and ``what`` it shows:
    ``name`` is made of both, is unique in a report, an anchor and part of a file's name. ``words`` are titles
    of axes. Neighbours of one ``of`` stand beside each other, above the tables that they
    have, or share.
    """

    kind: str
    of: tuple[str, ...]
    what: str
    title: str
    note: str
    rows: tuple[Row, ...]
    table: Table
    words: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def scales(self) -> tuple[str, ...]:
        """Of its values: the first unless another is chosen."""
        return tuple(self.words.get("scales", (LINEAR,)))


def named(plots: Sequence[Plot]) -> tuple[Plot, ...]:
    """With names that say no more than tells them apart, and every note of their tables once."""
    parts = [dict.fromkeys(filter(None, values)) for values in zip_longest(*(plot.of for plot in plots))]
    made, taken = [], Counter[str]()
    said, kept = set[str](), dict[int, Table]()  # neighbours go on sharing a table
    for plot in plots:
        own = (word for word, all_of in zip(plot.of, parts, strict=False) if word and len(all_of) > 1)
        name = "-".join((*own, plot.what)).replace(" ", "-")
        taken[name] += 1
        notes = tuple(note for note in plot.table.notes if note not in said)
        table = kept.setdefault(id(plot.table), replace(plot.table, notes=notes))
        said.update(notes)
        made.append(replace(plot, name=name if taken[name] == 1 else f"{name}-{taken[name]}", table=table))
    return tuple(made)


def figures(plots: Sequence[Plot]) -> list[tuple[list[Plot], list[Table]]]:
    """Neighbours that are of one thing together, and what tables they have."""
    made = []
    for _, own in groupby(plots, key=lambda plot: (plot.of, plot.kind == "curve" or plot.what)):
        together = list(own)
        made.append((together, list({id(plot.table): plot.table for plot in together}.values())))
    return made


Colour = Callable[[str], str]


def in_page(name: str) -> str:
    """A colour as the page's style sheet has it."""
    return f"var(--{name})"


def on_paper(name: str) -> str:
    """A colour of a picture in a file."""
    return LIGHT[name]


def svg(plot: Plot, colour: Colour, scale: str = "") -> str:
    """One picture, its values on a ``scale`` of its own. Raises UsageError where the libraries are not
    installed.
    """
    return str(_converter().vegalite_to_svg(_spec(plot, colour, scale)))


def png(plot: Plot) -> bytes:
    """One picture, at twice its size. Raises UsageError where the libraries are not installed."""
    return bytes(_converter().vegalite_to_png(_spec(plot, on_paper, ""), scale=_SCALE))


def chart(plot: Plot) -> Picture:
    """The picture for a notebook. Raises UsageError where the libraries are not installed."""
    require()
    import altair as alt

    made: Picture = alt.Chart.from_dict(_spec(plot, on_paper, ""))
    return made


def names_of(plot: Plot) -> tuple[list[str], list[str]]:
    """Columns and rows of a heat map: ``across`` and ``down`` of its words, else as its cells come."""
    across = plot.words.get("across") or dict.fromkeys(row["x"] for row in plot.rows)
    down = plot.words.get("down") or dict.fromkeys(row["y"] for row in plot.rows)
    return list(across), list(down)


def require() -> None:
    """Raises UsageError naming the extra where plots cannot be made."""
    missing = [name for name in ("altair", "vl_convert", "jinja2") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"plots need {', '.join(missing)}, not installed",
            hint="pip install '.[analysis]' in a clone of busbw brings it",
        )


def _converter() -> ModuleType:
    require()
    import vl_convert

    return vl_convert


def _spec(plot: Plot, colour: Colour, scale: str) -> Spec:
    if scale:
        plot = replace(plot, words={**plot.words, "scales": (scale,)})
    soft, ink = colour("soft"), colour("ink")
    config = {
        "background": "transparent" if colour is in_page else colour("paper"),
        "title": {"color": ink, "anchor": "start", "fontSize": 15, "offset": 12},
        "view": {"stroke": None},
        "legend": {
            "labelColor": ink, "titleColor": soft, "orient": "top", "title": None, "labelFontSize": 13,
            "labelLimit": 1000, "columns": 2, "columnPadding": 28,
        },
        "axis": {
            "labelColor": ink, "titleColor": soft, "gridColor": colour("grid"), "domainColor": soft,
            "tickColor": soft, "labelFontSize": 13, "titleFontSize": 13, "titleFontWeight": "normal",
            "labelFont": "sans-serif",
        },
    }  # fmt: skip
    # In a page the title stands above the picture, and can be copied.
    title = {} if colour is in_page else {"title": plot.title}
    return {"padding": _PADDING, **title, "config": config, **CHARTS[plot.kind](plot, colour)}


# ---- axes -------------------------------------------------------------------------------------------------


def size_ticks(sizes: Sequence[int]) -> list[int]:
    """Sizes that are powers of two at equal steps: 8 B, 1 KiB, 1 MiB; the sizes themselves where none is
    between them.
    """
    least, most = math.log2(min(sizes)), math.log2(max(sizes))
    step = next(step for step in (1, 2, 5, 10, 20) if most - least < step * _MOST_TICKS)
    found = [power for power in range(0, 64, step) if least <= power <= most]
    if len(found) < 2:
        return sorted(set(sizes))[:_MOST_TICKS]
    ends = [least] if found[0] - least >= 0.6 * step and least.is_integer() else []
    return [2 ** int(power) for power in (*ends, *found)]


def value_ticks(low: float, high: float) -> list[float]:
    """For a logarithmic axis: powers of ten, with 2 and 5 between few of them, and all between two."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = 2 if last - first > 2 * _MOST_TICKS else 1
    for steps in ((1, 2, 5) if high <= _FEW * low else (1,), range(1, 10)):
        found = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
        kept = [tick for tick in found if low * 0.999 <= tick <= high * 1.001]
        if len(kept) > 1:
            return kept
    return [low, high]


def value_ends(rows: Sequence[Row], *, is_log: bool) -> tuple[float, float]:
    """Of the axis of a curve: all its points, and their intervals up to twice as far, for one that is wider
    would make the points illegible. A logarithmic axis spans a factor of two at least.
    """
    values = [row["y"] for row in rows]
    ends = [end for row in rows for end in (row["low"], row["high"]) if end is not None]
    low = max(min(values) / _BEYOND, min((*values, *ends)))
    high = min(max(values) * _BEYOND, max((*values, *ends)))
    if not is_log:
        return 0.0, high
    least = math.sqrt(max(1.0, _BEYOND * low / high))
    return low / least, high * least


def value_label(of: str, value: float) -> str:
    """A value of an axis: ``of`` is its title. Times come in microseconds."""
    text = format_time(value * NS_PER_US) if of == "time" else format_number(value)
    number, space, unit = text.partition(" ")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + space + unit


def _axis(ticks: Sequence[float], words: Sequence[str], *, grid: bool) -> Spec:
    """An axis with these words at these ticks, as many of them as have room."""
    label = f"{list(words)}[indexof({list(ticks)}, datum.value)]"
    return {
        "values": list(ticks), "labelExpr": label, "grid": grid, "labelFlush": False, "labelOverlap": True,
        "titlePadding": _TITLE if grid else 4,
    }  # fmt: skip


# ---- kinds of plots ---------------------------------------------------------------------------------------


def _picture(rows: Iterable[Row], height: int, *layers: Spec, width: float = WIDTH) -> Spec:
    """Layers above each other, of ``rows`` where they have no data of their own."""
    return {"data": _data(rows), "layer": list(layers), "width": width, "height": height}


def _data(rows: Iterable[Row]) -> Spec:
    return {"values": [dict(row) for row in rows]}


def _layer(mark: str, how: Spec, encoding: Spec, only: str = "") -> Spec:
    """Marks of one kind; a mark is read out where it has a description. ``only`` is a condition on rows."""
    silent = {} if "description" in encoding else {"aria": False}
    kept = {"transform": [{"filter": only}]} if only else {}
    return {**kept, "mark": {"type": mark, **silent, **how}, "encoding": encoding}


def _quantity(field: str, **how: Any) -> Spec:  # noqa: ANN401 (what Vega-Lite takes)
    return {"field": field, "type": "quantitative", **how}


def _name(field: str, **how: Any) -> Spec:  # noqa: ANN401 (what Vega-Lite takes)
    """In the order in which they come."""
    return {"field": field, "type": "nominal", "sort": None, **how}


# A channel of text has no order.
_CELL: Final = {"field": "cell", "type": "nominal"}


def _looks(names: Iterable[str], values: Iterable[Any]) -> Spec:
    """Which of the names looks how."""
    return {"domain": list(names), "range": list(values)}


def _binned(plot: Plot, colour: Colour) -> Spec:
    """The colours of the words of ``bins``."""
    bins: Mapping[str, str] = plot.words["bins"]
    return _looks(bins, map(colour, bins.values()))


_TEXT: Final[Spec] = {"field": "text", "type": "nominal"}
_PART: Final[Spec] = {"field": "part", "type": "nominal"}


def _curve(plot: Plot, colour: Colour) -> Spec:
    """Rows: x, y, low, high (null without interval), series, kind (measured, reference, limit), ``part``: no
    line goes from one to the next. Words: x, y, and ``scales`` that y may have.
    """
    is_log = plot.scales[0] == LOG
    rows = [row for row in plot.rows if row["y"] > 0 or not is_log]
    fill, stroke, dash, shape = _series({row["series"]: row["kind"] for row in rows}, colour)
    of, (low, high) = plot.words["y"], value_ends(rows, is_log=is_log)
    kind = {"type": "log", "nice": False} if is_log else {"nice": True}
    vertical = {"domain": [low, high], "clamp": True, **kind}
    axis: Spec = {"format": ".3~r", "tickCount": 6, "titlePadding": _TITLE}
    if is_log:
        ticks = value_ticks(low, high)
        axis = _axis(ticks, [value_label(of, tick) for tick in ticks], grid=True)
    horizontal = {"type": "log", "base": 2, "nice": False}
    x = _quantity("x", title=plot.words["x"], scale=horizontal, axis=_across(plot))
    y = _quantity("y", title=of, scale=vertical, axis=axis)
    ends = {"x": x, "y": _quantity("low", scale=vertical), "y2": {"field": "high"}}
    parts = Counter((row["series"], row.get("part")) for row in rows)
    alone = [row for row in rows if row["kind"] == "measured" and parts[row["series"], row.get("part")] == 1]
    # A point without an interval ends the band, which goes on behind it.
    band = _layer("area", {"opacity": 0.22, "invalid": _BREAK}, {**ends, "fill": fill, "detail": _PART}, _OWN)
    # What would be a band, were it wider.
    bars = _layer("rule", {"strokeWidth": 2, "opacity": 0.22}, {**ends, "stroke": stroke})
    line = {"x": x, "y": y, "stroke": stroke, "strokeDash": dash, "detail": _PART}
    marks = {"x": x, "y": y, "fill": fill, "shape": shape, "description": _TEXT}
    return {
        **_picture(
            rows,
            HEIGHT,
            band,
            {**bars, "data": _data(alone)},
            _layer("line", {"strokeWidth": 2}, line),
            _layer("point", {"filled": True, "size": 40, "opacity": 1}, marks, _OWN),
        ),
        "resolve": {"legend": {"stroke": "independent", "strokeDash": "independent"}},
    }


_OWN: Final = "datum.kind === 'measured'"


def _series(kinds: Mapping[str, str], colour: Colour) -> tuple[Spec, Spec, Spec, Spec]:
    """Fill, stroke, dash and shape of series by their kind."""
    looks = [(kind, kind == "measured", at) for at, kind in enumerate(kinds.values())]
    colours = _looks(kinds, (colour(SERIES[at % len(SERIES)] if own else kind) for kind, own, at in looks))
    dashes = _looks(kinds, (DASHES[at % len(DASHES)] if own else [3, 3] for _, own, at in looks))
    points = _looks(kinds, (_POINTS[at % len(_POINTS)] if own else _LINE for _, own, at in looks))
    # The legend is of the points: that of lines would have their dashes around the symbols.
    legend = {"symbolOpacity": 1, "symbolSize": 70, "columns": 1 if max(map(len, kinds)) > _SHORT else 2}
    with_legend = ((colours, legend), (colours, None), (dashes, None), (points, legend))
    fill, stroke, dash, shape = (_name("series", scale=each, legend=own) for each, own in with_legend)
    return fill, stroke, dash, shape


def _across(plot: Plot) -> Spec:
    values = sorted({row["x"] for row in plot.rows})
    ticks = size_ticks(values) if plot.words["x"] == "size" else values
    words = map(format_size, ticks) if plot.words["x"] == "size" else map(str, ticks)
    return _axis(ticks, list(words), grid=False)


def _heat(plot: Plot, colour: Colour) -> Spec:
    """Rows: x, y (names, in order), bin (a word of ``words['bins']``, colour by word), ``cell``: its
    number.
    """
    bins: Mapping[str, str] = plot.words["bins"]
    across, down = names_of(plot)
    least = _LETTER * max(len(row["cell"]) for row in plot.rows) + 8
    names = _NAME * max(map(len, across)) + 8
    is_upright = names * len(across) <= WIDTH
    each = max(least, names if is_upright else 0, min(_WIDEST, WIDTH / len(across)))
    is_upright = is_upright or names <= each
    width = each * len(across)
    plain = {"labelLimit": 1000, "domain": False, "ticks": False}
    slant = {
        "labelAngle": 0 if is_upright else _SLANT, "orient": "top",
        "minExtent": 0 if is_upright else names * abs(math.sin(math.radians(_SLANT))),
    }  # fmt: skip
    place = {
        "x": _name("x", sort=across, title=plot.words["x"], axis={**plain, **slant}),
        "y": _name("y", sort=down, title=plot.words["y"], axis={**plain, "titlePadding": 10}),
    }
    legend = {"columns": 2, "orient": "bottom", "offset": 12}
    shade = _name("bin", scale=_binned(plot, colour), legend=legend)
    on = {"condition": {"test": "datum.strong", "value": colour("paper")}, "value": colour("ink")}
    edge = {"stroke": colour("paper"), "strokeWidth": 1}
    return _picture(
        ({**row, "strong": bins[row["bin"]] in _STRONG} for row in plot.rows),
        _ROW * len(down),
        _layer("rect", edge, {**place, "color": shade, "description": _TEXT}),
        _layer("text", {"fontSize": 11}, {**place, "text": _CELL, "color": on}),
        width=width,
    )


def _bars(plot: Plot, colour: Colour) -> Spec:
    """Rows: y (name), x, state (a word of ``words['bins']``, colour by word), rate (null where unknown),
    ``cell``: its number.
    """
    y = _name("y", title=None, axis={"labelLimit": 1000, "domain": False, "ticks": False})
    x = _quantity("x", title=plot.words["x"], scale={"zero": True}, axis={"tickCount": 7})
    state = _name("state", scale=_binned(plot, colour))
    edge = {"height": _ROW - 6, "stroke": colour("soft"), "strokeWidth": 0.5}
    tick = {"color": colour("limit"), "thickness": 2, "size": _ROW - 4}
    number = {"align": "left", "fontSize": 12, "color": colour("ink")}
    return _picture(
        plot.rows,
        max(60, _ROW * len(plot.rows)),
        _layer("bar", edge, {"x": x, "y": y, "color": state, "description": _TEXT}),
        _layer("tick", tick, {"x": _quantity("rate"), "y": y}, "datum.rate != null"),
        # In a column of their own, where no bar and no line rate is.
        _layer("text", number, {"x": {"value": WIDTH + 8}, "y": y, "text": _CELL}),
    )


def _histogram(plot: Plot, colour: Colour) -> Spec:
    """Rows: low, high, zero, count. Words: x, ``marks`` (name, value, colour by name), ``scales`` of x."""
    scale = {"type": plot.scales[0], "zero": False, "nice": False}
    names, values, words = zip(*plot.words["marks"], strict=True) if plot.words["marks"] else ((), (), ())
    colours = _looks(names, map(colour, words))
    dashes = _looks(names, ([1, 0], [5, 3], [2, 2])[: len(names)])
    ticks = {"grid": False, "labelOverlap": True, "labelSeparation": 14, "format": ".4~r"}
    counts = {"tickMinStep": 1, "titlePadding": _TITLE}
    bars = {
        "x": _quantity("low", title=plot.words["x"], scale=scale, axis=ticks), "x2": {"field": "high"},
        "y": _quantity("zero", title="samples", scale={"zero": True}, axis=counts), "y2": {"field": "count"},
        "description": _TEXT,
    }  # fmt: skip
    rules = {
        "x": _quantity("x", scale=scale),
        "color": _name("series", scale=colours),
        "strokeDash": _name("series", scale=dashes),
    }
    edge = {"color": colour("c1"), "opacity": 0.75, "stroke": colour("paper"), "strokeWidth": 1}
    marks = _data({"series": name, "x": value} for name, value in zip(names, values, strict=True))
    return _picture(
        plot.rows,
        HEIGHT - 60,
        _layer("rect", edge, bars),
        {**_layer("rule", {"strokeWidth": 2}, rules), "data": marks},
    )


def _history(plot: Plot, colour: Colour) -> Spec:
    """Rows: x (number of the launch), y, level, ``part``: launches of one level. Words: x, y."""
    x = _quantity("x", title=plot.words["x"], scale={"nice": False}, axis={"tickMinStep": 1})
    scale, axis = {"zero": False}, {"tickCount": 6, "titlePadding": _TITLE}
    y = _quantity("y", title=plot.words["y"], scale=scale, axis=axis)
    point = {"color": colour("c1"), "size": 26, "filled": True}
    level = {"x": x, "y": _quantity("level", scale=scale), "detail": _PART}
    return _picture(
        plot.rows,
        HEIGHT - 60,
        _layer("line", {"color": colour("c2"), "strokeWidth": 2}, level),
        _layer("point", point, {"x": x, "y": y, "description": _TEXT}),
    )


CHARTS: Final[Mapping[str, Callable[[Plot, Colour], Spec]]] = {
    "curve": _curve, "heat": _heat, "bars": _bars, "histogram": _histogram, "history": _history,
}  # fmt: skip
