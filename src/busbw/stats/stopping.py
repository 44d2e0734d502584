"""When a case has been sampled enough. Pure: the same numbers give the same decision on every rank.

A case is sampled in passes far apart in time (``stats.passes``). In each, looks are geometric (x1.4, from
four samples; from eight where there is one pass alone), so that peeking is rare. Looks decide by a 99 %
interval of all samples, so that stopping at the first narrow one still leaves 95 % overall.
benchmarks/stopping has the table, made through ``judge_look``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.stats.interval import (
    LOOK_CONFIDENCE,
    Estimate,
    Float64Array,
    attainable,
    estimate,
    least_samples,
    median,
    normal_quantile,
)
from busbw.stats.passes import PASS_LOOK

FIRST_LOOK: Final = least_samples(LOOK_CONFIDENCE)
LOOK_GROWTH: Final = 1.4
FIXED_CONFIDENCE: Final = 0.95
PASSES: Final = 3
# Below Limits.small_ns, where levels switch.
SMALL_PASSES: Final = 9
# Part of the half-width that a pass may have by itself: looks stop where it is narrow by chance.
PASS_SHARE: Final = 0.9
# Part of the target below which no interval over passes is given: nobody looked closer than that.
FLOOR_SHARE: Final = 0.5
# Issuing that takes less of a call's time than this does not set its pace, not even on a host that becomes
# half as slow again (benchmarks/gpu/README.md has such levels).
HOST_SHARE: Final = 0.5
# The largest part of a sample that reading time may cost: half of the 1 % that is allowed in all, because the
# pace is known only from the warm-up. Calls that are known to 2.5 % have nine passes, so theirs are shorter.
TIMED_SHARE: Final = 0.005
SMALL_TIMED_SHARE: Final = 0.01


class PacedBy(Enum):
    """Who sets the pace of back-to-back calls: the host that issues them, whose levels switch, or the device;
    unknown where issuing is the call itself, and where calls are apart.
    """

    HOST = "host"
    DEVICE = "device"
    UNKNOWN = "unknown"


def first_look(passes: int) -> int:
    """How many samples a look needs at least, for a pass of so many."""
    return FIRST_LOOK if passes == 1 else PASS_LOOK


def next_look(samples: int, passes: int = 1) -> int:
    """Total number of samples to have at the look after one at ``samples`` (0 at the start)."""
    exact = float(first_look(passes))
    while round(exact) <= samples:
        exact *= LOOK_GROWTH
    return round(exact)


def target(limits: Limits, median_ns: float) -> float:
    """The relative half-width to reach at this time."""
    return limits.small_precision if median_ns < limits.small_ns else limits.precision


def wanted_passes(
    limits: Limits, median_ns: float, sample_ns: float, paced: PacedBy = PacedBy.UNKNOWN
) -> int:
    """In how many passes to sample a case of this time: more where levels switch, no more than leave each two
    samples of ``sample_ns`` and four of the most, and one where the number of calls is fixed.
    """
    if limits.calls is not None:
        return 1
    switches = median_ns < limits.small_ns and paced is not PacedBy.DEVICE
    usual = SMALL_PASSES if switches else PASSES
    fitting = min(int(limits.case_seconds * 1e9 / max(sample_ns, 1.0)) // 2, limits.max_samples // PASS_LOOK)
    return max(1, min(usual, fitting))


def of_pass(limits: Limits, passes: int, median_ns: float, paced: PacedBy = PacedBy.UNKNOWN) -> Limits:
    """What one of so many passes may take, of a case of this time. A pass at the host's pace is one look:
    passes differ by many times what more samples of one would tell.
    """
    is_small = passes > 1 and median_ns < limits.small_ns
    small = PASS_LOOK * passes if paced is PacedBy.HOST else limits.small_samples
    most = min(limits.max_samples, small) if is_small else limits.max_samples
    return replace(limits, max_samples=max(1, most // passes), case_seconds=limits.case_seconds / passes)


def floor(limits: Limits, median_ns: float, passes: int) -> float:
    """The relative half-width below which no interval of a case of so many passes is given."""
    return FLOOR_SHARE * target(limits, median_ns) if passes > 1 else 0.0


def judge_look(
    times_ns: Float64Array,
    taken: int,
    spent_seconds: float,
    limits: Limits,
    passes: int,
    paced: PacedBy = PacedBy.UNKNOWN,
) -> StopReason | None:
    """Why to end a pass of so many ``passes`` after a look, or None to go on. Every rank calls this, and so
    does the simulation that its promise is from.

    ``times_ns`` are the samples of the pass that count (per call, max over ranks, in the order taken),
    ``taken`` the number with those that do not: the limit is on what was taken. ``spent_seconds`` must be a
    value that all ranks share, such as the sum of the samples themselves.
    """
    if limits.calls is not None:
        return StopReason.CALLS
    median_ns = median(times_ns)
    if len(times_ns) >= first_look(passes):
        # Whether all passes together, if they are like this one, have an interval of the half-width wanted.
        confidence = attainable(LOOK_CONFIDENCE, len(times_ns))
        found = estimate(times_ns, confidence)
        wider = normal_quantile(LOOK_CONFIDENCE) / normal_quantile(confidence)
        share = 1.0 if passes == 1 else PASS_SHARE
        most = target(limits, median_ns) * share * math.sqrt(passes)
        # Too few independent samples say nothing by lying close together, such as 8 of a slow drift.
        if found.attained and found.half_width * wider <= most:
            return StopReason.PRECISION
    own = of_pass(limits, passes, median_ns, paced)
    if taken >= own.max_samples:
        return StopReason.MAX_SAMPLES if taken >= limits.max_samples // passes else StopReason.PASSES
    if spent_seconds >= own.case_seconds:
        return StopReason.CASE_TIME
    return None


def over_passes(stops: Sequence[StopReason], passes: int, whole: Estimate, limits: Limits) -> StopReason:
    """Why sampling a case of so many ``passes`` ended, from why its passes did, of which some may be missing,
    and the interval over all of them.
    """
    if passes == 1:
        return stops[0]
    if whole.attained and whole.half_width <= target(limits, whole.median):
        return StopReason.PRECISION
    return next((stop for stop in stops if stop is not StopReason.PRECISION), StopReason.PASSES)


def reported_confidence(stop: StopReason) -> float:
    """Confidence of the interval that covers 95 % overall: of one look where the number of calls was fixed,
    of the look that ended it where sampling stopped by its own numbers.
    """
    return FIXED_CONFIDENCE if stop is StopReason.CALLS else LOOK_CONFIDENCE


def calls_per_sample(call_ns: float, timing_cost_ns: float, small_ns: float = 0.0) -> int:
    """k: so many calls that reading time costs less than TIMED_SHARE of a sample; SMALL_TIMED_SHARE of calls
    that take less than ``small_ns``.
    """
    share = SMALL_TIMED_SHARE if call_ns < small_ns else TIMED_SHARE
    return max(1, math.ceil(timing_cost_ns / (share * max(call_ns, 1.0))))


def fixed_samples(calls: int, k: int, least: int = FIRST_LOOK) -> tuple[int, int]:
    """(samples, k) for ``-n calls``: k shrinks so that ``least`` samples remain, where calls allow.

    It shrinks further, by half at most (TIMED_SHARE leaves room for that), to make samples x k exactly
    ``calls``; where no such k exists, fewer than k calls are left out.
    """
    k = max(1, min(k, calls // least))
    k = next((smaller for smaller in range(k, (k - 1) // 2, -1) if calls % smaller == 0), k)
    return max(1, calls // k), k
