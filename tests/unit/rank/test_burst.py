"""The untimed burst: who reads what, windows of agreed calls, differences, and one Burst on rank 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from busbw_testing.ranks import on_ranks, scripted
from busbw_testing.sweeps import plan_of

from busbw.machine.counters import Counted
from busbw.model.case import Case
from busbw.rank import burst as module
from busbw.rank.burst import WINDOW_S, WINDOWS, burst, burst_cases, reader


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.001)
    monkeypatch.setattr(module, "REST_S", 0.0)


def growing(step: int, **values: Any) -> Callable[[], Sequence[Counted]]:
    """A NIC whose counters grow by so much from reading to reading."""
    state = {"tx_bytes": 1000, "rx_bytes": 500}

    def read() -> Sequence[Counted]:
        state.update(tx_bytes=state["tx_bytes"] + step, rx_bytes=state["rx_bytes"] + 2 * step)
        return (Counted("ethernet", "eth0", "", 12.5, {**state, **values}),)

    return read


def a_case() -> Case:
    return plan_of("all_reduce").cases[0]


def test_windows_of_calls_behind_a_quiet_one() -> None:
    # The second rank is slower: its time counts, and both issue the same calls.
    cases = [scripted(lambda call: 1e6), scripted(lambda call: 2e6)]
    found = on_ranks(2, lambda world: burst(a_case(), cases[world.rank], world, growing(7)))
    assert found[1] is None
    told = found[0]
    assert [window.calls > 0 for window in told.windows] == [False, True, True, True]
    assert all(window.seconds >= WINDOW_S for window in told.windows[1:])
    assert sum(window.seconds for window in told.windows[1:]) >= 0.5
    assert told.windows[1].seconds == pytest.approx(told.windows[1].calls * 2e-3)
    assert cases[0].log == cases[1].log
    assert [link.host for link in told.links] == ["host0", "host0"]
    assert told.links[0].sent_bytes == (7,) * (1 + WINDOWS)
    assert told.links[0].received_bytes == (14,) * (1 + WINDOWS)
    assert (told.links[0].gb_per_s, told.links[0].note) == (12.5, "")


def test_a_reset_counter_is_not_traffic_and_a_lost_port_is_left_out() -> None:
    case = scripted(lambda call: 1e6)
    (told,) = on_ranks(1, lambda world: burst(a_case(), case, world, growing(-3)))
    assert "went backwards" in told.links[0].note
    readings = iter([growing(1)(), (), *[growing(1)()] * 3])
    (told,) = on_ranks(1, lambda world: burst(a_case(), case, world, lambda: next(readings)))
    assert told.links == ()


def test_one_rank_a_host_reads_its_nics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_counters", growing(1))
    seen = on_ranks(9, lambda world: len(reader(world, "")()))  # eight on the first host, one on the second
    assert seen == [1, 0, 0, 0, 0, 0, 0, 0, 1]


def test_the_largest_size_of_each_operation() -> None:
    plan = plan_of("all_reduce", "all_gather")
    first, second = burst_cases(plan)
    assert (first.collective, second.collective) == ("all_reduce", "all_gather")
    assert first.size_bytes == max(case.size_bytes for case in plan.cases if case.collective == "all_reduce")
    assert not first.in_place
    none = replace(plan, cases=tuple(replace(case, applicable=False) for case in plan.cases))
    assert burst_cases(none) == ()
