"""Every record through every format that can be imported, and back: cases, statuses and printed digits."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.foreign.forms.formats import render
from busbw.foreign.forms.rows import tables
from busbw.foreign.logs.assemble import Origin, assemble
from busbw.foreign.logs.decide import Given
from busbw.foreign.read_any import read_stream
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status

# What a format cannot carry. "status": it has nan for a case without a number, and why stands only below
# the table. "time of wrong": it prints no number there. "placement": one that
# does not apply at all has no table.
LIMITS: dict[str, set[str]] = {
    "csv": set(),
    "nccl-tests-json": set(),
    "nccl-tests": {"status"},
    "nccom-json": {"time of wrong", "placement"},
    "nccom": {"time of wrong", "placement", "digits"},
    "osu": {"time of wrong", "placement", "status", "digits"},
}


# Their importers derive it from the size, which the random records here do not do.
WITHOUT_COUNT = {"nccom", "nccom-json", "osu"}


def keyed(records: list[RunRecord]) -> dict[tuple[Any, ...], CaseResult]:
    """Results by everything that names a case."""

    def key(case: Case) -> tuple[Any, ...]:
        return (case.collective, case.dtype, case.op, case.root, case.size_bytes, case.count, case.placement)

    found: dict[tuple[Any, ...], CaseResult] = {}
    for record in records:
        for case, result in zip(record.plan.cases, record.results, strict=True):
            at = (*key(case), case.cycle)
            assert at not in found
            found[at] = result
    return found


def back(data: bytes) -> list[RunRecord]:
    """The records of an export, without a word from the user."""
    reading = read_stream(io.BytesIO(data), "export")
    return [
        assemble(table, Origin("export", table=number, log_lines=reading.lines), Given(), "run")
        for number, table in enumerate(reading.tables, 1)
    ]


def with_every_case(record: RunRecord) -> Iterator[tuple[tuple[Any, ...], CaseResult]]:
    """The results of a record, where cut also those that it did not come to."""
    results = {result.case: result for result in record.results}
    for case in record.plan.cases:
        yield (
            (case.collective, case.dtype, case.op, case.root, case.size_bytes, case.count, case.placement),
            results.get(case.index, CaseResult(case.index, Status.NOT_RUN)),
        )


def cut_count(name: str, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key, without the count where the format has none of the call."""
    return (*key[:5], key[6]) if name in WITHOUT_COUNT else key


