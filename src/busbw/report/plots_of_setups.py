"""Plots of setups that were measured in turn: verdicts as a map setup by size, and their curves. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from busbw.judge.compare import ComparedCase, Comparison, Verdict
from busbw.judge.compare_arms import Arm, CaseKey
from busbw.report.columns import NOT_APPLICABLE
from busbw.report.plots import Plot, Table
from busbw.units import NS_PER_US, format_size

_FAR: Final = 1.1
_OUT_OF_PLACE: Final = "out-of-place"
_BINS: Final = {
    "SLOWER, > 10 %": "high2", "SLOWER": "high1", "SAME": "mid", "FASTER": "low1", "FASTER, > 10 %": "low2",
    "AMBIGUOUS": "none", "FAILED or MISSING": "failed",
}  # fmt: skip
Kind = tuple[str, str, str]


def plots(name: str, nodes: int, comparison: Comparison) -> Iterator[Plot]:
    """Of one comparison against the default setup. ``nodes`` is 0 for ranks of this host."""
    on = f" on {nodes} nodes" if nodes else ""
    kinds = dict.fromkeys(_kind(row.key) for row in comparison.rows)
    for kind in kinds:
        word = " ".join(filter(None, kind))
        place = "-".join(filter(None, (name, f"{nodes}-nodes" if nodes else "", *kind)))
        yield _verdicts(f"{place}-setups", f"Setups: {word}{on}", comparison, kind)
        curves = _curves(f"{place}-bandwidth", f"Bandwidth of {word}{on}, all setups", comparison, kind)
        if curves is not None:
            yield curves


def _kind(key: CaseKey) -> Kind:
    return key.collective, key.dtype, key.op


def _verdicts(name: str, title: str, comparison: Comparison, kind: Kind) -> Plot:
    rows = [row for row in comparison.rows if _kind(row.key) == kind]
    several = len({row.key.placement for row in rows}) > 1
    sizes = [format_size(size) for size in sorted({row.key.size_bytes for row in rows})]
    marks: list[dict[str, Any]] = []
    table: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        label = row.arm + (f", {row.key.placement}" if several else "")
        size = format_size(row.key.size_bytes)
        speed = "" if row.speedup is None else f"x{row.speedup:.2f} "
        table[label][size] = f"{speed}{row.verdict}"
        marks.append({"x": size, "y": label, "bin": _bin(row), "text": f"{label}, {size}: {_words(row)}"})
    cells = tuple(
        (label, *(found.get(size, NOT_APPLICABLE) for size in sizes)) for label, found in table.items()
    )
    return Plot(
        "heat",
        name,
        title,
        f"Against {comparison.baseline.name}: its time over the setup's, so x1.10 is FASTER; as"
        " `busbw compare` decides, by 95 % intervals over launches.",
        tuple(marks),
        Table(("setup", *sizes), cells),
        {"x": "size", "y": None, "bins": _BINS, "across": sizes, "down": list(table)},
    )


def _bin(row: ComparedCase) -> str:
    if row.verdict in (Verdict.FAILED, Verdict.MISSING):
        return "FAILED or MISSING"
    speed = row.speedup or 1.0
    far = (row.verdict is Verdict.FASTER and speed > _FAR) or (
        row.verdict is Verdict.SLOWER and speed < 1 / _FAR
    )
    return f"{row.verdict}, > 10 %" if far else row.verdict.value


def _words(row: ComparedCase) -> str:
    words = [row.verdict.value]
    if row.speedup is not None:
        between = row.interval
        words.append(
            f"x{row.speedup:.3f}" + ("" if between is None else f" ({between[0]:.3f} to {between[1]:.3f})")
        )
    if row.time_ns is not None:
        words.append(f"{row.time_ns / NS_PER_US:.4g} us")
    return ", ".join(filter(None, (*words, row.reasons)))


def _curves(name: str, title: str, comparison: Comparison, kind: Kind) -> Plot | None:
    """Bus bandwidth of every setup, with its least and its greatest launch."""
    marks, cells = [], []
    for arm in (comparison.baseline, *comparison.candidates):
        for size, busbw, low, high, launches in _points(arm, kind):
            text = f"{arm.name}, {format_size(size)}: {busbw:.4g} GB/s, launches {low:.4g} to {high:.4g}"
            marks.append({"series": arm.name, "kind": "measured", "x": size, "y": busbw, "low": low,
                          "high": high, "text": text})  # fmt: skip
            cells.append(
                (arm.name, format_size(size), f"{busbw:.4g}", f"{low:.4g} to {high:.4g}", str(launches))
            )
    if not marks:
        return None
    note = (
        "Bus bandwidth at the median time over launches; the band is from the slowest launch to the quickest."
    )
    head = ("setup", "size", "busbw GB/s", "over launches", "launches")
    return Plot(
        "curve", name, title, note, tuple(marks), Table(head, tuple(cells), keys=2),
        {"x": "size", "y": "bus bandwidth (GB/s)"},
    )  # fmt: skip


def _points(arm: Arm, kind: Kind) -> Iterator[tuple[int, float, float, float, int]]:
    """Size, bandwidth, that of the slowest and of the quickest launch, launches."""
    keys: Sequence[CaseKey] = [key for key in arm.cases if _kind(key) == kind]
    keys = [key for key in keys if key.placement == _OUT_OF_PLACE] or keys
    for key in sorted(keys, key=lambda key: key.size_bytes):
        seen = arm.cases[key]
        if seen.busbw_gb_per_s and seen.time_ns and key.size_bytes:
            moved = seen.busbw_gb_per_s * seen.time_ns
            yield (
                key.size_bytes, seen.busbw_gb_per_s, moved / max(seen.times_ns), moved / min(seen.times_ns),
                len(seen.times_ns),
            )  # fmt: skip
