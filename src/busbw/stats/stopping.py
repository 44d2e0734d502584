"""When a case has been sampled enough. Pure: the same numbers give the same decision on every rank.

Looks are geometric (8, 11, 16, 22, 31, 43, ...: x1.4), so that peeking is rare, and each look uses a 99 %
interval, so that stopping at the first narrow one still leaves 95 % overall: 0.97 and more in simulations,
0.89 where samples are very alike (AR(1) 0.9). benchmarks/stopping has the table, made through ``judge_look``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.stats.interval import estimate
from busbw.stats.warmup import settled

FIRST_LOOK: Final = 8
LOOK_GROWTH: Final = 1.4
LOOK_CONFIDENCE: Final = 0.99
FIXED_CONFIDENCE: Final = 0.95
# The largest part of a sample that reading time may cost: half of the 1 % that is allowed in all, because the
# pace is known only from the warm-up.
TIMED_SHARE: Final = 0.005

Float64Array = npt.NDArray[np.float64]


def next_look(samples: int) -> int:
    """Total number of samples to have at the look after one at ``samples`` (0 at the start)."""
    exact = float(FIRST_LOOK)
    while round(exact) <= samples:
        exact *= LOOK_GROWTH
    return round(exact)


def target(limits: Limits, median_ns: float) -> float:
    """The relative half-width to reach at this time."""
    return limits.small_precision if median_ns < limits.small_ns else limits.precision


@dataclass(frozen=True)
class Judgement:
    """What a look says: the first ``settling`` samples are warm-up, and why to stop, or None to go on."""

    settling: int
    stop: StopReason | None


def judge_look(times_ns: Float64Array, taken: int, spent_seconds: float, limits: Limits) -> Judgement:
    """Judge a case after a look. Every rank calls this, and so does the simulation that its promise is from.

    ``times_ns`` are the samples that count so far (per call, max over ranks, in the order taken), ``taken``
    the number with those that do not: the limit is on what was taken. ``spent_seconds`` as in ``decide``.
    """
    if limits.calls is not None:
        return Judgement(0, StopReason.CALLS)
    drop = settling(times_ns, limits)
    stop = decide(times_ns[drop:], spent_seconds, limits)
    if stop is None and taken >= limits.max_samples:
        stop = StopReason.MAX_SAMPLES
    return Judgement(drop, stop)


def settling(times_ns: Float64Array, limits: Limits) -> int:
    """How many leading samples are warm-up that the calls before did not finish, by ``warmup.settled``."""
    if len(times_ns) == 0:
        return 0
    return settled(times_ns, target(limits, float(np.median(times_ns))))


def decide(times_ns: Float64Array, spent_seconds: float, limits: Limits) -> StopReason | None:
    """Why to stop after these samples (per call, max over ranks), or None to go on.

    ``spent_seconds`` must be a value that all ranks share, such as the sum of the samples themselves.
    """
    result = estimate(times_ns, LOOK_CONFIDENCE)
    # Too few independent samples for 99 % say nothing by lying close together, such as 8 of a slow drift.
    if result.attained and result.half_width <= target(limits, result.median):
        return StopReason.PRECISION
    if len(times_ns) >= limits.max_samples:
        return StopReason.MAX_SAMPLES
    if spent_seconds >= limits.case_seconds:
        return StopReason.CASE_TIME
    return None


def reported_confidence(stop: StopReason) -> float:
    """Confidence of the interval that covers 95 % overall: of one look where the number of calls was fixed,
    of the look that ended it where sampling stopped by its own numbers.
    """
    return FIXED_CONFIDENCE if stop is StopReason.CALLS else LOOK_CONFIDENCE


def calls_per_sample(call_ns: float, timing_cost_ns: float) -> int:
    """k: so many calls that reading time costs less than TIMED_SHARE of a sample."""
    return max(1, math.ceil(timing_cost_ns / (TIMED_SHARE * max(call_ns, 1.0))))


def fixed_samples(calls: int, k: int, least: int = FIRST_LOOK) -> tuple[int, int]:
    """(samples, k) for ``-n calls``: k shrinks so that ``least`` samples remain, where calls allow.

    It shrinks further, by half at most (TIMED_SHARE leaves room for that), to make samples x k exactly
    ``calls``; where no such k exists, fewer than k calls are left out.
    """
    k = max(1, min(k, calls // least))
    k = next((smaller for smaller in range(k, (k - 1) // 2, -1) if calls % smaller == 0), k)
    return max(1, calls // k), k
