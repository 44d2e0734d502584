"""The sizes of a run as one table: out-of-place and in-place side by side, and what to know. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from busbw.judge.compare_arms import CaseKey, key_of
from busbw.judge.expectation import Judged, Judgement
from busbw.model.case import Case
from busbw.model.mark import conditions_of
from busbw.model.result import CaseResult, Status
from busbw.report.columns import NOT_APPLICABLE, without_interval
from busbw.report.plots import Table
from busbw.report.reported import Kind, Reported
from busbw.report.rows import marks_of
from busbw.report.table import explanations
from busbw.units import format_gb_per_s, format_share, format_share_short, format_size, format_time

MARKS: Final = "marks"
Pair = tuple[Case, CaseResult]

_WORDS: Final = {
    Status.WRONG: "WRONG",
    Status.FAILED: "FAILED",
    Status.NOT_RUN: "not run",
    Status.NOT_APPLICABLE: NOT_APPLICABLE,
}


def table(run: Reported, kind: Kind) -> Table:
    """Every size that was asked for, with the meaning of its marks below."""
    found = list(run.every_of_kind(kind))
    judged = {each.key.plain: each for each in run.expectation.cases}
    rows: dict[tuple[object, ...], dict[str, Pair]] = defaultdict(dict)
    for case, result in found:
        rows[case.size_bytes, case.cycle, case.root, case.stream][case.placement.value] = (case, result)
    placements = sorted({case.placement.value for case, _ in found}, reverse=True)
    head = ["size"]
    for placement in placements:
        head += [f"{placement}\n{of}" for of in ("GB/s", "time", "of expected")]
    cells = tuple(_cells(pairs, placements, judged) for pairs in rows.values())
    made = Table((*head, "algorithm", MARKS), cells, notes=tuple(_notes(found)))
    return made.without(NOT_APPLICABLE).without("")


def _cells(
    pairs: Mapping[str, Pair], placements: Sequence[str], judged: Mapping[CaseKey, Judged]
) -> tuple[str, ...]:
    case, _ = next(iter(pairs.values()))
    cells = [format_size(case.size_bytes) + (f", cycle {case.cycle + 1}" if case.cycle else "")]
    for placement in placements:
        own = pairs.get(placement)
        cells += [NOT_APPLICABLE] * 3 if own is None else _values(own[1], judged.get(key_of(own[0]).plain))
    results = [pairs[placement][1] for placement in placements if placement in pairs]
    algorithms = dict.fromkeys(result.algorithm for result in results if result.algorithm)
    return (*cells, ", ".join(algorithms) or NOT_APPLICABLE, " ".join(marks_of(results)))


def _values(result: CaseResult, seen: Judged | None) -> list[str]:
    """Bandwidth with half its interval, time, and the share of what is expected."""
    if result.status is not Status.GOOD:
        return [_WORDS.get(result.status, result.status.value), NOT_APPLICABLE, NOT_APPLICABLE]
    time = NOT_APPLICABLE if not result.time_ns else format_time(result.time_ns, 4)
    share = NOT_APPLICABLE
    if seen is not None and seen.ratio is not None:
        share = format_share(seen.ratio, decimals=0)
        share += f" {Judgement.BELOW}" if seen.answer is Judgement.BELOW else ""
    rate = NOT_APPLICABLE
    if result.busbw_gb_per_s is not None:
        rate = format_gb_per_s(result.busbw_gb_per_s)
    elif result.algbw_gb_per_s is not None:  # one rank has no bus bandwidth
        rate = f"{format_gb_per_s(result.algbw_gb_per_s)} algbw"
    if result.half_width is not None:
        rate += f" +-{format_share_short(result.half_width)}"
    elif why := without_interval(result)[0]:
        rate += f" ({why})"
    return [rate, time, share]


def _notes(found: Sequence[Pair]) -> Iterator[str]:
    """What the marks mean, and which cases have no number, and why."""
    for case, result in found:
        if result.status in (Status.WRONG, Status.FAILED):
            why = result.wrong_words if result.status is Status.WRONG else result.error
            yield f"{_WORDS[result.status]} at {format_size(case.size_bytes)} {case.placement.value}: {why}"
    yield from conditions_of(found)
    others = [result for _, result in found if result.status is not Status.FAILED]
    yield from explanations(others, statistics=False)
