"""Rows of groups of ranks, and what is said about who exchanges what. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, GroupResult
from busbw.reports.columns import Column

GROUP_COLUMN: Final = Column("group", "", 6)
SUMMARY_NOTE: Final = (
    "groups: all = the slowest group of each sample; min, median, max = of each column over the groups, so"
    " time and bandwidth may be of different groups"
)
_SUMMARIES: Final[tuple[tuple[str, Callable[[Sequence[float]], float]], ...]] = (
    ("min", min),
    ("median", median),
    ("max", max),
)
_SHOWN_GROUPS: Final = 4
_SHOWN_RANKS: Final = 8

Row = tuple[str, int, int, list[CaseResult | None]]


def group_rows(case: Case, results: Sequence[CaseResult]) -> Iterator[Row]:
    """(name, size in bytes, count, results by placement) of each group, then of the summaries."""
    numbers = max((len(result.groups) for result in results), default=0)
    for number in range(numbers):
        sides: list[CaseResult | None] = [_of_group(result, number) for result in results]
        part = next(result.groups[number] for result in results if result.groups)
        yield str(number), part.size_bytes, _count(case, part.ranks), sides
    if not numbers:
        return
    for name, summary in _SUMMARIES:
        yield name, case.size_bytes, case.count, [_summary(result, summary) for result in results]


def _count(case: Case, ranks: int) -> int:
    return case.count if case.row.variable is not None else case.shape(ranks).call_count


def _of_group(result: CaseResult, number: int) -> CaseResult:
    """A group's result in the form of a case's, without what only the case has."""
    if not result.groups:
        return _bare(result)
    part = result.groups[number]
    return replace(
        _bare(result),
        time_ns=part.time_ns,
        low_ns=part.low_ns,
        high_ns=part.high_ns,
        mean_ns=part.mean_ns,
        algbw_gb_per_s=part.algbw_gb_per_s,
        busbw_gb_per_s=part.busbw_gb_per_s,
        wrong=part.wrong,
        samples=result.samples,
        tau=result.tau,
    )


def _summary(result: CaseResult, of: Callable[[Sequence[float]], float]) -> CaseResult:
    def over(value: Callable[[GroupResult], float | None]) -> float | None:
        values = [found for part in result.groups if (found := value(part)) is not None]
        return of(values) if values else None

    wrong = over(lambda part: part.wrong)
    return replace(
        _bare(result),
        time_ns=over(lambda part: part.time_ns),
        algbw_gb_per_s=over(lambda part: part.algbw_gb_per_s),
        busbw_gb_per_s=over(lambda part: part.busbw_gb_per_s),
        wrong=None if wrong is None else int(wrong),
    )


def _bare(result: CaseResult) -> CaseResult:
    # Two calls a sample: then no column claims percentiles of single ones.
    return CaseResult(result.case, result.status, calls_per_sample=2)


def pattern_words(plan: Plan, ranks: int) -> list[str]:
    """Header lines about groups, counts, pairs and the data, where they are not the plain ones."""
    lines = []
    if plan.groups:
        lines.append(f"groups   {group_words(plan, ranks)}")
    lines += [f"counts   {table.collective}: {table.origin}" for table in plan.counts]
    if plan.pairs:
        pairs = ", ".join(f"{source}->{target}" for source, target in plan.pairs[:_SHOWN_RANKS])
        more = f" and {len(plan.pairs) - _SHOWN_RANKS} more" if len(plan.pairs) > _SHOWN_RANKS else ""
        lines.append(f"pairs    {pairs}{more}")
    if plan.data != "exact":
        lines.append(f"data     {plan.data}, seed {plan.seed}")
    return lines


def group_words(plan: Plan, ranks: int) -> str:
    """How the ranks are split: the first groups, and who sits out."""
    parts = [_ranks(members) for members in plan.groups[:_SHOWN_GROUPS]]
    parts += ["..."] if len(plan.groups) > _SHOWN_GROUPS else []
    out = ranks - sum(map(len, plan.groups))
    idle = f"; {out} rank{'s' if out > 1 else ''} in no group sit{'' if out > 1 else 's'} out" if out else ""
    return f"{len(plan.groups)} at once, of ranks {' | '.join(parts)}{idle}"


def _ranks(members: Sequence[int]) -> str:
    shown = ",".join(map(str, members[:_SHOWN_RANKS]))
    return f"{shown},..." if len(members) > _SHOWN_RANKS else shown
