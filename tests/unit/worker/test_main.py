from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.backends.base import CheckOutcome
from busbw.errors import ExitCode, SiteError
from busbw.model.plan import Limits, Plan
from busbw.model.result import Status, StopReason
from busbw.planning.make import make_plan
from busbw.settings.run import RunSettings
from busbw.worker import main
from busbw.worker.agree import RefusedTogether

OnRanks = Callable[[int, Callable[[Any], Any]], list[Any]]


class Notes:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.world: Any = None
        self.method: Any = None
        self.results: list[Any] = []
        self.kept: list[Any] = []

    def started(self, world: Any, method: Any) -> None:
        self.world, self.method = world, method

    def finished(self, result: Any, kept: Any) -> None:
        self.results.append(result)
        self.kept.append(kept)


def plan_of(*operations: str, ranks: int = 2, checks: int = 0, limits: Limits | None = None) -> Plan:
    plan = make_plan(operations, RunSettings(minbytes="1K", maxbytes="2K", seed=3), "null", ranks)
    return replace(plan, checks=checks, limits=limits or Limits())


def run_on(
    on_ranks: OnRanks, monkeypatch: pytest.MonkeyPatch, backends: list[Any], plan: Plan
) -> tuple[list[Any], Notes]:
    monkeypatch.setattr(main, "create", lambda plan, world: backends[world.rank])
    notes = Notes()
    outcomes = on_ranks(
        len(backends), lambda world: main.run(world, plan, notes if world.rank == 0 else None)
    )
    return outcomes, notes


def test_the_null_backend_gives_exact_results(on_ranks: OnRanks) -> None:
    notes = Notes()
    plan = plan_of("all_gather", "sendrecv", ranks=4)
    outcomes = on_ranks(4, lambda world: main.run(world, plan, notes if world.rank == 0 else None))
    assert [outcome.wrong_cases for outcome in outcomes] == [0] * 4
    gathered, _, _, _, ring, ring_in_place = notes.results[:6]
    # 1000 ns + 1024 bytes / 100 bytes a ns.
    assert (gathered.time_ns, gathered.low_ns, gathered.high_ns, gathered.mean_ns) == (1010.0,) * 4
    assert gathered.algbw_gb_per_s == pytest.approx(1024 / 1010)
    assert gathered.busbw_gb_per_s == pytest.approx(1024 / 1010 * 3 / 4)
    assert (gathered.status, gathered.stop, gathered.wrong) == (Status.GOOD, StopReason.PRECISION, None)
    assert ring.busbw_gb_per_s == ring.algbw_gb_per_s
    assert (ring_in_place.status, ring_in_place.time_ns) == (Status.NOT_APPLICABLE, None)
    assert (notes.world.size, notes.method.timing_cost_ns) == (4, 10.0)


def test_ranks_that_measured_different_clocks_use_one_k(
    on_ranks: OnRanks, monkeypatch: pytest.MonkeyPatch, scripted: Any, scripted_backend: Any
) -> None:
    """k follows from the cost of a clock read. Ranks that each used their own would issue different numbers
    of calls, and wait for each other for ever.
    """
    cases = [scripted(lambda call: 1000.0) for _ in range(2)]
    backends = [scripted_backend(cases[0], 20.0), scripted_backend(cases[1], 55.0)]
    _, notes = run_on(on_ranks, monkeypatch, backends, plan_of("all_reduce"))
    assert cases[0].log == cases[1].log
    assert {result.calls_per_sample for result in notes.results} == {11}
    assert notes.method.timing_cost_ns == 55.0
    assert all(backend.closed for backend in backends)


def test_a_wrong_case_keeps_its_time_and_loses_its_bandwidth(
    on_ranks: OnRanks, monkeypatch: pytest.MonkeyPatch, scripted: Any, scripted_backend: Any
) -> None:
    good, bad = CheckOutcome(0, -1, 9), CheckOutcome(6, 2, 1)
    cases = [
        scripted(lambda call: 1000.0),
        scripted(lambda call: 1000.0, check_outcomes=[CheckOutcome(0, -1, 0), bad]),
    ]
    del good
    backends = [scripted_backend(case, 10.0) for case in cases]
    outcomes, notes = run_on(on_ranks, monkeypatch, backends, plan_of("all_reduce", checks=1))
    assert [outcome.wrong_cases for outcome in outcomes] == [1, 1]
    assert [result.status for result in notes.results[:3]] == [Status.GOOD, Status.WRONG, Status.GOOD]
    wrong = notes.results[1]
    assert (wrong.time_ns, wrong.algbw_gb_per_s, wrong.busbw_gb_per_s, wrong.wrong) == (1000.0, None, None, 6)
    assert [(at.rank, at.first_offset) for at in wrong.wrong_at] == [(1, 2)]


def test_one_rank_has_no_bus(on_ranks: OnRanks) -> None:
    notes = Notes()
    on_ranks(1, lambda world: main.run(world, plan_of("all_reduce", "sendrecv", ranks=1), notes))
    timed = [result for result in notes.results if result.time_ns is not None]
    assert all(result.algbw_gb_per_s and result.busbw_gb_per_s is None for result in timed)


def test_a_backend_that_one_rank_cannot_make_is_refused_by_all(
    on_ranks: OnRanks, monkeypatch: pytest.MonkeyPatch, scripted: Any, scripted_backend: Any
) -> None:
    def create(plan: Plan, world: Any) -> Any:
        if world.rank == 1:
            raise SiteError("no GPU here", hint="look")
        return scripted_backend(scripted(lambda call: 1.0), 10.0)

    monkeypatch.setattr(main, "create", create)

    def live(world: Any) -> RefusedTogether:
        with pytest.raises(RefusedTogether, match="no GPU here") as refused:
            main.run(world, plan_of("all_reduce"), None)
        return refused.value

    errors = on_ranks(3, live)
    assert {(error.rank, error.hint, error.exit_code) for error in errors} == {
        (1, "look", ExitCode.ENVIRONMENT)
    }


def test_samples_of_every_timed_case_are_kept(on_ranks: OnRanks) -> None:
    notes = Notes()
    on_ranks(2, lambda world: main.run(world, plan_of("sendrecv"), notes if world.rank == 0 else None))
    assert [len(kept.samples) for kept in notes.kept] == [8 * 3, 0, 8 * 3, 0]
    assert [kept.samples["case"][0] for kept in notes.kept[::2]] == [0, 2]
