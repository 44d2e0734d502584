"""Rounds of a hunt as numbers, as plots and lines, and as rows for programs: maps of pairs, one a metric;
cuts through the middle; rails and hosts as groups and as rings. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from busbw.hunt.compare_groups import COLLECTIVE, bus_gb_per_s
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, GroupTest, Stage
from busbw.report.columns import NOT_APPLICABLE
from busbw.report.fields import aligned
from busbw.report.plots import STEPS, Plot, Table
from busbw.units import (
    NS_PER_US,
    counted,
    decimals,
    format_number,
    format_share,
    format_size,
    gb_per_s,
)

Rounds = Sequence[Mapping[str, Any]]
Floats = npt.NDArray[np.float64]

LEAST_SPAN: Final = 0.1  # of the median: what differs by less is drawn alike, or noise looks like a fault
_FAR: Final = 10.0  # times the least: steps of equal ratio
_MOST: Final = 48  # rows of a map: beyond, a cell is the worst of neighbours
_MOST_WORST: Final = 3  # pairs that are named
_RANK: Final = re.compile(r"rank (\d+) on (.*)")
_SCALE: Final = f"Steps span {LEAST_SPAN:.0%} of the median at least, so that noise looks alike."
_RINGS: Final = {
    Stage.RAILS: "from the host above it (the first from the last), all rails at once",
    Stage.NODES: "from the rank left of it (the first from the last), all hosts at once",
}


@dataclass(frozen=True)
class _Metric:
    name: str
    title: str
    unit: str
    note: str
    is_time: bool = False


_METRICS: Final = (
    _Metric(BANDWIDTH, "one way", "GB/s", "{size} from the row's {part} to the column's."),
    _Metric(BOTH_WAYS, "both ways at once", "GB/s", "{size} each way at the same time; GB/s of one way."),
    _Metric(LATENCY, "latency", "us", "A small exchange, the mean of many.", is_time=True),
)


# ---- as plots ---------------------------------------------------------------------------------------------


def plots(name: str, kind: str, size_bytes: int, hosts: Sequence[str], rounds: Rounds) -> Iterator[Plot]:
    """Of a hunt of this ``kind``: maps of its pairs, or of its rings. ``hosts`` has one name a rank."""
    if kind == "rails":
        yield from _rings(name, size_bytes, hosts, rounds)
        return
    ordered = sorted(rounds, key=lambda tested: str(tested["kind"]))
    for parts, own in groupby(ordered, key=lambda tested: str(tested["kind"])):
        yield from _pairs(name, kind, parts, size_bytes, list(own))


def _pairs(name: str, kind: str, parts: str, size_bytes: int, rounds: Rounds) -> Iterator[Plot]:
    """``parts`` is what is tested: host or rank."""
    names: Sequence[str] = rounds[0]["names"]
    found, on = [_RANK.fullmatch(each) for each in names], ""
    if all(found) and len({each[2] for each in found if each is not None}) == 1:
        # Of the ranks of one host their numbers, with the host's name apart.
        on = " of " + names[0].partition(" on ")[2]
        names = [each[1] for each in found if each is not None]
    tests = [test for tested in rounds for test in tested["tests"]]
    lanes = len(tests[0]["times_ns"][BANDWIDTH][0]) if tests else 1
    for metric in _METRICS:
        if not any(metric.name in test["times_ns"] for test in tests):
            continue
        values = matrix(rounds, metric.name)
        values = values / NS_PER_US if metric.is_time else gb_per_s(size_bytes, 1.0) / values
        said = [metric.note.format(size=format_size(size_bytes), part=parts)]
        said += [f"The slowest lane of {lanes}."] if lanes > 1 else []
        said += ["A pair tested more than once shows its last test."] if kind == "isolate" else []
        said += [f"{_worst(values, names, metric, _MOST_WORST)}."]
        title = f"Pairs of {parts}s{on}: {metric.title} ({metric.unit})"
        made = _map((name, f"{parts}s"), title, " ".join(said), values, names, metric)
        worst = _worst(values, names, metric, 1)
        headline = f"Pairs of {parts}s{on}: {worst[0].lower()}{worst[1:]}"
        yield replace(made, words={**made.words, "headline": headline})


def _worst(values: Floats, names: Sequence[str], metric: _Metric, most: int) -> str:
    """The median, and so many of the worst pairs."""
    order = np.argsort(-values if metric.is_time else values, axis=None, kind="stable")  # NaN is last
    places = (divmod(int(at), len(names)) for at in order[: min(most, np.count_nonzero(~np.isnan(values)))])
    pairs = (
        f"{format_number(values[source, target])} {metric.unit}, from {names[source]} to {names[target]}"
        for source, target in places
    )
    return f"Median {format_number(np.nanmedian(values))} {metric.unit}; worst {'; '.join(pairs)}"


def _map(
    of: tuple[str, ...], title: str, note: str, values: Floats, names: Sequence[str], metric: _Metric
) -> Plot:
    shown, first = fold(values, _MOST, largest=metric.is_time)
    labels = list(names)
    if len(first) < len(names):
        ends = zip(first, [*first[1:], len(names)], strict=True)
        labels = [names[low] if high == low + 1 else f"{names[low]}..{names[high - 1]}" for low, high in ends]
        note = f"{note} A cell is the worst of {first[1]} x {first[1]} pairs."
    middle = float(np.nanmedian(shown))

    def text(source: int, target: int) -> str:
        value = format_number(shown[source, target], 4)
        share = format_share(shown[source, target] / middle - 1, "+", 0)
        return f"from {labels[source]} to {labels[target]}: {value} {metric.unit}, {share} of the median"

    words = {"x": "to", "y": "from", "across": labels, "down": labels}
    corner = f"{metric.unit}, from"
    return _heat(of, metric.name, title, note, shown, words, corner, text, is_time=metric.is_time)


def _rings(name: str, size_bytes: int, hosts: Sequence[str], rounds: Rounds) -> Iterator[Plot]:
    """A row a host, a column a rail (the place of a rank on its host). A ring is several rounds, in each of
    which a rank sends or receives and not both: what it received is the time of one step alone.
    """
    by_host = {host: [rank for rank, own in enumerate(hosts) if own == host] for host in dict.fromkeys(hosts)}
    rails = [f"rail {rail}" for rail in range(max(map(len, by_host.values()), default=0))]
    places = {rank: (row, rail) for row, own in enumerate(by_host.values()) for rail, rank in enumerate(own)}
    found = defaultdict[Stage, Floats](lambda: np.full((len(by_host), len(rails)), np.nan))
    for tested in rounds:
        for test in tested["tests"]:
            place = places.get(int(test["other"]))
            if place is not None:  # else a damaged record's: the run has no such rank
                rate = gb_per_s(size_bytes, test["times_ns"][BANDWIDTH][0][0])
                found[Stage(tested["round"]["stage"])][place] = rate
    down = list(by_host)
    words = {"x": None, "y": None, "across": rails, "down": down}
    for stage, values in found.items():
        title = f"GB/s that each rank received {_RINGS[stage]}"
        note = f"{format_size(size_bytes)} a message."

        def text(row: int, rail: int, values: Floats = values) -> str:
            return f"{down[row]}, {rails[rail]}: {format_number(values[row, rail], 4)} GB/s"

        yield _heat((name, ""), stage.value, title, note, values, words, "host", text)


def _heat(
    of: tuple[str, ...],
    what: str,
    title: str,
    note: str,
    values: Floats,
    words: Mapping[str, Any],
    corner: str,
    text: Callable[[int, int], str],
    *,
    is_time: bool = False,
) -> Plot:
    """A cell for every value that there is, in the colour of its step; ``text`` says it whole."""
    bounds = edges(values, len(STEPS))
    # As many digits as the bounds take to differ.
    digits = next(
        (few for few in range(3, 6) if len({format_number(bound, few) for bound in bounds}) > len(STEPS)), 6
    )
    # The words of each step, from the least value on.
    names = [f"{low} to {high}" for low, high in pairwise(format_number(bound, digits) for bound in bounds)]
    names[-1 if is_time else 0] += ", the worst"
    names[0 if is_time else -1] += ", the best"
    steps, across, down = levels(values, bounds), words["across"], words["down"]
    marks = tuple(
        {"x": across[x], "y": down[y], "bin": names[steps[y, x]], "text": text(y, x),
         "cell": format_number(values[y, x])}
        for y, x in np.argwhere(~np.isnan(values)).tolist()
    )  # fmt: skip
    cells = tuple(
        (name, *(NOT_APPLICABLE if np.isnan(value) else format_number(value) for value in row))
        for name, row in zip(down, values, strict=True)
    )
    table = Table((corner, *across), cells, notes=(_SCALE,))
    bins = dict(zip(names, STEPS[::-1] if is_time else STEPS, strict=True))
    return Plot("heat", of, what, title, note, marks, table, {**words, "bins": bins})


# Steps of a map from the worst value to the best: the same in a terminal, a page and a picture.


def edges(values: Floats, steps: int) -> Floats:
    """``steps`` + 1 ascending bounds from the least to the greatest value, both inside; NaN is left out.
    Of equal width; of equal ratio where the greatest is 10 times the least, or more.
    """
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low > 0 and high >= _FAR * low:
        return np.geomspace(low, high, steps + 1)
    missing = LEAST_SPAN * float(np.nanmedian(values)) - (high - low)
    if missing > 0:
        low, high = low - missing / 2, high + missing / 2
    return np.linspace(low, high, steps + 1)


def levels(values: Floats, bounds: Floats) -> npt.NDArray[np.int64]:
    """The step of each value, from 0 for the least; -1 for NaN."""
    found = np.clip(np.searchsorted(bounds, values, side="right") - 1, 0, len(bounds) - 2)
    return np.where(np.isnan(values), -1, found)


# ---- the matrix of pairs ----------------------------------------------------------------------------------

CSV_FIELDS: Final = ("source", "target", "one_way_gb_per_s", "both_ways_gb_per_s", "latency_us")


def matrix(rounds: Rounds, metric: str) -> Floats:
    """Nanoseconds [source, target] of the slowest lane; NaN where a pair has no such time."""
    count = len(rounds[0]["names"])
    found = np.full((count, count), np.nan)
    for tested in rounds:
        for test in tested["tests"]:
            if metric in test["times_ns"]:
                there, back = test["times_ns"][metric]
                found[test["one"], test["other"]] = max(there)
                found[test["other"], test["one"]] = max(back)
    return found


def rows(rounds: Rounds, size_bytes: int) -> Iterator[tuple[str, str, float, float, float]]:
    """Source, target, GB/s one way and both ways at once (of each), and latency in us; see CSV_FIELDS."""
    names: Sequence[str] = rounds[0]["names"]
    one_way, both, small = (matrix(rounds, metric) for metric in (BANDWIDTH, BOTH_WAYS, LATENCY))
    for source, target in np.argwhere(~np.isnan(one_way)).tolist():
        yield (
            names[source],
            names[target],
            gb_per_s(size_bytes, one_way[source, target]),
            gb_per_s(size_bytes, both[source, target]),
            small[source, target] / NS_PER_US,
        )


def fold(values: Floats, most: int, *, largest: bool) -> tuple[Floats, list[int]]:
    """At most so many rows and columns: of neighbours, the worst (``largest``: the largest is); and the first
    part of each row. NaN where there is nothing.
    """
    step = -(-len(values) // most)
    first = list(range(0, len(values), step))
    if step == 1:
        return values, first
    empty, of = (-np.inf, np.fmax) if largest else (np.inf, np.fmin)
    known = np.where(np.isnan(values), empty, values)
    folded = of.reduceat(of.reduceat(known, first, axis=0), first, axis=1)
    return np.where(np.isinf(folded), np.nan, folded), first


# Cuts through the middle: what halves of the parts send one another, all pairs of a cut at once.


def cut_lines(rounds: Rounds, size_bytes: int) -> list[str]:
    """One a cut. The sums are of pairs that were tested at once, each by its second best sample: no more than
    that crossed the cut, and it may be that not all of them did so in the same moment.
    """
    lines = ["#", "# GB/s across the middle of each block, of all pairs of a cut together"]
    for number, tested in enumerate(rounds, 1):
        names: Sequence[str] = tested["names"]
        tests: Sequence[Mapping[str, Any]] = tested["tests"]
        if not tests:
            continue
        there, back, both = (
            sum(gb_per_s(size_bytes, lane) for test in tests for lane in test["times_ns"][metric][way])
            for metric, way in ((BANDWIDTH, 0), (BANDWIDTH, 1), (BOTH_WAYS, 0))
        )
        ways = (
            (max(test["times_ns"][BANDWIDTH][way]), test["one"], test["other"], way)
            for test in tests
            for way in (0, 1)
        )
        slowest_ns, one, other, way = max(ways)
        source, target = (other, one) if way else (one, other)
        lines.append(
            f"# cut {number}: {counted(len(tests), 'pair')}:"
            f" {there:.4g} up, {back:.4g} down, {both:.4g} each way at once;"
            f" slowest {gb_per_s(size_bytes, slowest_ns):.3g}, from {names[source]} to {names[target]}"
        )
    return lines


# Rails and hosts as groups, each with a collective of its own.

_LEAST_DECIMALS: Final = 2
_GROUPS: Final = {Stage.EACH_RAIL: "rail", Stage.EACH_HOST: "host"}


def group_lines(rounds: Rounds, size_bytes: int, fields: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """A table a stage, a row a group, with how they compare, from the ``fields`` of the verdict."""
    for stage, rates_of in group_rates(rounds, size_bytes).items():
        kind = _GROUPS[stage]
        own = next((field for field in fields if field["kind"] == kind), {})
        yield "#"
        yield f"# GB/s: bus bandwidth of {COLLECTIVE} in every {kind}, all {kind}s at once, over rounds"
        yield from _group_table(rates_of, own.get("groups", ()))


def group_rates(rounds: Rounds, size_bytes: int) -> dict[Stage, dict[str, tuple[int, list[float]]]]:
    """Of each group, by stage and name: its ranks, and GB/s of bus bandwidth in each round."""
    found: dict[Stage, dict[str, tuple[int, list[float]]]] = {}
    for tested in (each for each in rounds if each.get("groups")):
        for name, fields in zip(tested["names"], tested["groups"], strict=True):
            test = GroupTest(tuple(fields["ranks"]), tuple(fields["times_ns"]))
            of_stage = found.setdefault(Stage(tested["round"]["stage"]), {})
            ranks = len(test.ranks)
            of_stage.setdefault(name, (ranks, []))[1].append(bus_gb_per_s(size_bytes, ranks, test.time_ns))
    return found


def _group_table(
    rates_of: Mapping[str, tuple[int, Sequence[float]]], compared: Sequence[Mapping[str, Any]]
) -> list[str]:
    digits = decimals(median(rate for _, rates in rates_of.values() for rate in rates), _LEAST_DECIMALS)
    losses = {}
    for own in compared:
        loss, low, high = (format_share(own[end]) for end in ("loss", "low", "high"))
        losses[own["name"]] = f"{loss} ({low} to {high})"
    head = ("", "ranks", "median", "lowest", "highest", "less than the others (95 %)")
    rows = [
        (name, str(ranks), *(f"{rate:.{digits}f}" for rate in (median(rates), min(rates), max(rates))),
         losses.get(name, "not compared"))
        for name, (ranks, rates) in rates_of.items()
    ]  # fmt: skip
    return aligned([head, *rows], range(1, 5))
