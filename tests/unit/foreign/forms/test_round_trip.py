"""Exports that say all of their rows are read back: numbers, wrong data, and what the times are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from busbw_testing.exported import joined, make, records
from busbw_testing.logs import imported, read
from hypothesis import assume, given, settings

from busbw.foreign.forms.formats import render
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status

READ_BACK = ("csv", "nccl-tests", "nccl-tests-json", "nccom-json")
MEASURED = (Status.GOOD, Status.WRONG)


def keyed(records: list[RunRecord], without: Status | None = None) -> dict[tuple[Any, ...], CaseResult]:
    """Results by what names a case in every form."""
    return {
        (case.collective, case.dtype, case.op, case.root, case.size_bytes, case.placement): result
        for record in records
        for case, result in zip(record.plan.cases, record.results, strict=False)
        if result.status is not without
    }


@pytest.mark.parametrize("name", READ_BACK)
@given(record=records(most_collectives=1))
@settings(max_examples=25, deadline=None)
def test_there_and_back(name: str, record: RunRecord) -> None:
    before = keyed([record])
    # A call of no bytes has no wrong elements, and below half a printed digit a time is 0.00, which is none.
    assume(all(key[4] or result.status is not Status.WRONG for key, result in before.items()))
    assume(all(result.time_ns is None or result.time_ns >= 10 for result in before.values()))
    collective = record.plan.cases[0].collective
    ranks = record.world.size if record.world is not None else None
    after = keyed(imported(render(record, name), op=collective, ranks=ranks), without=Status.NOT_RUN)
    digits = 0.06 if name == "nccl-tests" else 1e-4
    for key, result in before.items():
        found = after.get(key)
        if result.status is Status.GOOD:
            assert found.status is Status.GOOD
            assert math.isclose(found.time_ns or 0, result.time_ns or 0, rel_tol=digits, abs_tol=6)
        elif found is not None and result.status is Status.WRONG:
            assert found.status in (Status.WRONG, Status.FAILED)
        elif found is not None:
            assert found.status not in MEASURED


@pytest.mark.parametrize("name", READ_BACK)
def test_the_time_keeps_its_meaning(name: str) -> None:
    (*_, record) = imported(render(make(), name))
    assert record.method.time == make().method.time
    assert Placement.IN_PLACE in {case.placement for case in record.plan.cases}


def test_operations_of_one_csv_stay_apart() -> None:
    records = imported(render(joined(make("all_reduce"), make("broadcast")), "csv"))
    assert [record.plan.cases[0].collective for record in records] == ["all_reduce", "broadcast"]
    assert [record.world.size for record in records if record.world] == [4, 4]


@pytest.mark.parametrize("name", READ_BACK)
def test_a_barrier_has_a_time_and_no_bandwidth(name: str) -> None:
    record = make("barrier", sizes=(0,), both=((2310.0, Status.NOT_APPLICABLE),))
    results = tuple(replace(each, algbw_gb_per_s=None, busbw_gb_per_s=None) for each in record.results)
    found = imported(render(replace(record, results=results), name), op="barrier", ranks=4)
    (only,) = [result for each in found for result in each.results if result.status is Status.GOOD]
    assert (only.time_ns, only.busbw_gb_per_s) == (2310.0, None)


def test_a_form_that_does_not_say_what_a_row_is_is_refused() -> None:
    reading = read(render(make(), "nccom"))
    assert reading.tables == ()
    assert "busbw exported" in reading.no_text
