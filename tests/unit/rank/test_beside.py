from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from busbw_testing.ranks import case, conditions, on_ranks, scripted

from busbw.judge.beside import judged
from busbw.model.neighbour import Beside, Factor, Neighbour
from busbw.model.plan import Limits, Plan
from busbw.model.result import CaseResult, Status, StopReason
from busbw.rank.backends.base import DeviceState
from busbw.rank.beside import LEAST_ROUNDS, MOST_ROUNDS, measure_beside
from busbw.rank.measure import Samples

CALL_NS = 100_000.0
RATE = 40.0  # of work a second, by itself


@dataclass
class ScriptedCompany:
    """Makes calls ``longer`` times as long, and gets ``left`` of its work done meanwhile."""

    prepared: Any
    longer: float = 1.0
    left: float = 1.0
    rate: float = RATE
    how: str = "scripted"
    unit: str = "GFLOP/s"
    log: list[str] = field(default_factory=list)

    def by_itself(self, seconds: float) -> float:
        self.log.append("by itself")
        return self.rate

    def beside(self, prepared: Any, take: Callable[[Any], object]) -> float:
        self.log.append("beside")
        alone = prepared.call_ns
        prepared.call_ns = lambda call: alone(call) * self.longer
        try:
            take(prepared)
            return self.rate * self.left
        finally:
            prepared.call_ns = alone


def measured(
    call_ns: Callable[[int], float], limits: Limits, *make: Callable[[Any, int], ScriptedCompany]
) -> tuple[list[Samples], Any]:
    """The samples of two ranks, and the neighbours that were made for each rank's case."""
    cases = [scripted(call_ns) for _ in range(2)]
    company = [[each(cases[rank], rank) for each in make] for rank in range(2)]

    def live(world: Any) -> Samples:
        return measure_beside(
            cases[world.rank],
            conditions(world, limits=limits),
            limits,
            asked=[Neighbour(f"compute:share={n}%", "compute") for n in range(len(make))],
            neighbours=company[world.rank],
            clock=lambda: DeviceState(1900 - 100 * world.rank, 0),
        )

    return on_ranks(2, live), company


def is_slower(found: Beside, case: Any) -> bool:
    plan = Plan("mpi", (case(),), 0, Limits(), 0, 0)
    return judged(plan, [CaseResult(0, Status.GOOD, neighbours=(found,))])[0][0].is_slower


def values(*factors: Factor | None) -> list[float]:
    return [each.value for each in factors if each is not None]


def test_both_ratios_are_those_of_the_neighbour() -> None:
    (first, second), company = measured(
        lambda call: CALL_NS,
        Limits(),
        lambda prepared, rank: ScriptedCompany(prepared, longer=1.31, left=0.87),
        lambda prepared, rank: ScriptedCompany(prepared),
    )
    assert first.neighbours == second.neighbours
    loaded, unharmed = first.neighbours
    found = values(loaded.mean, loaded.median, loaded.left, loaded.sum)
    assert found == pytest.approx([1.31, 1.31, 0.87, 1 / 1.31 + 0.87])
    assert values(unharmed.mean, unharmed.sum) == pytest.approx([1, 2])
    assert (is_slower(loaded, case), is_slower(unharmed, case)) == (True, False)
    # The case's own samples are those alone.
    assert set(first.times_ns.tolist()) == {CALL_NS}
    assert first.stops == (StopReason.PRECISION,)
    assert [len(each.alone_ns) for each in first.neighbours] == [LEAST_ROUNDS] * 2
    assert first.neighbours[0].clocks_mhz == (1800, 1800)  # of the slowest rank
    assert company[0][0].log == ["beside", "by itself"] * (1 + LEAST_ROUNDS)


def test_work_is_the_mean_over_ranks() -> None:
    (first, _), _ = measured(
        lambda call: CALL_NS,
        Limits(),
        lambda prepared, rank: ScriptedCompany(prepared, left=0.5 + 0.3 * rank, rate=RATE * (1 + rank)),
    )
    (found,) = first.neighbours
    assert set(found.work_alone) == {RATE * 1.5}
    assert found.work_beside[0] == pytest.approx(RATE * (0.5 + 2 * 0.8) / 2)


def test_what_drifts_leaves_the_ratio_alone() -> None:
    """Every call is a little slower than the one before: three times as slow in the end."""
    (first, _), _ = measured(
        lambda call: CALL_NS * (1 + call / 2000),
        Limits(precision=0.001),
        lambda prepared, rank: ScriptedCompany(prepared, longer=2.0),
    )
    (found,) = first.neighbours
    assert max(found.alone_ns) > 1.5 * min(found.alone_ns)
    assert found.mean.low < 2.0 < found.mean.high
    assert (len(found.alone_ns), first.stops) == (MOST_ROUNDS, (StopReason.CASE_TIME,))


def test_calls_that_are_too_slow_for_an_interval_end_without_one() -> None:
    (first, _), _ = measured(
        lambda call: 2e9,
        Limits(),
        lambda prepared, rank: ScriptedCompany(prepared, longer=3.0),
    )
    (seen,) = first.neighbours
    assert (seen.mean.value, seen.mean.low, seen.mean.high) == (pytest.approx(3.0), None, None)
    assert not is_slower(seen, case)
