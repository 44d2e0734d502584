"""How much the samples of every case vary, and whether that changes with size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.analysis.distribution import case_times
from busbw.model.record import RunRecord
from busbw.model.result import Status
from busbw.stats.modes import Modes, find_modes
from busbw.stats.outliers import count_outliers
from busbw.stats.percentile import percentile
from busbw.stats.ranking import doubled_ranks

# Two-sided p < 0.01 of the normal distribution.
_LEAST_Z: Final = 2.576
_FEWEST_SIZES: Final = 5  # of fewer, no order is as rare as that


@dataclass(frozen=True)
class Spread:
    """The samples of one case over all ranks, per call. ``half_width`` is that of the headline's interval,
    relative; None where there is none. ``p99_ns`` needs 299 samples. ``far`` lie beyond 14.8 MAD. ``modes``
    are two where the samples fall into two groups. ``quartiles`` is the middle half's width over the median.
    """

    case: int
    operation: str
    size_bytes: int
    samples: int
    calls_per_sample: int
    median_ns: float
    mean_ns: float
    deviation_ns: float
    low_ns: float | None
    high_ns: float | None
    p99_ns: float | None
    max_ns: float
    quartiles: float
    far: int
    modes: Modes | None

    @property
    def cv(self) -> float:
        """Standard deviation over mean."""
        return self.deviation_ns / self.mean_ns if self.mean_ns else 0.0

    @property
    def half_width(self) -> float | None:
        """Half the width of the headline's 95 % interval, relative to it; None where there is no interval."""
        if self.low_ns is None or self.high_ns is None or not self.median_ns:
            return None
        return (self.high_ns - self.low_ns) / 2 / self.median_ns

    @property
    def tail_shifts_mean(self) -> bool:
        """Whether slow samples lift the mean, which nccl-tests prints, out of the median's interval."""
        return self.far > 0 and self.high_ns is not None and self.mean_ns > self.high_ns


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
        if not parts:
            continue
        # Tails are in single calls, where there is a pass of them: samples of k calls thin them out.
        values, shape = parts[0].call_ns, parts[-1].call_ns
        lower, middle, upper = np.percentile(values, (25, 50, 75))
        case = record.plan.cases[result.case]
        found.append(
            Spread(
                case=result.case,
                operation=case.collective,
                size_bytes=case.size_bytes,
                samples=len(values),
                calls_per_sample=parts[0].calls_per_sample,
                median_ns=result.time_ns,
                mean_ns=float(values.mean()),
                deviation_ns=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
                low_ns=result.low_ns,
                high_ns=result.high_ns,
                p99_ns=percentile(shape, 99),
                max_ns=float(shape.max()),
                quartiles=float((upper - lower) / middle) if middle else 0.0,
                far=count_outliers(shape).far,
                modes=find_modes(values),
            )
        )
    return tuple(found)


def trend(values: Sequence[Spread]) -> Trend | None:
    """Whether the spread changes with size; None with fewer sizes than can tell."""
    if len({value.size_bytes for value in values}) < _FEWEST_SIZES:
        return None
    sizes = np.array(doubled_ranks([float(value.size_bytes) for value in values]), np.float64)
    widths = np.array(doubled_ranks([value.quartiles for value in values]), np.float64)
    if not sizes.std() or not widths.std():
        return Trend(0.0, 0.0, len(values))
    correlation = float(np.corrcoef(sizes, widths)[0, 1])
    return Trend(correlation, correlation * math.sqrt(len(values) - 1), len(values))
