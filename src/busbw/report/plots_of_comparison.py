"""Plots of a comparison, of runs or of setups measured in turn: verdicts as a map, and curves. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from busbw.judge.compare import ComparedCase, Comparison, Verdict
from busbw.judge.compare_arms import Arm, CaseKey
from busbw.report.columns import NOT_APPLICABLE
from busbw.report.curves import Point, curves
from busbw.report.plots import Plot, Table
from busbw.report.reported import Kind
from busbw.units import format_size, format_time

_OUT_OF_PLACE: Final = "out-of-place"
_COLOURS: Final = {
    Verdict.SLOWER: "high2", Verdict.SAME: "mid", Verdict.FASTER: "low2", Verdict.AMBIGUOUS: "none",
    Verdict.FAILED: "failed",
}  # fmt: skip
_BAND: Final = "range over launches"


def plots(of: str, comparison: Comparison, where: str = "") -> Iterator[Plot]:
    """A map for every kind of case. ``of`` names the comparison in a report of several; ``where`` is added to
    titles.
    """
    for kind in dict.fromkeys(_kind(row.key) for row in comparison.rows):
        if (found := _verdicts((of, *kind, where), where, comparison, kind)) is not None:
            yield found


def curves_of(of: str, comparison: Comparison, where: str = "") -> Iterator[Plot]:
    """Bandwidth and time of the arms, with the range over their launches."""
    arms = (comparison.baseline, *comparison.candidates)
    for kind in dict.fromkeys(_kind(row.key) for row in comparison.rows):
        series = {arm.name: points for arm in arms if (points := list(_points(arm, kind)))}
        placements = {key.placement for arm in arms for key in _keys(arm, kind)}
        word = f"{_of_one(kind, placements)}{where}, all setups"
        yield from curves((of, *kind, where), word, series, band=_BAND)


def _kind(key: CaseKey) -> Kind:
    return key.collective, key.dtype, key.op


def _verdicts(of: tuple[str, ...], where: str, comparison: Comparison, kind: Kind) -> Plot | None:
    """Out-of-place where there is that."""
    rows = [row for row in comparison.rows if _kind(row.key) == kind and row.verdict is not Verdict.MISSING]
    rows = [row for row in rows if row.key.placement == _OUT_OF_PLACE] or rows
    rows = sorted(rows, key=lambda row: row.key.size_bytes)
    arms = [arm.name for arm in comparison.candidates if any(row.arm == arm.name for row in rows)]
    table: dict[str, dict[str, str]] = defaultdict(dict)
    marks: list[dict[str, Any]] = []
    for row in rows:
        size = format_size(row.key.size_bytes)
        speed = "" if row.speedup is None else f"x{row.speedup:.2f}"
        table[size][row.arm] = f"{speed} {row.verdict}".strip()
        marks.append(
            {"x": row.arm, "y": size, "bin": row.verdict.value, "cell": speed or row.verdict.value,
             "text": f"{row.arm}, {size}: {_words(row)}"}
        )  # fmt: skip
    if not any(row.speedup is not None for row in rows):
        return None
    cells = tuple((size, *(found.get(arm, NOT_APPLICABLE) for arm in arms)) for size, found in table.items())
    used = {row.verdict for row in rows}
    return Plot(
        "heat",
        of,
        "compared",
        f"{_of_one(kind, {row.key.placement for row in rows})}{where} against {comparison.baseline.name}",
        "Numbers are the baseline's time over the other's: x1.10 is faster. Colours are the verdicts of"
        " `busbw compare`.",
        tuple(marks),
        Table(("size", *arms), cells),
        {
            "x": None,
            "y": None,
            "bins": {verdict.value: colour for verdict, colour in _COLOURS.items() if verdict in used},
            "across": arms,
            "down": list(table),
        },
    )


def _words(row: ComparedCase) -> str:
    words = [row.verdict.value]
    if row.speedup is not None and row.interval is not None:
        words.append(f"x{row.speedup:.3f} ({row.interval[0]:.3f} to {row.interval[1]:.3f})")
    if row.time_ns is not None:
        words.append(format_time(row.time_ns, 4))
    return ", ".join(filter(None, (*words, row.reasons)))


def _of_one(kind: Kind, placements: set[str]) -> str:
    """What a plot is of; without a placement where its curves have several."""
    return " ".join(filter(None, (*kind, *(placements if len(placements) == 1 else ()))))


def _keys(arm: Arm, kind: Kind) -> list[CaseKey]:
    """Its sizes of a kind, out-of-place where there is that."""
    keys = [key for key in arm.cases if _kind(key) == kind and key.size_bytes]
    keys = [key for key in keys if key.placement == _OUT_OF_PLACE] or keys
    return sorted(keys, key=lambda key: key.size_bytes)


def _points(arm: Arm, kind: Kind) -> Iterator[Point]:
    """The median launch of every size, between the quickest and the slowest."""
    for key in _keys(arm, kind):
        seen = arm.cases[key]
        if seen.time_ns:
            times_ns = seen.times_ns
            ends = (min(times_ns), max(times_ns)) if len(times_ns) > 1 else (None, None)
            yield Point(key.size_bytes, seen.time_ns, seen.busbw_gb_per_s, *ends)
