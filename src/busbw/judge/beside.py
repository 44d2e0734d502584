"""Whether a neighbour makes a collective slower, from its ratios. Pure."""

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

# A load of no work adds 0 to 0.6 % (2 x H200, NCCL 2.28.9, all_reduce 1 to 256 MiB).
INSTRUMENT: Final = 0.01


@dataclass(frozen=True)
class Judged:
    """A case beside one neighbour."""

    case: Case
    beside: Beside

    @property
    def is_decided(self) -> bool:
        """Whether there were rounds enough for an interval."""
        return self.beside.mean.low is not None

    @property
    def is_slower(self) -> bool:
        """By more than chance, and than what the instrument may add."""
        return (self.beside.mean.low or 0.0) > 1 + INSTRUMENT

    @property
    def during(self) -> float:
        """The share of an operation's time beside in which it was under way."""
        return median(self.beside.work_beside)

    @property
    def is_part_alone(self) -> bool:
        """Whether an operation was under way for too little of the time to say what it does."""
        return not self.beside.unit and self.during < LEAST_OVERLAP


def judged(plan: Plan, results: Sequence[CaseResult]) -> tuple[tuple[Judged, ...], ...]:
    """Every case with a neighbour, by neighbour, in the order of the results."""
    by_what: dict[str, list[Judged]] = {}
    for result in results:
        for beside in result.neighbours:
            by_what.setdefault(beside.what, []).append(Judged(plan.cases[result.case], beside))
    return tuple(map(tuple, by_what.values()))
