"""A comparison as text: regimes, what they stand on and rows; and as values, CSV and JSON. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any, Final

from busbw.judge.compare import ComparedCase, Comparison, Verdict
from busbw.judge.compare_arms import Arm, kind_words
from busbw.judge.compare_regimes import ComparedRegime, compared_regimes
from busbw.judge.scatter import assumption
from busbw.report.fields import (
    UNBOUND,
    Field,
    attributes,
    counts_of,
    csv_of,
    fact,
    facts,
    regime_line,
    shown,
    sizes,
    table_lines,
    values_of,
)
from busbw.units import NS_PER_US, format_share, format_size

SCHEMA: Final = 2


def table(comparison: Comparison, *, every_row: bool = False, columns: int = UNBOUND) -> Iterator[str]:
    """Lines for people: answers, what they stand on, and what to do next, on a terminal's ``columns``."""
    yield from answers(comparison, every_row=every_row, columns=columns)
    yield from facts(evidence(comparison, every_row=every_row))


def answers(comparison: Comparison, *, every_row: bool = False, columns: int = UNBOUND) -> Iterator[str]:
    """A line a regime, or a line a row as well."""
    regimes = compared_regimes(comparison)
    for title, own in groupby(regimes, lambda regime: f"# {regime.arm}: {regime_kind(regime)}"):
        yield title
        yield from (regime_line(each.first_bytes, each.last_bytes, regime_words(each)) for each in own)
    if every_row:
        yield from _every_row(comparison, columns)


def evidence(comparison: Comparison, *, every_row: bool = False) -> Iterator[tuple[str, str]]:
    """What is compared with what, what is known of its launches, what to know, and what to do next: facts by
    their names.
    """
    arms = (comparison.baseline, *comparison.candidates)
    same = len({arm.definition for arm in arms}) == 1
    for position, arm in enumerate(arms):
        words = arm_words(arm, "version", "device", "created", with_time=not same)
        yield "with" if position else "baseline", words
    if same:
        yield "time", comparison.baseline.definition
    judged = [row for row in comparison.rows if row.ratio is not None]
    if judged:
        yield "scatter", f"{_launches(judged)}; {_scatter(judged)}"
    # Samples are what hides a difference, and not how launches scatter.
    if wide := [
        row
        for row in judged
        if row.verdict is Verdict.AMBIGUOUS
        and row.known is not None
        and (row.known.at_hand or row.sampling > row.known.deviation)
    ]:
        own, by_size = max(row.sampling for row in wide), sorted(row.key.size_bytes for row in wide)
        where = sizes(by_size[0], by_size[-1])
        yield "samples", f"the runs' own intervals are up to +-{2 * own:.0%} at {where}: measure longer"
    yield from (("differs", flag) for flag in comparison.flags)
    yield from (("note", note) for note in comparison.notes)
    yield counts_of(_counts(comparison).items(), every_row=every_row)
    yield "next", _next(comparison)


def _counts(comparison: Comparison) -> dict[str, int]:
    return {verdict.value: comparison.count(verdict) for verdict in Verdict}


def _next(comparison: Comparison) -> str:
    """What to do now."""
    if comparison.count(Verdict.SLOWER) or comparison.count(Verdict.FAILED):
        return "look for the cause: `busbw diagnose RUN` of what is slower or failed"
    if any(row.verdict is Verdict.AMBIGUOUS and not row.why for row in comparison.rows):
        in_turn = any(row.ratio is not None and row.ratio.seen.paired for row in comparison.rows)
        return _MORE_BLOCKS if in_turn else _LAUNCHES
    if comparison.count(Verdict.FASTER) or comparison.count(Verdict.SAME):
        return "nothing to do: no case is slower"
    return "compare runs that share operations, types and sizes"


_NO_BOUND: Final = 10.0  # times as long: what is excluded above says nothing
_LAUNCHES: Final = "to see smaller differences, measure both with `busbw run OPERATION --launches 3`"
_MORE_BLOCKS: Final = "to see smaller differences, measure the same file again and name both series"


def regime_kind(regime: ComparedRegime) -> str:
    """The operation and its placements."""
    of = regime.of
    words = kind_words(of.collective, of.dtype, of.op, of.root, " and ".join(regime.placements))
    return f"{words}, {of.pattern}" if of.pattern else words


def regime_words(regime: ComparedRegime) -> str:
    """The answer, with its numbers."""
    words = answer_words(regime)
    return words if regime.why or regime.assumed is None else f"{words}; {assumption(regime.assumed)}"


