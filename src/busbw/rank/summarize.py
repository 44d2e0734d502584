"""From a case's samples to its result: the headline, its interval, its statistics and its marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from busbw.model.case import Case
from busbw.model.mark import LEAST_OVERLAP, PART_ALONE
from busbw.model.plan import Limits
from busbw.model.record import TWO_RANKS
from busbw.model.result import FIELD_WORDS, CaseResult, GroupResult, Status, StopReason
from busbw.model.sample import EXCLUDING, SampleFlag
from busbw.rank.backends.base import DeviceState
from busbw.rank.measure import Conditions, Samples, Taken
from busbw.rank.verify import Verified
from busbw.rank.world.clock import Recheck
from busbw.stats import stopping
from busbw.stats.interval import Estimate, median
from busbw.stats.outliers import exclude
from busbw.stats.passes import estimate_over, no_narrower, range_of
from busbw.stats.statistic import LAST, OF_ENDS, Series, Statistic, parse_statistics
from busbw.stats.verdict import Shape, judge
from busbw.units import gb_per_s

# NVML's reasons that lower clocks under load: power cap, hardware and thermal slowdown, power brake.
_THROTTLING: Final = 0x04 | 0x08 | 0x20 | 0x40 | 0x80
# Issuing takes this part of a call's time or more: the host, not the fabric, sets the pace.
_HOST_BOUND: Final = 0.9
# A span shorter than 20 times what two ranks' clocks may differ by says little (measurement method: 5 %).
_CLOCK_SHARE: Final = 0.05
_LIMITED: Final = (StopReason.MAX_SAMPLES, StopReason.CASE_TIME, StopReason.BUDGET)
_NOT_STATISTICS: Final = (*FIELD_WORDS, "timestamp", "memory")
OWN: Final = (1.0, 1.0)  # the reach of a case whose own interval stands


def summarize(
    case: Case,
    samples: Samples,
    verdict: Verified | None,
    given: Conditions,
    *,
    show: tuple[str, ...] = (),
    conditions: tuple[str, ...] = (),
    device: DeviceState | None = None,
    clock: Recheck | None = None,
    reach: tuple[float, float] = OWN,
) -> CaseResult:
    """The result of a measured case, the same on every rank but for what only this rank knows. ``clock`` is
    what the common clock of ``given`` was found to be worth after the last sample; ``reach`` are the shares
    of the median to which its interval reaches at least.

    A wrong case keeps its time, but has no bandwidth: nothing was delivered at that rate.
    """
    passes = samples.times_by_pass
    # What -n gives is one look; all others ended by their own numbers.
    found = estimate_over(passes, stopping.reported_confidence(samples.stops[0]))
    half_width = stopping.floor(given.limits, found.median, len(passes))
    own = no_narrower(found, 1 - half_width, 1 + half_width)
    headline = no_narrower(own, *reach)
    target = stopping.target(given.limits, headline.median)
    stop = stopping.over_passes(samples.stops, samples.passes, headline, given.limits)
    wrong = verdict is not None and verdict.wrong > 0
    # How many ranks run the operation together; None where groups differ.
    sizes = {given.world.size} if given.grouping is None else set(given.grouping.sizes)
    ranks = sizes.pop() if len(sizes) == 1 else None
    algbw, busbw = bandwidths(case, ranks, None if wrong or ranks is None else headline.median)
    taken = samples.taken
    skew = taken.across.skew[taken.kept]
    evidence = _evidence(samples, judge(passes, target, headline), given, device, clock)
    stats, at_most_ns = _statistics(show, samples, case)
    if _is_host_bound(taken):
        evidence["host_bound"] = True
    if headline.attained and headline != own:
        evidence["own_interval_ns"] = [own.low, own.high]
    return CaseResult(
        case=case.index,
        status=Status.WRONG if wrong else Status.GOOD,
        **interval(headline),
        algbw_gb_per_s=algbw,
        busbw_gb_per_s=busbw,
        samples=headline.samples,
        calls_per_sample=taken.k,
        warmup_calls=samples.warmup_calls,
        stop=stop,
        wrong=verdict.wrong if verdict is not None else None,
        wrong_at=verdict.wrong_at if verdict is not None else (),
        marks=_marks(stop, given, headline.median, samples.overlap, evidence, show),
        conditions=conditions,
        issue_ns=taken.call_issue_ns,
        skew_ns=None if len(skew) == 0 or skew[0] < 0 else median(skew),
        first_call_ns=samples.first_call_ns,
        tau=headline.tau,
        excluded=sum(len(part.across) - len(part.kept) for part in (taken, samples.singles) if part),
        stats=stats,
        evidence={**evidence, "at_most_ns": at_most_ns} if at_most_ns else evidence,
        groups=_group_results(case, samples, verdict, given),
        passes=samples.passes,
        pass_samples=tuple(np.diff((0, *samples.ends)).tolist()),
        overlap=samples.overlap,
        neighbours=samples.neighbours,
    )


def reach_of(
    sampled: Mapping[int, tuple[Case, Samples]], limits: Limits
) -> Mapping[int, tuple[float, float]]:
    """How far the intervals of the short cases among those of one window reach at least, by place, where the
    host sets the pace of all of them: they meet its levels together.
    """
    paced = {
        place: samples.times_by_pass
        for place, (_, samples) in sampled.items()
        if samples.taken.median_ns < limits.small_ns and _is_host_bound(samples.taken)
    }
    return dict.fromkeys(paced, range_of([*paced.values()]))


def bandwidths(case: Case, ranks: int | None, time_ns: float | None) -> tuple[float | None, float | None]:
    """Algbw and busbw in GB/s; None where the call moves no data by design, busbw also on one rank."""
    if not time_ns or not case.row.sized or ranks is None:
        return None, None
    algbw = gb_per_s(case.algbw_bytes(ranks), time_ns)
    return algbw, None if ranks == 1 else algbw * case.row.busbw_factor(ranks)


def _group_results(
    case: Case, samples: Samples, verdict: Verified | None, given: Conditions
) -> tuple[GroupResult, ...]:
    """Every group's own result, from the same samples as the case's."""
    if given.grouping is None:
        return ()
    taken, results = samples.taken, []
    parts = [part for part in samples.split(taken.kept) if len(part)]
    for group, (ranks, times) in enumerate(zip(given.grouping.sizes, taken.across.by_group, strict=True)):
        passes = [times[part] / taken.k for part in parts]
        found = estimate_over(passes, stopping.reported_confidence(samples.stops[0]))
        wrong = None if verdict is None else verdict.of(given.grouping.members[group])
        algbw, busbw = bandwidths(case, ranks, None if wrong else found.median)
        rates = {"algbw_gb_per_s": algbw, "busbw_gb_per_s": busbw}
        size_bytes = case.size_in(ranks)
        results.append(GroupResult(group, ranks, size_bytes, **interval(found), **rates, wrong=wrong))
    return tuple(results)


def interval(found: Estimate) -> dict[str, Any]:
    """Its fields of a result; no interval where there are too few samples for one."""
    low, high = (found.low, found.high) if found.attained else (None, None)
    return {"time_ns": found.median, "low_ns": low, "high_ns": high, "mean_ns": found.mean}


def _statistics(
    show: tuple[str, ...], samples: Samples, case: Case
) -> tuple[dict[str, float | None], dict[str, float]]:
    """Statistics of single calls where these were timed, else of the headline's samples where those are
    single calls: samples of several calls do not have the percentiles of one. Also the bounds of high
    percentiles. The time from the last arrival is not known of a call that a rank can leave before.
    """
    taken = samples.singles if samples.singles is not None else samples.taken
    kept, across, k = taken.kept, taken.across, taken.k
    # The time that the headline is made from; how far ranks are apart needs the slowest and the fastest.
    series = Series(across.headline[kept] / k)
    ends = Series(across.worst[kept] / k, across.best[kept] / k)
    rows = statistics_in(show)
    told = [row for row in rows if (k == 1 or row.of_means) and (row.word != LAST or case.row.synchronising)]
    found = {row.word: row.of(ends if row.word in OF_ENDS else series) for row in told}
    bounds = {row.word: bound for row in told if (bound := row.at_most(series)) is not None}
    return {row.word: found.get(row.word) for row in rows}, bounds


def statistics_in(show: tuple[str, ...]) -> tuple[Statistic, ...]:
    """The statistics among the columns asked for."""
    words = " ".join(word for word in show if word not in _NOT_STATISTICS)
    return parse_statistics(words) if words else ()


def _evidence(
    samples: Samples, shape: Shape, given: Conditions, device: DeviceState | None, clock: Recheck | None
) -> dict[str, Any]:
    """What stands behind the marks; only what says something."""
    out = _shape(shape)
    out |= _flagged("flagged", samples.taken)
    if samples.singles is not None:
        out |= _flagged("flagged_single_calls", samples.singles)
        out["single_calls"] = len(samples.singles.across)
        # One by one, or in groups of -m, which are issued as one.
        single_ns = median(samples.singles.across.headline) / samples.singles.k
        out["single_call_ns"] = single_ns
        out["timing_overhead_ns"] = single_ns - samples.taken.median_ns
    if given.clock is not None and given.timing.mode == "latency":
        # Clocks that run evenly were in between no further off than at one of the ends.
        out["clock_error_ns"] = max(given.clock.error_ns, clock.error_ns if clock is not None else 0.0)
    if clock is not None and clock.excess_ns > 0:
        out["clock_excess_ns"], out["clock_excess_rank"] = clock.excess_ns, clock.rank
    if samples.latest_ns:
        out["latest_arrival_ns"] = samples.latest_ns
    return out | (asdict(device) if device is not None else {})


def _shape(shape: Shape) -> dict[str, Any]:
    """What the samples look like beside their median."""
    out: dict[str, Any] = {"outliers": {"far": shape.outliers}}
    if shape.marks:
        out["shape"] = list(shape.marks)
    if shape.levels:
        out["levels_ns"] = list(shape.levels)
    if shape.modes is not None:
        out["modes"] = asdict(shape.modes)
    return out


def _flagged(name: str, taken: Taken) -> dict[str, dict[str, int]]:
    """Samples by what speaks against them, whether left out or kept; nothing where there are none."""
    reasons = exclude(taken.across.flags, EXCLUDING).reasons
    return {name: {str(SampleFlag(bit).name).lower(): n for bit, n in reasons}} if reasons else {}


def _marks(
    stop: StopReason,
    given: Conditions,
    time_ns: float,
    overlap: float | None,
    evidence: dict[str, Any],
    show: tuple[str, ...],
) -> tuple[str, ...]:
    flagged = {**evidence.get("flagged", {}), **evidence.get("flagged_single_calls", {})}
    uses_clocks = given.timing.time == "span" or "skew" in show
    coarse = uses_clocks and TWO_RANKS * evidence.get("clock_error_ns", 0.0) > _CLOCK_SHARE * time_ns
    found = {
        PART_ALONE: overlap is not None and overlap < LEAST_OVERLAP,
        "stopped": stop in _LIMITED,
        # Shorter calls lie on levels on every machine: of these the scatter between launches is said, once.
        "unstable": "shape" in evidence and time_ns >= given.limits.small_ns,
        "descheduled": "descheduled" in flagged,
        "throttled": bool(evidence.get("throttle_bits", 0) & _THROTTLING),
        "clock": "clock_step" in flagged or "clock_excess_ns" in evidence or coarse,
    }
    return tuple(mark for mark, is_found in found.items() if is_found)


def _is_host_bound(taken: Taken) -> bool:
    return taken.is_issued_apart and taken.call_issue_ns >= _HOST_BOUND * taken.median_ns