@pytest.mark.parametrize("name", LIMITS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_there_and_back(name: str, any_table: st.SearchStrategy[RunRecord], data: st.DataObject) -> None:
    record = data.draw(any_table)
    wanted = [(cut_count(name, key), result) for key, result in with_every_case(record)]
    assume(len({key for key, _ in wanted}) == len(wanted))  # repeated cases have no number in these records
    # A call of no bytes has no wrong elements.
    assume(all(key[4] or result.status is not Status.WRONG for key, result in with_every_case(record)))
    # Below half a printed digit a time is 0.00, which is no time.
    assume(all(result.time_ns is None or result.time_ns >= 10 for _, result in wanted))
    try:
        text = render(record, name)
    except UsageError:
        assume(False)
    (table,) = tables(record)
    found = {cut_count(name, key[:-1]): result for key, result in keyed(back(text)).items()}
    missing = [(key, result) for key, result in wanted if key not in found]
    more = set(found) - {key for key, _ in wanted}
    assert not more or "status" in LIMITS[name]  # a case that the run did not have is nan there too
    assert all(found[key].time_ns is None for key in more)
    assert not missing or "placement" in LIMITS[name]
    assert {result.status for _, result in missing} <= {Status.NOT_APPLICABLE}
    for key, result in wanted:
        if key in found:
            same(name, result, found[key])
    assert table.rows


def same(name: str, before: CaseResult, after: CaseResult) -> None:
    """The same result within what the format carries."""
    limits = LIMITS[name]
    if before.status is Status.WRONG:
        assert after.status is not Status.GOOD
        assert after.status is Status.WRONG or name == "osu"
    if "status" not in limits or before.status in (Status.GOOD, Status.WRONG):
        if "status" not in limits or before.status is Status.GOOD:
            assert after.status is before.status
    else:
        assert after.status not in (Status.GOOD, Status.WRONG)
    if before.status is Status.GOOD or (before.status is Status.WRONG and "time of wrong" not in limits):
        assert before.time_ns is not None
        assert after.time_ns is not None
        digits = 1e-9 if name in ("csv", "nccl-tests-json", "nccom-json") else 0.06
        assert math.isclose(after.time_ns, before.time_ns, rel_tol=digits, abs_tol=6)
    else:
        assert after.time_ns is None
    if before.status is Status.WRONG and name not in ("osu", "nccl-tests"):
        assert after.wrong == before.wrong


def test_operations_of_one_csv_stay_apart(any_record: st.SearchStrategy[RunRecord]) -> None:
    @given(any_record)
    @settings(max_examples=25, deadline=None)
    def check(record: RunRecord) -> None:
        wanted = list(with_every_case(record))
        assume(len({key for key, _ in wanted}) == len(wanted))
        records = back(render(record, "csv"))
        assert [each.plan.cases[0].collective for each in records if each.plan.cases] == list(
            dict.fromkeys(case.collective for case in record.plan.cases)
        )
        assert {key[:-1] for key in keyed(records)} == {key for key, _ in wanted}
        assert all(
            each.world is None or each.world.size == record.world.size for each in records if record.world
        )

    check()


def test_csv_carries_interval_samples_and_marks(make: Any) -> None:
    (record,) = back(render(make(), "csv"))
    before, after = make().results[0], record.results[0]
    assert (after.low_ns, after.high_ns) == pytest.approx((before.low_ns, before.high_ns))
    assert (after.samples, after.calls_per_sample, after.wrong) == (11, 4, 0)
    assert record.method is not None
    assert record.method.time == make().method.time


@pytest.mark.parametrize("name", ["osu", "nccom", "nccl-tests", "nccom-json", "nccl-tests-json"])
def test_the_time_keeps_its_meaning_in_every_table(name: str, make: Any) -> None:
    records = back(render(make(), name))
    placements = {placement for record in records for placement in (c.placement for c in record.plan.cases)}
    assert placements == set(Placement)
    assert {record.method.time for record in records if record.method} == {make().method.time}
    assert {record.source.fields["op"] for record in records if record.source} <= {"rows", "header"}


@pytest.mark.parametrize("name", ["csv", "nccl-tests", "nccl-tests-json", "nccom", "nccom-json", "osu"])
def test_a_barrier_has_a_time_and_no_bandwidth(name: str, make: Any) -> None:
    record = make("barrier", sizes=(0,), both=((2310.0, Status.NOT_APPLICABLE),))
    results = tuple(replace(each, algbw_gb_per_s=None, busbw_gb_per_s=None) for each in record.results)
    read = back(render(replace(record, results=results), name))
    (found,) = [result for each in read for result in each.results if result.status is Status.GOOD]
    assert (found.time_ns, found.busbw_gb_per_s) == (2310.0, None)


@pytest.mark.parametrize("name", ["csv", "nccl-tests", "nccl-tests-json", "nccom", "nccom-json", "osu"])
def test_sizes_that_are_wider_than_their_column(name: str, make: Any) -> None:
    sizes = (2**10, 2**33, 2**34, 2**37, 2**41)
    times = tuple((20_000.0 + size / 100, 21_000.0 + size / 100) for size in sizes)
    record = make(sizes=sizes, both=times)
    read = back(render(record, name))
    assert sorted(case.size_bytes for each in read for case in each.plan.cases) == sorted(2 * sizes)
    assert [finding for each in read for finding in each.source.findings if finding.kind == "damaged"] == []


@pytest.mark.parametrize("name", ["nccom", "nccom-json", "csv"])
def test_what_was_told_of_a_row_goes_there_and_back(make: Any, name: str) -> None:
    record = make()
    first, *others = record.results
    told = [replace(first, algorithm="mesh", input_bytes=256, output_bytes=1024)]
    told += [replace(each, input_bytes=256, output_bytes=1024) for each in others]
    records = back(render(replace(record, results=tuple(told)), name))
    found = {
        (case.size_bytes, case.placement): result
        for each in records
        for case, result in zip(each.plan.cases, each.results, strict=True)
    }
    for case, before in zip(record.plan.cases, told, strict=True):
        after = found[case.size_bytes, case.placement]
        if before.status is Status.GOOD:
            assert (after.algorithm, after.input_bytes, after.output_bytes) == (
                *(before.algorithm, before.input_bytes, before.output_bytes),
            )
