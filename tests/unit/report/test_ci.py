"""Verdicts as JUnit XML and as JSON of github-action-benchmark: what their readers find in them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from busbw_testing.compared import record_of
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from busbw.judge.compare import compare
from busbw.judge.compare_arms import make_arm
from busbw.judge.expectation import Gate, Judged, Judgement, expect
from busbw.judge.own_reference import launches_of, reference_of
from busbw.judge.scatter import Prior
from busbw.model.record import RunRecord
from busbw.model.result import Status
from busbw.report import ci

OLD = record_of({1 << 20: 100.0, 1 << 21: 200.0, 1 << 22: 400.0}, ranks=2)


def read(text: str, path: Path) -> tuple[JUnitXml, dict[str, TestCase]]:
    path.write_text(text, encoding="utf-8")
    xml = JUnitXml.fromfile(str(path))
    found = {case.name: case for suite in xml for case in suite if isinstance(suite, TestSuite)}
    return xml, found


def with_a_wrong_case(record: RunRecord) -> RunRecord:
    """At 1 MiB."""
    results = list(record.results)
    at = next(case.index for case in record.plan.cases if case.size_bytes == 1 << 20)
    none = {"busbw_gb_per_s": None, "time_ns": None}
    error = "rank 1 \x1b[31m<bad> & wrong"
    results[at] = replace(results[at], status=Status.WRONG, wrong=3, error=error, **none)
    return replace(record, results=tuple(results))


def test_rows_below_are_failures_and_wrong_data_errors(tmp_path: Path) -> None:
    references = reference_of("old", OLD, launches_of([OLD]))
    run = with_a_wrong_case(
        record_of({1 << 20: 100.0, 1 << 21: 200.0, 1 << 22: 900.0, 1 << 19: 50.0}, ranks=2)
    )
    expectation = expect([replace(run, run_id="new")], references, named=True, prior=Prior(on_device=True))
    answers = [case.answer for case in sorted(expectation.cases, key=lambda case: case.key.size_bytes)]
    judged = (Judgement.NO_REFERENCE, Judgement.FAILED, Judgement.EXPECTED, Judgement.BELOW)
    assert tuple(answers) == judged
    gates = [
        ("9 GB/s from 1 MiB on: fail (1 MiB 3)", Gate.FAIL),
        ("1 GB/s from 1 MiB on: pass (4 cases)", Gate.PASS),
    ]
    suite = ci.of_expectation(expectation, gates)
    xml, cases = read(ci.junit_text([suite]), tmp_path / "junit.xml")
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == (6, 2, 1, 1)
    kind = expectation.cases[0].key.kind
    results = {name: [type(each) for each in case.result] for name, case in cases.items()}
    assert results == {
        f"{kind}, 1 MiB": [Error],
        f"{kind}, 2 MiB": [],
        f"{kind}, 4 MiB": [Failure],
        f"{kind}, 512 KiB": [Skipped],
        "9 GB/s from 1 MiB on": [Failure],
        "1 GB/s from 1 MiB on": [],
    }
    assert "<bad> & wrong" in cases[f"{kind}, 1 MiB"].result[0].message
    below = next(case for case in expectation.cases if case.answer is Judgement.BELOW)
    message = cases[f"{kind}, 4 MiB"].result[0].message
    assert message.startswith(f"{below.measured_gb_per_s:.4g} GB/s: below, 44% of the ")
    assert message.endswith(f"where {below.bound_gb_per_s:.4g} GB/s is the least")


def test_slower_is_a_failure_against_its_baseline(tmp_path: Path) -> None:
    slow = with_a_wrong_case(record_of({1 << 20: 100.0, 1 << 21: 200.0, 1 << 22: 4000.0}, ranks=2))
    comparison = compare([make_arm("before", [OLD]), make_arm("after", [slow])])
    xml, cases = read(ci.junit_text([ci.of_comparison("2 nodes", comparison)]), tmp_path / "junit.xml")
    assert [suite.name for suite in xml] == ["busbw compare 2 nodes"]
    outcomes = {name.rpartition(", ")[2]: case.result for name, case in cases.items()}
    assert [type(each) for each in outcomes["1 MiB"]] == [Error]
    assert [type(each) for each in outcomes["4 MiB"]] == [Failure]
    assert outcomes["4 MiB"][0].message.startswith("slower by ")
    assert outcomes["4 MiB"][0].message.endswith(", against before")


def test_several_candidates_are_told_apart_by_name() -> None:
    arms = [make_arm(name, [OLD]) for name in ("before", "x", "y")]
    points = json.loads(ci.benchmark_text([ci.of_comparison("", compare(arms))]))
    assert len({point["name"] for point in points}) == len(points) == 6
    assert {point["name"].partition(": ")[0] for point in points} == {"x", "y"}


def test_the_benchmark_has_the_fields_of_its_action() -> None:
    expectation = expect([OLD], ())
    case = replace(expectation.cases[0], low_gb_per_s=9.5, high_gb_per_s=11.5)
    nothing = Judged(replace(case.key, size_bytes=1), Judgement.FAILED, "died")
    points = json.loads(ci.benchmark_text([ci.of_expectation(replace(expectation, cases=(case, nothing)))]))
    [point] = points
    assert "no reference" in point.pop("extra")
    value = pytest.approx(case.measured_gb_per_s)
    assert point == {
        "name": f"{case.key.kind}, 1 MiB", "unit": "GB/s", "value": value, "range": "9.5 to 11.5"
    }  # fmt: skip
