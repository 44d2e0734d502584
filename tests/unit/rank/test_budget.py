"""The time for a whole sweep: how it is shared, and what it does not reach."""

from __future__ import annotations

from typing import Any

import pytest
from busbw_testing.ranks import scripted, scripted_backend
from busbw_testing.sweeps import Notes, plan_of, run_on

from busbw.model.plan import Limits
from busbw.model.result import Status, StopReason
from busbw.rank import cases as worker
from busbw.stats.passes import is_due


def shares(
    monkeypatch: pytest.MonkeyPatch, case: Any, limits: Limits, took_s: list[float]
) -> tuple[list[float], Notes]:
    """The time that each case was given, on one rank, where their first passes took so long."""
    given: list[float] = []
    measure, now_s = worker.measure, [0.0]

    def noted(prepared: Any, conditions: Any, limits: Limits) -> Any:
        given.append(limits.case_seconds)
        now_s[0] += took_s[len(given) - 1]
        return measure(prepared, conditions, limits)

    monkeypatch.setattr(worker, "measure", noted)
    monkeypatch.setattr(worker.time, "monotonic", lambda: now_s[0])
    plan = plan_of("all_reduce", limits=limits, ranks=1)
    _, notes = run_on([scripted_backend(case, 10.0)], plan)
    return given, notes


def test_the_budget_is_shared_by_the_cases_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = scripted(lambda call: 1e8 * (1 + call % 2))
    limits = Limits(budget_seconds=2.0, case_seconds=0.55, max_samples=7)  # one pass
    given, notes = shares(monkeypatch, slow, limits, [0.2, 0.8, 0.9, 0.1])
    # 2 s / 4; 1.8 s / 3, which is more than a case takes; 1.0 s / 2; what is left.
    assert given == pytest.approx([0.5, 0.55, 0.5, 0.1])
    stops = [result.stop for result in notes.results]
    assert stops == [StopReason.BUDGET, StopReason.CASE_TIME, StopReason.BUDGET, StopReason.BUDGET]
    assert all("stopped" in result.marks for result in notes.results)


def test_passes_that_are_still_to_come_have_their_share_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is taken to last as long as the first, whatever of that were samples."""
    case = scripted(lambda call: 1e6)  # three passes of 8 ms
    limits = Limits(budget_seconds=1.0)
    given, _ = shares(monkeypatch, case, limits, [0.1] * 4)
    assert given[:2] == pytest.approx([0.25, (0.9 - 2 * 0.1) / 3])


def test_a_window_ends_by_what_its_visits_take_and_not_by_their_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy host a visit is mostly waiting, and rows would come late."""
    done = []
    completed = worker.Session._completed

    def noted(self: Any, window: Any, began_s: float) -> Any:
        done.append(len(window))
        return completed(self, window, began_s)

    monkeypatch.setattr(worker.Session, "_completed", noted)
    case = scripted(lambda call: 1e6)
    shares(monkeypatch, case, Limits(), [worker.WINDOW_S / 6 + 0.01] * 4)
    assert done == [2, 2, 0]


def test_what_the_budget_does_not_reach_is_not_run_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    case = scripted(lambda call: 1e6)
    limits = Limits(budget_seconds=2.0, calls=3)
    given, notes = shares(monkeypatch, case, limits, [1.0, 1.0, 0.5])
    assert len(given) == 2
    reason = "the budget of 2 s ran out first: give a longer --budget"
    assert [(result.status, result.error) for result in notes.results] == [
        (Status.GOOD, ""),
        (Status.GOOD, ""),
        (Status.NOT_RUN, reason),
        (Status.NOT_RUN, reason),
    ]
    assert [result.stop for result in notes.results[:2]] == [StopReason.CALLS] * 2


def test_the_budget_is_spent_by_the_clock_of_the_latest_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that asked their own clocks would skip different cases."""
    import threading

    def monotonic() -> float:
        return 3.0 if threading.current_thread().name == "rank 1" and started.is_set() else 0.0

    started = threading.Event()
    cases = [scripted(lambda call: 1e6) for _ in range(2)]
    backends = [scripted_backend(case, 10.0) for case in cases]
    monkeypatch.setattr(worker.time, "monotonic", monotonic)
    passed = Notes.passed

    def first_passed(self: Notes, result: Any) -> None:
        started.set()
        passed(self, result)

    monkeypatch.setattr(Notes, "passed", first_passed)
    plan = plan_of("all_reduce", limits=Limits(budget_seconds=2.0))
    _, notes = run_on(backends, plan)
    statuses = [result.status for result in notes.results]
    assert (statuses[0], statuses[-1]) == (Status.GOOD, Status.NOT_RUN)
    assert cases[0].log == cases[1].log


def test_visits_of_a_case_lie_evenly_in_the_rounds_and_rounds_take_alike() -> None:
    rounds, left = 8, [8, 8, 8, 2, 2, 2, 2]
    visited = [
        [nth for nth, visits in enumerate(left) if is_due(number + nth, visits, rounds)]
        for number in range(rounds)
    ]
    assert [sum(nth in each for each in visited) for nth in range(len(left))] == left
    assert [len(each) for each in visited] == [4] * rounds  # all of the small ones and one of the others
    for nth in range(3, len(left)):
        first, last = (number for number, each in enumerate(visited) if nth in each)
        assert last - first == rounds // 2
