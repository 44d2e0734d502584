"""Groups, graphs, single calls and loops: what a sample is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from busbw_testing.ranks import conditions, measured, on_ranks, scripted
from hypothesis import given
from hypothesis import strategies as st

from busbw.model.plan import Limits, Timing
from busbw.model.result import StopReason
from busbw.rank.delays import delays_ns, latest_ns
from busbw.rank.measure import measure

LATENCY = Timing(mode="latency")


# ---- groups (-m) ------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [3, 4, 16])
@pytest.mark.parametrize("groups", [None, 1, 10, 20, 23])
def test_groups_are_never_cut(group: int, groups: int | None) -> None:
    case = scripted(lambda call: 1000.0, calls_per_issue=group)
    calls = None if groups is None else groups * group
    (samples,) = measured([case], Limits(calls=calls))
    assert all(calls % group == 0 for calls in case.warm_up)
    assert all(lead % group == k % group == 0 for lead, _, k in case.looks)
    assert samples.warmup_calls % group == 0
    assert samples.times_ns.tolist() == [1000.0] * len(samples.times_ns)


# ---- graphs (-G) --------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [1, 4])
def test_a_sample_has_no_more_calls_than_a_graph_can_hold(group: int) -> None:
    case = scripted(lambda call: 100.0, calls_per_issue=group, max_calls=16)
    (samples,) = measured([case], Limits())
    assert max(case.warm_up) <= 16
    assert {k for _, _, k in case.looks} == {16}  # 100 where there is no such limit
    assert samples.taken.k == 16


def test_n_calls_are_one_graph_launched_as_often_as_asked() -> None:
    """nccl-tests' -n 20 -G 3: 20 calls captured, and 3 launches timed."""
    case = scripted(lambda call: 1000.0, max_calls=1024)
    (samples,) = measured([case], Limits(calls=20, warmup_calls=5), graph_launches=3)
    assert case.looks == [(20, 3, 20)]
    assert (len(samples.times_ns), samples.taken.k, samples.stops[-1]) == (3, 20, StopReason.CALLS)


# ---- latency mode and the loop ------------------------------------------------------------------------


@pytest.mark.parametrize("barrier", [True, False])
def test_latency_mode_has_single_calls(barrier: bool) -> None:
    case = scripted(lambda call: 1000.0)
    (samples,) = measured([case], Limits(), timing=Timing(mode="latency", barrier=barrier))
    assert [entry for entry in case.log if entry[0] == "isolated"] == [("isolated", 4, None, barrier)]
    assert (samples.taken.k, samples.stops[-1], case.looks) == (1, StopReason.PRECISION, [])


def test_delays_go_on_over_looks_and_follow_the_pace() -> None:
    """Rank 2 of three is late by the whole call, whichever look the sample is in."""
    cases = [scripted(lambda call: 5e5) for _ in range(3)]
    timing = Timing(mode="latency", arrival="ramp")
    ranks = measured(cases, Limits(calls=20), timing=timing, max_samples_per_look=15)
    assert {samples.latest_ns for samples in ranks} == {500_000}
    delays = [[entry[2] for entry in case.log if entry[0] == "isolated"] for case in cases]
    assert delays == [[(late,) * 15, (late,) * 5] for late in (0, 250_000, 500_000)]


@pytest.mark.parametrize(("calls", "loops"), [(None, [20] * 4), (20, [20]), (100, [20] * 5), (5, [5])])
def test_a_loop_times_as_nccl_tests_does_and_is_not_cut(calls: int | None, loops: list[int]) -> None:
    case = scripted(lambda call: 1e5)
    (samples,) = measured([case], Limits(calls=calls), timing=Timing(time="loop"))
    assert [entry[1] for entry in case.log if entry[0] == "loop"] == loops
    assert (samples.times_ns.tolist(), samples.taken.k) == ([1e5] * len(loops), loops[0])


def test_every_loop_of_a_rank_starts_behind_a_barrier() -> None:
    limits = Limits(calls=160)

    def live(world: Any) -> list[str]:
        measure(scripted(lambda call: 1e5), conditions(world, timing=Timing(time="loop")), limits)
        return list(world.calls)

    first, second = on_ranks(2, live)
    assert first == second
    assert "-".join(first).endswith("barrier-" * 8 + "max")


# ---- the pass of single calls -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call_ns", "limits", "changed"),
    [
        (1e6, Limits(), {}),  # k is 1: the samples are single calls
        (1000.0, Limits(), {"timing": Timing(time="loop")}),
        (1000.0, Limits(), {"timing": LATENCY}),
        (1000.0, Limits(), {"singles": 0}),
    ],
)
def test_there_is_no_second_pass_where_it_could_tell_nothing(
    call_ns: float, limits: Limits, changed: dict[str, Any]
) -> None:
    (samples,) = measured([scripted(lambda call: call_ns)], limits, **{"singles": 320, **changed})
    assert samples.singles is None


