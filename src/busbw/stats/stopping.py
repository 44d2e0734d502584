"""When a case has been sampled enough. Pure: the same numbers give the same decision on every rank.

Looks are geometric (8, 11, 16, 22, 31, ...: x1.4), so that peeking is rare, and each look uses a 99 %
interval, so that stopping at the first narrow one still leaves about 95 % overall (simulation in
docs/concepts/stopping.md).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.stats.interval import estimate

FIRST_LOOK: Final = 8
LOOK_GROWTH: Final = 1.4
LOOK_CONFIDENCE: Final = 0.99
REPORTED_CONFIDENCE: Final = 0.95
# The largest part of a sample that reading time may cost: half of the 1 % that is allowed in all, because the
# pace is known only from the warm-up.
TIMED_SHARE: Final = 0.005

Float64Array = npt.NDArray[np.float64]


def next_look(samples: int) -> int:
    """Total number of samples to have at the look after one at ``samples`` (0 at the start)."""
    return FIRST_LOOK if samples < FIRST_LOOK else math.ceil(samples * LOOK_GROWTH - 0.5)


def target(limits: Limits, median_ns: float) -> float:
    """The relative half-width to reach at this time."""
    return limits.small_precision if median_ns < limits.small_ns else limits.precision


def decide(times_ns: Float64Array, spent_seconds: float, limits: Limits) -> StopReason | None:
    """Why to stop after these samples (per call, max over ranks), or None to go on.

    ``spent_seconds`` must be a value that all ranks share, such as the sum of the samples themselves.
    """
    result = estimate(times_ns, LOOK_CONFIDENCE)
    if result.half_width <= target(limits, result.median):
        return StopReason.PRECISION
    if len(times_ns) >= limits.max_samples:
        return StopReason.MAX_SAMPLES
    if spent_seconds >= limits.case_seconds:
        return StopReason.CASE_TIME
    return None


def calls_per_sample(call_ns: float, timing_cost_ns: float) -> int:
    """k: so many calls that reading time costs less than TIMED_SHARE of a sample."""
    return max(1, math.ceil(timing_cost_ns / (TIMED_SHARE * max(call_ns, 1.0))))


def fixed_samples(calls: int, k: int, least: int = FIRST_LOOK) -> tuple[int, int]:
    """(samples, k) for ``-n calls``: k shrinks so that at least ``least`` samples remain, where calls allow."""
    k = max(1, min(k, calls // least))
    return max(1, calls // k), k
