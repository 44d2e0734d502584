"""The time for a whole sweep: how it is shared, and what it does not reach."""

from __future__ import annotations

from typing import Any

import pytest
from busbw_testing.sweeps import Notes, OnRanks, plan_of, run_on

from busbw.model.plan import Limits
from busbw.model.result import Status, StopReason
from busbw.worker import cases as worker


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the sweep's clock says, one reading after the other; it stands at the last."""
    readings: list[float] = [0.0]
    monkeypatch.setattr(
        worker.time, "monotonic", lambda: readings.pop(0) if len(readings) > 1 else readings[0]
    )
    return readings


def shares(
    on_ranks: OnRanks, monkeypatch: pytest.MonkeyPatch, scripted: Any, scripted_backend: Any, limits: Limits
) -> tuple[list[float], Notes]:
    """The time that each case was given, on one rank."""
    given: list[float] = []
    measure = worker.measure

    def noted(prepared: Any, conditions: Any, limits: Limits) -> Any:
        given.append(limits.case_seconds)
        return measure(prepared, conditions, limits)

    monkeypatch.setattr(worker, "measure", noted)
    case = scripted(lambda call: 1e6 * (1 + call % 2))
    plan = plan_of("all_reduce", limits=limits, ranks=1)
    _, notes = run_on(on_ranks, monkeypatch, [scripted_backend(case, 10.0)], plan)
    return given, notes


def test_the_budget_is_shared_by_the_cases_that_are_left(
    on_ranks: OnRanks, monkeypatch: pytest.MonkeyPatch, scripted: Any, scripted_backend: Any, times: Any
) -> None:
    times[:] = [0.0, 0.0, 0.2, 1.0, 1.9]  # at the start, then before each of four cases
    limits = Limits(budget_seconds=2.0, case_seconds=0.55)
    given, notes = shares(on_ranks, monkeypatch, scripted, scripted_backend, limits)
    # 2 s / 4; 1.8 s / 3, which is more than a case takes; 1.0 s / 2; what is left.
    assert given == pytest.approx([0.5, 0.55, 0.5, 0.1])
    stops = [result.stop for result in notes.results]
    assert stops == [StopReason.BUDGET, StopReason.CASE_TIME, StopReason.BUDGET, StopReason.BUDGET]
    assert all("stopped" in result.marks for result in notes.results)


def test_what_the_budget_does_not_reach_is_not_run_and_says_so(
    on_ranks: OnRanks, monkeypatch: pytest.MonkeyPatch, scripted: Any, scripted_backend: Any, times: Any
) -> None:
    times[:] = [0.0, 0.0, 1.0, 2.0, 2.5]
    limits = Limits(budget_seconds=2.0, calls=3)
    given, notes = shares(on_ranks, monkeypatch, scripted, scripted_backend, limits)
    assert len(given) == 2
    reason = "the budget of 2 s ended before; a longer --budget has time for it"
    assert [(result.status, result.error) for result in notes.results] == [
        (Status.GOOD, ""),
        (Status.GOOD, ""),
        (Status.NOT_RUN, reason),
        (Status.NOT_RUN, reason),
    ]
    assert [result.stop for result in notes.results[:2]] == [StopReason.CALLS] * 2


def test_the_budget_is_spent_by_the_clock_of_the_latest_rank(
    on_ranks: OnRanks, monkeypatch: pytest.MonkeyPatch, scripted: Any, scripted_backend: Any
) -> None:
    """Ranks that asked their own clocks would skip different cases."""
    import threading

    def monotonic() -> float:
        return 3.0 if threading.current_thread().name == "rank 1" and started.is_set() else 0.0

    started = threading.Event()
    cases = [scripted(lambda call: 1e6) for _ in range(2)]
    backends = [scripted_backend(case, 10.0) for case in cases]
    monkeypatch.setattr(worker.time, "monotonic", monotonic)
    finished = Notes.finished

    def first_done(self: Notes, result: Any, kept: Any) -> None:
        started.set()
        finished(self, result, kept)

    monkeypatch.setattr(Notes, "finished", first_done)
    plan = plan_of("all_reduce", limits=Limits(budget_seconds=2.0))
    _, notes = run_on(on_ranks, monkeypatch, backends, plan)
    statuses = [result.status for result in notes.results]
    assert (statuses[0], statuses[-1]) == (Status.GOOD, Status.NOT_RUN)
    assert cases[0].log == cases[1].log


def test_without_a_budget_nobody_asks_the_clock(
    on_ranks: OnRanks, monkeypatch: pytest.MonkeyPatch, scripted: Any, scripted_backend: Any
) -> None:
    given, _ = shares(on_ranks, monkeypatch, scripted, scripted_backend, Limits(case_seconds=0.01))
    assert given == [0.01] * 4
