from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from busbw.model.plan import Limits, Timing
from busbw.model.result import StopReason
from busbw.model.sample import SampleFlag
from busbw.worker.measure import Pace, Samples, settling, warm_up
from busbw.worker.off_core import CoreClock

OnRanks = Callable[[int, Callable[[Any], Any]], list[Any]]
Measured = Callable[..., list[Samples]]
LATENCY = Timing(mode="latency")


@pytest.fixture
def warmed(on_ranks: OnRanks, conditions: Any) -> Callable[..., Pace]:
    def run(case: Any, limits: Limits) -> Pace:
        (pace,) = on_ranks(1, lambda world: warm_up(case, conditions(world), limits))
        return pace  # type: ignore[no-any-return]

    return run


def alternating(call_ns: float, swing: float) -> Callable[[int], float]:
    values = np.random.default_rng(1).uniform(1 - swing, 1 + swing, 4096)
    return lambda call: float(call_ns * values[call % 4096])


def test_constant_times_are_enough_at_the_first_look(measured: Measured, scripted: Any) -> None:
    case = scripted(lambda call: 1000.0)
    (samples,) = measured([case], Limits())
    # 50 ns is 0.5 % of 10 calls of 1000 ns.
    assert (samples.taken.k, len(samples.taken.across), samples.stop) == (10, 8, StopReason.PRECISION)
    assert samples.times_ns.tolist() == [1000.0] * 8
    assert case.looks == [(10, 8, 10)]


def test_the_worst_rank_counts_sample_by_sample(measured: Measured, scripted: Any) -> None:
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


def test_ranks_with_different_paces_make_the_same_calls(measured: Measured, scripted: Any) -> None:
    cases = [scripted(alternating(pace, 0.2)) for pace in (1000.0, 1300.0, 700.0)]
    results = measured(cases, Limits(max_samples=200))
    assert len({len(case.looks) for case in cases}) == 1
    assert cases[0].log == cases[1].log == cases[2].log
    assert len({(result.taken.k, result.stop, result.warmup_calls) for result in results}) == 1
    assert all((result.times_ns == results[0].times_ns).all() for result in results)


def test_noise_is_sampled_until_a_limit_and_the_limit_is_named(measured: Measured, scripted: Any) -> None:
    case = scripted(alternating(1e5, 0.5))
    (samples,) = measured([case], Limits(max_samples=50, case_seconds=60, precision=0.001))
    assert (len(samples.taken.across), samples.stop) == (50, StopReason.MAX_SAMPLES)
    assert [count for _, count, _ in case.looks] == [8, 3, 5, 6, 9, 12, 7]


def test_samples_that_are_set_aside_do_not_move_the_limit(measured: Measured, scripted: Any) -> None:
    """A slow start is left out of the headline; the case still ends at the limit and not a look later."""
    noise = alternating(1e5, 0.5)
    case = scripted(lambda call: noise(call) * (100 if 200 <= call < 213 else 1))
    limits = Limits(max_samples=50, case_seconds=60, precision=0.001, warmup_calls=199)
    (samples,) = measured([case], limits)
    assert samples.settling == 11
    assert (len(samples.taken.across), samples.stop) == (50, StopReason.MAX_SAMPLES)
    assert len(samples.times_ns) == 39
    assert [count for _, count, _ in case.looks] == [8, 3, 5, 6, 9, 12, 7]


def test_time_spent_in_samples_ends_a_case(measured: Measured, scripted: Any) -> None:
    case = scripted(alternating(1e7, 0.5))
    (samples,) = measured([case], Limits(case_seconds=0.3))
    assert samples.stop is StopReason.CASE_TIME
    assert 0.3e9 <= samples.taken.across.worst.sum() < 0.6e9


@pytest.mark.parametrize(("seconds", "first"), [(0.5, 8), (0.05, 5), (0.02, 2), (0.001, 1)])
def test_the_first_look_fits_into_the_time_where_that_is_possible(
    measured: Measured, scripted: Any, seconds: float, first: int
) -> None:
    case = scripted(lambda call: 1e7)
    (samples,) = measured([case], Limits(case_seconds=seconds))
    assert case.looks[0] == (1, first, 1)
    assert samples.stop is (StopReason.PRECISION if first == 8 else StopReason.CASE_TIME)
    assert len(samples.taken.across) == first


