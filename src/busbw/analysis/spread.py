"""How much the samples of every case vary, and whether that changes with size."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.analysis.distribution import Times, case_times
from busbw.model.case import Case
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.stats.interval import Float64Array
from busbw.stats.modes import Modes, find_modes
from busbw.stats.outliers import count_outliers
from busbw.stats.percentile import percentile
from busbw.stats.ranking import doubled_ranks

# Two-sided p < 0.01 of the normal distribution.
_LEAST_Z: Final = 2.576
_FEWEST_SIZES: Final = 5  # of fewer, no order is as rare as that

Kind = tuple[str, str, str]
"""Operation, type and reduction."""


@dataclass(frozen=True)
class Tail:
    """The pass of single calls beside samples of k calls each, which thin single slow calls out. ``far`` lie
    beyond 14.8 MAD of these single calls; ``p99_ns`` needs 299 of them.
    """

    calls: int
    p99_ns: float | None
    max_ns: float
    far: int


@dataclass(frozen=True)
class Spread:
    """The samples of one case over all ranks, per call: all that the record has, also those that are left out
    of the headline on outside evidence (``excludes``: there are such). ``mean_ns`` is the mean of them: where
    a sample is the maximum over ranks it is no less than what nccl-tests prints (``nccl_tests_mean_ns``).

    ``headline_ns`` is the case's time, with its interval ``low_ns`` to ``high_ns``, None where there is none.
    ``p99_ns`` needs 299 samples. ``far`` lie beyond 14.8 MAD. ``modes`` are two where the samples fall into
    two groups. ``quartiles`` is the middle half's width over the median. ``tail`` is of other samples than
    all these.
    """

    case: int
    operation: str
    size_bytes: int
    samples: int
    excludes: bool
    calls_per_sample: int
    headline_ns: float
    mean_ns: float
    deviation_ns: float
    low_ns: float | None
    high_ns: float | None
    p99_ns: float | None
    max_ns: float
    quartiles: float
    far: int
    modes: Modes | None
    tail: Tail | None = None

    @property
    def cv(self) -> float:
        """Standard deviation over mean."""
        return self.deviation_ns / self.mean_ns if self.mean_ns else 0.0

    @property
    def half_width(self) -> float | None:
        """Half the width of the headline's 95 % interval, relative to it; None where there is no interval."""
        if self.low_ns is None or self.high_ns is None or not self.headline_ns:
            return None
        return (self.high_ns - self.low_ns) / 2 / self.headline_ns

    @property
    def tail_shifts_mean(self) -> bool:
        """Whether slow samples lift the mean out of the median's interval."""
        return self.far > 0 and self.high_ns is not None and self.mean_ns > self.high_ns


def nccl_tests_mean_ns(digests: npt.NDArray[np.void], case: int) -> float | None:
    """What nccl-tests would print of a case: the mean over its calls on each rank, then the mean over ranks
    (its -a 1, the default). None where the record has no digests of the ranks.
    """
    own = digests[digests["case"] == case]
    return float(own["mean_ns"].mean()) if len(own) else None


@dataclass(frozen=True)
class Trend:
    """Spearman's rank correlation of the relative spread with size; ``z`` is the evidence against none."""

    correlation: float
    z: float
    sizes: int

    @property
    def word(self) -> str:
        """``grows``, ``falls``, or empty where chance alone does it once in a hundred times."""
        if abs(self.z) < _LEAST_Z:
            return ""
        return "grows" if self.z > 0 else "falls"


def spreads(record: RunRecord, samples: npt.NDArray[np.void]) -> tuple[Spread, ...]:
    """Of every good case that has samples in the record, in order."""
    found = []
    order = np.argsort(samples["case"], kind="stable")
    samples = samples[order]
    for result in record.results:
        if result.status is not Status.GOOD or result.time_ns is None:
            continue
        first, end = np.searchsorted(samples["case"], (result.case, result.case + 1))
        parts = case_times(result.case, record.plan.timing.time, samples[first:end])
        if parts:
            found.append(_spread(record.plan.cases[result.case], result, parts))
    return tuple(found)


def _spread(case: Case, result: CaseResult, parts: Sequence[Times]) -> Spread:
    own = parts[0]
    values = own.call_ns
    lower, middle, upper = np.percentile(values, (25, 50, 75))
    return Spread(
        case=result.case,
        operation=case.collective,
        size_bytes=case.size_bytes,
        samples=len(values),
        excludes=result.excluded > 0,
        calls_per_sample=own.calls_per_sample,
        headline_ns=result.time_ns or 0.0,
        mean_ns=float(values.mean()),
        deviation_ns=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        low_ns=result.low_ns,
        high_ns=result.high_ns,
        p99_ns=percentile(values, 99),
        max_ns=float(values.max()),
        quartiles=float((upper - lower) / middle) if middle else 0.0,
        far=count_outliers(values).far,
        modes=find_modes(values),
        tail=_tail(parts[1].call_ns) if len(parts) > 1 else None,
    )


def _tail(single_ns: Float64Array) -> Tail:
    return Tail(
        len(single_ns), percentile(single_ns, 99), float(single_ns.max()), count_outliers(single_ns).far
    )


def trends(record: RunRecord, values: Iterable[Spread]) -> dict[Kind, Trend]:
    """Of every operation, type and reduction with sizes enough. Each size counts once, out-of-place and in
    the first cycle where it has that: its other cases are no evidence of their own.
    """
    kinds: dict[Kind, dict[int, Spread]] = defaultdict(dict)
    cases = record.plan.cases
    for value in sorted(values, key=lambda each: (cases[each.case].in_place, cases[each.case].cycle)):
        # An empty call has the noise of a look at the clock, a few samples have none that can be known.
        if value.size_bytes and value.half_width is not None:
            kinds[kind_of(cases[value.case])].setdefault(value.size_bytes, value)
    told = {kind: trend(tuple(sizes.values())) for kind, sizes in kinds.items()}
    return {kind: each for kind, each in told.items() if each is not None}


def kind_of(case: Case) -> Kind:
    """What a trend is of: sizes of one curve."""
    return case.collective, case.dtype, case.op


def trend(values: Sequence[Spread]) -> Trend | None:
    """Whether the spread changes with size, of one case a size; None with fewer sizes than can tell."""
    if len({value.size_bytes for value in values}) < _FEWEST_SIZES:
        return None
    sizes = np.array(doubled_ranks([float(value.size_bytes) for value in values]), np.float64)
    widths = np.array(doubled_ranks([value.quartiles for value in values]), np.float64)
    if not sizes.std() or not widths.std():
        return Trend(0.0, 0.0, len(values))
    correlation = float(np.corrcoef(sizes, widths)[0, 1])
    return Trend(correlation, correlation * math.sqrt(len(values) - 1), len(values))