def answer_words(regime: ComparedRegime) -> str:
    """The same without what it assumes."""
    words = _without_difference(regime.verdict, regime.bound, regime.why) or regime.verdict.lower()
    if regime.least is not None and regime.most is not None:
        words = f"{regime.verdict.lower()} by {_span(regime.least, regime.most)}"
    return f"{words}: {regime.why}" if regime.why else words


def row_words(row: ComparedCase) -> str:
    """The answer on one size, with its numbers."""
    edges = sorted(row.interval or ())
    if row.verdict is Verdict.SLOWER:
        edges = sorted(1 / edge for edge in edges)
    if row.verdict in (Verdict.FASTER, Verdict.SLOWER) and edges:
        words = f"{row.verdict.lower()} by {_span(edges[0] - 1, edges[1] - 1)}"
    else:
        words = _without_difference(row.verdict, row.bound, row.why) or row.verdict.lower()
    return f"{words}: {row.reasons}" if row.reasons else words


def _without_difference(verdict: Verdict, bound: float | None, why: str) -> str:
    """What SAME and AMBIGUOUS mean; empty for others."""
    if verdict is Verdict.SAME and bound is not None:
        return f"no difference above {format_share(bound)}"
    if verdict is not Verdict.AMBIGUOUS:
        return ""
    if why or bound is None or bound >= _NO_BOUND:
        return "cannot tell"
    return f"cannot tell below {format_share(bound)}"


def _span(least: float, most: float) -> str:
    """Two shares, with the sign that they share once."""
    first, last = format_share(least), format_share(most)
    if first == last:
        return first
    return f"{first.removesuffix('%') if last.endswith('%') else first} to {last}"


def _launches(rows: Sequence[ComparedCase]) -> str:
    """How many launches the verdicts stand on."""
    found = dict.fromkeys((row.ratio.seen.paired, row.ratio.seen.n) for row in rows if row.ratio is not None)
    words = (
        f"{n[0]} blocks" if paired else "one launch each" if n == (1, 1) else f"{n[0]} and {n[1]} launches"
        for paired, n in found
    )
    return ", ".join(dict.fromkeys(words))


def _scatter(rows: Sequence[ComparedCase]) -> str:
    """By which launches scatter, and from where that is known, by sizes."""
    found: dict[tuple[str, float], list[ComparedCase]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.key.size_bytes):
        if row.known is not None:
            found[_source(row), 0.0 if row.is_own else row.known.deviation].append(row)
    parts = []
    for (source, _), own in found.items():
        deviations = [row.known.deviation for row in own if row.known is not None]
        words = _span(min(deviations), max(deviations))
        parts.append(f"{words} at {sizes(own[0].key.size_bytes, own[-1].key.size_bytes)} ({source})")
    return ", ".join(parts)


def _source(row: ComparedCase) -> str:
    if row.is_own or row.known is None:
        return "their own"
    if row.known.at_hand:
        return "their passes"
    return f"history, n = {row.known.launches}" if row.known.launches else "default"


def arm_words(arm: Arm, *facts: str, with_time: bool = True) -> str:
    """Who was measured, with what of its ``facts``, and what its times are."""
    words = [
        f"{arm.ranks} ranks" if arm.ranks else "",
        f"in groups {arm.where}" if arm.where else "",
        f"{arm.nodes} nodes" if arm.nodes > 1 else "",
        *(arm.facts.get(name, "") for name in facts),
        arm.definition if with_time else "",
    ]
    return f"{arm.name}: {', '.join(filter(None, words)) or 'nothing stated'}"


def _every_row(comparison: Comparison, columns: int) -> Iterator[str]:
    rule, against = comparison.rule, f"against {comparison.baseline.name}"
    beyond = f"FASTER, SLOWER: interval beyond +-{rule.delta / 2:.1%} and q < {rule.q:g}"
    yield fact("rule", f"{beyond}; SAME: within +-{max(rule.delta, rule.detect):.1%}")
    yield fact("speed", "time of the baseline / time, geometric means over launches; times are medians")
    for title, rows in groupby(comparison.rows, lambda row: f"# {row.arm} {against}: {row.key.kind}"):
        yield title
        yield from table_lines(_FIELDS, list(rows), columns, _verdict_words, "verdict")


