"""What a neighbour does to a collective, and the collective to its neighbour: ratios with intervals. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from busbw.model.case import Case
from busbw.model.mark import LEAST_OVERLAP
from busbw.model.neighbour import Beside
from busbw.model.plan import Plan
from busbw.model.result import CaseResult
from busbw.stats.interval import Estimate
from busbw.stats.rounds import ratio_of_rounds

# A load of no work adds 0 to 0.6 % (2 x H200, NCCL 2.28.9, all_reduce 1 to 256 MiB).
INSTRUMENT: Final = 0.01


@dataclass(frozen=True)
class Judged:
    """A case beside one neighbour. ``time`` is how many times as long a call takes, ``left`` the part of its
    own work that the neighbour gets done meanwhile, None where that is not counted. ``typical`` and ``p99``
    are as ``time``, which is of means: of medians, and of the slowest of a hundred calls; None where unknown.
    """

    case: Case
    beside: Beside
    time: Estimate
    left: Estimate | None
    typical: Estimate | None = None
    p99: tuple[float, float, float] | None = None

    @property
    def is_slower(self) -> bool:
        """By more than chance, and than what the instrument may add."""
        return self.time.attained and self.time.low > 1 + INSTRUMENT

    @property
    def during(self) -> float:
        """The share of an operation's time beside in which it was under way."""
        return median(self.beside.work_beside)

    @property
    def is_part_alone(self) -> bool:
        """Whether an operation was under way for too little of the time to say what it does."""
        return not self.beside.unit and self.during < LEAST_OVERLAP

    @property
    def work_sum(self) -> float | None:
        """What collective and neighbour get done together, each as part of what it does alone: 2 is an ideal
        overlap, 1 what they would get done in turns.
        """
        return None if self.left is None else 1 / self.time.median + self.left.median


def judged(plan: Plan, results: Sequence[CaseResult]) -> tuple[tuple[Judged, ...], ...]:
    """Every case with a neighbour, by neighbour, in the order of the results."""
    by_what: dict[str, list[Judged]] = {}
    for result in results:
        for beside in result.neighbours:
            by_what.setdefault(beside.what, []).append(_judged(plan.cases[result.case], beside))
    return tuple(map(tuple, by_what.values()))


def _judged(case: Case, beside: Beside) -> Judged:
    counted = bool(beside.work_alone) and min(beside.work_alone) > 0
    left = ratio_of_rounds(beside.work_beside, beside.work_alone) if counted else None
    medians = beside.beside_median_ns, beside.alone_median_ns
    typical = ratio_of_rounds(*medians) if all(medians) else None
    p99 = (beside.p99[0], beside.p99[1], beside.p99[2]) if beside.p99 else None
    return Judged(case, beside, ratio_of_rounds(beside.beside_ns, beside.alone_ns), left, typical, p99)
