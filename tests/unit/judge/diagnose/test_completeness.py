"""Runs and logs that did not come to their end, or lost something since."""

from __future__ import annotations

from dataclasses import replace

import pytest
from busbw_testing.compared import record_of
from busbw_testing.diagnosed import conclusions, every_conclusion

from busbw.errors import ExitCode
from busbw.judge.diagnose.engine import answer, exit_code
from busbw.model.conclusion import Answer, Question
from busbw.model.finding import Severity
from busbw.model.record import ImportFinding, ImportSource, RunRecord, RunStatus
from busbw.model.result import Status, not_run
from busbw.report import diagnosis

DIED = "the test ended with: node3: Test CUDA failure common.cu:1023 'an illegal memory access'"


def cut_short(status: RunStatus, finished: int = 2, **fields: object) -> RunRecord:
    """Of four cases some were measured."""
    record = record_of({1024: 10.0, 2048: 11.0, 4096: 12.0, 8192: 13.0}, ranks=4)
    results = (*record.results[:finished], *not_run(4, finished))
    return replace(record, status=status, results=results, **fields)  # type: ignore[arg-type]


def log(*noticed: ImportFinding, status: RunStatus = RunStatus.COMPLETE, **fields: object) -> RunRecord:
    """With all of its cases, and what was noticed in it."""
    return cut_short(status, 4, source=ImportSource("a.log", "nccl-tests", findings=noticed), **fields)


@pytest.mark.parametrize(
    ("status", "error", "severity", "claim"),
    [
        (RunStatus.INTERRUPTED, "", Severity.WARNING, "the run was interrupted; 2 of 4"),
        (RunStatus.FAILED, "rank 3 is lost", Severity.ERROR, "the run failed: rank 3 is lost; 2 of 4"),
        (RunStatus.RUNNING, "", Severity.WARNING, "the record has no end: the run goes on, or was killed; 2"),
    ],
)  # fmt: skip
def test_how_a_run_ended_stands_at_the_head(
    status: RunStatus, error: str, severity: Severity, claim: str
) -> None:
    found = every_conclusion(cut_short(status, error=error))
    assert (found[0].check, found[0].severity, found[0].answer) == ("whole.status", severity, Answer.NO)
    assert found[0].claim.startswith(claim)
    assert found[0].claim.endswith("cases were not measured")
    assert exit_code(found) is ExitCode.BAD_VERDICT
    answers = {question: answer(question, found) for question in Question}
    text = list(diagnosis.lines(cut_short(status, error=error), answers, found))
    assert " ".join(text[1].split()).startswith(f"whole NO {claim}")


def test_a_log_whose_test_died_is_an_error_with_its_words() -> None:
    record = log(ImportFinding("cut", DIED, 21), status=RunStatus.INTERRUPTED, error=DIED)
    found = [each for each in every_conclusion(record) if each.question is Question.WHOLE]
    assert [(each.check, each.severity, each.claim) for each in found] == [
        ("whole.status", Severity.ERROR, DIED)
    ]


def test_a_log_without_its_end_is_a_warning_and_other_remarks_are_none() -> None:
    noticed = (
        ImportFinding("no-end", "the line with the average is missing", 14),
        ImportFinding("unit", "GiB"),
    )
    found = every_conclusion(log(*noticed))
    assert found[0].claim == "the log is not whole: line 14: the line with the average is missing"
    assert (found[0].severity, answer(Question.WHOLE, found)) == (Severity.WARNING, Answer.NO)
    assert answer(Question.WHOLE, every_conclusion(log(*noticed[1:]))) is Answer.YES


def test_a_run_that_ended_as_it_was_told_to_is_no_warning() -> None:
    """A budget that was used up."""
    record = cut_short(RunStatus.COMPLETE)
    results = tuple(
        replace(each, error="the budget of 10 s was used up") if at > 1 else each
        for at, each in enumerate(record.results)
    )
    found = conclusions(replace(record, results=results))["whole.status"]
    assert (found.severity, found.answer) == (Severity.INFO, Answer.UNDECIDED)
    assert found.claim == "2 of 4 cases were not measured"
    assert found.evidence == "the budget of 10 s was used up"


def test_failed_cases_do_not_make_a_run_whole() -> None:
    record = record_of({1024: 10.0, 4096: 20.0})
    first, *rest = record.results
    failed = replace(first, status=Status.FAILED, time_ns=None, error="no")
    found = conclusions(replace(record, status=RunStatus.FAILED, results=(failed, *rest)))["whole.status"]
    assert found.claim == "1 of 2 cases failed"
    assert found.answer is Answer.UNDECIDED


def test_a_log_that_contradicts_its_name_is_whole_and_a_warning_says_so() -> None:
    text = "the path says all_gather, but size, count and factor fit only all_reduce"
    record = log(ImportFinding("mislabelled", text, 1))
    found = [each for each in every_conclusion(record) if each.question is Question.WHOLE]
    assert answer(Question.WHOLE, found) is Answer.YES
    assert [(each.severity, each.claim) for each in found if each.check == "whole.labels"] == [
        (Severity.WARNING, text)
    ]
