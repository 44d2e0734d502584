"""What the run home's history shows: of all series a screen, of one its launches and levels. Pure."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, pairwise
from statistics import median
from typing import Any, Final

from busbw.model.history import Change, Launch, Level, Point, Series
from busbw.report.curves import BANDWIDTH
from busbw.report.fields import csv_of, folded
from busbw.report.plots import Plot, Table
from busbw.report.text_plots import sparkline
from busbw.stats.change_points import KNOWN
from busbw.units import (
    NS_PER_US,
    counted,
    first_of,
    format_flag_size,
    format_gb_per_s,
    format_share,
    format_size,
    format_time,
    gb_per_s,
)

_RECENT: Final = 5  # launches of which a trend is the median
_MOST_POINTS: Final = 10
_WIDTH: Final = 100  # columns
_MOST_WORDS: Final = 3  # of what changed


@dataclass(frozen=True)
class Told:
    """A series with what is shown of it: its ``points`` (one at least) in order, its ``changes``, where it
    stands, the runs of the points that are shown one by one or begin a level, by their number, and why its
    levels were accepted, by the ``at`` of the launch that was named.
    """

    series: Series
    points: Sequence[Point]
    changes: Sequence[Change]
    level: Level
    launches: Mapping[int, Launch]
    accepted: Mapping[int, str]
    count: int

    def speed(self, time_ns: float) -> str:
        """Bus bandwidth at a time, with its unit; the time itself where there is none."""
        if self.series.bus_bytes is None:
            return format_time(time_ns)
        return f"{format_gb_per_s(gb_per_s(self.series.bus_bytes, time_ns))} GB/s"

    @property
    def trend(self) -> float | None:
        """By how much the newest launches are faster than their level, as a share; None of too few."""
        own = [point.time_ns for point in self.points if not self.changes or point.at >= self.changes[-1].at]
        if len(own) <= _RECENT:
            return None
        return self.level.now_ns / median(own[-_RECENT:]) - 1

    def why(self, change: Change) -> str:
        """Why the level that began with a change was accepted; empty where it was not."""
        until = next((each.at for each in self.changes if each.at > change.at), math.inf)
        return next((why for at, why in self.accepted.items() if change.at <= at < until), "")


def testbed_words(series: Series) -> str:
    """``8 ranks, 2 nodes, NVIDIA H100, libfabric efa, NCCL_ALGO=Ring``."""
    machine, settings = series.testbed.machine, series.testbed.settings
    nodes = int(machine.get("nodes") or 0)
    tuning = str(settings.get("settings", ""))
    words = (
        counted(int(machine.get("ranks") or 0), "rank"),
        counted(nodes, "node") if nodes > 1 else "",
        str(machine.get("device") or settings.get("backend", "")),
        str(machine.get("network", "")),
        "" if tuning == "no tuning variable" else tuning,
    )
    return ", ".join(filter(None, words))


# ---- all series -------------------------------------------------------------------------------------------


def overview(told: Sequence[Told], most: int) -> Iterator[str]:
    """A line a regime: neighbouring sizes whose newest change of level is the same one. ``told`` are in order
    of testbed, kind and size; the regimes beyond ``most`` are counted.
    """
    shown = left = 0
    for _, several in groupby(told, key=lambda each: (each.series.testbed.key, _curve(each))):
        own = sorted(several, key=lambda each: (each.series.case.size_bytes, each.series.case.kind))
        regimes = [list(regime) for _, regime in groupby(own, key=_newest_change)]
        if shown >= most:
            left += len(regimes)
            continue
        yield f"# {_curve(own[0])}: {testbed_words(own[0].series)}"
        for regime in regimes[: most - shown]:
            yield from _regime_lines(regime)
        left += max(0, len(regimes) - (most - shown))
        shown += len(regimes)
    if left:
        yield f"# and {left} more; name an operation, or -n {shown + left} shows all"


def _curve(told: Told) -> str:
    """What is one curve over sizes, in both placements."""
    return re.sub(" (out-of-place|in-place)", "", told.series.case.kind)


def _newest_change(told: Told) -> tuple[object, ...]:
    """What tells the newest change of a series from another one, and what became of it."""
    change = told.level.change
    if change is None:
        return ()
    when = change.explained or (_time(change.at)[:10],)
    return when, change.speed > 0, told.level.is_lost


def _regime_lines(regime: Sequence[Told]) -> Iterator[str]:
    """Sizes, the newest value of the largest one, its trend, and the newest change."""
    largest = regime[-1]
    sizes = dict.fromkeys(format_flag_size(each.series.case.size_bytes) for each in (regime[0], largest))
    trend = largest.trend
    newest = largest.speed(largest.points[-1].time_ns)
    launches = "1 launch" if largest.count == 1 else f"{largest.count} launches"
    yield (
        f"  {'-'.join(sizes):<10} {newest:>11} at {next(reversed(sizes)):<5}"
        f" trend {'n/a' if trend is None else format_share(trend, '+'):>6} {launches:>15}"
        f"{'  below its level' if largest.level.is_lost else ''}"
    )
    if largest.level.change is not None:
        speed = median(each.level.change.speed for each in regime if each.level.change is not None)
        yield from folded(change_words(largest, largest.level.change, speed), _WIDTH, " " * 4, " " * 6)


def change_words(told: Told, change: Change, speed: float | None = None) -> str:
    """``-5.1% since 2026-11-20: version NCCL 2.27 -> NCCL 2.28; accepted: ...``."""
    share = format_share(change.speed if speed is None else speed, "+")
    cause = ("one of " if len(change.explained) > 1 else "") + first_of(change.explained, _MOST_WORDS)
    cause = cause or f"from run {_run(told, change.launch)} on, no cause known"
    why = told.why(change)
    return f"{share} since {_time(change.at)[:10]}: {cause}" + (f"; accepted: {why}" if why else "")


def _run(told: Told, number: int) -> str:
    launch = told.launches.get(number)
    return launch.run if launch is not None else ""


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


# ---- one series -------------------------------------------------------------------------------------------


def detail(told: Told, columns: int, *, unicode: bool) -> Iterator[str]:
    """One series: where it stands, its course, its changes, and its newest launches."""
    case, level = told.series.case, told.level
    first, last = told.points[0], told.points[-1]
    yield f"# {case.kind}, {format_flag_size(case.size_bytes)}: {testbed_words(told.series)}"
    yield (
        f"# {counted(len(told.points), 'point')}, {_time(first.at)[:10]} to {_time(last.at)[:10]}:"
        f" newest {told.speed(last.time_ns)}, level {told.speed(level.now_ns)}"
        + (f", launches differ by {format_share(level.deviation)}" if len(told.points) >= KNOWN else "")
    )
    if level.is_lost:
        was = told.speed(level.expected_ns)
        yield f"# below its level of {was}; `busbw history accept` makes the new one its level"
    speeds = [1 / point.time_ns for point in told.points]
    yield f"  {sparkline(speeds, columns - 4, unicode=unicode)}"
    for change in told.changes:
        levels = f"{told.speed(change.before_ns)} -> {told.speed(change.after_ns)}"
        yield from folded(f"{levels}: {change_words(told, change)}", _WIDTH, "  ", " " * 4)
    yield f"  {'ended (UTC)':<17} {'value':>11}  run"
    for point in told.points[-_MOST_POINTS:]:
        yield f"  {_time(point.at):<17} {told.speed(point.time_ns):>11}  {_run(told, point.launch)}"
    if len(told.points) > _MOST_POINTS:
        yield f"# the newest {_MOST_POINTS} of {len(told.points)}; --format csv writes all"


# ---- in a report ------------------------------------------------------------------------------------------


def plot(of: tuple[str, ...], told: Told) -> Plot:
    """The course of one series: a point a launch, its levels as lines, its changes in words."""
    case, places = told.series.case, [point.at for point in told.points]
    starts = sorted(bisect_left(places, change.at) for change in told.changes if change.at > places[0])
    rows, cells = [], []
    for start, end in pairwise([0, *starts, len(places)]):
        level_ns = median(point.time_ns for point in told.points[start:end])
        for place, point in enumerate(told.points[start:end], start):
            value, run = told.speed(point.time_ns), _run(told, point.launch)
            rows.append({"x": place + 1, "y": _height(told, point.time_ns), "level": _height(told, level_ns),
                         "part": start, "text": f"{run}, {_time(point.at)}: {value}"})  # fmt: skip
            cells.append((run, _time(point.at), value))
    note = "A point a launch, the newest last; lines are levels."
    words = tuple(change_words(told, change) for change in told.changes)
    return Plot(
        "history", of, "history", f"History of {case.kind} at {format_size(case.size_bytes)}",
        " ".join((note, *(f"{each}." for each in words))), tuple(rows),
        Table(("run", "ended (UTC)", "value"), tuple(cells[-_MOST_POINTS:]), keys=2),
        {"x": "launch", "y": "time (us)" if told.series.bus_bytes is None else BANDWIDTH},
    )  # fmt: skip


def _height(told: Told, time_ns: float) -> float:
    bus_bytes = told.series.bus_bytes
    return time_ns / NS_PER_US if bus_bytes is None else gb_per_s(bus_bytes, time_ns)


# ---- for programs -----------------------------------------------------------------------------------------

_COLUMNS: Final = ("operation", "kind", "size_bytes", "ranks", "nodes", "device", "network", "testbed", "run",
                   "ended", "version", "time_ns", "busbw_gb_per_s", "begins_level")  # fmt: skip


def csv_text(told: Sequence[Told]) -> str:
    """A line a point."""
    rows = (
        {**each.series.case._asdict(), "testbed": each.series.testbed.key, **point,
         **{name: each.series.testbed.machine[name] for name in ("ranks", "nodes", "device", "network")}}
        for each in told
        for point in fields(each)["points"]
    )  # fmt: skip
    return csv_of(_COLUMNS, rows)


def fields(told: Told) -> dict[str, Any]:
    """One series for programs."""
    series, level = told.series, told.level
    starts = {change.at for change in told.changes}

    def point(each: Point) -> dict[str, Any]:
        launch, bus_bytes = told.launches[each.launch], series.bus_bytes
        return {
            "run": launch.run, "ended": launch.ended, "version": launch.version, "time_ns": each.time_ns,
            "busbw_gb_per_s": None if bus_bytes is None else gb_per_s(bus_bytes, each.time_ns),
            "begins_level": each.at in starts,
        }  # fmt: skip

    return {
        **series.case._asdict(),
        "testbed": series.testbed.key,
        "machine": dict(series.testbed.machine),
        "settings": dict(series.testbed.settings),
        "level": {
            "expected_ns": level.expected_ns, "now_ns": level.now_ns, "deviation": level.deviation,
            "launches": level.launches, "lost": level.is_lost,
        },
        "changes": [
            {"run": _run(told, each.launch), "speed": each.speed, "before_ns": each.before_ns,
             "after_ns": each.after_ns, "explained": list(each.explained), "accepted": told.why(each)}
            for each in told.changes
        ],
        "points": [point(each) for each in told.points],
    }  # fmt: skip
