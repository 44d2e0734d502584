"""Repetitions of a sweep within one launch: their median is its time, and its bandwidth follows from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.judge.compare_arms import Observed, make_arm
from busbw.judge.own_reference import launches_of, reference_of
from busbw.model.record import RunRecord
from busbw.model.result import Status

SIZE = 1024


def cycled(*cycles: float | Sequence[float]) -> RunRecord:
    """A run with these times in us, of one launch or of several, in each of its cycles."""
    made = [record_of({SIZE: times}, within=0.1) for times in cycles]
    cases = [replace(run.plan.cases[0], index=i, cycle=i) for i, run in enumerate(made)]
    results = [replace(run.results[0], case=i) for i, run in enumerate(made)]
    return replace(made[0], plan=replace(made[0].plan, cases=tuple(cases)), results=tuple(results))


def seen(record: RunRecord) -> Observed:
    (found,) = make_arm("run", [record]).cases.values()
    return found


@pytest.mark.parametrize(
    ("cycles", "time_us", "interval_us"),
    [
        ((10.0, 40.0, 20.0), 20.0, (18.0, 22.0)),
        ((10.0, 40.0, 20.0, 30.0), 25.0, (18.0, 33.0)),
        ((40.0, 10.0), 25.0, (9.0, 44.0)),
    ],
)
def test_the_time_of_a_launch_is_the_median_of_its_cycles(
    cycles: tuple[float, ...], time_us: float, interval_us: tuple[float, float]
) -> None:
    found = seen(cycled(*cycles))
    assert found.times_ns == (time_us * 1e3,)
    assert found.interval == pytest.approx([bound * 1e3 for bound in interval_us])
    assert found.busbw_gb_per_s == pytest.approx(SIZE / found.times_ns[0])


def test_each_of_several_launches_has_its_median() -> None:
    """The first cycle was the slow one in every launch."""
    record = cycled([50.0, 60.0, 70.0], [10.0, 20.0, 30.0], [12.0, 22.0, 26.0], [14.0, 24.0, 28.0])
    found = seen(record)
    assert found.times_ns == pytest.approx((13_000.0, 23_000.0, 29_000.0))
    assert found.busbw_gb_per_s == pytest.approx(SIZE / 23_000)
    launches = launches_of([record])
    assert set(launches.values()) == {found.times_ns}
    (made,) = reference_of("mine", record, launches)
    assert made.points[0].busbw_gb_per_s == pytest.approx(found.busbw_gb_per_s)


def test_a_cycle_without_a_number_has_no_part_and_wrong_data_decide() -> None:
    record = cycled(10.0, 40.0, 20.0)
    failed = replace(record.results[0], status=Status.FAILED, time_ns=None, error="died")
    assert seen(replace(record, results=(failed, *record.results[1:]))).times_ns == (30_000.0,)
    wrong = replace(record.results[2], status=Status.WRONG, wrong=3)
    record = replace(record, results=(*record.results[:2], wrong))
    assert seen(record).status is Status.WRONG
    assert launches_of([record]) == {}
