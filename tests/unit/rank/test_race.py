"""Arms that race: who is out, and what a run does with those."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from busbw_testing.ranks import scripted, scripted_backend
from busbw_testing.sweeps import plan_of, run_on

from busbw.model.plan import Limits
from busbw.plan.swept import with_arms
from busbw.rank import cases as worker
from busbw.rank.race import in_random_order
from busbw.stats.race import PASSES, is_out


@pytest.mark.parametrize(
    ("own", "fastest", "out"),
    [
        ([1.2], [1.0], True),
        ([1.08], [1.0], False),  # one pass may be off by so much
        ([1.08, 1.06], [1.0, 1.0], True),
        ([1.2, 0.99, 1.2], [1.0, 1.0, 1.0], False),  # as fast once
        ([1.04, 1.04, 1.04, 1.5], [1.0, 1.0, 1.0], True),  # passes that both have
    ],
)
def test_out_is_who_was_slower_in_every_pass(own: list[float], fastest: list[float], out: bool) -> None:
    assert is_out(own, fastest, PASSES) is out


def test_slow_arms_end_early_and_every_race_is_in_one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_CASES", 5)  # windows would end in the middle of a race
    times_ns = defaultdict(lambda: 3000.0, {"": 1000.0, "ring/ll/4": 900.0, "tree/ll/4": 960.0})
    prepared: list[dict[str, Any]] = [{}, {}]

    def backend(rank: int) -> Any:
        made = scripted_backend(scripted(lambda call: 1000.0), 10.0)

        def prepare(case: Any) -> Any:
            of_arm = times_ns[case.arm]
            return prepared[rank].setdefault(case.arm, scripted(lambda call: of_arm))

        made.prepare = prepare
        return made

    plan = plan_of("all_reduce", checks=0, limits=Limits())
    plan = replace(plan, cases=with_arms(plan.cases))
    _, notes = run_on([backend(0), backend(1)], plan)
    assert [result.case for result in notes.results] == list(range(len(plan.cases)))
    passes = {plan.cases[each.case].arm: len(each.pass_samples) for each in notes.results}
    assert {arm: passes[arm] for arm in ("", "ring/ll/4", "tree/ll/4")} == {
        "": 9,
        "ring/ll/4": 9,
        "tree/ll/4": 2,  # 7 % slower is not enough after one pass
    }
    assert {count for arm, count in passes.items() if arm not in ("", "ring/ll/4", "tree/ll/4")} == {1}


def test_each_round_visits_a_race_in_another_order_and_the_next_race_behind_it() -> None:
    case = plan_of("all_reduce", checks=0, limits=Limits()).cases[0]
    own, other = with_arms((case,)), with_arms((replace(case, size_bytes=2 * case.size_bytes),))
    cases = dict(enumerate((*own, *other)))
    orders = [in_random_order(list(cases), cases, number) for number in range(8)]
    for order in orders:
        assert sorted(order[: len(own)]) == list(range(len(own)))
        assert sorted(order) == list(cases)
    assert len({order[0] for order in orders}) > 4
    assert orders == [in_random_order(list(cases), cases, number) for number in range(8)]  # on every rank
