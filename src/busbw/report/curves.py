"""Curves over message size: time and bandwidth with intervals, references and limits; how samples vary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from busbw.judge.compare_arms import CaseKey, key_of
from busbw.judge.expectation import Judged
from busbw.judge.samples import Spread
from busbw.model.case import Case
from busbw.model.result import CaseResult
from busbw.report.columns import NOT_APPLICABLE, format_time_us
from busbw.report.plots import Plot, Row, Table
from busbw.units import NS_PER_US, format_share, format_size

_NONE: Final = NOT_APPLICABLE
_BAND: Final = "; the band is the 95 % interval"
Found = Iterable[tuple[Case, CaseResult]]


def bandwidth(
    name: str,
    title: str,
    series: Mapping[str, Found],
    judged: Mapping[CaseKey, Judged],
    notes: tuple[str, ...] = (),
) -> Plot | None:
    """Bus bandwidth against size, with the reference and the limit where they are known; None without any.
    ``notes`` say what the marks of cases mean.
    """
    rows: list[Row] = []
    cells = []
    for label, found in series.items():
        for case, result in found:
            if result.busbw_gb_per_s is None or not result.time_ns or not case.size_bytes:
                continue
            bytes_ = result.busbw_gb_per_s * result.time_ns
            low = None if result.high_ns is None else bytes_ / result.high_ns
            high = None if result.low_ns is None else bytes_ / result.low_ns
            rows.append(_row(label, case.size_bytes, result.busbw_gb_per_s, low, high, "GB/s"))
            seen = judged.get(key_of(case))
            cells.append(
                (label, format_size(case.size_bytes), *_values(result, low, high), *_against(seen),
                 _marks(result))
            )  # fmt: skip
    if not rows:
        return None
    rows.extend(_lines(judged))
    band = _BAND if any(row.get("low") is not None for row in rows) else ""
    note = f"Bus bandwidth is ring-equivalent{band}. GB/s = 10^9 bytes/s."
    head = ("series", "size", "busbw GB/s", "95 % interval", "algbw GB/s", "expected", "limit", "marks")
    table = Table(head, tuple(cells), keys=2, notes=notes).without(_NONE)
    return Plot(
        "curve", name, title, note, tuple(rows), table, {"x": "size", "y": "bus bandwidth (GB/s)"}
    )  # fmt: skip


def _values(result: CaseResult, low: float | None, high: float | None) -> tuple[str, str, str]:
    between = _NONE if low is None or high is None else f"{low:.4g} to {high:.4g}"
    algbw = _NONE if result.algbw_gb_per_s is None else f"{result.algbw_gb_per_s:.4g}"
    return f"{result.busbw_gb_per_s:.4g}", between, algbw


def _against(seen: Judged | None) -> tuple[str, str]:
    if seen is None:
        return _NONE, _NONE
    expected = _NONE if not seen.expected_gb_per_s else f"{seen.expected_gb_per_s:.4g}"
    bound = seen.limit.busbw_gb_per_s if seen.limit is not None else None
    return expected, _NONE if bound is None else f"{bound:.4g}"


def _lines(judged: Mapping[CaseKey, Judged]) -> Iterator[Row]:
    """The reference's and the limit's own points, each once a size."""
    lines: dict[tuple[str, int], tuple[str, float]] = {}
    for key, seen in judged.items():
        if not key.size_bytes:
            continue
        if seen.expected_gb_per_s:
            lines.setdefault(
                (f"expected: {seen.reference}", key.size_bytes), ("reference", seen.expected_gb_per_s)
            )
        if seen.limit is not None and seen.limit.busbw_gb_per_s:
            lines.setdefault(
                (f"limit: {seen.limit.model}", key.size_bytes), ("limit", seen.limit.busbw_gb_per_s)
            )
    for (label, size), (kind, value) in sorted(lines.items()):
        yield {**_row(label, size, value, None, None, "GB/s"), "kind": kind}


def _marks(result: CaseResult) -> str:
    return " ".join(result.marks) or _NONE


def time(name: str, title: str, series: Mapping[str, Found], notes: tuple[str, ...] = ()) -> Plot | None:
    """Time against size; None without any. ``notes`` say what the marks of cases mean."""
    rows, cells = [], []
    for label, found in series.items():
        for case, result in found:
            if not result.time_ns or not case.size_bytes:
                continue
            ends = [None if end is None else end / NS_PER_US for end in (result.low_ns, result.high_ns)]
            rows.append(_row(label, case.size_bytes, result.time_ns / NS_PER_US, ends[0], ends[1], "us"))
            # A log's one number is no mean of samples that are here.
            mean = _NONE if result.mean_ns is None or not result.samples else format_time_us(result.mean_ns)
            between = _NONE
            if result.low_ns is not None and result.high_ns is not None:
                between = f"{format_time_us(result.low_ns)} to {format_time_us(result.high_ns)}"
            cells.append(
                (label, format_size(case.size_bytes), format_time_us(result.time_ns), between, mean,
                 str(result.samples or _NONE), result.algorithm or _NONE, _marks(result))
            )  # fmt: skip
    if not rows:
        return None
    head = ("series", "size", "time us", "95 % interval", "mean us", "samples", "algorithm", "marks")
    band = _BAND if any(row["low"] is not None for row in rows) else ""
    means = " The mean is that of all samples." if any(cell[4] != _NONE for cell in cells) else ""
    note = f"Both axes are logarithmic{band}.{means}"
    table = Table(head, tuple(cells), keys=2, notes=notes).without(_NONE)
    return Plot("curve", name, title, note, tuple(rows), table, {"x": "size", "y": "time", "log": True})


def _row(
    series: str, size: int, value: float, low: float | None, high: float | None, unit: str
) -> dict[str, Any]:
    interval = "" if low is None or high is None else f", interval {low:.4g} to {high:.4g}"
    return {
        "series": series, "kind": "measured", "x": size, "y": value, "low": low, "high": high,
        "text": f"{series}, {format_size(size)}: {value:.4g} {unit}{interval}",
    }  # fmt: skip


# How much the samples vary, against size, and how far the mean is from the median. Pure.

_CV = "CV: standard deviation / mean"
_HALF = "half the 95 % interval / median"
_MIDDLE = "middle half / median"
_HEAD = (
    "size", "samples", "CV", "half interval", "middle half", "median us", "mean us", "mean / median",
    "p99 us", "far out", "modes", "single calls", "their p99 us", "their far out",
)  # fmt: skip


def spread(name: str, title: str, cases: Sequence[Case], found: Mapping[int, Spread]) -> Plot | None:
    """Of the cases that have samples; None without any two, or where none of them varies."""
    pairs = [(case, found[case.index]) for case in cases if case.index in found and case.size_bytes]
    pairs = [(case, own) for case, own in pairs if own.samples > 1]
    if len(pairs) < 2:
        return None
    rows: list[dict[str, Any]] = []
    for label, shares in (
        (_CV, [own.cv for _, own in pairs]),
        (_HALF, [own.half_width for _, own in pairs]),
        (_MIDDLE, [own.quartiles for _, own in pairs]),
    ):
        for (case, _), share in zip(pairs, shares, strict=True):
            if share:  # none is no place of a logarithmic axis
                rows.append(_share_row(label, case.size_bytes, share))
    if not rows:
        return None
    return Plot(
        "curve",
        name,
        title,
        "All samples of a size, from all ranks."
        " Slow samples raise the mean (which nccl-tests prints) above the median.",
        tuple(rows),
        Table(_HEAD, tuple(_cells(case, own) for case, own in pairs)).without(NOT_APPLICABLE),
        {"x": "size", "y": "share of the time (%)", "log": True},
    )


def _share_row(label: str, size: int, share: float) -> dict[str, Any]:
    return {
        "series": label, "kind": "measured", "x": size, "y": 100 * share, "low": None, "high": None,
        "text": f"{label}, {format_size(size)}: {format_share(share, decimals=2)}",
    }  # fmt: skip


def _cells(case: Case, own: Spread) -> tuple[str, ...]:
    half = NOT_APPLICABLE if own.half_width is None else format_share(own.half_width, decimals=2)
    p99 = NOT_APPLICABLE if own.p99_ns is None else format_time_us(own.p99_ns)
    modes = NOT_APPLICABLE
    if own.modes is not None:
        modes = " and ".join(format_time_us(mode.centre) for mode in (own.modes.low, own.modes.high))
    return (
        format_size(case.size_bytes), str(own.samples),
        format_share(own.cv, decimals=2), half, format_share(own.quartiles, decimals=2),
        format_time_us(own.headline_ns), format_time_us(own.mean_ns), f"{own.mean_ns / own.headline_ns:.3f}",
        p99, str(own.far), modes, *_tail(own),
    )  # fmt: skip


def _tail(own: Spread) -> tuple[str, str, str]:
    """Of the pass of single calls, which are other samples than those of the rest of the row."""
    tail = own.tail
    if tail is None:
        return NOT_APPLICABLE, NOT_APPLICABLE, NOT_APPLICABLE
    p99 = NOT_APPLICABLE if tail.p99_ns is None else format_time_us(tail.p99_ns)
    return str(tail.calls), p99, str(tail.far)
