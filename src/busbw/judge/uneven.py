"""What uneven counts cost (--skew): a case against the same bytes evenly spread, in the same launch. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status


@dataclass(frozen=True)
class Uneven:
    """``ratio`` is the time of ``case`` over that of the same bytes evenly spread. ``low`` and ``high`` are
    what the intervals of both leave of it, None where one has none. ``imbalance`` is what the busiest rank
    moves over the mean: the ratio where each rank's own link is the limit.
    """

    case: Case
    time_ns: float
    even_ns: float
    imbalance: float
    low: float | None
    high: float | None

    @property
    def ratio(self) -> float:
        """See Uneven."""
        return self.time_ns / self.even_ns


def uneven(plan: Plan, results: Sequence[CaseResult]) -> Iterator[Uneven]:
    """Of every uneven case that has a time, and whose even one has."""
    cases = {result.case: result for result in results if result.status is Status.GOOD and result.time_ns}
    last: tuple[Case, CaseResult] | None = None
    for case in plan.cases:
        result = cases.get(case.index)
        if case.even and result is not None and last is not None:
            (own_case, own), table = last, plan.table(last[0])
            assert table is not None, "what is evened out has a table"
            low = own.low_ns / result.high_ns if own.low_ns is not None and result.high_ns else None
            high = own.high_ns / result.low_ns if own.high_ns is not None and result.low_ns else None
            times = own.time_ns or 0.0, result.time_ns or 1.0
            yield Uneven(own_case, *times, table.imbalance, low, high)
        if not case.in_place:
            last = (case, result) if result is not None and not case.even else None
