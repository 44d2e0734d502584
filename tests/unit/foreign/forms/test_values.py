"""The formats for spreadsheets, programs and pages: CSV, JSON, Markdown, Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from busbw_testing.exported import joined, make, records
from hypothesis import given, settings

from busbw.errors import UsageError
from busbw.foreign.forms.formats import SINGLE, WRITERS, ExportFormat, render
from busbw.foreign.forms.rows import tables
from busbw.judge.run import results
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status

# The 15 columns of the AWS kit's converter, in its order.
CONVERTER = (
    "Size_Bytes,Size_KB,Size_MB,Count,Data_Type,Operation,Root,"
    "OOP_Time_us,OOP_AlgBW_GBps,OOP_BusBW_GBps,OOP_Errors,IP_Time_us,IP_AlgBW_GBps,IP_BusBW_GBps,IP_Errors"
)


def test_csv_begins_with_the_columns_of_the_converter() -> None:
    head, first, *_ = render(make(), "csv").decode().splitlines()
    assert head.startswith(CONVERTER + ",")
    assert first.startswith("1024,1.0,0.0,256,float,sum,-1,10.0,0.1024,")
    assert "Time_Is" in head
    assert "median over samples of the maximum over ranks of elapsed / k" in first


def test_summary_has_the_metrics_of_the_converter() -> None:
    record = make(both=((10_000.0, Status.NOT_APPLICABLE), (20_000.0, Status.WRONG)))
    lines = list(csv.reader(io.StringIO(render(record, "summary-csv").decode())))
    assert lines[:10] == [
        ["Metric", "Value"],
        ["Total Test Points", "2"],
        ["Min Message Size (Bytes)", "1024"],
        ["Max Message Size (Bytes)", "4096"],
        ["Peak OOP Bus BW (GB/s)", "0.31"],
        ["Peak IP Bus BW (GB/s)", "nan"],
        ["Avg OOP Bus BW (GB/s)", "0.23"],
        ["Avg IP Bus BW (GB/s)", "nan"],
        ["Total Errors", "17"],
        ["NCCL Reported Avg Bus BW (GB/s)", "0.2304"],
    ]
    own = dict(lines[10:])
    assert own["Cases In Averages"] == "2"
    assert (own["Cases good"], own["Cases wrong"], own["Cases not-applicable"]) == ("2", "1", "1")
    assert own["GB/s Is"] == "10^9 bytes/s"
    assert own["Time Is"].startswith("median over samples")


@given(record=records())
@settings(max_examples=25, deadline=None)
def test_json_is_the_record(record: RunRecord) -> None:
    document = json.loads(render(record, "json"))
    found = {result.case: result for result in record.results}
    assert sorted(row["case"] for row in document["results"]) == [case.index for case in record.plan.cases]
    for row in document["results"]:
        case = record.plan.cases[row["case"]]
        assert (row["collective"], row["placement"]) == (case.collective, case.placement.value)
        result = found.get(case.index, CaseResult(case.index, Status.NOT_RUN))
        assert (row["status"], row["time_ns"], row["busbw_gb_per_s"], row["wrong"]) == (
            result.status.value,
            result.time_ns,
            result.busbw_gb_per_s,
            result.wrong,
        )
    assert document["bandwidth_is"] == "GB/s = 10^9 bytes/s"


@given(record=records())
@settings(max_examples=25, deadline=None)
def test_markdown_is_the_record_within_its_digits(record: RunRecord) -> None:
    text = render(record, "markdown").decode()
    rows = [row for table in tables(record) for row in table.rows]
    lines = [line for line in text.splitlines() if re.match(r"\| \d", line)]
    for line, row in zip(lines, rows, strict=True):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        assert len(cells) == 15
        for at, result in zip((5, 10), row.sides, strict=True):
            if result is not None and result.time_ns is not None:
                assert float(cells[at]) == pytest.approx(result.time_ns / 1000, abs=0.0051)
            elif result is None or result.status is Status.NOT_APPLICABLE:
                assert cells[at] == "n/a"
            else:
                assert cells[at] == result.status.value
            wrong = None if result is None else result.wrong
            assert cells[at + 4] == ("N/A" if wrong is None else str(wrong))
            if result is not None and result.status is Status.WRONG:
                assert cells[at + 2 : at + 4] == ["WRONG", "WRONG"]


def test_markdown_escapes_what_would_be_markup() -> None:
    record = replace(make(), run_id="a|b_c*")
    assert r"- run a\|b\_c\*, NCCL 2.30.4" in render(record, "markdown").decode()


def test_parquet_is_the_frame_and_says_what_times_are() -> None:
    polars = pytest.importorskip("polars")
    record = make(both=((10_000.0, Status.NOT_APPLICABLE), (Status.WRONG, 20_000.0)))
    frame = polars.read_parquet(io.BytesIO(render(record, "parquet")))
    assert frame.drop("time_is", "bandwidth_is").equals(results(record))
    assert frame["status"].to_list() == ["good", "not-applicable", "wrong", "good"]
    assert set(frame["bandwidth_is"]) == {"GB/s = 10^9 bytes/s"}
    assert frame["time_is"][0].startswith("median over samples")


def test_parquet_without_polars_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.judge.run.find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        render(make(), "parquet")
    assert ".[analysis]" in caught.value.hint


TWO = joined(make(), make("sendrecv", both=2 * ((1.0, Status.NOT_APPLICABLE),)))


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_a_shape_for_one_operation_refuses_two(name: ExportFormat) -> None:
    with pytest.raises(UsageError, match="holds one operation, and the run has all_reduce, sendrecv"):
        render(TWO, name)
    assert render(TWO, name, "sendrecv")


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_op_leaves_the_others_out(name: ExportFormat) -> None:
    if name == "parquet":
        pytest.importorskip("polars")
    assert render(TWO, name, "all_reduce") == render(make(), name)


@pytest.mark.parametrize("name", WRITERS)
def test_a_run_that_ended_before_it_was_described_is_written(
    name: ExportFormat,
) -> None:
    if name == "parquet":
        pytest.importorskip("polars")
    record = replace(make(), world=None, method=None, results=(), error="no GPU")
    assert b"nothing was timed" in render(record, name)


def test_a_run_without_cases_is_a_usage_error() -> None:
    record = make()
    with pytest.raises(UsageError, match="has no cases"):
        render(replace(record, plan=replace(record.plan, cases=())), "csv")