def test_ranks_that_share_cores_show_their_pace_in_one_sample_first(
    measured: Measured, scripted: Any
) -> None:
    """After a quick warm-up each call takes longer than the case may: one is enough to know."""
    case = scripted(lambda call: 1e6 if call < 10 else 4e9)
    (samples,) = measured([case], Limits(case_seconds=0.2), contended=True)
    assert [samples.stop, len(samples.taken.across)] == [StopReason.CASE_TIME, 1]
    case = scripted(lambda call: 1e6)
    (samples,) = measured([case], Limits(), contended=True)
    assert [samples.stop, len(samples.taken.across)] == [StopReason.PRECISION, 8]


def test_a_warm_up_that_was_slow_does_not_make_the_case_long(measured: Measured, scripted: Any) -> None:
    """By the warm-up's pace one sample fits, and it takes a third of the time: what is left has room for
    two more, not for the seven up to the usual first look.
    """
    case = scripted(lambda call: 1e9 if call < 4 else 1e8)
    (samples,) = measured([case], Limits(case_seconds=0.3, warmup_calls=3))
    assert [count for _, count, _ in case.looks] == [1, 2]
    assert (len(samples.taken.across), samples.stop) == (3, StopReason.CASE_TIME)


@pytest.mark.parametrize(
    ("calls", "samples", "k"), [(200, 20, 10), (16, 8, 2), (20, 10, 2), (3, 3, 1), (1, 1, 1)]
)
def test_a_fixed_number_of_calls_is_exact(
    measured: Measured, scripted: Any, calls: int, samples: int, k: int
) -> None:
    case = scripted(lambda call: 1000.0)
    (result,) = measured([case], Limits(calls=calls))
    assert (len(result.times_ns), result.taken.k, result.stop) == (samples, k, StopReason.CALLS)
    assert sum(count * each for _, count, each in case.looks) == calls


def test_a_look_comes_in_chunks_where_the_backend_limits_it(measured: Measured, scripted: Any) -> None:
    case = scripted(lambda call: 1e6)
    (samples,) = measured([case], Limits(calls=20), max_samples_per_look=8)
    assert case.looks == [(1, 8, 1), (1, 8, 1), (1, 4, 1)]
    assert len(samples.taken.own_ns) == len(samples.taken.across) == 20


def test_sampling_starts_again_where_the_warm_up_was_slow(measured: Measured, scripted: Any) -> None:
    """A busy core during the warm-up makes k too small for the true pace."""
    case = scripted(lambda call: 1e6 if call < 25 else 1000.0)
    (samples,) = measured([case], Limits())
    assert [k for _, _, k in case.looks] == [1, 10]
    assert (samples.taken.k, len(samples.taken.across)) == (10, 8)
    assert samples.times_ns.tolist() == [1000.0] * 8
    # The samples taken with the small k count as warm-up; the untimed lead of a look does not.
    assert samples.warmup_calls == 20 + 8


def test_it_starts_again_a_few_times_at_most(measured: Measured, scripted: Any) -> None:
    case = scripted(lambda call: 1e7 / (call + 1) ** 2)
    (samples,) = measured([case], Limits(warmup_calls=1, case_seconds=0.001))
    assert len({k for _, _, k in case.looks}) <= 4
    assert samples.stop is not None


def test_a_fixed_number_of_calls_starts_again_too_and_stays_fixed(measured: Measured, scripted: Any) -> None:
    """-n 100 -w 1: one cold call says nothing about the pace, and k = 1 would time the reading of time."""
    case = scripted(lambda call: 1e6 if call < 25 else 1000.0)
    (samples,) = measured([case], Limits(calls=100, warmup_calls=1))
    assert [k for _, _, k in case.looks] == [1, 10]
    assert len(samples.times_ns) * samples.taken.k == 100


def test_few_fixed_calls_do_not_start_again_for_a_k_that_they_cannot_have(
    measured: Measured, scripted: Any
) -> None:
    case = scripted(lambda call: 1000.0)
    (samples,) = measured([case], Limits(calls=16, warmup_calls=1))
    assert (len(case.looks), samples.taken.k) == (1, 2)


