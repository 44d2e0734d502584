"""What a case's readings on the common clock are worth, and which clock the next case gets."""

from __future__ import annotations

from typing import Any

import pytest
from busbw_testing.ranks import ThreadWorld, conditions, on_ranks, scripted, scripted_backend
from busbw_testing.sweeps import plan_of

from busbw.model.plan import Limits, Timing
from busbw.rank import cases
from busbw.rank.cases import Session
from busbw.rank.process import Deadline
from busbw.rank.world.clock import GlobalClock, Recheck
from busbw.rank.world.clock_model import Line

FRESH_NS = 80.0  # the error of a clock that was made anew


def clock(error_ns: float) -> GlobalClock:
    return GlobalClock(Line(0, 0, 0.0), 0, error_ns, error_ns, 1e-8, (0,))


def evidence_of(found: list[Recheck]) -> tuple[list[dict[str, Any]], list[float]]:
    """The evidence of four cases, after each of which the clock is found to be worth what ``found`` says."""
    asked: list[float] = []

    def recheck(world: Any, kept: GlobalClock) -> Recheck:
        asked.append(kept.error_ns)
        return found[len(asked) - 1]

    def live(world: Any) -> list[dict[str, Any]]:
        plan = plan_of("all_reduce", ranks=1, limits=Limits(calls=10))
        given = conditions(world, limits=plan.limits, timing=Timing(mode="latency"), clock=clock(100.0))
        backend = scripted_backend(scripted(lambda call: 1e6), 10.0)
        return [result.evidence for result, _ in Session(plan, backend, given, Deadline(), None).results()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "MpiWorld", ThreadWorld)
        patch.setattr(cases, "recheck", recheck)
        patch.setattr(cases, "synchronise", lambda world: clock(FRESH_NS))
        return on_ranks(1, live)[0], asked


def even(error_ns: float, *, expired: bool = False) -> Recheck:
    return Recheck(error_ns, 0.0, 0, expired=expired)


def test_a_case_has_the_larger_error_of_its_begin_and_end_only() -> None:
    found, asked = evidence_of([even(300.0), even(90.0), even(70.0), even(60.0)])
    assert [evidence["clock_error_ns"] for evidence in found] == [300.0, 300.0, 90.0, 70.0]
    assert asked == [100.0, 300.0, 90.0, 70.0]


def test_the_error_of_an_old_line_is_not_that_of_a_new_clock() -> None:
    found, asked = evidence_of([even(5000.0, expired=True), even(90.0), even(90.0), even(90.0)])
    assert [evidence["clock_error_ns"] for evidence in found] == [5000.0, 90.0, 90.0, 90.0]
    assert asked[1] == FRESH_NS


def test_a_step_is_in_the_case_that_it_fell_into() -> None:
    step = Recheck(5e9, 4.9e9, 3, expired=False)
    found, asked = evidence_of([even(100.0), step, even(90.0), even(90.0)])
    assert [evidence["clock_error_ns"] for evidence in found] == [100.0, 5e9, 90.0, 90.0]
    assert [evidence.get("clock_excess_rank") for evidence in found] == [None, 3, None, None]
    assert asked[2] == FRESH_NS
