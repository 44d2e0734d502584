"""Plots of a hunt: a map of the pairs that were tested, one a metric; rings as a map host by rail. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any, Final

import numpy as np

from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, Stage
from busbw.report.columns import NOT_APPLICABLE
from busbw.report.hunt_tables import LEAST_SPAN, WHAT, Floats, edges, fold, levels, matrix, received
from busbw.report.plots import STEPS, Plot, Table
from busbw.units import NS_PER_US, format_number, format_share, format_size, gb_per_s

Rounds = Sequence[Mapping[str, Any]]

_MOST: Final = 48  # rows of a map: beyond, a cell is the worst of neighbours
_MOST_WORST: Final = 3  # pairs that are named
_RANK: Final = re.compile(r"rank (\d+) on (.*)")


@dataclass(frozen=True)
class _Metric:
    name: str
    title: str
    unit: str
    note: str
    is_time: bool = False


@dataclass(frozen=True)
class _Axes:
    """Names of columns and rows, what they are (None: it goes without saying), the table's corner."""

    x: str | None
    across: list[str]
    y: str | None
    down: list[str]
    corner: str


_METRICS: Final = (
    _Metric(BANDWIDTH, "one way", "GB/s", "{size} from the row's {part} to the column's."),
    _Metric(BOTH_WAYS, "both ways at once", "GB/s", "{size} each way at the same time; GB/s of one way."),
    _Metric(LATENCY, "latency", "us", "A small exchange, the mean of many.", is_time=True),
)
_SCALE: Final = f"Steps span {LEAST_SPAN:.0%} of the median at least, so that noise looks alike."


def plots(name: str, kind: str, size_bytes: int, hosts: Sequence[str], rounds: Rounds) -> Iterator[Plot]:
    """Of a hunt of this ``kind``: maps of its pairs, or of its rings. ``hosts`` has one name a rank."""
    if kind == "rails":
        for stage, rates in received(rounds, size_bytes).items():
            yield _rails(name, stage, size_bytes, hosts, rates)
        return
    ordered = sorted(rounds, key=lambda tested: str(tested["kind"]))
    for parts, own in groupby(ordered, key=lambda tested: str(tested["kind"])):
        yield from _pairs(name, kind, parts, size_bytes, list(own))


def _pairs(name: str, kind: str, parts: str, size_bytes: int, rounds: Rounds) -> Iterator[Plot]:
    """``parts`` is what is tested: host or rank."""
    names, on = _short(rounds[0]["names"])
    for metric in _METRICS:
        if not any(metric.name in test["times_ns"] for tested in rounds for test in tested["tests"]):
            continue
        values = matrix(rounds, metric.name)
        values = values / NS_PER_US if metric.is_time else gb_per_s(size_bytes, 1.0) / values
        said = [metric.note.format(size=format_size(size_bytes), part=parts)]
        said += [f"The slowest lane of {lanes}." for lanes in (_lanes(rounds),) if lanes > 1]
        said += ["A pair tested more than once shows its last test."] if kind == "isolate" else []
        made = _map(
            (name, f"{parts}s"),
            metric.name,
            f"Pairs of {parts}s{on}: {metric.title} ({metric.unit})",
            " ".join((*said, _worst(values, names, metric, _MOST_WORST))),
            values,
            names,
            metric,
        )
        worst = _worst(values, names, metric, 1)
        headline = f"Pairs of {parts}s{on}: {worst[0].lower()}{worst[1:].removesuffix('.')}"
        yield replace(made, words={**made.words, "headline": headline})


def _lanes(rounds: Rounds) -> int:
    """Pairs of ranks that a test of two parts is made of."""
    tests = (test for tested in rounds for test in tested["tests"])
    return len(next(tests)["times_ns"][BANDWIDTH][0])


def _short(names: Sequence[str]) -> tuple[list[str], str]:
    """Names for an axis: of the ranks of one host their numbers, with the host's name apart."""
    found = [_RANK.fullmatch(name) for name in names]
    hosts = {each[2] for each in found if each is not None}
    if all(found) and len(hosts) == 1:
        return [each[1] for each in found if each is not None], f" of {hosts.pop()}"
    return list(names), ""