# ---- warm-up ----------------------------------------------------------------------------------------


def test_the_warm_up_takes_three_calls_and_20_ms(warmed: Any, scripted: Any) -> None:
    pace = warmed(scripted(lambda call: 1e6), Limits())
    assert (pace.warmup_calls, pace.call_ns, pace.k) == (20, 1e6, 1)
    assert warmed(scripted(lambda call: 1e9), Limits()).warmup_calls == 3


@pytest.mark.parametrize(("asked", "issued"), [(0, 1), (1, 1), (50, 50), (3000, 3000)])
def test_a_fixed_warm_up_is_exact_but_for_the_one_call_that_sets_the_pace(
    warmed: Any, scripted: Any, asked: int, issued: int
) -> None:
    case = scripted(lambda call: 1000.0)
    assert warmed(case, Limits(warmup_calls=asked)).warmup_calls == case.done == issued


@pytest.mark.parametrize(
    ("limits", "issued"),
    [
        (Limits(warmup_calls=1, warmup_seconds=0.02), 20),  # the time decides
        (Limits(warmup_calls=50, warmup_seconds=0.02), 50),  # the calls do
        (Limits(warmup_seconds=0.005), 5),
        (Limits(warmup_seconds=0.0), 3),
    ],
)
def test_a_warm_up_lasts_as_many_calls_and_as_long_as_asked(
    warmed: Any, scripted: Any, limits: Limits, issued: int
) -> None:
    case = scripted(lambda call: 1e6)
    assert warmed(case, limits).warmup_calls == case.done == issued


def test_the_first_call_is_timed_alone_and_does_not_set_the_pace(warmed: Any, scripted: Any) -> None:
    case = scripted(lambda call: 5e6 if call == 0 else 1e6)
    pace = warmed(case, Limits())
    assert (pace.first_call_ns, pace.call_ns) == (5e6, 1e6)
    # 5 ms and two of 1 ms leave 13 of the 20 ms.
    assert case.warm_up == [1, 2, 13]
    assert pace.warmup_calls == 16


def test_the_first_call_is_that_of_the_slowest_rank(measured: Measured, scripted: Any) -> None:
    cases = [scripted(lambda call, first=first: first if call == 0 else 1e6) for first in (2e6, 9e6, 3e6)]
    assert {samples.first_call_ns for samples in measured(cases, Limits())} == {9e6}


def test_a_round_of_the_warm_up_is_no_larger_than_a_graph_can_hold(warmed: Any, scripted: Any) -> None:
    case = scripted(lambda call: 1000.0)
    warmed(case, Limits())
    assert max(case.warm_up) == 1024
    assert sum(case.warm_up) >= 20_000


def test_a_clock_that_did_not_move_is_survived(measured: Measured, scripted: Any) -> None:
    case = scripted(lambda call: 0.0)
    (samples,) = measured([case], Limits(max_samples=8, warmup_calls=3))
    assert samples.stop is StopReason.MAX_SAMPLES


# ---- samples that do not count ----------------------------------------------------------------------


def test_a_slow_start_is_warm_up(measured: Measured, scripted: Any) -> None:
    noise = alternating(1e5, 0.02)
    case = scripted(lambda call: 3e5 if 200 <= call < 204 else noise(call))
    limits = Limits(warmup_calls=199, precision=0.005)
    (samples,) = measured([case], limits)
    assert samples.settling == 4
    assert samples.stop is StopReason.PRECISION
    assert samples.times_ns.max() < 1.03e5
    assert samples.taken.across.worst[:4].tolist() == [3e5] * 4
    assert len(samples.times_ns) == len(samples.taken.across) - 4


def test_a_fixed_number_of_calls_counts_them_all(measured: Measured, scripted: Any) -> None:
    case = scripted(lambda call: 3e5 if 200 <= call < 204 else 1e5)
    (samples,) = measured([case], Limits(warmup_calls=199, calls=40))
    assert (samples.settling, len(samples.times_ns)) == (0, 40)


@pytest.mark.parametrize(("start", "dropped"), [(1.5, 4), (1.005, 0)])
def test_a_start_that_nobody_could_see_in_the_result_is_no_warm_up(start: float, dropped: int) -> None:
    times = np.concatenate((np.full(4, start * 1e6), np.full(36, 1e6)))
    assert settling(times, Limits(precision=0.01)) == dropped


