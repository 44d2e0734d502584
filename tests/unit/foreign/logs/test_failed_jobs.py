"""Logs of tests that failed: before their table, in it, between tests that did not."""

# ruff: noqa: E501 (lines are as long as their programs make them)

import pytest
from busbw_testing.diagnosed import every_conclusion
from busbw_testing.logs import TOOL_TABLES, imported, nccl_table

from busbw.model.conclusion import Answer, Question
from busbw.model.record import RunRecord, RunStatus

FAILURE = "node1: Test NCCL failure common.cu:958 'unhandled system error'\n .. node1 pid 12: Test failure common.cu:1080\n"
ENDS = {
    "nccl-tests": FAILURE,
    "Slurm": "slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-21T18:15:02 DUE TO TIME LIMIT ***\n",
    "srun": "srun: error: node1: task 3: Killed\n",
}


# A test that did not come to its heading; a table up to its 17th row.
BEGUN = nccl_table(5).partition(
    "#                                                              out-of-place"
)[0]
HALF = nccl_table(6).partition(f"{2**20:>12}  ")[0]


def words(record: RunRecord) -> tuple[str, int, str]:
    return record.status.value, len(record.results), record.error


@pytest.mark.parametrize("name", ENDS)
def test_a_test_that_ended_in_its_table(name: str) -> None:
    """Its rows are kept, and the words say why there are no more; a launcher's have no prefix."""
    text = "".join(f"0: {line}\n" for line in HALF.splitlines())
    (record,) = imported(text + ENDS[name])
    assert words(record)[:2] == ("interrupted", 34)
    assert record.error == "the test ended with: " + " ".join(ENDS[name].splitlines()[0].split())
    (finding,) = record.source.findings
    assert (finding.kind, finding.line) == ("cut", len(HALF.splitlines()) + 1)


@pytest.mark.parametrize("tool", ["osu", "imb", "nccom-test"])
def test_a_table_without_an_end_of_its_own(tool: str) -> None:
    lines = TOOL_TABLES[tool](1).splitlines(keepends=True)
    (record,) = imported("".join(lines[:15]) + ENDS["Slurm"], op="all_reduce", ranks=16)
    assert record.status is RunStatus.INTERRUPTED


def test_a_test_that_failed_between_others_is_a_failed_run() -> None:
    found = imported(nccl_table(1) + BEGUN + FAILURE + nccl_table(2) + BEGUN + FAILURE)
    error = "the test ended with: node1: Test NCCL failure common.cu:958 'unhandled system error'"
    assert [words(record) for record in found] == [
        ("complete", 58, ""),
        ("failed", 0, error),
        ("complete", 58, ""),
        ("failed", 0, error),
    ]
    assert [record.world.size for record in found if record.world] == [16] * 4


def test_words_of_a_failure_elsewhere_end_nothing() -> None:
    """Before the last row, in another job's stream; a header that is there twice."""
    text = nccl_table(1)
    (in_front,) = imported(ENDS["srun"] + text)
    (between,) = imported(HALF + ENDS["srun"] + text[text.index(f"{2**20:>12}  ") :])
    assert [words(record)[0] for record in (in_front, between)] == ["complete"] * 2
    streams = "".join(f"0: {line}\n" for line in HALF.splitlines()) + "1: " + ENDS["srun"]
    assert [words(record)[0] for record in imported(streams)] == ["complete"]
    head = text[: text.index("# Using devices")]
    assert [words(record)[0] for record in imported(head + text)] == ["complete"]


@pytest.mark.parametrize("name", ENDS)
def test_a_job_that_failed_behind_its_table(name: str) -> None:
    """All its rows are kept, and the next launch has no part in it."""
    first, second = imported(nccl_table(1) + ENDS[name] + nccl_table(2))
    assert words(first) == words(second) == ("complete", 58, "")
    (finding,) = first.source.findings
    assert (finding.kind, finding.line) == ("job-failed", nccl_table(1).count("\n") + 1)
    assert finding.text == "the job ended with: " + " ".join(ENDS[name].splitlines()[0].split())
    assert second.source.findings == ()
    (whole,) = [each for each in every_conclusion(first) if each.question is Question.WHOLE]
    assert (whole.check, whole.answer, whole.claim) == ("whole.job", Answer.NO, finding.text)


def test_a_header_that_only_has_a_failed_test() -> None:
    (record,) = imported(BEGUN + FAILURE)
    assert words(record) == (
        "failed",
        0,
        "the log has no rows; it ends with: .. node1 pid 12: Test failure common.cu:1080",
    )
