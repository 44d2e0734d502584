from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.worker.measure import Samples, measure, warm_up

OnRanks = Callable[[int, Callable[[Any], Any]], list[Any]]
COST_NS = 50.0


def measured(on_ranks: OnRanks, cases: list[Any], limits: Limits, chunk: int = 4096) -> list[Samples]:
    def live(world: Any) -> Samples:
        return measure(cases[world.rank], world, limits, timing_cost_ns=COST_NS, max_samples_per_look=chunk)

    return on_ranks(len(cases), live)


def alternating(call_ns: float, swing: float) -> Callable[[int], float]:
    values = np.random.default_rng(1).uniform(1 - swing, 1 + swing, 4096)
    return lambda call: float(call_ns * values[call % 4096])


def test_constant_times_are_enough_at_the_first_look(on_ranks: OnRanks, scripted: Any) -> None:
    case = scripted(lambda call: 1000.0)
    (samples,) = measured(on_ranks, [case], Limits())
    # 50 ns is 0.5 % of 10 calls of 1000 ns.
    assert (samples.k, len(samples.worst_ns), samples.stop) == (10, 8, StopReason.PRECISION)
    assert samples.times_ns.tolist() == [1000.0] * 8
    assert case.looks == [(10, 8, 10)]


def test_the_worst_rank_counts_sample_by_sample(on_ranks: OnRanks, scripted: Any) -> None:
    slow_first = scripted(lambda call: 2e6 if call < 10 + 4 else 1e6)
    slow_last = scripted(lambda call: 1e6 if call < 10 + 4 else 2e6)
    limits = Limits(calls=8, warmup_calls=9)
    first, last = measured(on_ranks, [slow_first, slow_last], limits)
    assert first.times_ns.tolist() == last.times_ns.tolist() == [2e6] * 8
    assert first.own_ns.tolist() == [2e6] * 4 + [1e6] * 4
    assert last.own_ns.tolist() == [1e6] * 4 + [2e6] * 4
    assert first.issue_ns.tolist() == [1e6] * 4 + [5e5] * 4


def test_ranks_with_different_paces_make_the_same_calls(on_ranks: OnRanks, scripted: Any) -> None:
    cases = [scripted(alternating(pace, 0.2)) for pace in (1000.0, 1300.0, 700.0)]
    results = measured(on_ranks, cases, Limits(max_samples=200))
    assert len({len(case.looks) for case in cases}) == 1
    assert cases[0].log == cases[1].log == cases[2].log
    assert len({(result.k, result.stop, result.warmup_calls) for result in results}) == 1
    assert all((result.worst_ns == results[0].worst_ns).all() for result in results)


def test_noise_is_sampled_until_a_limit_and_the_limit_is_named(on_ranks: OnRanks, scripted: Any) -> None:
    case = scripted(alternating(1e5, 0.5))
    (samples,) = measured(on_ranks, [case], Limits(max_samples=50, case_seconds=60, precision=0.001))
    assert (len(samples.worst_ns), samples.stop) == (50, StopReason.MAX_SAMPLES)
    assert [count for _, count, _ in case.looks] == [8, 3, 5, 6, 9, 12, 7]


def test_time_spent_in_samples_ends_a_case(on_ranks: OnRanks, scripted: Any) -> None:
    case = scripted(alternating(1e7, 0.5))
    (samples,) = measured(on_ranks, [case], Limits(case_seconds=0.3))
    assert samples.stop is StopReason.CASE_TIME
    assert 0.3e9 <= samples.worst_ns.sum() < 0.6e9


@pytest.mark.parametrize(
    ("calls", "samples", "k"), [(200, 20, 10), (16, 8, 2), (20, 10, 2), (3, 3, 1), (1, 1, 1)]
)
def test_a_fixed_number_of_calls_is_exact(
    on_ranks: OnRanks, scripted: Any, calls: int, samples: int, k: int
) -> None:
    case = scripted(lambda call: 1000.0)
    (result,) = measured(on_ranks, [case], Limits(calls=calls))
    assert (len(result.worst_ns), result.k, result.stop) == (samples, k, StopReason.CALLS)
    assert sum(count * each for _, count, each in case.looks) == calls


