"""Plots as values, and their pictures: SVG and PNG by Vega-Lite (altair, vl-convert), without a browser.

A picture in a page takes its colours from the page's style sheet, so it follows light and dark; one in a
file has them inside. Every mark that stands for a number has its words as ``aria-label``: screen readers read
them, and the page shows them as tooltips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import UsageError

if TYPE_CHECKING:
    import altair as alt

    Picture = alt.Chart | alt.LayerChart | alt.FacetChart

Row = Mapping[str, Any]

WIDTH: Final = 390  # small enough that a telephone's screen leaves its text legible
HEIGHT: Final = 230
_BREAK: Final = "break-paths-filter-domains"
_SHORT: Final = 20  # letters of a name beside which another one fits
_ROW: Final = 18  # of a heat map or a bar
_THIRD: Final = 16  # letters of a legend's words of which three fit beside each other
_UPRIGHT: Final = 6  # letters of a column's name that is not slanted
_WIDE: Final = 45  # a column of such names
# A reader's fonts may be wider than those that the layout was made with.
_PADDING: Final = {"left": 28, "right": 16, "top": 4, "bottom": 6}
_SCALE: Final = 2.0  # of PNG
# Colours by name. The page defines the same names; series are told apart by dashes and points too.
LIGHT: Final[Mapping[str, str]] = {
    "ink": "#1c2430", "soft": "#5b6675", "grid": "#dfe4ea", "paper": "#ffffff",
    "c1": "#0a62c4", "c2": "#c2500a", "c3": "#0b7a53", "c4": "#7a3bbd", "c5": "#a3195b", "c6": "#5f6b00",
    "limit": "#c0202b", "reference": "#5b6675",
    "low2": "#2166ac", "low1": "#92c5de", "mid": "#e8eaed", "high1": "#f4a582", "high2": "#b2182b",
    "none": "#c9b458", "failed": "#3d4654",
    "s1": "#dd8443", "s2": "#f3caa5", "s3": "#cfe0f0", "s4": "#93bbe0", "s5": "#4a8bcb", "s6": "#0c4280",
}  # fmt: skip
STEPS: Final = ("s1", "s2", "s3", "s4", "s5", "s6")  # of values, from the worst on
SERIES: Final = ("c1", "c2", "c3", "c4", "c5", "c6")
_DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3])
_SIZE_LABEL: Final = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB'"
    " : datum.value >= 1048576 ? datum.value / 1048576 + ' MiB'"
    " : datum.value >= 1024 ? datum.value / 1024 + ' KiB' : datum.value + ' B'"
)
_MANTISSA: Final = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
_LOG_LABEL: Final = f"indexof([1, 2, 5], {_MANTISSA}) < 0 ? '' : datum.label"
_TIME_LABEL: Final = (
    f"indexof([1, 2, 5], {_MANTISSA}) < 0 ? '' : "
    "datum.value >= 1000000 ? datum.value / 1000000 + ' s'"
    " : datum.value >= 1000 ? datum.value / 1000 + ' ms' : datum.value + ' us'"
)


@dataclass(frozen=True)
class Table:
    """The numbers of a plot, as text. The first ``keys`` columns name a row; ``notes`` stand below the table,
    and say what its marks mean.
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
    """``kind`` is a row of CHARTS, which says what ``rows`` hold; every row has ``text``, its words.
    ``name`` is unique in a report: an anchor and part of a file's name. ``words`` are titles of axes.
    """

    kind: str
    name: str
    title: str
    note: str
    rows: tuple[Row, ...]
    table: Table
    words: Mapping[str, Any] = field(default_factory=dict)


Colour = Callable[[str], str]


def in_page(name: str) -> str:
    """A colour as the page's style sheet has it."""
    return f"var(--{name})"


def on_paper(name: str) -> str:
    """A colour of a picture in a file."""
    return LIGHT[name]


def svg(plot: Plot, colour: Colour) -> str:
    """One picture. Raises UsageError where the libraries are not installed."""
    require()
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(_spec(plot, colour), vl_version=_version())
    return text


def png(plot: Plot) -> bytes:
    """One picture, at twice its size. Raises UsageError where the libraries are not installed."""
    require()
    import vl_convert

    data: bytes = vl_convert.vegalite_to_png(_spec(plot, on_paper), vl_version=_version(), scale=_SCALE)
    return data


