"""What is known about one case after measuring it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from busbw.model.choice import Choice
from busbw.model.neighbour import Beside
from busbw.units import counted

# Words of ``--stats`` that name a field of a result; all others name a statistic (``stats.statistic``).
FIELD_WORDS: Final = ("n", "issue", "skew", "first", "in", "out", "algorithm", "channels", "overlap")


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
    PASSES = "passes"  # each was precise by itself, and all together are not, or some are missing
    BUDGET = "budget"  # the time for the whole sweep
    CHECK_ONLY = "check-only"  # -n 0


@dataclass(frozen=True)
class WrongData:
    """What the checks of one rank found. ``wrong`` counts elements: of the receive buffer, those written
    beside a buffer, and those of the send buffer that were changed. ``first_offset`` is the first wrong
    element of the receive buffer, -1 where that is right. ``fault`` says what else was wrong, or when, in
    words.
    """

    rank: int
    host: str
    wrong: int
    first_offset: int
    fault: str = ""


@dataclass(frozen=True)
class GroupResult:
    """One group's part of a case, over its own ranks; the fields are those of CaseResult. ``size_bytes`` is
    its own: groups of other sizes round otherwise.
    """

    group: int
    ranks: int
    size_bytes: int
    time_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    mean_ns: float | None = None
    algbw_gb_per_s: float | None = None
    busbw_gb_per_s: float | None = None
    wrong: int | None = None


@dataclass(frozen=True)
class CaseResult:
    """The headline of a case and what stands behind it.

    ``time_ns`` is the median over samples of the maximum over ranks of elapsed / k; ``low_ns`` and
    ``high_ns`` bound it at 95 %, None where too few samples are independent. ``mean_ns`` is the mean
    over the same samples. ``algbw_gb_per_s`` and ``busbw_gb_per_s`` are null for wrong or failed cases, busbw
    also on one rank. ``wrong`` is summed over ranks, of the check that found most; None where nothing was
    checked. ``marks`` and ``conditions`` are words of ``model.mark``; ``error`` is why a case failed, does
    not apply or was not run. ``finished`` is when, in ISO 8601.

    Over the same samples: ``issue_ns`` is the median of the host time of issuing one call (maximum over
    ranks), ``skew_ns`` the median of (last entry - first entry) on a synchronised clock where there is one,
    ``stats`` what ``--stats`` asked for, None where there were too few samples for it, ``tau`` the
    autocorrelation time in samples. ``first_call_ns`` is the first call of the case, cold. ``excluded``
    samples were left out on outside evidence; ``evidence`` is what stands behind the marks.

    ``groups`` are there where the world was split: then the case's own time is that of the slowest group, per
    sample, and its bandwidths are null unless all groups have the same size. ``algorithm`` is the library's
    word for how it did the call, empty where it is not known; ``choice`` is there where it was watched doing
    so, and says by what means. ``input_bytes`` and ``output_bytes`` are in one
    rank's buffers, of the busiest rank where ranks differ.

    ``pass_samples`` are how many samples each pass took, in order; ``passes`` are wanted in all. A run that
    was killed has fewer of some cases, and no raw samples of these.

    ``overlap`` is there where operations ran at once: the share of this one's time in which all others of the
    same rank were under way too, of the rank where it was smallest; the median over samples. ``neighbours``
    is what neighbours did to the case (--beside), whose own numbers are those of the case alone.
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
    marks: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    finished: str = ""
    issue_ns: float | None = None
    skew_ns: float | None = None
    first_call_ns: float | None = None
    tau: float | None = None
    excluded: int = 0
    stats: dict[str, float | None] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    groups: tuple[GroupResult, ...] = ()
    algorithm: str = ""
    choice: Choice | None = None
    input_bytes: int | None = None
    output_bytes: int | None = None
    overlap: float | None = None
    passes: int = 1
    pass_samples: tuple[int, ...] = ()
    neighbours: tuple[Beside, ...] = ()

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval, relative to the time; None where there is none."""
        if self.low_ns is None or self.high_ns is None or not self.time_ns:
            return None
        return (self.high_ns - self.low_ns) / 2 / self.time_ns

    @property
    def own_interval_ns(self) -> tuple[float, float] | None:
        """``low_ns`` and ``high_ns`` by the case's own samples alone; None where there are none."""
        if self.low_ns is None or self.high_ns is None:
            return None
        low_ns, high_ns = self.evidence.get("own_interval_ns", (self.low_ns, self.high_ns))
        return low_ns, high_ns

    @property
    def wrong_words(self) -> str:
        """How many elements were wrong; a log may say that some were, and not how many."""
        return "wrong elements, not counted" if self.wrong is None else counted(self.wrong, "wrong element")


def not_run(cases: int, finished: int) -> tuple[CaseResult, ...]:
    """The results of a plan's last cases, which a run that ended early did not come to."""
    return tuple(CaseResult(case, Status.NOT_RUN) for case in range(finished, cases))