def test_a_look_comes_in_chunks_where_the_backend_limits_it(on_ranks: OnRanks, scripted: Any) -> None:
    case = scripted(lambda call: 1e6)
    (samples,) = measured(on_ranks, [case], Limits(calls=20), chunk=8)
    assert case.looks == [(1, 8, 1), (1, 8, 1), (1, 4, 1)]
    assert len(samples.own_ns) == len(samples.worst_ns) == 20


def test_sampling_starts_again_where_the_warm_up_was_slow(on_ranks: OnRanks, scripted: Any) -> None:
    """A busy core during the warm-up makes k too small for the true pace."""
    case = scripted(lambda call: 1e6 if call < 25 else 1000.0)
    (samples,) = measured(on_ranks, [case], Limits())
    assert [k for _, _, k in case.looks] == [1, 10]
    assert (samples.k, len(samples.worst_ns)) == (10, 8)
    assert samples.times_ns.tolist() == [1000.0] * 8
    # The samples taken with the small k count as warm-up; the untimed lead of a look does not.
    assert samples.warmup_calls == 20 + 8


def test_it_starts_again_a_few_times_at_most(on_ranks: OnRanks, scripted: Any) -> None:
    case = scripted(lambda call: 1e7 / (call + 1) ** 2)
    (samples,) = measured(on_ranks, [case], Limits(warmup_calls=1, case_seconds=0.001))
    assert len({k for _, _, k in case.looks}) <= 4
    assert samples.stop is not None


def test_a_fixed_number_of_calls_starts_again_too_and_stays_fixed(on_ranks: OnRanks, scripted: Any) -> None:
    """-n 100 -w 1: one cold call says nothing about the pace, and k = 1 would time the reading of time."""
    case = scripted(lambda call: 1e6 if call < 25 else 1000.0)
    (samples,) = measured(on_ranks, [case], Limits(calls=100, warmup_calls=1))
    assert [k for _, _, k in case.looks] == [1, 10]
    assert len(samples.worst_ns) * samples.k == 100


def test_few_fixed_calls_do_not_start_again_for_a_k_that_they_cannot_have(
    on_ranks: OnRanks, scripted: Any
) -> None:
    case = scripted(lambda call: 1000.0)
    (samples,) = measured(on_ranks, [case], Limits(calls=16, warmup_calls=1))
    assert (len(case.looks), samples.k) == (1, 2)


def test_the_warm_up_takes_three_calls_and_20_ms(on_ranks: OnRanks, scripted: Any) -> None:
    case = scripted(lambda call: 1e6)
    (pace,) = on_ranks(1, lambda world: warm_up(case, world, Limits(), COST_NS))
    assert (pace.warmup_calls, pace.call_ns, pace.k) == (20, 1e6, 1)
    slow = scripted(lambda call: 1e9)
    (pace,) = on_ranks(1, lambda world: warm_up(slow, world, Limits(), COST_NS))
    assert pace.warmup_calls == 3


@pytest.mark.parametrize(("asked", "issued"), [(0, 1), (1, 1), (50, 50)])
def test_a_fixed_warm_up_is_exact_but_for_the_one_call_that_sets_the_pace(
    on_ranks: OnRanks, scripted: Any, asked: int, issued: int
) -> None:
    case = scripted(lambda call: 1000.0)
    (pace,) = on_ranks(1, lambda world: warm_up(case, world, Limits(warmup_calls=asked), COST_NS))
    assert pace.warmup_calls == case.done == issued


def test_a_clock_that_did_not_move_is_survived(on_ranks: OnRanks, scripted: Any) -> None:
    case = scripted(lambda call: 0.0)
    (samples,) = measured(on_ranks, [case], Limits(max_samples=8))
    assert samples.stop is StopReason.MAX_SAMPLES
