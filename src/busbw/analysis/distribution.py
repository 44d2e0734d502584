"""How the samples of a case spread: bins for a histogram, percentiles, and whether there are two modes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.errors import UsageError
from busbw.model.sample import EXCLUDING, HEADLINE, MAX_OVER_RANKS, MIN_OVER_RANKS, SampleFlag
from busbw.stats.interval import Float64Array
from busbw.stats.modes import find_modes
from busbw.stats.outliers import exclude
from busbw.stats.percentile import least_samples, percentile

PERCENTS: Final = (50.0, 95.0, 99.0)
# From this ratio of largest to least on, equal widths would put nearly everything into the first bin.
_LOG_RATIO: Final = 10.0
_TIMES_OF_THE_SHORTEST: Final = ("min", "last")
_MOST_BINS: Final = 24
_FEWEST_BINS: Final = 5


class Scale(StrEnum):
    """How bins divide the range."""

    LINEAR = "linear"  # equal widths
    LOG = "log"  # equal ratios


@dataclass(frozen=True)
class Percentile:
    """``value_ns`` is None below ``needed`` samples."""

    percent: float
    value_ns: float | None
    needed: int


@dataclass(frozen=True)
class Mode:
    """One of two groups of samples: its median, and its share of all samples."""

    centre_ns: float
    share: float


@dataclass(frozen=True)
class Distribution:
    """The samples of one case, per call, all that the record has; ``flagged`` is how many have evidence
    against them, and ``kept`` how many percentiles are of, which leave out what the table's numbers leave
    out. ``single_calls``: those of the pass with one call a sample.

    ``counts[i]`` samples lie in [edges_ns[i], edges_ns[i + 1]); the last bin has its upper edge too.
    ``modes`` is empty where the samples are one group, else has two (``stats.modes``). With
    ``calls_per_sample`` above 1 a sample is the mean of that many calls: single slow calls are thinned out.
    """

    case: int
    single_calls: bool
    samples: int
    kept: int
    flagged: int
    calls_per_sample: int
    scale: Scale
    edges_ns: tuple[float, ...]
    counts: tuple[int, ...]
    percentiles: tuple[Percentile, ...]
    modes: tuple[Mode, ...]


@dataclass(frozen=True)
class Times:
    """Samples of a case over all ranks, per call, in the order taken; ``kept_ns`` without those that outside
    evidence speaks against (``stats.outliers.exclude``).
    """

    call_ns: Float64Array
    flagged: int
    calls_per_sample: int
    single_calls: bool = False
    kept_ns: Float64Array = field(default_factory=lambda: np.empty(0))


def case_times(case: int, time: str, samples: npt.NDArray[np.void]) -> tuple[Times, ...]:
    """The samples of one case, then those of its pass of single calls, if it has one.

    ``time`` is the plan's ``timing.time``: how a sample comes from those of the ranks. Empty where the record
    has no samples of the case.
    """
    mine = samples[samples["case"] == case]
    single = (mine["flags"] & SampleFlag.SINGLE_CALL) != 0
    parts = ((mine[~single], False), (mine[single], True))
    return tuple(
        _times(rows[rows["rank"] == _made_from(time, rows)], is_single)
        for rows, is_single in parts
        if (rows["rank"] == MAX_OVER_RANKS).any()
    )


def _times(rows: npt.NDArray[np.void], is_single: bool) -> Times:
    flagged = int(np.count_nonzero(rows["flags"] & ~SampleFlag.SINGLE_CALL))
    times = rows["elapsed_ns"] / rows["k"]
    kept = times[exclude(rows["flags"], EXCLUDING).kept]
    return Times(times, flagged, int(rows["k"][0]), is_single, kept)


def _made_from(time: str, rows: npt.NDArray[np.void]) -> int:
    """Which of the rows over all ranks a case's number is made from. HEADLINE is there where it differs."""
    if (rows["rank"] == HEADLINE).any():
        return HEADLINE
    return MIN_OVER_RANKS if time in _TIMES_OF_THE_SHORTEST else MAX_OVER_RANKS


def distributions(case: int, time: str, samples: npt.NDArray[np.void]) -> tuple[Distribution, ...]:
    """How the samples of one case spread, each part of ``case_times``. Raises UsageError without any."""
    parts = case_times(case, time, samples)
    if not parts:
        raise UsageError(
            f"the record has no samples of case {case}",
            hint="`busbw show` shows what is stored of it; imported logs have no samples",
        )
    return tuple(_distribution(case, part) for part in parts)


def _distribution(case: int, times: Times) -> Distribution:
    values = times.call_ns
    scale = choose_scale(values)
    edges = _edges(values, scale)
    counts, _ = np.histogram(values, edges)
    return Distribution(
        case=case,
        single_calls=times.single_calls,
        samples=len(values),
        kept=len(times.kept_ns),
        flagged=times.flagged,
        calls_per_sample=times.calls_per_sample,
        scale=scale,
        edges_ns=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        percentiles=tuple(Percentile(p, percentile(times.kept_ns, p), least_samples(p)) for p in PERCENTS),
        modes=_modes(values),
    )


def choose_scale(values: Float64Array) -> Scale:
    """Equal ratios where the largest value is 10 times the least, or more; else equal widths."""
    low, high = float(values.min()), float(values.max())
    return Scale.LOG if low > 0 and high >= _LOG_RATIO * low else Scale.LINEAR


def _edges(values: Float64Array, scale: Scale) -> Float64Array:
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.array([low, high])
    bins = min(_MOST_BINS, max(_FEWEST_BINS, math.ceil(math.sqrt(len(values)))))
    # Both give the ends exactly, so the least and the largest value are inside.
    return np.geomspace(low, high, bins + 1) if scale is Scale.LOG else np.linspace(low, high, bins + 1)


def _modes(values: Float64Array) -> tuple[Mode, ...]:
    found = find_modes(values)
    if found is None:
        return ()
    return tuple(Mode(mode.centre, mode.weight) for mode in (found.low, found.high))