def chart(plot: Plot) -> Picture:
    """The picture for a notebook. Raises UsageError where the libraries are not installed."""
    require()
    import altair as alt

    made: Picture = alt.Chart.from_dict(_spec(plot, on_paper))
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


def _version() -> str:
    import altair as alt

    return ".".join(alt.SCHEMA_VERSION.split(".")[:2])


def _spec(plot: Plot, colour: Colour) -> dict[str, Any]:
    chart = CHARTS[plot.kind](plot, colour).properties(padding=_PADDING)
    if colour is not in_page:  # there the title stands above the picture, and can be copied
        chart = chart.properties(title=plot.title)
    soft, ink, grid = colour("soft"), colour("ink"), colour("grid")
    chart = chart.configure(background="transparent" if colour is in_page else colour("paper"))
    chart = chart.configure_title(color=ink, anchor="start", fontSize=15, offset=12)
    chart = chart.configure_view(stroke=None).configure_legend(
        labelColor=ink,
        titleColor=soft,
        orient="top",
        title=None,
        labelFontSize=13,
        labelLimit=320,
        columns=2,
        columnPadding=28,
    )
    chart = chart.configure_axis(
        labelColor=ink, titleColor=soft, gridColor=grid, domainColor=soft, tickColor=soft,
        labelFontSize=13, titleFontSize=13, titleFontWeight="normal", labelFont="sans-serif",
    )  # fmt: skip
    spec: dict[str, Any] = chart.to_dict()
    return spec


def _data(rows: Sequence[Row]) -> alt.InlineData:
    import altair as alt

    return alt.InlineData(values=[dict(row) for row in rows])


def _curve(plot: Plot, colour: Colour) -> Picture:
    """Rows: x, y, low, high (null without interval), series, kind (measured, reference, limit). Words: x, y,
    and ``log``: whether y is.
    """
    import altair as alt

    names = list(dict.fromkeys(row["series"] for row in plot.rows))
    kinds = {row["series"]: row["kind"] for row in plot.rows}
    colours = [
        colour(kinds[name] if kinds[name] != "measured" else SERIES[at % len(SERIES)])
        for at, name in enumerate(names)
    ]
    dashes = [
        _DASHES[at % len(_DASHES)] if kinds[name] == "measured" else [3, 3] for at, name in enumerate(names)
    ]
    sizes = plot.words["x"] == "size"
    counts = sorted({row["x"] for row in plot.rows})
    axis = (
        alt.Axis(labelExpr=_SIZE_LABEL, labelOverlap=True, labelFlush=False, labelSeparation=8, grid=False)
        if sizes
        else alt.Axis(values=counts, labelOverlap=True, labelFlush=False, grid=False)
    )
    scale = alt.Scale(type="log", base=2, nice=False)
    x = alt.X("x:Q", title=plot.words["x"], scale=scale, axis=axis)
    vertical = alt.Scale(type="log") if plot.words.get("log") else alt.Scale(zero=True)
    of_log = _TIME_LABEL if plot.words["y"] == "time" else _LOG_LABEL
    label = of_log if plot.words.get("log") else alt.Undefined
    y = alt.Y(
        "y:Q",
        title=plot.words["y"],
        scale=vertical,
        axis=alt.Axis(format=".3~r", labelExpr=label, tickCount=6, labelOverlap="greedy"),
    )
    columns = 1 if max(map(len, names)) > _SHORT else 2
    legend = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3, columns=columns)
    series = alt.Color("series:N", scale=alt.Scale(domain=names, range=colours), sort=None, legend=legend)
    dash = alt.StrokeDash("series:N", scale=alt.Scale(domain=names, range=dashes), sort=None)
    base = alt.Chart(_data(plot.rows))
    measured = base.transform_filter(alt.datum.kind == "measured")
    # A point without an interval ends the band, which goes on behind it.
    band = measured.mark_area(opacity=0.22, aria=False, invalid=_BREAK).encode(
        x=x, y=alt.Y("low:Q", scale=vertical), y2="high:Q", color=series
    )
    line = base.mark_line(strokeWidth=2, aria=False).encode(x=x, y=y, color=series, strokeDash=dash)
    points = measured.mark_point(filled=True, size=34, opacity=1).encode(
        x=x, y=y, color=series, description="text:N"
    )
    return alt.layer(band, line, points).properties(width=WIDTH, height=HEIGHT)


