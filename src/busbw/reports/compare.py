"""A comparison as text: table, CSV, JSON. Pure. Every line that is no row starts with #."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from busbw.analysis.compare import Comparison, Row, Verdict
from busbw.analysis.compare_arms import Arm
from busbw.units import NS_PER_US, format_size

CSV_COLUMNS = (
    "arm", "collective", "dtype", "op", "root", "placement", "size_bytes", "verdict", "speedup",
    "speedup_low", "speedup_high", "q", "basis", "baseline_launches", "launches", "more_blocks",
    "baseline_time_ns", "time_ns", "baseline_busbw_gb_per_s", "busbw_gb_per_s", "rank", "ranked", "why",
    "note", "pattern",
)  # fmt: skip


WORLD_COLUMNS = ("baseline", "nodes", "ranks", "version", "baseline_version")


def table(comparison: Comparison) -> Iterator[str]:
    """Lines for people."""
    yield from heading(comparison)
    for arm in comparison.candidates:
        rows = [row for row in comparison.rows if row.arm == arm.name]
        last = None
        for row in rows:
            kind = row.key.kind
            if kind != last:
                yield f"# {arm.name} against {comparison.baseline.name}: {kind}"
                yield _titles()
                last = kind
            yield table_row(row)
    counts = {verdict: comparison.count(verdict) for verdict in Verdict}
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    yield f"# {words}"


def heading(comparison: Comparison) -> Iterator[str]:
    """What is compared with what, by which rule, and what to know."""
    arms = (comparison.baseline, *comparison.candidates)
    same = len({arm.definition for arm in arms}) == 1
    for position, arm in enumerate(arms):
        yield f"# {'with' if position else 'baseline':<8} {_arm_words(arm, with_time=not same)}"
    if same:
        yield f"# time     {comparison.baseline.definition}"
    rule = comparison.rule
    yield (
        f"# rule     FASTER, SLOWER: interval beyond +-{rule.delta / 2:.1%} and q < {rule.q:g};"
        f" SAME: within +-{rule.delta:.1%}; 95 % intervals over launches"
    )
    yield (
        "# speed    time of the baseline / time, in a series the middle of its blocks' ratios:"
        " above 1 is faster; times are medians over launches"
    )
    yield from (f"# differs  {flag}" for flag in comparison.flags)
    yield from (f"# note     {note}" for note in comparison.notes)


def _arm_words(arm: Arm, *, with_time: bool) -> str:
    where = [f"{arm.ranks} ranks"] * bool(arm.ranks) + [f"in groups {arm.where}"] * bool(arm.where)
    where += [f"{arm.nodes} nodes"] * (arm.nodes > 1)
    facts = [arm.facts[name] for name in ("version", "device", "created") if name in arm.facts]
    words = [*where, *facts, *([arm.definition] if with_time else [])]
    return f"{arm.name}: {', '.join(words) or 'nothing stated'}"


def _titles() -> str:
    return (
        f"#{'size':>9} {'before us':>11} {'now us':>11} {'GB/s':>9} {'GB/s':>9} {'speed':>7}"
        f" {'95 % interval':>17} {'q':>8} {'n':>7} {'rank':>5}  verdict"
    )


def table_row(row: Row) -> str:
    """One case."""
    interval = row.interval
    counts = row.ratio.n if row.ratio is not None else None
    n = "n/a" if counts is None else str(counts[0]) if counts[0] == counts[1] else f"{counts[0]}/{counts[1]}"
    return (
        f"{format_size(row.key.size_bytes):>10} {_us(row.baseline_ns):>11} {_us(row.time_ns):>11}"
        f" {_number(row.baseline_busbw_gb_per_s):>9} {_number(row.busbw_gb_per_s):>9}"
        f" {'n/a' if row.speedup is None else f'{row.speedup:.3f}':>7}"
        f" {'n/a' if interval is None else f'{interval[0]:.3f} to {interval[1]:.3f}':>17}"
        f" {'n/a' if row.q is None else f'{row.q:.2g}':>8} {n:>7}"
        f" {f'{row.rank}/{row.ranked}' if row.rank else 'n/a':>5}  {row.verdict}{_why(row)}"
    )


def _why(row: Row) -> str:
    words = "; ".join(filter(None, (row.reasons, row.note and f"with {row.note}")))
    return f": {words}" if words else ""


def _us(time_ns: float | None) -> str:
    if time_ns is None:
        return "n/a"
    return f"{time_ns / NS_PER_US:.2f}" if time_ns < 1e7 else f"{time_ns / NS_PER_US:.0f}"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}" if value < 10 else f"{value:.2f}"


def csv_text(comparison: Comparison) -> str:
    """One line a row, with a heading."""
    out = io.StringIO()
    writer = csv.DictWriter(out, (*CSV_COLUMNS, *WORLD_COLUMNS), lineterminator="\n")
    writer.writeheader()
    worlds = {arm.name: _world_fields(comparison.baseline, arm) for arm in comparison.candidates}
    writer.writerows({**row_fields(row), **worlds[row.arm]} for row in comparison.rows)
    return out.getvalue()


def _world_fields(baseline: Arm, arm: Arm) -> dict[str, Any]:
    """What tells rows of several comparisons apart, by WORLD_COLUMNS. A setup that never ran has the
    baseline's numbers of nodes and ranks.
    """
    return {
        "baseline": baseline.name,
        "nodes": arm.nodes or baseline.nodes or None,
        "ranks": arm.ranks or baseline.ranks or None,
        "version": arm.facts.get("version"),
        "baseline_version": baseline.facts.get("version"),
    }


def row_fields(row: Row) -> dict[str, Any]:
    """One row as plain values, by CSV_COLUMNS."""
    low, high = row.interval or (None, None)
    key, ratio = row.key, row.ratio
    return {
        "arm": row.arm,
        "collective": key.collective,
        "dtype": key.dtype,
        "op": key.op,
        "root": key.root,
        "placement": key.placement,
        "size_bytes": key.size_bytes,
        "verdict": row.verdict.value,
        "speedup": row.speedup,
        "speedup_low": low,
        "speedup_high": high,
        "q": row.q,
        "basis": ratio.basis.value if ratio is not None else None,
        "baseline_launches": ratio.n[0] if ratio is not None else None,
        "launches": ratio.n[1] if ratio is not None else None,
        "more_blocks": row.more_blocks,
        "baseline_time_ns": row.baseline_ns,
        "time_ns": row.time_ns,
        "baseline_busbw_gb_per_s": row.baseline_busbw_gb_per_s,
        "busbw_gb_per_s": row.busbw_gb_per_s,
        "rank": row.rank or None,
        "ranked": row.ranked or None,
        "why": row.reasons,
        "note": row.note,
        "pattern": key.pattern,
    }


def comparison_fields(comparison: Comparison) -> dict[str, Any]:
    """Everything, as plain values."""
    arms = (comparison.baseline, *comparison.candidates)
    return {
        "baseline": comparison.baseline.name,
        "rule": {
            "delta": comparison.rule.delta,
            "q": comparison.rule.q,
            "launch_spread": comparison.rule.launch_spread,
        },
        "arms": [
            {
                "name": arm.name,
                "ranks": arm.ranks or None,
                "nodes": arm.nodes or None,
                "groups": arm.where,
                "definition": arm.definition,
                "buffers": arm.buffers,
                **dict(arm.facts),
                "failures": {operation: each.why for operation, each in arm.failures.items()},
            }
            for arm in arms
        ],
        "differs": list(comparison.flags),
        "notes": list(comparison.notes),
        "counts": {verdict.value: comparison.count(verdict) for verdict in Verdict},
        "rows": [row_fields(row) for row in comparison.rows],
    }


def json_text(comparison: Comparison) -> str:
    """As JSON."""
    return json.dumps(comparison_fields(comparison), indent=1) + "\n"