def _verdict_words(row: ComparedCase) -> str:
    plain = _without_difference(row.verdict, row.bound, row.why)
    words = "; ".join(filter(None, (plain, row.reasons, row.note and f"with {row.note}")))
    return f"{row.verdict}{words and f': {words}'}"


def _launches_of(row: ComparedCase) -> str:
    return "n/a" if row.ratio is None else "/".join(dict.fromkeys(map(str, row.ratio.seen.n)))


def _us(time_ns: float | None) -> str:
    return "n/a" if time_ns is None else f"{time_ns / NS_PER_US:.{2 if time_ns < 1e7 else 0}f}"


def _rate(gb_per_s: float | None) -> str:
    return shown(gb_per_s, ".3f" if (gb_per_s or 0) < 10 else ".2f")


_FIELDS: Final[tuple[Field[ComparedCase], ...]] = (
    Field("size", lambda row: format_size(row.key.size_bytes)),
    Field("before us", lambda row: _us(row.baseline_ns)),
    Field("now us", lambda row: _us(row.time_ns)),
    Field("GB/s", lambda row: _rate(row.baseline_busbw_gb_per_s), detail=True),
    Field("GB/s", lambda row: _rate(row.busbw_gb_per_s), detail=True),
    Field("speed", lambda row: shown(row.speedup, ".3f")),
    Field("95 % interval", lambda row: " to ".join(f"{end:.3f}" for end in row.interval or ()) or "n/a"),
    Field("q", lambda row: shown(row.q, ".2g"), detail=True),
    Field("n", _launches_of, detail=True),
    Field("rank", lambda row: f"{row.rank}/{row.ranked}" if row.rank else "n/a", detail=True),
)


def csv_text(comparisons: Iterable[Comparison]) -> str:
    """One line a row of all, with a heading."""
    rows = (
        {**values_of(_OF_ROW, row), **values_of(_OF_ARMS, (each.baseline, arm))}
        for each in comparisons
        for row in each.rows
        for arm in each.candidates
        if arm.name == row.arm
    )
    return csv_of((*_OF_ROW, *_OF_ARMS), rows)


# Of a baseline and an arm, what tells rows of several comparisons apart. A setup that never ran has the
# baseline's numbers of nodes and ranks.
_OF_ARMS: Final[Mapping[str, Callable[[tuple[Arm, Arm]], Any]]] = {
    "baseline": lambda arms: arms[0].name,
    "nodes": lambda arms: arms[1].nodes or arms[0].nodes or None,
    "ranks": lambda arms: arms[1].ranks or arms[0].ranks or None,
    "version": lambda arms: arms[1].facts.get("version"),
    "baseline_version": lambda arms: arms[0].facts.get("version"),
}
# Of a row, in the order of its columns.
_OF_ROW: Final[Mapping[str, Callable[[ComparedCase], Any]]] = {
    **attributes("arm", "key.collective", "key.dtype", "key.op", "key.root", "key.placement"),
    **attributes("key.size_bytes", "verdict", "speedup"),
    "speedup_low": lambda row: row.interval and row.interval[0],
    "speedup_high": lambda row: row.interval and row.interval[1],
    **attributes("bound", "q"),
    "basis": lambda row: row.ratio and ("blocks" if row.ratio.seen.paired else "launches"),
    "baseline_launches": lambda row: row.ratio and row.ratio.seen.n[0],
    "launches": lambda row: row.ratio and row.ratio.seen.n[1],
    "scatter": lambda row: row.known and row.known.deviation,
    "scatter_from": lambda row: row.ratio and _source(row),
    "baseline_time_ns": lambda row: row.baseline_ns,
    **attributes("time_ns", "baseline_busbw_gb_per_s", "busbw_gb_per_s"),
    "rank": lambda row: row.rank or None,
    "ranked": lambda row: row.ranked or None,
    "why": lambda row: row.reasons,
    **attributes("note", "key.pattern"),
}


def _regime_fields(regime: ComparedRegime) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(regime).items() if name != "of"}
    return {**fields, "kind": regime_kind(regime), "words": regime_words(regime)}


def comparison_fields(comparison: Comparison) -> dict[str, Any]:
    """Everything, as plain values."""
    arms = (comparison.baseline, *comparison.candidates)
    return {
        "schema": SCHEMA,
        "baseline": comparison.baseline.name,
        "rule": asdict(comparison.rule),
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
        "counts": _counts(comparison),
        "regimes": [_regime_fields(regime) for regime in compared_regimes(comparison)],
        "rows": [values_of(_OF_ROW, row) for row in comparison.rows],
    }