def _heat(plot: Plot, colour: Colour) -> Picture:
    """Rows: x, y (names, in order), bin (a word of ``words['bins']``, colour by word)."""
    import altair as alt

    bins: Mapping[str, str] = plot.words["bins"]
    across, down = names_of(plot)
    scale = alt.Scale(domain=list(bins), range=[colour(name) for name in bins.values()])
    legend = alt.Legend(columns=2 if max(map(len, bins)) > _THIRD else 3)
    angle = 0 if max(map(len, across)) <= _UPRIGHT and len(across) * _WIDE < WIDTH else -60
    chart: alt.Chart = (
        alt.Chart(_data(plot.rows))
        .mark_rect(stroke=colour("paper"), strokeWidth=1)
        .encode(
            x=alt.X("x:N", sort=across, title=plot.words["x"], axis=alt.Axis(labelAngle=angle, domain=False)),
            y=alt.Y(
                "y:N",
                sort=down,
                title=plot.words["y"],
                axis=alt.Axis(labelLimit=200, titlePadding=10, domain=False),
            ),
            color=alt.Color("bin:N", scale=scale, sort=None, legend=legend),
            description="text:N",
        )
        .properties(width=WIDTH, height=max(60, _ROW * len(down)))
    )
    return chart


def _bars(plot: Plot, colour: Colour) -> Picture:
    """Rows: y (name), x, state (a word of ``words['bins']``, colour by word), rate (null where unknown)."""
    import altair as alt

    bins: Mapping[str, str] = plot.words["bins"]
    scale = alt.Scale(domain=list(bins), range=[colour(name) for name in bins.values()])
    y = alt.Y("y:N", sort=None, title=None, axis=alt.Axis(labelLimit=220, domain=False, ticks=False))
    base = alt.Chart(_data(plot.rows))
    bars = base.mark_bar(height=_ROW - 6, stroke=colour("soft"), strokeWidth=0.5).encode(
        x=alt.X("x:Q", title=plot.words["x"], scale=alt.Scale(zero=True)),
        y=y,
        color=alt.Color("state:N", scale=scale, sort=None),
        description="text:N",
    )
    rates = base.transform_filter("datum.rate != null").mark_tick(
        color=colour("limit"), thickness=2, size=_ROW - 4, aria=False
    )
    chart = alt.layer(bars, rates.encode(x="rate:Q", y=y))
    return chart.properties(width=WIDTH, height=max(60, _ROW * len(plot.rows)))


def _histogram(plot: Plot, colour: Colour) -> Picture:
    """Rows: low, high, zero, count. Words: x, ``marks`` (name, value, colour by name), ``log``: whether x
    is.
    """
    import altair as alt

    scale = alt.Scale(type="log" if plot.words.get("log") else "linear", zero=False, nice=False)
    marks = [{"series": name, "x": value} for name, value, _ in plot.words["marks"]]
    names = [name for name, _, _ in plot.words["marks"]]
    colours = [colour(word) for _, _, word in plot.words["marks"]]
    bars = (
        alt.Chart(_data(plot.rows))
        .mark_rect(color=colour("c1"), opacity=0.75, stroke=colour("paper"), strokeWidth=1)
        .encode(
            x=alt.X(
                "low:Q",
                title=plot.words["x"],
                scale=scale,
                axis=alt.Axis(grid=False, labelOverlap=True, labelSeparation=14),
            ),
            x2="high:Q",
            y=alt.Y("zero:Q", title="samples", scale=alt.Scale(zero=True), axis=alt.Axis(tickMinStep=1)),
            y2="count:Q",
            description="text:N",
        )
    )
    rules = (
        alt.Chart(_data(marks))
        .mark_rule(strokeWidth=2, aria=False)
        .encode(
            x=alt.X("x:Q", scale=scale),
            color=alt.Color("series:N", scale=alt.Scale(domain=names, range=colours), sort=None),
            strokeDash=alt.StrokeDash(
                "series:N",
                scale=alt.Scale(domain=names, range=[[1, 0], [5, 3], [2, 2]][: len(names)]),
                sort=None,
            ),
        )
    )
    return alt.layer(bars, rules).properties(width=WIDTH, height=HEIGHT - 60)


CHARTS: Final[Mapping[str, Callable[[Plot, Colour], Picture]]] = {
    "curve": _curve,
    "heat": _heat,
    "bars": _bars,
    "histogram": _histogram,
}
