"""Curves over message size: bandwidth and time with intervals, references and limits; how samples vary.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from busbw.judge.expectation import Judged
from busbw.judge.samples import Spread
from busbw.model.case import Case
from busbw.model.result import CaseResult, Status
from busbw.report.columns import NOT_APPLICABLE
from busbw.report.plots import LINEAR, LOG, Plot, Row, Table
from busbw.units import NS_PER_US, format_gb_per_s, format_share, format_size, format_time

BANDWIDTH: Final = "bus bandwidth (GB/s)"
INTERVAL: Final = "95 % interval"

Ends = tuple[float | None, float | None]


@dataclass(frozen=True)
class Point:
    """One size of a curve. ``low_ns`` and ``high_ns`` bound its time, None where nothing above zero does.
    ``part`` is another one behind a size without a number, over which there is no line.
    """

    size_bytes: int
    time_ns: float
    busbw_gb_per_s: float | None
    low_ns: float | None = None
    high_ns: float | None = None
    part: int = 0

    @property
    def busbw_ends(self) -> Ends:
        """Between which GB/s the bandwidth lies."""
        if self.busbw_gb_per_s is None or self.low_ns is None or self.high_ns is None:
            return None, None
        of_one_ns = self.busbw_gb_per_s * self.time_ns
        return of_one_ns / self.high_ns, of_one_ns / self.low_ns


Series = Mapping[str, Sequence[Point]]


def points(found: Iterable[tuple[Case, CaseResult]]) -> list[Point]:
    """Of the cases that have a number and a size."""
    made, part = [], 0
    for case, result in found:
        if result.status is not Status.GOOD or not result.time_ns or not case.size_bytes:
            part += 1
            continue
        ends = (result.low_ns, result.high_ns) if (result.low_ns or 0.0) > 0 else (None, None)
        made.append(Point(case.size_bytes, result.time_ns, result.busbw_gb_per_s, *ends, part))
    return made


def curves(
    of: tuple[str, ...],
    word: str,
    series: Series,
    table: Table | None = None,
    judged: Iterable[Judged] = (),
    band: str = INTERVAL,
) -> Iterator[Plot]:
    """Bandwidth of ``word`` against size, with the reference and the limit where they are known, and its
    time; each where there is any. ``table`` has the numbers of both; without it each has the series side by
    side. ``band`` is what bounds the points.
    """
    rates: list[Row] = []
    times: list[Row] = []
    for label, found in series.items():
        for point in found:
            ends = point.low_ns, point.high_ns
            text = _words(lambda value: format_time(value, 4), point.time_ns, ends, band)
            low_us, high_us = (None if end is None else end / NS_PER_US for end in ends)
            value, bounds = point.time_ns / NS_PER_US, (low_us, high_us)
            times.append(row(label, point.size_bytes, value, bounds, text, point.part))
            if point.busbw_gb_per_s is not None:
                value, ends = point.busbw_gb_per_s, point.busbw_ends
                text = _words(lambda value: f"{format_gb_per_s(value)} GB/s", value, ends, band)
                rates.append(row(label, point.size_bytes, value, ends, text, point.part))
    if rates:
        note = "Ring-equivalent; GB/s = 10^9 bytes/s."
        note += f" The band is the {band}." if any(each["low"] is not None for each in rates) else ""
        rows, words = (*rates, *_lines(judged)), {"x": "size", "y": BANDWIDTH, "scales": (LINEAR, LOG)}
        own = table or side_by_side(series, "GB/s")
        yield Plot("curve", of, "bandwidth", f"Bandwidth of {word}", note, rows, own, words)
    if times:
        note, words = "Of one call; both axes are logarithmic.", {"x": "size", "y": "time", "scales": (LOG,)}
        own = table or side_by_side(series, "time")
        yield Plot("curve", of, "time", f"Time of {word}", note, tuple(times), own, words)


def row(series: str, size: int, value: float, ends: Ends, text: str, part: int = 0) -> dict[str, Any]:
    """A point of a plot of kind "curve"; ``text`` are its words behind series and size."""
    low, high = ends
    return {
        "series": series, "kind": "measured", "x": size, "y": value, "low": low, "high": high, "part": part,
        "text": f"{series}, {format_size(size)}: {text}",
    }  # fmt: skip


def _words(form: Callable[[float], str], value: float, ends: Ends, band: str) -> str:
    low, high = ends
    between = "" if low is None or high is None else f", {band} {form(low)} to {form(high)}"
    return form(value) + between


def _lines(judged: Iterable[Judged]) -> Iterator[Row]:
    """The reference's and the limit's own points, each once a size."""
    lines: dict[tuple[str, str, int], float] = {}
    for seen in judged:
        size = seen.key.size_bytes
        if not size:
            continue
        if seen.expected_gb_per_s:
            lines.setdefault(("reference", f"expected: {seen.reference}", size), seen.expected_gb_per_s)
        if seen.limit is not None and seen.limit.busbw_gb_per_s:
            label = f"limit: {seen.limit.model}, {format_gb_per_s(seen.limit.busbw_gb_per_s)} GB/s"
            lines.setdefault(("limit", label, size), seen.limit.busbw_gb_per_s)
    for (kind, label, size), value in sorted(lines.items()):
        yield {**row(label, size, value, (None, None), ""), "kind": kind}


# ---- their numbers ----------------------------------------------------------------------------------------


def side_by_side(series: Series, value: str) -> Table:
    """A row a size, a column a series; ``value`` is "GB/s" or "time"."""
    sizes = sorted({point.size_bytes for found in series.values() for point in found})
    cells: dict[tuple[str, int], str] = {}
    for label, found in series.items():
        for point in found:
            if value == "time":
                cells[label, point.size_bytes] = format_time(point.time_ns, 4)
            elif point.busbw_gb_per_s is not None:
                cells[label, point.size_bytes] = format_gb_per_s(point.busbw_gb_per_s)
    rows = (
        (format_size(size), *(cells.get((label, size), NOT_APPLICABLE) for label in series)) for size in sizes
    )
    unit = f" {value}" if value != "time" else ""
    return Table(("size", *(f"{label}{unit}" for label in series)), tuple(rows))


# ---- how samples vary -------------------------------------------------------------------------------------

_CV: Final = "standard deviation / mean"
_HALF: Final = "half the 95 % interval / median"
_HEAD: Final = ("size", "samples", "deviation", "95 % interval", "median", "mean", "p99", "far out", "modes")


def spread(
    of: tuple[str, ...], title: str, cases: Sequence[Case], found: Mapping[int, Spread]
) -> Plot | None:
    """How much the samples vary, against size; of the cases that have samples. None without any two, or
    where none of them varies.
    """
    pairs = [(case, found[case.index]) for case in cases if case.index in found and case.size_bytes]
    pairs = [(case, own) for case, own in pairs if own.samples > 1]
    shares = [(_CV, case, own.cv) for case, own in pairs]
    shares += [(_HALF, case, own.result.half_width or 0.0) for case, own in pairs]
    rows = [
        row(label, case.size_bytes, 100 * share, (None, None), format_share(share, decimals=2))
        for label, case, share in shares
        if share  # 0 has no logarithm
    ]
    if len(pairs) < 2 or not rows:
        return None
    note, words = "Of all samples of a size, all ranks.", {"x": "size", "y": "share of the time (%)"}
    table = Table(_HEAD, tuple(_cells(case, own) for case, own in pairs)).without(NOT_APPLICABLE)
    return Plot("curve", of, "spread", title, note, tuple(rows), table, {**words, "scales": (LOG,)})


def _cells(case: Case, own: Spread) -> tuple[str, ...]:
    """The tail is that of single calls, where those were timed: samples of many calls thin slow ones out."""
    p99_ns, far = (own.p99_ns, own.far) if own.tail is None else (own.tail.p99_ns, own.tail.far)
    half, modes = own.result.half_width, (own.modes.low, own.modes.high) if own.modes is not None else ()
    return (
        format_size(case.size_bytes),
        str(own.samples),
        format_share(own.cv, decimals=2),
        NOT_APPLICABLE if half is None else f"+-{format_share(half, decimals=2)}",
        format_time(own.headline_ns, 4),
        format_time(own.mean_ns, 4),
        NOT_APPLICABLE if p99_ns is None else format_time(p99_ns, 4),
        str(far),
        " and ".join(format_time(mode.centre, 4) for mode in modes) or NOT_APPLICABLE,
    )
