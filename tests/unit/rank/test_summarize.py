"""From samples to a result: each number recomputed by hand, each mark provoked and left out."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from busbw_testing.ranks import case, conditions

from busbw.model.plan import Timing
from busbw.model.result import CaseResult, Status, StopReason
from busbw.model.sample import SampleFlag
from busbw.rank.backends.base import DeviceState
from busbw.rank.measure import Samples, Taken
from busbw.rank.reduce_samples import Across
from busbw.rank.summarize import bandwidths, summarize
from busbw.rank.verify import Verified
from busbw.rank.world.clock import GlobalClock, Recheck
from busbw.rank.world.clock_model import Line
from busbw.stats.interval import estimate

NOISE = np.random.default_rng(8)
WORST = NOISE.integers(100_000, 110_000, 400)


def taken(
    worst: Any = WORST,
    best: Any = None,
    k: int = 1,
    *,
    issue: Any = None,
    flags: Any = None,
    skew: Any = None,
) -> Taken:
    worst = np.asarray(worst, np.int64)
    n = len(worst)
    best = worst - 500 if best is None else np.asarray(best, np.int64)
    across = Across(
        worst,
        best,
        worst // 10 if issue is None else np.asarray(issue, np.int64),
        np.zeros(n, np.int64) if flags is None else np.asarray(flags, np.int64),
        worst,
        np.full(n, -1, np.int64) if skew is None else np.asarray(skew, np.int64),
    )
    return Taken(k, worst, worst, across)


def samples(of: Taken | None = None, **changed: Any) -> Samples:
    return replace(Samples(of or taken(), 20, (StopReason.PRECISION,), first_call_ns=5e6), **changed)


GIVEN = conditions(SimpleNamespace(size=4, rank=0))


def summarized(of: Samples | None = None, given: Any = GIVEN, **changed: Any) -> CaseResult:
    return summarize(case(), of or samples(), Verified(0, ()), given, **changed)


def test_every_number_of_a_good_case() -> None:
    result = summarized()
    expected = estimate(WORST.astype(np.float64), 0.99)
    assert result == CaseResult(
        case=0,
        status=Status.GOOD,
        time_ns=expected.median,
        low_ns=expected.low,
        high_ns=expected.high,
        mean_ns=expected.mean,
        algbw_gb_per_s=1024 / expected.median,
        busbw_gb_per_s=1024 / expected.median * 1.5,
        samples=400,
        calls_per_sample=1,
        warmup_calls=20,
        stop=StopReason.PRECISION,
        wrong=0,
        issue_ns=float(np.median(WORST // 10)),
        first_call_ns=5e6,
        tau=expected.tau,
        evidence=result.evidence,
        pass_samples=result.pass_samples,
    )


def test_times_are_of_one_call() -> None:
    result = summarized(samples(taken(WORST * 10, k=10, issue=WORST // 10 * 10)))
    assert result.time_ns == summarized().time_ns
    assert result.issue_ns == summarized().issue_ns
    assert result.calls_per_sample == 10


def test_a_fixed_number_of_calls_has_the_interval_of_one_look() -> None:
    fixed, adaptive = summarized(samples(stops=(StopReason.CALLS,))), summarized()
    expected = estimate(WORST.astype(np.float64), 0.95)
    assert (fixed.low_ns, fixed.high_ns) == (expected.low, expected.high)
    assert adaptive.high_ns - adaptive.low_ns > fixed.high_ns - fixed.low_ns


@pytest.mark.parametrize(
    ("name", "ranks", "size_bytes", "algbw", "busbw"),
    [
        ("all_reduce", 4, 4096, 4.096, 6.144),
        ("all_reduce", 1, 4096, 4.096, None),
        ("all_gather", 4, 4096, 4.096, 3.072),
        ("broadcast", 4, 4096, 4.096, 4.096),
        ("hypercube", 4, 4096, 3.072, 3.072),  # of the bytes that a rank does not have yet
        ("hypercube", 1, 4096, 0.0, None),
        ("barrier", 4, 0, None, None),
        ("all_reduce", 4, 0, 0.0, 0.0),
    ],
)
def test_bandwidths(name: str, ranks: int, size_bytes: int, algbw: float | None, busbw: float | None) -> None:
    got = bandwidths(case(name, size_bytes), ranks, 1000.0)
    assert got == (algbw if algbw is None else pytest.approx(algbw), busbw and pytest.approx(busbw))
    assert bandwidths(case(name, size_bytes), ranks, None) == (None, None)


def test_passes_that_differ_widen_the_interval_and_mark_the_case() -> None:
    parts = [STEADY, STEADY, STEADY * 3 // 2, STEADY]
    at_hand = samples(taken(np.concatenate(parts)), ends=(400, 800, 1200, 1600), passes=4)
    result = summarized(replace(at_hand, stops=(StopReason.PRECISION,) * 4))
    assert (result.stop, result.passes, result.pass_samples) == (StopReason.PASSES, 4, (400,) * 4)
    assert "unstable" in result.marks
    assert result.low_ns < 1e5
    assert result.high_ns > 1.5e5
    assert result.evidence["levels_ns"] == pytest.approx([1e5, 1e5, 1.5e5, 1e5], rel=0.01)


def test_how_late_ranks_came_on_purpose_is_evidence() -> None:
    late = replace(samples(taken(WORST)), latest_ns=5e5)
    result = summarized(late, given=replace(GIVEN, timing=Timing(mode="latency", arrival="late-one")))
    assert result.evidence["latest_arrival_ns"] == 5e5


# ---- statistics ---------------------------------------------------------------------------------------

SHOW = ("avg", "min", "max", "p50", "p99", "cv", "imbalance", "n", "issue", "timestamp", "memory")


def test_statistics_are_of_single_calls() -> None:
    stats = summarized(show=SHOW).stats
    assert list(stats) == ["avg", "min", "max", "p50", "p99", "cv", "imbalance"]
    ordered = np.sort(WORST)
    assert stats["avg"] == pytest.approx(WORST.mean())
    assert (stats["min"], stats["max"]) == (ordered[0], ordered[-1])
    assert (stats["p50"], stats["p99"]) == (ordered[199], ordered[395])
    assert stats["cv"] == pytest.approx(WORST.std(ddof=1) / WORST.mean())
    assert stats["imbalance"] == 500


def test_samples_of_several_calls_tell_means_only() -> None:
    stats = summarized(samples(taken(WORST * 8, k=8)), show=SHOW).stats
    assert stats["avg"] == pytest.approx(WORST.mean())
    assert stats["imbalance"] == 500 / 8
    assert [stats[word] for word in ("min", "max", "p50", "p99", "cv")] == [None] * 5


def test_the_pass_of_single_calls_tells_all_of_them() -> None:
    single = NOISE.integers(200_000, 300_000, 320)
    both = samples(taken(WORST * 8, k=8), singles=taken(single, single - 40))
    result = summarized(both, show=SHOW)
    ordered = np.sort(single)
    assert (result.stats["min"], result.stats["p99"]) == (ordered[0], ordered[316])
    assert result.stats["imbalance"] == 40
    assert result.time_ns == float(np.median(WORST))
    assert result.samples == 400
    assert result.evidence["single_call_ns"] == float(np.median(single))
    assert result.evidence["timing_overhead_ns"] == float(np.median(single)) - result.time_ns


def test_a_percentile_of_too_few_calls_is_not_told() -> None:
    assert summarized(samples(taken(WORST[:298])), show=("p99", "p50")).stats["p99"] is None
    assert summarized(samples(taken(WORST[:299])), show=("p99",)).stats["p99"] == np.sort(WORST[:299])[296]


def test_excluded_samples_are_in_no_number() -> None:
    worst, flags = WORST.copy(), np.zeros(400, np.int64)
    worst[7], flags[7] = 10**9, SampleFlag.CLOCK_STEP
    result = summarized(samples(taken(worst, flags=flags, issue=worst // 10)), show=("max", "avg"))
    assert (result.samples, result.excluded) == (399, 1)
    assert result.stats["max"] == np.delete(WORST, 7).max()
    assert result.mean_ns == pytest.approx(np.delete(WORST, 7).mean())
    assert result.issue_ns == float(np.median(np.delete(WORST, 7) // 10))
    assert result.evidence["flagged"] == {"clock_step": 1}


def test_too_many_to_exclude_are_kept_and_marked() -> None:
    flags = np.zeros(400, np.int64)
    flags[:21] = SampleFlag.DESCHEDULED
    result = summarized(samples(taken(flags=flags)))
    assert (result.samples, result.excluded) == (400, 0)
    assert "descheduled" in result.marks
    assert result.evidence["flagged"] == {"descheduled": 21}


def test_skew_is_the_median_where_there_is_a_clock() -> None:
    assert summarized(samples(taken(skew=np.arange(400)))).skew_ns == 199.5
    assert summarized().skew_ns is None


# ---- marks --------------------------------------------------------------------------------------------

STEADY = np.random.default_rng(2).integers(99_900, 100_100, 400)


def clock(error_ns: float) -> GlobalClock:
    return GlobalClock(Line(0, 0, 0.0), 0, error_ns, 50.0, 1e-8, (0, 1, 2, 3))


def flagged(bit: int, count: int = 1) -> Any:
    return np.concatenate((np.full(count, bit), np.zeros(400 - count)))


@pytest.mark.parametrize(
    ("changed", "marks"),
    [
        ({}, ()),
        ({"stops": (StopReason.CALLS,)}, ()),
        ({"stops": (StopReason.MAX_SAMPLES,)}, ("stopped",)),
        ({"stops": (StopReason.CASE_TIME,)}, ("stopped",)),
        ({"stops": (StopReason.BUDGET,)}, ("stopped",)),
        ({"taken": taken(STEADY, flags=flagged(SampleFlag.DESCHEDULED))}, ("descheduled",)),
        ({"taken": taken(STEADY, flags=flagged(SampleFlag.CLOCK_STEP))}, ("clock",)),
        ({"taken": taken(STEADY, flags=flagged(3 + 2))}, ("descheduled", "clock")),
        ({"taken": taken(np.concatenate((STEADY, STEADY * 2)))}, ("unstable",)),
        ({"taken": taken(np.concatenate((STEADY, STEADY * 2)) // 4)}, ()),  # 38 us
    ],
)
def test_marks_of_samples(changed: dict[str, Any], marks: tuple[str, ...]) -> None:
    result = summarized(samples(**{"taken": taken(STEADY), **changed}))
    assert result.marks == marks


@pytest.mark.parametrize(
    ("issue", "host_bound"),
    [
        (STEADY * 91 // 100, True),
        (STEADY * 2, True),
        (STEADY * 89 // 100, False),
        (STEADY, False),  # a call that blocks: issuing is the call
    ],
)
def test_calls_that_wait_for_the_host_are_host_bound(issue: Any, host_bound: bool) -> None:
    result = summarized(samples(taken(STEADY, issue=issue)))
    assert result.evidence.get("host_bound", False) is host_bound


def test_two_levels_with_nothing_between_are_unstable() -> None:
    mixed = np.where(np.random.default_rng(1).random(400) < 0.7, STEADY, STEADY * 2)
    result = summarized(samples(taken(mixed)))
    assert result.marks == ("unstable",)
    assert result.evidence["shape"] == ["two levels"]
    assert set(result.evidence["modes"])


@pytest.mark.parametrize(
    ("bits", "throttled"),
    [
        (0x01, False),  # idle
        (0x02, False),  # the user's own clock setting
        (0x04, True),
        (0x08, True),
        (0x10, False),  # sync boost
        (0x20, True),
        (0x40, True),
        (0x80, True),
    ],
)
def test_a_throttled_gpu_is_marked_with_its_clock(bits: int, throttled: bool) -> None:
    result = summarized(samples(taken(STEADY)), device=DeviceState(1410, bits))
    assert ("throttled" in result.marks) is throttled
    assert (result.evidence["clock_mhz"], result.evidence["throttle_bits"]) == (1410, bits)


@pytest.mark.parametrize(
    ("time", "show", "error_ns", "marked"),
    [
        # Of 100 us; two ranks' clocks may be apart by twice the error.
        ("span", (), 2_550, True),
        ("span", (), 2_450, False),
        ("max", ("skew",), 2_550, True),
        ("max", (), 2_550, False),  # nothing that is shown comes from the common clock
    ],
)
def test_a_span_that_is_mostly_the_clocks_error_is_marked(
    time: str, show: tuple[str, ...], error_ns: float, marked: bool
) -> None:
    timing = Timing(mode="latency", time=time)
    here = replace(GIVEN, timing=timing, clock=clock(error_ns))
    result = summarized(samples(taken(STEADY)), given=here, show=show)
    assert ("clock" in result.marks) is marked
    assert result.evidence["clock_error_ns"] == error_ns


def test_a_clock_that_stepped_is_named() -> None:
    here = replace(GIVEN, timing=Timing(mode="latency", time="max"), clock=clock(100.0))
    result = summarized(given=here, clock=Recheck(5e9, 4.9e9, 2, expired=False))
    assert (result.evidence["clock_excess_ns"], result.evidence["clock_excess_rank"]) == (4.9e9, 2)
    assert "clock" in result.marks


@pytest.mark.parametrize(("count", "bounded"), [(7, False), (8, True)])
def test_too_few_samples_bound_no_median(count: int, bounded: bool) -> None:
    result = summarized(samples(taken([100 + i % 2 for i in range(count)])))
    assert (result.low_ns is not None, result.high_ns is not None) == (bounded, bounded)
