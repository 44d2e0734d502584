"""A run with everything that a report shows of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from busbw.judge.expectation import Expectation
from busbw.judge.samples import Spread, spreads
from busbw.judge.wires import Wires
from busbw.model.case import Case
from busbw.model.conclusion import Answer, Conclusion, Question
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult
from busbw.report.history import Told

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


Kind = tuple[str, str, str]
"""Operation, type and reduction: what is one curve over sizes."""


@dataclass(frozen=True, eq=False)
class Reported:
    """A run with everything that a report shows of it. ``name`` is unique in the report; ``machine`` says
    what it ran on ("2 x p5.48xlarge"), empty where only its devices do; ``history`` has series that it is in.
    """

    name: str
    record: RunRecord
    expectation: Expectation
    wires: Wires
    answers: Mapping[Question, Answer]
    conclusions: tuple[Conclusion, ...]
    samples: npt.NDArray[np.void]
    digests: npt.NDArray[np.void]
    machine: str = ""
    history: tuple[Told, ...] = ()

    @property
    def whole_name(self) -> str:
        """What ``name`` is the beginning of, where it is a part of the run's own."""
        run_id = self.record.run_id
        return run_id if run_id.startswith(self.name) else self.name

    @cached_property
    def spreads(self) -> Mapping[int, Spread]:
        """By the number of their case, of those with samples."""
        return {each.case.index: each for each in spreads(self.record, self.samples)}

    @property
    def timed(self) -> tuple[tuple[Case, CaseResult], ...]:
        """The good cases that have a time, in order."""
        return tuple(self.record.timed)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Of its timed cases, each once, in order."""
        return tuple(dict.fromkeys(_kind(case) for case, _ in self.timed))

    def of_kind(self, kind: Kind) -> Iterator[tuple[Case, CaseResult]]:
        """The timed cases of one kind."""
        return (pair for pair in self.timed if _kind(pair[0]) == kind)

    def every_of_kind(self, kind: Kind) -> Iterator[tuple[Case, CaseResult]]:
        """Those without a number too."""
        pairs = ((self.record.plan.cases[result.case], result) for result in self.record.results)
        return (pair for pair in pairs if _kind(pair[0]) == kind)


def _kind(case: Case) -> Kind:
    return case.collective + (", evenly spread" if case.even else ""), case.dtype, case.op
