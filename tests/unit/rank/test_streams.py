"""Operations at once: what an iteration is, who agrees on it, and what is said of how far streams overlap."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from busbw_testing.ranks import conditions, on_ranks
from busbw_testing.sweeps import Notes

from busbw.machine.native.core import Rounds
from busbw.model.plan import Limits, Stream
from busbw.model.result import Status, StopReason
from busbw.model.sample import SampleFlag
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Seconds
from busbw.plan.make import make_plan
from busbw.rank import main
from busbw.rank.backends.base import Look
from busbw.rank.backends.streams import overlaps
from busbw.rank.descheduled import CoreClock
from busbw.rank.measure import Samples
from busbw.rank.streams import EDGE_ITERATIONS, first_calls_ns, measure_together

STREAMS = (Stream("all_reduce", 8), Stream("all_gather", 8))
Calls = tuple[int, ...]


@dataclass
class ScriptedStep:
    """Streams whose calls take ``call_ns`` each (maybe a function of how many rounds there were), begun
    ``apart_ns`` one after the other; None where this rank sits out. Notes what it is asked.
    """

    call_ns: Sequence[float | Callable[[int], float] | None]
    apart_ns: int = 0
    log: list[tuple[Calls, int, int]] = field(default_factory=list)
    rounds: int = 0

    def time(self, calls: Sequence[int], lead: int, samples: int) -> tuple[list[Look], Any]:
        self.log.append((tuple(calls), lead, samples))
        here = [number for number, own in enumerate(self.call_ns) if own is not None]
        present = [number for number in here if calls[number]]
        elapsed = np.zeros((len(self.call_ns), samples), np.int64)
        for i in range(lead + samples):
            for number in present:
                own = self.call_ns[number]
                ns = own(self.rounds) if callable(own) else own
                assert ns is not None
                elapsed[number, i - lead if i >= lead else 0] = round(ns * calls[number])
            self.rounds += 1
        begin = np.arange(len(self.call_ns))[:, None] * self.apart_ns + np.zeros_like(elapsed)
        rounds = Rounds(begin[present], (begin + elapsed)[present], elapsed[present])
        overlap = np.full(elapsed.shape, np.nan)
        if len(here) > 1:
            overlap[present] = overlaps(rounds) if present == here else 0.0
        looks = [
            Look(elapsed[number], elapsed[number], took_part=number in present)
            for number in range(len(self.call_ns))
        ]
        return looks, overlap

    @property
    def timed(self) -> list[tuple[Calls, int, int]]:
        """What was asked after the warm-up, whose rounds are single and without a lead."""
        return [entry for entry in self.log if entry[1:] != (0, 1)]


def together(
    steps: list[ScriptedStep],
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    streams: Sequence[Stream] = STREAMS,
    **changed: Any,
) -> list[list[Samples]]:
    """What every rank knows of every stream, a step a rank."""

    def live(world: Any) -> list[Samples]:
        step: Any = steps[world.rank]
        givens = [conditions(world, limits=limits, **changed) for _ in streams]
        return measure_together(step, givens, streams, limits, np.full(len(streams), 7.0))

    return on_ranks(len(steps), live)


# ---- overlap ------------------------------------------------------------------------------------------


def test_overlap_is_the_share_of_a_streams_time_in_which_all_are_under_way() -> None:
    begin, end = np.array([[0, 0], [10, 0], [20, 90]]), np.array([[100, 50], [60, 50], [220, 100]])
    # Round 0: all from 20 to 60. Round 1: the third begins when the others have ended.
    assert overlaps(Rounds(begin, end, end)).tolist() == [[0.4, 0.0], [0.8, 0.0], [0.2, 0.0]]


# ---- iterations ---------------------------------------------------------------------------------------


def test_a_balanced_stream_has_as_many_calls_as_last_as_long_as_the_slowest() -> None:
    step = ScriptedStep([1000.0, 250.0])
    ((slow, fast),) = together([step])
    (calls, lead, _) = step.timed[-1]
    assert calls == (EDGE_ITERATIONS, 4 * EDGE_ITERATIONS)
    assert lead == 1
    assert (slow.taken.k, fast.taken.k) == calls
    assert (slow.times_ns == 1000).all()
    assert (fast.times_ns == 250).all()
    assert (slow.overlap, fast.overlap) == (1.0, 1.0)


def test_calls_that_are_given_stay_so_and_the_rest_of_the_time_is_said() -> None:
    step = ScriptedStep([1000.0, 250.0])
    ((slow, fast),) = together([step], streams=(Stream("a", 8, calls=1), Stream("b", 8, calls=2)))
    calls = step.timed[-1][0]
    assert calls[1] == 2 * calls[0]
    assert (slow.overlap, fast.overlap) == (0.5, 1.0)


def test_a_stream_that_has_done_its_iterations_stops() -> None:
    streams = (Stream("a", 8, calls=1), Stream("b", 8, calls=2, iters=60, warmup_iters=9))
    step = ScriptedStep([1000.0, 500.0])
    ((first, second),) = together([step], Limits(calls=20, warmup_calls=3), streams=streams)
    samples = [len(own.taken.across) * own.taken.k for own in (first, second)]
    assert samples == [20, 120]
    # One round of both, then as many as each still needs.
    assert (first.warmup_calls, second.warmup_calls) == (3, 18)
    assert {own.stops[-1] for own in (first, second)} == {StopReason.CALLS}
    assert [calls for calls, _, _ in step.timed] == [(2, 4), (0, 4)]
    assert (first.times_ns == 1000).all()
    assert (second.times_ns == 500).all()
    assert first.overlap == 1.0
    assert second.overlap == pytest.approx(1 / 3)  # alone for the rest


def test_no_iteration_is_left_out_where_they_have_no_common_divisor() -> None:
    streams = (Stream("a", 8, calls=1, iters=7), Stream("b", 8, calls=1))
    ((first, second),) = together([ScriptedStep([1e3, 1e3])], Limits(calls=30, warmup_calls=0), streams)
    assert [len(own.taken.across) * own.taken.k for own in (first, second)] == [7, 30]


def test_reading_time_costs_no_stream_more_than_half_a_percent() -> None:
    # 1000 ns a reading: 200,000 ns of each stream.
    step = ScriptedStep([10_000.0, 100.0])
    ((_, fast),) = together([step], streams=(Stream("a", 8, 1), Stream("b", 8, 1)), timing_cost_ns=1000.0)
    assert fast.taken.k == 2000
    balanced = ScriptedStep([10_000.0, 100.0])
    ((slow, fast),) = together([balanced], timing_cost_ns=1000.0)
    assert (slow.taken.k, fast.taken.k) == (20, 2000)


def test_streams_slow_each_other_down_and_the_balance_follows() -> None:
    """Until round 5 both seem equal; then the second one is four times as fast."""
    step = ScriptedStep([1000.0, lambda rounds: 1000.0 if rounds < 5 else 250.0])
    ((slow, fast),) = together([step], Limits(warmup_calls=1))
    first, *_, last = [calls for calls, _, _ in step.timed]
    assert first == (EDGE_ITERATIONS, EDGE_ITERATIONS)
    assert last == (EDGE_ITERATIONS, 4 * EDGE_ITERATIONS)
    # Only samples of one pace count; the earlier ones are warm-up.
    assert {slow.taken.k, fast.taken.k} == set(last)
    assert fast.overlap == 1.0
    assert fast.warmup_calls > EDGE_ITERATIONS * 8


def test_every_rank_asks_for_the_same_rounds() -> None:
    steps = [ScriptedStep([1000.0 + 300 * rank, 400.0 - 100 * rank]) for rank in range(3)]
    found = together(steps)
    assert steps[0].log == steps[1].log == steps[2].log
    for one, other in zip(found[0], found[2], strict=True):
        assert (one.taken.across.headline == other.taken.across.headline).all()
        assert one.overlap == other.overlap
    # The slowest rank of each stream sets its pace: 1600 and 400.
    assert found[0][0].times_ns[0] == 1600
    assert found[0][1].times_ns[0] == 400


def test_the_rank_with_the_least_overlap_counts() -> None:
    # Rank 1 begins its second stream 10 us after the first.
    found = together([ScriptedStep([1000.0, 1000.0]), ScriptedStep([1000.0, 1000.0], apart_ns=10_000)])
    (first, second) = found[0]
    assert first.overlap == second.overlap == pytest.approx(0.5)


def test_one_stream_by_itself_has_no_overlap() -> None:
    ((alone,),) = together([ScriptedStep([1000.0])], streams=STREAMS[:1])
    assert alone.overlap is None
    assert alone.stops[-1] is StopReason.PRECISION


# ---- how many -----------------------------------------------------------------------------------------


def test_n_iterations_are_timed_exactly() -> None:
    step = ScriptedStep([1000.0, 1000.0])
    streams = (Stream("a", 8, calls=1), Stream("b", 8, calls=3))
    ((one, three),) = together([step], Limits(calls=24, warmup_calls=5), streams)
    for part, ops in ((one, 1), (three, 3)):
        assert len(part.taken.across) * part.taken.k == 24 * ops
        assert part.stops[-1] is StopReason.CALLS
    warm = [calls for calls, lead, samples in step.log if (lead, samples) == (0, 1)]
    assert sum(one for one, _ in warm) == 5
    assert all(three == 3 * one for one, three in warm)


def test_repeated_iterations_are_as_many_as_nccom_test_runs() -> None:
    """n 15, w 5, I 10, W 5: (15 + 5) (10 + 5) = 300 iterations run, 150 of them measured."""
    step = ScriptedStep([1000.0, 500.0])
    limits = Limits(calls=15, warmup_calls=5, outer_iters=10, outer_warmup_iters=5)
    streams = (Stream("a", 8, calls=1), Stream("b", 8, calls=2))
    ((one, two),) = together([step], limits, streams)
    for part, ops in ((one, 1), (two, 2)):
        assert len(part.taken.across) * part.taken.k == 150 * ops
        assert part.warmup_calls == 150 * ops
    run = sum(calls[0] * (lead + samples) for calls, lead, samples in step.log)
    assert run == 300


def test_all_streams_must_be_precise_before_sampling_ends() -> None:
    noise = np.random.default_rng(1).normal(1000, 200, 5000)
    step = ScriptedStep([1000.0, lambda rounds: float(noise[rounds])])
    limits = Limits(precision=0.02, small_precision=0.02)
    ((steady, noisy),) = together([step], limits, (Stream("a", 8, 1), Stream("b", 8, 1)))
    assert len(steady.taken.across) == len(noisy.taken.across) > 50
    assert steady.stops[-1] is noisy.stops[-1] is StopReason.PRECISION


def test_a_rank_without_its_core_flags_the_samples_of_every_stream(clocks: Any) -> None:
    lost_ns = 6 * 10**7

    def late(rounds: int) -> float:
        return 1000.0 if rounds != 4 else 1000.0 + lost_ns / 10

    clocks.next = [CoreClock(0, 0, 0, 0), CoreClock(lost_ns, 0, lost_ns, lost_ns)]
    streams = (Stream("a", 8, 1), Stream("b", 8, 1))
    ((first, second),) = together([ScriptedStep([late, late])], Limits(calls=80, warmup_calls=1), streams)
    for part in (first, second):
        assert part.taken.k == 10
        flags = part.taken.across.flags
        assert [at for at, bits in enumerate(flags) if bits & SampleFlag.DESCHEDULED] == [2]


def test_first_calls_are_one_of_each_stream() -> None:
    step: Any = ScriptedStep([1000.0, 300.0])
    streams = (Stream("a", 8, calls=5), Stream("b", 8))
    (found,) = on_ranks(1, lambda world: first_calls_ns(step, conditions(world), streams).tolist())
    assert found == [1000.0, 300.0]
    assert step.log == [((1, 1), 0, 1)]


# ---- a whole run --------------------------------------------------------------------------------------


def run_of(entries: list[dict[str, Any]], ranks: int = 2, **settings: Any) -> Notes:
    """A run of the null backend: a call takes 1000 ns and a nanosecond for every 100 bytes."""
    text = "text:" + json.dumps({"streams": entries})
    plan = make_plan((), RunSettings(streams=text, **settings), "null", ranks)
    notes = Notes()
    on_ranks(ranks, lambda world: main.run(world, plan, notes if world.rank == 0 else None))
    return notes


def test_a_run_has_exact_times_and_shares() -> None:
    fast = {"operation": "all_reduce", "maxbytes": 1000, "ops_per_iter": 3}
    slow = {"operation": "all_gather", "minbytes": 200_000, "maxbytes": "400000", "ops_per_iter": 1}
    notes = run_of([fast, slow])
    assert [result.case for result in notes.results] == [0, 1, 2, 3]
    assert [result.time_ns for result in notes.results] == [1010, 3000, 1010, 5000]
    # 3030 ns of 3000, and of 5000.
    assert [result.overlap for result in notes.results] == pytest.approx([3000 / 3030, 1, 1, 3030 / 5000])
    assert ["part-alone" in result.marks for result in notes.results] == [False, False, False, True]
    assert [result.calls_per_sample for result in notes.results] == [60, 20] * 2


def test_groups_of_one_stream_have_their_rows() -> None:
    entries = [
        {"operation": "all_reduce", "maxbytes": 1000, "group_size": 2},
        {"operation": "all_gather", "maxbytes": 1000},
    ]
    notes = run_of(entries, ranks=4)
    assert [len(result.groups) for result in notes.results] == [2, 0]
    assert {group.ranks for group in notes.results[0].groups} == {2}
    assert notes.results[0].busbw_gb_per_s == notes.results[0].algbw_gb_per_s  # 2 (n - 1) / n of a group


def test_where_one_stream_cannot_run_none_of_the_step_is_measured() -> None:
    entries = [{"operation": "all_reduce", "maxbytes": 64}, {"operation": "hypercube", "maxbytes": 64}]
    notes = run_of(entries, ranks=3)
    assert [result.status for result in notes.results] == [Status.NOT_APPLICABLE] * 2
    assert "power of two" in notes.results[1].error
    assert (
        notes.results[0].error == f"stream 1, which runs beside it, does not apply: {notes.results[1].error}"
    )


def test_n_0_only_checks_and_a_budget_counts_steps() -> None:
    entries = [{"operation": "all_reduce", "minbytes": 8, "maxbytes": 64, "stepfactor": 8}]
    notes = run_of(entries * 2, iters=0)
    assert [result.stop for result in notes.results] == [StopReason.CHECK_ONLY] * 4
    notes = run_of(entries * 2, budget=Seconds("1h"))
    assert [result.status for result in notes.results] == [Status.GOOD] * 4
