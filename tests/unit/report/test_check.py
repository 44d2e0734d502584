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


FIRST = LEVEL.results[0]
UNMEASURED = replace(
    FIRST, status=Status.NOT_RUN, time_ns=None, busbw_gb_per_s=None, error="the budget ended"
)
WRONG = replace(FIRST, status=Status.WRONG, wrong=3, wrong_at=(WrongData(1, "node7", 3, 17),))


@pytest.mark.parametrize(
    ("record", "code", "line"),
    [
        # Times, so that twice as long is half of the bandwidth.
        (
            record_of({1 << 20: 100.0, 1 << 30: 800.0}, ranks=2),
            1,
            "ERROR busbw: all_reduce 1G 1342 GB/s, 50 % of its level",
        ),
        (LEVEL, 0, "OK busbw: all_reduce 1G 2684 GB/s, 100 % of its level, 0 wrong"),
        (
            replace(LEVEL, results=(WRONG, LEVEL.results[1])),
            1,
            "ERROR busbw: all_reduce 1M: 3 wrong elements on rank 1 (node7)",
        ),
        (
            replace(LEVEL, results=(UNMEASURED, LEVEL.results[1])),
            3,
            "UNDECIDED busbw: all_reduce 1M: no time was left to measure it",
        ),
    ],
)
def test_the_line_is_the_worst_that_is_known(record: RunRecord, code: int, line: str) -> None:
    assert said(record) == (code, line)


@pytest.mark.parametrize(
    ("gate", "code", "word"),
    [(Gate.FAIL, 1, "ERROR"), (Gate.UNDECIDED, 3, "UNDECIDED"), (Gate.PASS, 0, "OK")],
)
def test_a_limit_decides_too(gate: Gate, code: int, word: str) -> None:
    found, line = said(LEVEL, [(f"9 GB/s from 1 MiB on: {gate}", gate)])
    assert (found, line.split()[0]) == (code, word)