def test_single_calls_are_no_more_than_n_and_fit_into_the_time() -> None:
    (samples,) = measured([scripted(lambda call: 1000.0)], Limits(calls=24), singles=320)
    assert samples.singles is not None
    assert len(samples.singles.across) == 24
    (samples,) = measured([scripted(lambda call: 1000.0)], Limits(case_seconds=55e-6), singles=320)
    assert samples.singles is not None
    # Five passes of two samples fit, and into each 10 calls of 1000 ns and 50 ns for reading time.
    assert (samples.passes, len(samples.singles.across)) == (5, 10)


@pytest.mark.parametrize(("calls", "group"), [(20, 1), (100, 1), (5, 1), (12, 4)])
def test_all_calls_are_one_loop_where_a_says_what_of_the_ranks(calls: int, group: int) -> None:
    case = scripted(lambda call: 1000.0, calls_per_issue=group)
    (samples,) = measured([case], Limits(calls=calls), timing=Timing(time="loop-avg"))
    assert [entry[1] for entry in case.log if entry[0] == "loop"] == [calls]
    assert (samples.taken.k, len(samples.times_ns), samples.singles) == (calls, 1, None)


@pytest.mark.parametrize("group", [1, 4])
def test_single_iterations_follow_the_loop_and_are_the_slowest_ranks(group: int) -> None:
    cases = [scripted(lambda call, ns=ns: ns, calls_per_issue=group) for ns in (1000.0, 3000.0)]
    timing = Timing(time="loop-avg")
    for samples in measured(cases, Limits(calls=20 * group), timing=timing, singles=20):
        assert samples.times_ns.tolist() == [2000.0]
        assert samples.singles is not None
        assert (samples.singles.k, len(samples.singles.across)) == (group, 20)
        assert samples.singles.times_ns.tolist() == [3000.0] * 20


CALL_NS = 80_000.0


def all_ranks(pattern: str, ranks: int, seed: int = 5, first: int = 0, samples: int = 200) -> np.ndarray:
    """[rank, sample]"""
    return np.array(
        [
            delays_ns(Timing(arrival=pattern), rank, ranks, CALL_NS, seed, first, samples)
            for rank in range(ranks)
        ]
    )


def test_one_rank_is_late_and_every_rank_in_turn_of_chance() -> None:
    delays = all_ranks("late-one", 4)
    assert ((delays == CALL_NS).sum(axis=0) == 1).all()
    assert ((delays == 0).sum(axis=0) == 3).all()
    # 200 draws of 4: 50 each, give or take 6.
    assert ((delays == CALL_NS).sum(axis=1) > 25).all()


def test_a_ramp_ends_at_the_last_rank() -> None:
    delays = all_ranks("ramp", 5, samples=2)
    assert delays.tolist() == [[rank * 20_000] * 2 for rank in range(5)]
    assert all_ranks("ramp", 1, samples=2).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("arrival", "least", "most"),
    [
        ("late-one:4ms", 0, 4_000_000),
        ("uniform:2-10ms", 2_000_000, 10_000_000),
        ("ramp:1-3ms", 1_000_000, 3_000_000),
    ],
)
def test_delays_of_a_time_are_of_that_time(arrival: str, least: int, most: int) -> None:
    """Whatever a call takes."""
    delays = all_ranks(arrival, 4)
    assert delays.min() == pytest.approx(least, rel=0.05)
    assert delays.max() == pytest.approx(most, rel=0.05)
    assert delays.mean() == pytest.approx(
        most / 4 if arrival.startswith("late") else (least + most) / 2, rel=0.05
    )
    assert latest_ns(Timing(arrival=arrival), CALL_NS) == most


def test_a_trace_is_repeated() -> None:
    timing = Timing(arrival="trace:ab", trace_ns=((0, 5), (7, 0), (0, 0)))
    assert delays_ns(timing, 0, 2, CALL_NS, 1, 4, 4).tolist() == [7, 0, 0, 7]  # type: ignore[union-attr]
    assert latest_ns(timing, CALL_NS) == 7


@given(
    st.sampled_from(["late-one", "uniform", "ramp"]),
    st.integers(1, 40),
    st.floats(1, 1e9),
    st.integers(0, 2**48),
    st.integers(0, 1000),
    st.integers(1, 30),
    st.data(),
)
def test_delays_are_bounded_repeatable_and_do_not_depend_on_the_look(
    pattern: str, ranks: int, call_ns: float, seed: int, first: int, samples: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, ranks - 1))
    cut = data.draw(st.integers(0, samples))
    delays = delays_ns(Timing(arrival=pattern), rank, ranks, call_ns, seed, first, samples)
    assert delays is not None
    assert delays.dtype == np.int64
    assert len(delays) == samples
    assert 0 <= delays.min() <= delays.max() <= call_ns
    halves = [
        delays_ns(Timing(arrival=pattern), rank, ranks, call_ns, seed, start, count)
        for start, count in ((first, cut), (first + cut, samples - cut))
    ]
    assert np.concatenate(halves).tolist() == delays.tolist()  # type: ignore[arg-type]
