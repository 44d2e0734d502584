"""The line of a check: the worst that is known, and no alarm over what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.errors import ExitCode
from busbw.judge.expectation import Gate, expect
from busbw.judge.own_reference import launches_of, reference_of
from busbw.judge.scatter import Prior
from busbw.model.record import RunRecord
from busbw.model.result import Status, WrongData
from busbw.report.check import check_code, check_line, prometheus_text

SIZES = {1 << 20: 100.0, 1 << 30: 400.0}
LEVEL = record_of(SIZES, ranks=2)


def said(record: RunRecord, gates: list[tuple[str, Gate]] | None = None) -> tuple[ExitCode, str]:
    references = reference_of("old", LEVEL, launches_of([LEVEL]))
    new = replace(record, run_id="new")
    expectation = expect([new], references, named=True, prior=Prior(on_device=True))
    code = check_code(new, expectation, gates or [])
    assert f"busbw_check_exit_code {int(code)}\n" in prometheus_text(new, expectation, code, 0.0)
    return code, check_line(new, expectation, gates or [], code)


def test_a_size_below_its_level_is_named() -> None:
    """Times, so that twice as long is half of the bandwidth."""
    code, line = said(record_of({1 << 20: 100.0, 1 << 30: 800.0}, ranks=2))
    assert code is ExitCode.BAD_VERDICT
    assert line.startswith("ERROR busbw: all_reduce 1G ")
    assert line.endswith(" GB/s, 50 % of its level")


def test_what_is_as_before_is_ok_with_the_best_size() -> None:
    code, line = said(LEVEL)
    assert code is ExitCode.OK
    assert line.startswith("OK busbw: all_reduce ")
    assert line.endswith(" GB/s, 100 % of its level, 0 wrong")


def test_wrong_data_come_first() -> None:
    wrong = WrongData(1, "node7", 3, 17)
    results = [replace(each, status=Status.WRONG, wrong=3, wrong_at=(wrong,)) for each in LEVEL.results]
    code, line = said(replace(LEVEL, results=tuple(results)))
    assert code is ExitCode.BAD_VERDICT
    assert line == "ERROR busbw: all_reduce 1M: 3 wrong elements on rank 1 (node7)"


@pytest.mark.parametrize(
    ("gate", "code", "word"),
    [(Gate.FAIL, 1, "ERROR"), (Gate.UNDECIDED, 3, "UNDECIDED"), (Gate.PASS, 0, "OK")],
)
def test_a_limit_decides_too(gate: Gate, code: int, word: str) -> None:
    found, line = said(LEVEL, [(f"9 GB/s from 1 MiB on: {gate}", gate)])
    assert (found, line.split()[0]) == (code, word)


def test_what_was_not_measured_is_no_ok() -> None:
    first, *others = LEVEL.results
    lacking = replace(
        first, status=Status.NOT_RUN, time_ns=None, busbw_gb_per_s=None, error="the budget ended"
    )
    code, line = said(replace(LEVEL, results=(lacking, *others)))
    assert (code, line) == (
        ExitCode.UNDECIDED,
        "UNDECIDED busbw: all_reduce 1M: no time was left to measure it",
    )
