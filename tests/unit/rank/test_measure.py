from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from busbw_testing.ranks import conditions, measured, on_ranks, scripted

from busbw.model.plan import Limits, Timing
from busbw.model.result import StopReason
from busbw.model.sample import SampleFlag
from busbw.rank.descheduled import CoreClock
from busbw.rank.measure import Pace, Samples, Taken, measure, measure_again, warm_up
from busbw.rank.reduce_samples import Across

LATENCY = Timing(mode="latency")


def warmed(case: Any, limits: Limits) -> Pace:
    (pace,) = on_ranks(1, lambda world: warm_up(case, conditions(world), limits))
    return pace  # type: ignore[no-any-return]


def alternating(call_ns: float, swing: float) -> Callable[[int], float]:
    values = np.random.default_rng(1).uniform(1 - swing, 1 + swing, 4096)
    return lambda call: float(call_ns * values[call % 4096])


def test_constant_times_are_enough_at_the_first_look() -> None:
    case = scripted(lambda call: 1000.0)
    (samples,) = measured([case], Limits())
    # 50 ns is 1 % of 5 calls of 1000 ns.
    assert (samples.taken.k, len(samples.taken.across), samples.stops[-1]) == (5, 4, StopReason.PRECISION)
    assert samples.times_ns.tolist() == [1000.0] * 4
    assert case.looks == [(5, 4, 5)]


def test_untimed_calls_before_a_look_take_half_a_millisecond_at_most() -> None:
    case = scripted(lambda call: 7000.0)
    measured([case], Limits(), timing_cost_ns=7000.0)
    assert case.looks == [(71, 4, 100)]


def test_the_worst_rank_counts_sample_by_sample() -> None:
    slow_first = scripted(lambda call: 2e6 if call < 10 + 4 else 1e6)
    slow_last = scripted(lambda call: 1e6 if call < 10 + 4 else 2e6)
    limits = Limits(calls=8, warmup_calls=9)
    first, last = measured([slow_first, slow_last], limits)
    assert first.times_ns.tolist() == last.times_ns.tolist() == [2e6] * 8
    assert first.taken.own_ns.tolist() == [2e6] * 4 + [1e6] * 4
    assert last.taken.own_ns.tolist() == [1e6] * 4 + [2e6] * 4
    assert first.taken.issue_ns.tolist() == [1e6] * 4 + [5e5] * 4
    assert first.taken.across.issue.tolist() == [1e6] * 8
    assert first.taken.across.best.tolist() == [1e6] * 8


def test_noise_is_sampled_until_a_limit_and_the_limit_is_named() -> None:
    case = scripted(alternating(1e5, 0.5))
    (samples,) = measured([case], Limits(max_samples=50, case_seconds=60, precision=0.001))
    # A third of the samples, as there are three passes.
    assert (len(samples.taken.across), samples.stops, samples.passes) == (16, (StopReason.MAX_SAMPLES,), 3)
    assert [count for _, count, _ in case.looks] == [4, 2, 2, 3, 4, 1]


def test_time_spent_in_samples_ends_a_case() -> None:
    case = scripted(alternating(1e7, 0.5))
    (samples,) = measured([case], Limits(case_seconds=0.3))
    assert samples.stops[-1] is StopReason.CASE_TIME
    assert 0.3e9 <= 3 * samples.taken.across.worst.sum() < 0.6e9


# Two passes fit into 0.05 s, and one into 0.02 s.
@pytest.mark.parametrize(
    ("seconds", "first", "taken"), [(0.5, 4, 4), (0.05, 2, 3), (0.02, 2, 2), (0.001, 1, 1)]
)
def test_the_first_look_fits_into_the_time_where_that_is_possible(
    seconds: float, first: int, taken: int
) -> None:
    case = scripted(lambda call: 1e7)
    (samples,) = measured([case], Limits(case_seconds=seconds))
    assert case.looks[0] == (1, first, 1)
    assert samples.stops[-1] is (StopReason.PRECISION if first == 4 else StopReason.CASE_TIME)
    assert len(samples.taken.across) == taken


def test_ranks_that_share_cores_show_their_pace_in_one_sample_first() -> None:
    """After a quick warm-up each call takes longer than the case may: one is enough to know."""
    case = scripted(lambda call: 1e6 if call < 2 else 4e9)
    (samples,) = measured([case], Limits(case_seconds=0.2), contended=True)
    assert [samples.stops[-1], len(samples.taken.across)] == [StopReason.CASE_TIME, 1]
    case = scripted(lambda call: 1e6)
    (samples,) = measured([case], Limits(), contended=True)
    assert [samples.stops[-1], len(samples.taken.across)] == [StopReason.PRECISION, 4]


