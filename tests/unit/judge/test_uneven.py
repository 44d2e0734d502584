"""Uneven counts against the same bytes evenly spread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.judge.uneven import uneven
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.skew import Skew
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.report.uneven import lines


def plan() -> Plan:
    return make_plan(
        ("alltoallv",),
        RunSettings(skew=Skew("zipf:1"), minbytes=Size("48K"), maxbytes=Size("96K")),
        "null",
        4,
    )


def results(made: Plan) -> list[CaseResult]:
    """Uneven calls take 150 us, even ones 100 us, both +-10 %."""
    found = []
    for case in made.cases:
        time_ns = 1e5 if case.even else 1.5e5
        good = CaseResult(case.index, Status.GOOD, time_ns, 0.9 * time_ns, 1.1 * time_ns)
        found.append(good if case.applicable else CaseResult(case.index, Status.NOT_APPLICABLE))
    return found


def test_each_case_is_held_against_its_even_one() -> None:
    made = plan()
    pairs = list(uneven(made, results(made)))
    assert [each.case.size_bytes for each in pairs] == [48 * 1024, 96 * 1024]
    for each in pairs:
        assert (each.ratio, each.imbalance) == (1.5, pytest.approx(48 / 25))
        assert (each.low, each.high) == (pytest.approx(1.5 * 9 / 11), pytest.approx(1.5 * 11 / 9))
    assert lines(made, results(made))[-2:] == [
        "# uneven counts: alltoallv 48 KiB takes 1.50 (1.23-1.83) times as long as the same bytes evenly",
        "#   spread; its busiest rank moves 1.92 times the mean",
    ]


def test_a_case_without_a_time_is_held_against_nothing() -> None:
    made = plan()
    found = [
        replace(each, status=Status.WRONG) if not made.cases[each.case].even else each
        for each in results(made)[:3]
    ]
    assert list(uneven(made, found)) == []
    assert lines(made, found) == []
    no_interval = [replace(each, low_ns=None, high_ns=None) for each in results(made)]
    assert "1.50 (n/a)" in lines(made, no_interval)[2]


def test_a_case_that_is_slower_for_certain_is_the_answer() -> None:
    made = plan()
    unsure = [
        replace(each, time_ns=9e5, low_ns=1e4, high_ns=9e6) if each.case == 0 else each
        for each in results(made)
    ]
    assert "alltoallv 96 KiB takes 1.50" in lines(made, unsure)[-2]
