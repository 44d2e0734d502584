"""The levels of the host that the short cases of a window meet together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from busbw_testing.ranks import scripted, scripted_backend
from busbw_testing.sweeps import plan_of, run_on

from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.rank import cases as worker

FAST, SLOW = 6000.0, 9000.0
SWITCHES = (FAST, FAST, FAST, SLOW, SLOW, SLOW, FAST, FAST, FAST)  # pass by pass
STAYS = (FAST,) * 8 + (SLOW,)


@pytest.mark.parametrize("arm", ["", "ring/ll/4"])
def test_a_case_that_met_one_level_has_the_interval_of_those_that_met_two(
    monkeypatch: pytest.MonkeyPatch, arm: str
) -> None:
    plan = plan_of("all_reduce", checks=0, limits=Limits())
    plan = replace(plan, cases=tuple(replace(case, arm=arm) for case in plan.cases))
    last = plan.cases[-1].index

    def backend() -> Any:
        visits: defaultdict[int, int] = defaultdict(int)
        made = scripted_backend(None, 10.0)

        def prepare(case: Any) -> Any:
            level = (STAYS if case.index == last else SWITCHES)[visits[case.index]]
            visits[case.index] += 1
            return scripted(lambda call: level * (1 + 0.001 * (call % 5)), issue_share=0.95)

        made.prepare = prepare
        return made

    summarize = worker.summarize
    told: tuple[list[Any], list[Any]] = ([], [])

    def noted(case: Any, samples: Any, checked: Any, given: Any, **named: Any) -> Any:
        result = summarize(case, samples, checked, given, **named)
        if samples.complete:
            told[given.world.rank].append(result)
        return result

    monkeypatch.setattr(worker, "summarize", noted)
    _, notes = run_on([backend(), backend()], plan)
    assert told[0] == told[1]
    result = notes.results[last]
    low_ns, high_ns = result.own_interval_ns
    assert (low_ns, high_ns) == pytest.approx((0.9875 * FAST, 1.0125 * FAST), rel=0.01)
    if arm:  # a race compares arms with each other, pass by pass
        assert (result.low_ns, result.high_ns, result.stop) == (low_ns, high_ns, StopReason.PRECISION)
    else:
        assert (result.low_ns, result.stop) == (low_ns, StopReason.PASSES)
        assert result.high_ns == pytest.approx(SLOW, rel=0.01)