def test_a_warm_up_that_was_slow_does_not_make_the_case_long() -> None:
    """By the warm-up's pace one sample fits, and it takes a third of the time: what is left has room for
    two more, not for the seven up to the first look of one pass.
    """
    case = scripted(lambda call: 1e9 if call < 4 else 1e8)
    (samples,) = measured([case], Limits(case_seconds=0.3, warmup_calls=3))
    assert [count for _, count, _ in case.looks] == [1, 2]
    assert (len(samples.taken.across), samples.stops[-1]) == (3, StopReason.CASE_TIME)


@pytest.mark.parametrize(
    ("calls", "samples", "k", "group"),
    [
        (200, 20, 10, 1),
        (16, 8, 2, 1),
        (20, 10, 2, 1),
        (3, 3, 1, 1),
        (1, 1, 1, 1),
        (80, 10, 8, 4),
        (8, 1, 8, 8),
    ],
)
def test_a_fixed_number_of_calls_is_exact(calls: int, samples: int, k: int, group: int) -> None:
    case = scripted(lambda call: 1000.0, calls_per_issue=group)
    (result,) = measured([case], Limits(calls=calls))
    assert (len(result.times_ns), result.taken.k, result.stops[-1]) == (samples, k, StopReason.CALLS)
    assert sum(count * each for _, count, each in case.looks) == calls


def test_a_look_comes_in_chunks_where_the_backend_limits_it() -> None:
    case = scripted(lambda call: 1e6)
    (samples,) = measured([case], Limits(calls=20), max_samples_per_look=8)
    assert case.looks == [(1, 8, 1), (1, 8, 1), (1, 4, 1)]
    assert len(samples.taken.own_ns) == len(samples.taken.across) == 20


def test_sampling_starts_again_where_the_warm_up_was_slow() -> None:
    """A busy core during the warm-up makes k too small for the true pace."""
    case = scripted(lambda call: 1e6 if call < 6 else 1000.0)
    (samples,) = measured([case], Limits())
    assert [k for _, _, k in case.looks] == [1, 5]
    assert (samples.taken.k, len(samples.taken.across)) == (5, 4)
    assert samples.times_ns.tolist() == [1000.0] * 4
    # The samples taken with the small k count as warm-up; the untimed lead of a look does not.
    assert samples.warmup_calls == 2 + 4


def test_it_starts_again_a_few_times_at_most() -> None:
    case = scripted(lambda call: 1e7 / (call + 1) ** 2)
    (samples,) = measured([case], Limits(warmup_calls=1, case_seconds=0.001))
    assert len({k for _, _, k in case.looks}) <= 4
    assert samples.stops[-1] is not None


def test_a_fixed_number_of_calls_starts_again_too_and_stays_fixed() -> None:
    """-n 100 -w 1: one cold call says nothing about the pace, and k = 1 would time the reading of time."""
    case = scripted(lambda call: 1e6 if call < 25 else 1000.0)
    (samples,) = measured([case], Limits(calls=100, warmup_calls=1))
    assert [k for _, _, k in case.looks] == [1, 10]
    assert len(samples.times_ns) * samples.taken.k == 100


