"""What a case's readings on the common clock are worth, and which clock the next case gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from busbw_testing.ranks import ThreadWorld, conditions, on_ranks, scripted, scripted_backend
from busbw_testing.sweeps import plan_of

from busbw.model.plan import Limits, Timing
from busbw.rank import cases
from busbw.rank.cases import Session, Task
from busbw.rank.process import Deadline
from busbw.rank.world.clock import GlobalClock, Recheck
from busbw.rank.world.clock_model import Line

FRESH_NS = 80.0  # the error of a clock that was made anew
OLD, STEP = Recheck(5000.0, 0.0, 0, expired=True), Recheck(5e9, 4.9e9, 3, expired=False)


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
        return [
            result.evidence for result, _ in Session(Task(plan, backend, given, Deadline(), None)).results()
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "MpiWorld", ThreadWorld)
        patch.setattr(cases, "recheck", recheck)
        patch.setattr(cases, "synchronise", lambda world: clock(FRESH_NS))
        return on_ranks(1, live)[0], asked


@pytest.mark.parametrize(
    ("found", "errors_ns", "asked_ns"),
    [
        # The larger error of a case's begin and end only.
        ((300.0, 90.0, 70.0, 60.0), [300.0, 300.0, 90.0, 70.0], [100.0, 300.0, 90.0, 70.0]),
        # The error of an old line is not that of a new clock, nor is a step's.
        ((OLD, 90.0, 90.0, 90.0), [5000.0, 90.0, 90.0, 90.0], [100.0, FRESH_NS, 90.0, 90.0]),
        ((100.0, STEP, 90.0, 90.0), [100.0, 5e9, 90.0, 90.0], [100.0, 100.0, FRESH_NS, 90.0]),
    ],
)
def test_what_readings_are_worth_and_which_clock_comes_next(
    found: Sequence[Recheck | float], errors_ns: list[float], asked_ns: list[float]
) -> None:
    rechecks = [each if isinstance(each, Recheck) else Recheck(each, 0.0, 0, expired=False) for each in found]
    evidence, asked = evidence_of(rechecks)
    assert [own["clock_error_ns"] for own in evidence] == errors_ns
    assert asked == asked_ns
    # A step is in the case that it fell into.
    assert [own.get("clock_excess_rank") for own in evidence] == [
        3 if each is STEP else None for each in found
    ]
