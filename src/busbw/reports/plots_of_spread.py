"""How much the samples vary, against size, and how far the mean is from the median. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from busbw.analysis.spread import Spread, Trend
from busbw.model.case import Case
from busbw.reports.columns import NOT_APPLICABLE, format_time_us
from busbw.reports.plots import Plot, Table
from busbw.units import format_size

_CV = "CV: standard deviation / mean"
_HALF = "half the 95 % interval / median"
_MIDDLE = "middle half / median"
_HEAD = (
    "size", "samples", "CV", "half interval", "middle half", "median us", "mean us", "mean / median",
    "p99 us", "far out", "modes", "single calls", "their p99 us", "their far out",
)  # fmt: skip


def spread(
    name: str, title: str, cases: Sequence[Case], found: Mapping[int, Spread], trend: Trend | None
) -> Plot | None:
    """Of the cases that have samples; None without any two. ``trend`` is None with too few sizes to tell."""
    pairs = [(case, found[case.index]) for case in cases if case.index in found and case.size_bytes]
    pairs = [(case, own) for case, own in pairs if own.samples > 1]
    if len(pairs) < 2:
        return None
    rows: list[dict[str, Any]] = []
    for label, value in ((_CV, _cv), (_HALF, _half), (_MIDDLE, _middle)):
        for case, own in pairs:
            share = value(own)
            if share:  # none is no place of a logarithmic axis
                rows.append(_row(label, case.size_bytes, share))
    return Plot(
        "curve",
        name,
        title,
        f"Of all samples of a size, all ranks. {_words(trend)}"
        " Slow samples lift the mean, as nccl-tests prints one, off the median.",
        tuple(rows),
        Table(_HEAD, tuple(_cells(case, own) for case, own in pairs)).without(NOT_APPLICABLE),
        {"x": "size", "y": "share of the time (%)", "log": True},
    )


def _cv(own: Spread) -> float | None:
    return own.cv


def _half(own: Spread) -> float | None:
    return own.half_width


def _middle(own: Spread) -> float | None:
    return own.quartiles


def _row(label: str, size: int, share: float) -> dict[str, Any]:
    return {
        "series": label, "kind": "measured", "x": size, "y": 100 * share, "low": None, "high": None,
        "text": f"{label}, {format_size(size)}: {share:.2%}",
    }  # fmt: skip


def _words(told: Trend | None) -> str:
    if told is None:
        return "Too few sizes to say whether it changes with size."
    word = f"The middle half {told.word} with size" if told.word else "No trend with size is known"
    return f"{word} (Spearman's rank correlation {told.correlation:+.2f}, z {told.z:+.1f})."


def _cells(case: Case, own: Spread) -> tuple[str, ...]:
    half = NOT_APPLICABLE if own.half_width is None else f"{own.half_width:.2%}"
    p99 = NOT_APPLICABLE if own.p99_ns is None else format_time_us(own.p99_ns)
    modes = NOT_APPLICABLE
    if own.modes is not None:
        modes = " and ".join(format_time_us(mode.centre) for mode in (own.modes.low, own.modes.high))
    return (
        format_size(case.size_bytes), str(own.samples), f"{own.cv:.2%}", half, f"{own.quartiles:.2%}",
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
