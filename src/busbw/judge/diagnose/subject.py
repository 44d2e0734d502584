"""What rules may look at, one run with everything that was computed about it; and what they make of it, or
what to try where it shows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.judge.compare_arms import nodes
from busbw.judge.expectation import Expectation
from busbw.judge.limits import RankPlacement, rank_placement
from busbw.judge.wires import Wires
from busbw.model.case import Case
from busbw.model.collective import known_collective
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.finding import Severity
from busbw.model.profile import Profile
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE

# What other tools can report, and by which option.
_TUNING: Final = "run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING and import that log"
_MPI: Final = "MPI does not report its algorithm"
BUSBW: Final = "busbw keeps every sample, and times of each rank"

_HINTS: Final[Mapping[str, Mapping[Question, str]]] = {
    "nccl-tests": {
        Question.ALGORITHM: _TUNING,
        Question.VARIANCE: f"nccl-tests shows it with -I 1 (2.19 and newer); {BUSBW}",
    },
    "rccl-tests": {Question.ALGORITHM: _TUNING},
    "nccom-test": {
        Question.ALGORITHM: "nccom-test does not report it",
        Question.VARIANCE: f"nccom-test shows percentiles with --stats p50 p99; {BUSBW}",
    },
    "osu": {Question.ALGORITHM: _MPI, Question.VARIANCE: f"OSU shows it with -f and -z; {BUSBW}"},
    "imb": {Question.ALGORITHM: _MPI},
}


@dataclass(frozen=True, eq=False)
class Subject:
    """``wires`` are the line rates of one node, with their source. ``samples`` and ``digests`` are empty
    where the record has none (an imported log); ``absent`` says which files of them should be there.
    ``profiles`` are exports of a profiler, ``exports`` how many of them the run itself made (None where
    others are looked at), ``preset_files`` the user's own presets. ``launches`` are those that the run is the
    summary of: the samples are theirs.
    """

    record: RunRecord
    expectation: Expectation
    wires: Wires
    samples: npt.NDArray[np.void] = field(default_factory=lambda: np.empty(0, SAMPLE_DTYPE))
    digests: npt.NDArray[np.void] = field(default_factory=lambda: np.empty(0, DIGEST_DTYPE))
    absent: tuple[str, ...] = ()
    profiles: tuple[Profile, ...] = ()
    exports: int | None = None
    preset_files: tuple[Path, ...] = ()
    launches: tuple[Subject, ...] = ()

    @property
    def ranks(self) -> int:
        """How many ranks took part; 0 where not known."""
        return self.expectation.arm.ranks

    @property
    def together(self) -> int:
        """How many ranks do each operation, where that is all of them, else 0: what smaller groups must move
        between nodes depends on who is where.
        """
        return 0 if self.record.plan.groups or self.record.plan.streams else self.ranks

    @cached_property
    def nodes(self) -> int:
        """On how many nodes; 0 where not known."""
        return nodes(self.record)

    @cached_property
    def layout(self) -> RankPlacement:
        """Which ranks reach one another over NVLink, and which over NICs."""
        return rank_placement(self.record, self.nodes)

    @cached_property
    def busy(self) -> tuple[tuple[Case, CaseResult], ...]:
        """The good cases that have a time, and whose call does something. A size that is rounded to 0 B
        leaves a call that returns at once, whose times are the noise of looking at the clock; a barrier has
        no size and does something.
        """
        rows = {case.collective: known_collective(case.collective) for case, _ in self.record.timed}
        unsized = {name for name, row in rows.items() if row is not None and not row.sized}
        return tuple(
            (case, result)
            for case, result in self.record.timed
            if case.size_bytes or case.collective in unsized
        )


def concluded(
    claim: str,
    *,
    check: str,
    answer: Answer = Answer.NOT_OBSERVABLE,
    severity: Severity | None = None,
    evidence: str = "",
    hint: str = "",
    rank: int | None = None,
    host: str = "",
    facts: tuple[Fact, ...] = (),
    case: int | None = None,
) -> Conclusion:
    """A conclusion. ``severity`` is that of the answer, unless it is given: a warning for NO, else a note."""
    weight = severity or (Severity.WARNING if answer is Answer.NO else Severity.INFO)
    return Conclusion(weight, claim, evidence, hint, rank, host, check, answer=answer, facts=facts, case=case)


def hint_of_tool(tool: str, question: Question) -> str:
    """What to try with ``tool`` for an answer; busbw itself where that tool has none."""
    return _HINTS.get(tool, {}).get(question, BUSBW)
