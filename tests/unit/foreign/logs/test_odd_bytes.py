"""Bytes that belong to no text, ends of lines of other systems, reports cut and among other words."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from busbw_testing.logs import AWS_ROWS, aws_csv, imported, kinds, nccl_report, nccom_report

from busbw.foreign.aws_kit.read_csv import is_csv
from busbw.model.record import RunStatus

REPORTS = {"nccl-tests": nccl_report, "nccom-test": nccom_report}


def quoted(text: str) -> str:
    return "".join(",".join(f'"{cell}"' for cell in line.split(",")) + "\n" for line in text.splitlines())


def test_csv_with_quotes() -> None:
    text = aws_csv(*AWS_ROWS)
    (wanted,), (found,) = (imported(each, op="all_reduce", ranks=16) for each in (text, quoted(text)))
    assert len(wanted.results) == 6
    assert (found.plan.cases, found.results) == (wanted.plan.cases, wanted.results)
    assert is_csv(quoted(text).splitlines()[0])


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize(
    "around",
    [
        lambda text: "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines()),
        lambda text: f"starting\nNeuron 2.31\n{text}\ndone\n",
    ],
)
def test_reports_behind_prefixes_and_among_other_words(
    report: Callable[[], dict[str, Any]], around: Callable[[str], str]
) -> None:
    text = json.dumps(report(), indent=1)
    (wanted,), (found,) = (imported(each, op="all_reduce", ranks=4) for each in (text, around(text)))
    assert (found.plan.cases, found.results) == (wanted.plan.cases, wanted.results)
    assert found.source.findings == wanted.source.findings


def test_a_second_report_is_not_lost_without_a_word() -> None:
    report = json.dumps(nccom_report(), indent=1)
    records = imported(f"first\n{report}\nsecond\n{report}\n", op="all_reduce", ranks=4)
    assert "cut" in kinds(records[0])


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_cut_report_keeps_its_good_rows(report: Callable[..., dict[str, Any]], indent: int | None) -> None:
    text = json.dumps(report(rows=12), indent=indent)
    (whole,), (cut,) = (imported(each, op="all_reduce") for each in (text, text[: len(text) * 9 // 10]))
    kept = {result.time_ns for result in cut.results} - {None}
    assert kept < {result.time_ns for result in whole.results}
    assert len(kept) >= len(whole.results) * 0.75
    assert cut.status is RunStatus.INTERRUPTED
    assert "cut" in kinds(cut)
