"""Curves over message size: time and bandwidth, with intervals, references and limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from busbw.analysis.compare_arms import CaseKey, key_of
from busbw.analysis.expectation import Judged
from busbw.model.case import Case
from busbw.model.result import CaseResult
from busbw.reports.columns import NOT_APPLICABLE, format_time_us
from busbw.reports.plots import Plot, Row, Table
from busbw.units import NS_PER_US, format_size

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