def _worst(values: Floats, names: Sequence[str], metric: _Metric, most: int) -> str:
    """The median, and so many of the worst pairs."""
    order = np.argsort(-values if metric.is_time else values, axis=None, kind="stable")  # NaN is last
    places = (divmod(int(at), len(names)) for at in order[: min(most, np.count_nonzero(~np.isnan(values)))])
    pairs = (
        f"{format_number(values[source, target])} {metric.unit}, from {names[source]} to {names[target]}"
        for source, target in places
    )
    return f"Median {format_number(np.nanmedian(values))} {metric.unit}; worst {'; '.join(pairs)}."


def _map(
    of: tuple[str, ...],
    what: str,
    title: str,
    note: str,
    values: Floats,
    names: Sequence[str],
    metric: _Metric,
) -> Plot:
    shown, first = fold(values, _MOST, largest=metric.is_time)
    labels = list(names)
    if len(first) < len(names):
        ends = [*first[1:], len(names)]
        labels = [
            names[low] if high == low + 1 else f"{names[low]}..{names[high - 1]}"
            for low, high in zip(first, ends, strict=True)
        ]
        note = f"{note} A cell is the worst of {first[1]} x {first[1]} pairs."
    middle = float(np.nanmedian(shown))

    def text(source: int, target: int) -> str:
        value = shown[source, target]
        of_median = f"{format_share(value / middle - 1, '+', 0)} of the median"
        return (
            f"from {labels[source]} to {labels[target]}: {format_number(value, 4)} {metric.unit}, {of_median}"
        )

    axes = _Axes("to", labels, "from", labels, f"{metric.unit}, from")
    return _heat(of, what, title, note, shown, metric, axes, text)


def _heat(
    of: tuple[str, ...],
    what: str,
    title: str,
    note: str,
    values: Floats,
    metric: _Metric,
    axes: _Axes,
    text: Callable[[int, int], str],
) -> Plot:
    """A cell for every value that there is, in the colour of its step; ``text`` says it whole."""
    bins, steps = _steps(values, metric)
    words = list(bins)
    marks = tuple(
        {
            "x": axes.across[x],
            "y": axes.down[y],
            "bin": words[steps[y, x]],
            "text": text(y, x),
            "cell": format_number(values[y, x]),
        }
        for y, x in np.argwhere(~np.isnan(values)).tolist()
    )
    cells = tuple(
        (axes.down[at], *(NOT_APPLICABLE if np.isnan(value) else format_number(value) for value in row))
        for at, row in enumerate(values)
    )
    options = {"x": axes.x, "y": axes.y, "bins": bins, "across": axes.across, "down": axes.down}
    return Plot(
        "heat",
        of,
        what,
        title,
        note,
        marks,
        Table((axes.corner, *axes.across), cells, notes=(_SCALE,)),
        options,
    )


def _steps(values: Floats, metric: _Metric) -> tuple[dict[str, str], Any]:
    """The words of each step with its colour, from the least value on, and the step of every value."""
    bounds = edges(values, len(STEPS))
    shades = STEPS[::-1] if metric.is_time else STEPS
    # As many digits as the bounds take to differ.
    digits = next(
        (few for few in range(3, 6) if len({format_number(bound, few) for bound in bounds}) > len(STEPS)), 6
    )
    ends = [format_number(bound, digits) for bound in bounds]
    words = [f"{low} to {high}" for low, high in pairwise(ends)]
    words[-1 if metric.is_time else 0] += ", the worst"
    words[0 if metric.is_time else -1] += ", the best"
    return dict(zip(words, shades, strict=True)), levels(values, bounds)


def _rails(
    name: str, stage: Stage, size_bytes: int, hosts: Sequence[str], rates: Mapping[int, float]
) -> Plot:
    """A row a host, a column a rail (the place of a rank on its host)."""
    by_host = {host: [rank for rank, own in enumerate(hosts) if own == host] for host in dict.fromkeys(hosts)}
    values = np.full((len(by_host), max(map(len, by_host.values()))), np.nan)
    for row, ranks in enumerate(by_host.values()):
        for rail, rank in enumerate(ranks):
            if rank in rates:
                values[row, rail] = rates[rank]
    down = list(by_host)
    rails = [f"rail {rail}" for rail in range(values.shape[1])]
    return _heat(
        (name, ""),
        stage.value,
        f"GB/s that each rank received {WHAT[stage]}",
        f"{format_size(size_bytes)} a message.",
        values,
        _Metric(BANDWIDTH, "", "GB/s", ""),
        _Axes(None, rails, None, down, "host"),
        lambda row, rail: f"{down[row]}, {rails[rail]}: {format_number(values[row, rail], 4)} GB/s",
    )