def test_a_series_that_never_settles_loses_nothing() -> None:
    assert settling(np.linspace(2e6, 1e6, 40), Limits()) == 0


def at(wall: int, cpu: int, raw: int | None = None, boot: int | None = None) -> CoreClock:
    return CoreClock(wall, cpu, wall if raw is None else raw, wall if boot is None else boot)


SPENT = [at(0, 0), at(50_000_000, 40_000_000)]  # 10 ms without a core


def test_samples_that_lost_their_core_are_left_out(measured: Measured, scripted: Any, clocks: Any) -> None:
    clocks.next = list(SPENT)
    case = scripted(lambda call: 11e6 if call == 30 else 1e6)
    (samples,) = measured([case], Limits(calls=40, warmup_calls=20))
    assert samples.taken.across.flags.tolist() == [0] * 9 + [SampleFlag.DESCHEDULED] + [0] * 30
    assert samples.lost_ns == 10_000_000
    assert samples.times_ns.tolist() == [1e6] * 39
    # What was measured stays.
    assert samples.taken.across.worst.max() == 11e6


def test_more_than_one_in_twenty_are_all_kept(measured: Measured, scripted: Any, clocks: Any) -> None:
    clocks.next = list(SPENT)
    case = scripted(lambda call: 4e6 if 30 <= call < 33 else 1e6)
    (samples,) = measured([case], Limits(calls=40, warmup_calls=20))
    assert np.count_nonzero(samples.taken.across.flags) == 3
    assert len(samples.times_ns) == 40
    assert samples.times_ns.max() == 4e6


def test_what_one_rank_lost_is_left_out_on_all(measured: Measured, scripted: Any, monkeypatch: Any) -> None:
    import threading

    from busbw.worker import measure as module

    first = threading.local()

    class OfRank1:
        """Rank 1 alone had no core for 10 ms of each look."""

        @staticmethod
        def now() -> CoreClock:
            first.readings = getattr(first, "readings", 0) + 1
            slow = threading.current_thread().name == "rank 1"
            return SPENT[1 - first.readings % 2] if slow else at(0, 0)

    monkeypatch.setattr(module, "CoreClock", OfRank1)
    cases = [scripted(lambda call: 1e6), scripted(lambda call: 11e6 if call == 30 else 1e6)]
    results = measured(cases, Limits(calls=40, warmup_calls=20))
    assert [len(result.times_ns) for result in results] == [39, 39]
    assert [result.lost_ns for result in results] == [0, 10_000_000]
    assert (results[0].taken.across.flags == results[1].taken.across.flags).all()


def test_ranks_that_share_cores_leave_nothing_out(measured: Measured, scripted: Any, clocks: Any) -> None:
    """Losing the core is what such a run measures."""
    clocks.next = list(SPENT)
    case = scripted(lambda call: 11e6 if call == 30 else 1e6)
    (samples,) = measured([case], Limits(calls=40, warmup_calls=20), contended=True)
    assert not samples.taken.across.flags.any()
    assert (len(samples.times_ns), samples.lost_ns) == (40, 0)


def test_waiting_between_loops_is_no_lost_core(measured: Measured, scripted: Any, clocks: Any) -> None:
    """A rank sleeps in the barrier before each loop; that time is in no sample."""
    clocks.next = list(SPENT)
    case = scripted(lambda call: 2e5 if 20 <= call < 40 else 1e5)
    (samples,) = measured([case], Limits(calls=400, warmup_calls=20), timing=Timing(time="loop"))
    assert samples.times_ns.tolist() == [2e5] + [1e5] * 19
    assert samples.lost_ns == 0


def test_a_clock_that_stepped_speaks_against_its_look(measured: Measured, scripted: Any, clocks: Any) -> None:
    still, stepped = at(0, 0), at(0, 0, boot=60_000_000_000)
    clocks.next = [still, still, still, stepped]
    case = scripted(lambda call: 1e6)
    (samples,) = measured([case], Limits(calls=41), max_samples_per_look=40)
    assert samples.taken.across.flags.tolist() == [0] * 40 + [SampleFlag.CLOCK_STEP]
    assert len(samples.times_ns) == 40
