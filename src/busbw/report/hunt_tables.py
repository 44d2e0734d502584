"""Rounds of a hunt as numbers, as lines, and as rows for programs: the matrix of pairs, cuts through the
middle, and rails and hosts as groups and as rings. ``report.plots_of_hunt`` draws them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from busbw.hunt.compare_groups import COLLECTIVE, bus_gb_per_s
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, GroupTest, Stage
from busbw.report.fields import aligned
from busbw.units import NS_PER_US, counted, decimals, format_share, gb_per_s

# Steps of a map from the worst value to the best: the same in a terminal, a page and a picture. Pure.

Floats = npt.NDArray[np.float64]

LEAST_SPAN: Final = 0.1  # of the median: what differs by less is drawn alike, or noise looks like a fault
_FAR: Final = 10.0  # times the least: steps of equal ratio


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


# The matrix of pairs.

CSV_FIELDS: Final = (
    "source",
    "target",
    "one_way_gb_per_s",
    "both_ways_gb_per_s",
    "latency_us",
)


def matrix(rounds: Sequence[Mapping[str, Any]], metric: str) -> Floats:
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


def rows(
    rounds: Sequence[Mapping[str, Any]], size_bytes: int
) -> Iterator[tuple[str, str, float, float, float]]:
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


def cut_lines(rounds: Sequence[Mapping[str, Any]], size_bytes: int) -> list[str]:
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


# Rails and hosts as groups, each with a collective of its own; and rings by rail and by host: what each rank
# received, host by rail. A ring is several rounds, in each of which a rank sends or receives and not both:
# what it received is the time of one step alone.

_LEAST_DECIMALS: Final = 2

WHAT: Final = {
    Stage.RAILS: "from the host above it (the first from the last), all rails at once",
    Stage.NODES: "from the rank left of it (the first from the last), all hosts at once",
}


GROUPS: Final = {Stage.EACH_RAIL: "rail", Stage.EACH_HOST: "host"}


def group_lines(
    rounds: Sequence[Mapping[str, Any]], size_bytes: int, fields: Sequence[Mapping[str, Any]] = ()
) -> Iterator[str]:
    """A table a stage, a row a group, with how they compare, from the ``fields`` of the verdict."""
    for stage, rates_of in group_rates(rounds, size_bytes).items():
        kind = GROUPS[stage]
        own = next((field for field in fields if field["kind"] == kind), {})
        yield "#"
        yield f"# GB/s: bus bandwidth of {COLLECTIVE} in every {kind}, all {kind}s at once, over rounds"
        yield from _group_table(rates_of, own.get("groups", ()))


def group_rates(
    rounds: Sequence[Mapping[str, Any]], size_bytes: int
) -> dict[Stage, dict[str, tuple[int, list[float]]]]:
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


def received(rounds: Sequence[Mapping[str, Any]], size_bytes: int) -> dict[Stage, dict[int, float]]:
    """GB/s of each rank that received, by stage."""
    found: dict[Stage, dict[int, float]] = {}
    for tested in (each for each in rounds if each["tests"]):
        rates = found.setdefault(Stage(tested["round"]["stage"]), {})
        for test in tested["tests"]:
            rates[int(test["other"])] = gb_per_s(size_bytes, test["times_ns"][BANDWIDTH][0][0])
    return found