# ---- passes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("issue_share", "passes", "samples"),
    [
        (1.0, 9, 10),  # issuing is the call itself, as on CPU ranks
        (0.6, 9, 4),  # the host's levels switch: many passes of one look
        (0.2, 3, 30),  # the device sets the pace
    ],
)
def test_who_sets_the_pace_says_how_many_passes_and_how_long(
    issue_share: float, passes: int, samples: int
) -> None:
    case = scripted(lambda call: 7000.0 * (1 + call // 100 % 3), issue_share=issue_share)
    (found,) = measured([case], Limits(), timing_cost_ns=7000.0)
    assert (found.passes, len(found.taken.across)) == (passes, samples)


def test_later_passes_keep_k_and_begin_behind_untimed_calls() -> None:
    case = scripted(lambda call: 1000.0)

    def live(world: Any) -> Samples:
        samples = measure(case, conditions(world, singles=320), Limits())
        while not samples.complete:
            samples = measure_again(samples, case, conditions(world, singles=320), Limits())
        return samples

    (samples,) = on_ranks(1, live)
    assert samples.ends == tuple(range(4, 40, 4))
    assert [len(part) for part in samples.times_by_pass] == [4] * 9
    assert samples.stops == (StopReason.PRECISION,) * 9
    # A ninth of the single calls in each pass, behind 20 untimed ones.
    assert case.looks == [(5, 4, 5), (20, 36, 1), *[(500, 4, 5), (20, 36, 1)] * 8]
    assert samples.singles is not None
    assert len(samples.singles.across) == 12 * 27


def test_samples_that_are_left_out_stay_out_of_their_pass() -> None:
    flags = np.zeros(40, np.int64)
    flags[25] = SampleFlag.CLOCK_STEP
    worst = np.arange(40)
    across = Across(worst, worst, worst, flags, worst, worst)
    samples = Samples(Taken(1, worst, worst, across), 3, (StopReason.PRECISION,) * 3, (8, 24, 40))
    assert [part.tolist() for part in samples.times_by_pass] == [
        [*range(8)],
        [*range(8, 24)],
        [24, *range(26, 40)],
    ]


# ---- warm-up ----------------------------------------------------------------------------------------


def test_the_warm_up_ends_when_it_is_steady_and_after_20_ms() -> None:
    case = scripted(lambda call: 1e6)
    pace = warmed(case, Limits())
    assert case.warm_up == [1, 1]  # the second round was no faster
    assert (pace.warmup_calls, pace.call_ns, pace.k) == (2, 1e6, 1)
    assert warmed(scripted(lambda call: 1e9), Limits()).warmup_calls == 2
    faster = scripted(lambda call: 4e6 * 0.96**call)
    warmed(faster, Limits())
    assert sum(4e6 * 0.96**call for call in range(faster.done)) == pytest.approx(20e6, rel=0.2)


@pytest.mark.parametrize(
    ("limits", "call_ns", "issued"),
    [
        (Limits(warmup_calls=0), 1e3, 1),  # the one call that sets the pace
        (Limits(warmup_calls=1), 1e3, 1),
        (Limits(warmup_calls=3000), 1e3, 3000),
        (Limits(warmup_calls=1, warmup_seconds=0.02), 1e6, 20),  # the time decides
        (Limits(warmup_calls=50, warmup_seconds=0.02), 1e6, 50),  # the calls do
        (Limits(warmup_seconds=0.005), 1e6, 5),
        (Limits(warmup_seconds=0.0), 1e6, 3),
    ],
)
def test_a_warm_up_lasts_as_many_calls_and_as_long_as_asked(
    limits: Limits, call_ns: float, issued: int
) -> None:
    case = scripted(lambda call: call_ns)
    assert warmed(case, limits).warmup_calls == case.done == issued


def test_slow_first_calls_do_not_set_the_pace() -> None:
    case = scripted(lambda call: 5e6 if call == 0 else 1e6)
    assert warmed(case, Limits()).call_ns == 1e6
    assert case.warm_up == [1, 1, 1]


def test_the_warm_up_comes_in_whole_groups() -> None:
    case = scripted(lambda call: 1e6, calls_per_issue=2)
    warmed(case, Limits())
    assert case.warm_up == [2, 2]


def test_a_clock_that_did_not_move_is_survived() -> None:
    case = scripted(lambda call: 0.0)
    (samples,) = measured([case], Limits(max_samples=8, warmup_calls=3))
    assert samples.stops[-1] is StopReason.MAX_SAMPLES


# ---- samples that do not count ----------------------------------------------------------------------


def at(wall: int, cpu: int, raw: int | None = None, boot: int | None = None) -> CoreClock:
    return CoreClock(wall, cpu, wall if raw is None else raw, wall if boot is None else boot)


SPENT = [at(0, 0), at(50_000_000, 40_000_000)]  # 10 ms without a core


@pytest.mark.parametrize("contended", [False, True])
def test_samples_that_lost_their_core_are_left_out_but_where_ranks_share_cores(
    clocks: Any, contended: bool
) -> None:
    """Losing the core is what such a run measures."""
    clocks.next = list(SPENT)
    case = scripted(lambda call: 11e6 if call == 30 else 1e6)
    (samples,) = measured([case], Limits(calls=40, warmup_calls=20), contended=contended)
    flag = 0 if contended else SampleFlag.DESCHEDULED
    assert samples.taken.across.flags.tolist() == [0] * 9 + [flag] + [0] * 30
    assert samples.lost_ns == (0 if contended else 10_000_000)
    assert sorted(samples.times_ns.tolist()) == [1e6] * 39 + [11e6] * contended
    # What was measured stays.
    assert samples.taken.across.worst.max() == 11e6


def test_waiting_between_loops_is_no_lost_core(clocks: Any) -> None:
    """A rank sleeps in the barrier before each loop; that time is in no sample."""
    clocks.next = list(SPENT)
    case = scripted(lambda call: 2e5 if 20 <= call < 40 else 1e5)
    (samples,) = measured([case], Limits(calls=400, warmup_calls=20), timing=Timing(time="loop"))
    assert samples.times_ns.tolist() == [2e5] + [1e5] * 19
    assert samples.lost_ns == 0


def test_a_clock_that_stepped_speaks_against_its_look(clocks: Any) -> None:
    still, stepped = at(0, 0), at(0, 0, boot=60_000_000_000)
    clocks.next = [still, still, still, stepped]
    case = scripted(lambda call: 1e6)
    (samples,) = measured([case], Limits(calls=41), max_samples_per_look=40)
    assert samples.taken.across.flags.tolist() == [0] * 40 + [SampleFlag.CLOCK_STEP]
    assert len(samples.times_ns) == 40
