"""Exports that say all of their rows are read back: numbers, wrong data, and what the times are."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from busbw.foreign.forms.formats import render
from busbw.foreign.logs.assemble import assemble
from busbw.foreign.logs.decide import Given
from busbw.foreign.read_any import read_stream
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status

READ_BACK = ("csv", "nccl-tests", "nccl-tests-json", "nccom-json")
MEASURED = (Status.GOOD, Status.WRONG)


def back(data: bytes, stated: Given | None = None) -> list[RunRecord]:
    reading = read_stream(io.BytesIO(data), "export")
    return [
        assemble(table, replace(reading.origin, table=number), stated or Given(), "run")
        for number, table in enumerate(reading.tables, 1)
    ]


def keyed(records: list[RunRecord], without: Status | None = None) -> dict[tuple[Any, ...], CaseResult]:
    """Results by what names a case in every form."""
    return {
        (case.collective, case.dtype, case.op, case.root, case.size_bytes, case.placement): result
        for record in records
        for case, result in zip(record.plan.cases, record.results, strict=False)
        if result.status is not without
    }


@pytest.mark.parametrize("name", READ_BACK)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_there_and_back(name: str, any_table: st.SearchStrategy[RunRecord], data: st.DataObject) -> None:
    record = data.draw(any_table)
    before = keyed([record])
    named = {replace(case, index=0) for case in record.plan.cases}
    assume(len(before) == len(record.results) and len(named) == len(record.plan.cases))  # none has a number
    # A call of no bytes has no wrong elements, and below half a printed digit a time is 0.00, which is none.
    assume(all(key[4] or result.status is not Status.WRONG for key, result in before.items()))
    assume(all(result.time_ns is None or result.time_ns >= 10 for result in before.values()))
    collective = record.plan.cases[0].collective
    ranks = record.world.size if record.world is not None else None
    after = keyed(back(render(record, name), Given(collective, ranks)), without=Status.NOT_RUN)
    digits = 0.06 if name == "nccl-tests" else 1e-4
    for key, result in before.items():
        found = after.get(key)
        if result.status is Status.GOOD:
            assert found is not None
            assert found.status is Status.GOOD
            assert math.isclose(found.time_ns or 0, result.time_ns or 0, rel_tol=digits, abs_tol=6)
        elif found is not None and result.status is Status.WRONG:
            assert found.status in (Status.WRONG, Status.FAILED)
        elif found is not None:
            assert found.status not in MEASURED


@pytest.mark.parametrize("name", READ_BACK)
def test_the_time_keeps_its_meaning(name: str, make: Any) -> None:
    (*_, record) = back(render(make(), name))
    assert record.method is not None
    assert record.method.time == make().method.time
    assert Placement.IN_PLACE in {case.placement for case in record.plan.cases}


def test_operations_of_one_csv_stay_apart(make: Any) -> None:
    first, second = make("all_reduce"), make("broadcast")
    cases = first.plan.cases + tuple(
        replace(case, index=case.index + len(first.plan.cases)) for case in second.plan.cases
    )
    results = first.results + tuple(
        replace(result, case=result.case + len(first.results)) for result in second.results
    )
    both = replace(first, plan=replace(first.plan, cases=cases), results=results)
    records = back(render(both, "csv"))
    assert [record.plan.cases[0].collective for record in records] == ["all_reduce", "broadcast"]
    assert [record.world.size for record in records if record.world] == [4, 4]


@pytest.mark.parametrize("name", READ_BACK)
def test_a_barrier_has_a_time_and_no_bandwidth(name: str, make: Any) -> None:
    record = make("barrier", sizes=(0,), both=((2310.0, Status.NOT_APPLICABLE),))
    results = tuple(replace(each, algbw_gb_per_s=None, busbw_gb_per_s=None) for each in record.results)
    read = back(render(replace(record, results=results), name), Given("barrier", 4))
    (found,) = [result for each in read for result in each.results if result.status is Status.GOOD]
    assert (found.time_ns, found.busbw_gb_per_s) == (2310.0, None)


def test_a_form_that_does_not_say_what_a_row_is_is_refused(make: Any) -> None:
    reading = read_stream(io.BytesIO(render(make(), "nccom")), "export")
    assert reading.tables == ()
    assert "busbw exported" in reading.no_text
