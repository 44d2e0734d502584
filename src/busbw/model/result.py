"""What is known about one case after measuring it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a case ended."""

    GOOD = "good"
    WRONG = "wrong"  # measured, but the check found wrong elements
    NOT_APPLICABLE = "not-applicable"  # the placement or size does not exist for this collective
    FAILED = "failed"  # an error of the library, kept with its text
    NOT_RUN = "not-run"  # the run ended before


class StopReason(StrEnum):
    """Why sampling a case ended."""

    PRECISION = "precision"
    CALLS = "calls"  # -n asked for exactly this many
    MAX_SAMPLES = "max-samples"
    CASE_TIME = "case-time"


@dataclass(frozen=True)
class WrongData:
    """Where the check of one rank found wrong elements. ``offset`` counts elements in the receive buffer."""

    rank: int
    host: str
    wrong: int
    first_offset: int


@dataclass(frozen=True)
class CaseResult:
    """The headline of a case and what stands behind it.

    ``time_ns`` is the median over samples of the maximum over ranks of elapsed / k; ``low_ns`` and
    ``high_ns`` bound it at 95 %. ``mean_ns`` is the mean over the same samples. ``algbw_gb_per_s`` and
    ``busbw_gb_per_s`` are null for wrong or failed cases, busbw also on one rank. ``wrong`` is summed over
    ranks and checks; None where nothing was checked.
    """

    case: int
    status: Status
    time_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    mean_ns: float | None = None
    algbw_gb_per_s: float | None = None
    busbw_gb_per_s: float | None = None
    samples: int = 0
    calls_per_sample: int = 0
    warmup_calls: int = 0
    stop: StopReason | None = None
    wrong: int | None = None
    wrong_at: tuple[WrongData, ...] = ()
    error: str = ""


def not_run(cases: int, finished: int) -> tuple[CaseResult, ...]:
    """The results of a plan's last cases, which a run that ended early did not come to."""
    return tuple(CaseResult(case, Status.NOT_RUN) for case in range(finished, cases))
