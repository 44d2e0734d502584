"""Logs of tests that failed: before their table, in it, between tests that did not."""

# ruff: noqa: E501 (lines are as long as their programs make them)

from collections.abc import Callable

import pytest
from busbw_testing.diagnosed import every_conclusion

from busbw.model.conclusion import Answer, Question
from busbw.model.record import RunRecord, RunStatus

FAILURE = "node1: Test NCCL failure common.cu:958 'unhandled system error'\n .. node1 pid 12: Test failure common.cu:1080\n"
ENDS = {
    "nccl-tests": FAILURE,
    "Slurm": "slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-21T18:15:02 DUE TO TIME LIMIT ***\n",
    "srun": "srun: error: node1: task 3: Killed\n",
    "Open MPI": "mpirun noticed that process rank 3 with PID 99 on node n1 exited on signal 9 (Killed).\n",
    "hydra": "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n",
    "kernel": "[12.5] Out of memory: Killed process 99 (all_reduce_perf)\n",
}


@pytest.fixture
def begun(nccl_table: Callable[[int], str]) -> str:
    """A test that did not come to its heading."""
    text = nccl_table(5)
    return text[: text.index("#                                                              out-of-place")]


@pytest.fixture
def half(nccl_table: Callable[[int], str]) -> str:
    """A table up to its 17th row."""
    text = nccl_table(6)
    return text[: text.index(f"{2**20:>12}  ")]


def words(record: RunRecord) -> tuple[str, int, str]:
    return record.status.value, len(record.results), record.error


@pytest.mark.parametrize("name", ENDS)
def test_a_test_that_ended_in_its_table(
    name: str, half: str, imported: Callable[..., list[RunRecord]]
) -> None:
    """Its rows are kept, and the words say why there are no more; a launcher's have no prefix."""
    text = "".join(f"0: {line}\n" for line in half.splitlines())
    (record,) = imported(text + ENDS[name])
    assert words(record)[:2] == ("interrupted", 34)
    assert record.error == "the test ended with: " + " ".join(ENDS[name].splitlines()[0].split())
    (finding,) = record.source.findings
    assert (finding.kind, finding.line) == ("cut", len(half.splitlines()) + 1)


@pytest.mark.parametrize("tool", ["osu", "imb", "nccom-test"])
def test_a_table_without_an_end_of_its_own(
    tool: str, tool_tables: dict[str, Callable[[int], str]], imported: Callable[..., list[RunRecord]]
) -> None:
    lines = tool_tables[tool](1).splitlines(keepends=True)
    (record,) = imported("".join(lines[:15]) + ENDS["Slurm"], op="all_reduce", ranks=16)
    assert record.status is RunStatus.INTERRUPTED


def test_a_test_that_failed_between_others_is_a_failed_run(
    begun: str, nccl_table: Callable[[int], str], imported: Callable[..., list[RunRecord]]
) -> None:
    found = imported(nccl_table(1) + begun + FAILURE + nccl_table(2) + begun + FAILURE)
    error = "the test ended with: node1: Test NCCL failure common.cu:958 'unhandled system error'"
    assert [words(record) for record in found] == [
        ("complete", 58, ""),
        ("failed", 0, error),
        ("complete", 58, ""),
        ("failed", 0, error),
    ]
    assert [record.world.size for record in found if record.world] == [16] * 4


def test_words_of_a_failure_elsewhere_end_nothing(
    half: str, nccl_table: Callable[[int], str], imported: Callable[..., list[RunRecord]]
) -> None:
    """Before the last row, in another job's stream; a header that is there twice."""
    text = nccl_table(1)
    (in_front,) = imported(ENDS["srun"] + text)
    (between,) = imported(half + ENDS["srun"] + text[text.index(f"{2**20:>12}  ") :])
    assert [words(record)[0] for record in (in_front, between)] == ["complete"] * 2
    streams = "".join(f"0: {line}\n" for line in half.splitlines()) + "1: " + ENDS["srun"]
    assert [words(record)[0] for record in imported(streams)] == ["complete"]
    head = text[: text.index("# Using devices")]
    assert [words(record)[0] for record in imported(head + text)] == ["complete"]


@pytest.mark.parametrize("name", ENDS)
def test_a_job_that_failed_behind_its_table(
    name: str, nccl_table: Callable[[int], str], imported: Callable[..., list[RunRecord]]
) -> None:
    """All its rows are kept, and the next launch has no part in it."""
    first, second = imported(nccl_table(1) + ENDS[name] + nccl_table(2))
    assert words(first) == words(second) == ("complete", 58, "")
    (finding,) = first.source.findings
    assert (finding.kind, finding.line) == ("job-failed", nccl_table(1).count("\n") + 1)
    assert finding.text == "the job ended with: " + " ".join(ENDS[name].splitlines()[0].split())
    assert second.source.findings == ()
    (whole,) = [each for each in every_conclusion(first) if each.question is Question.WHOLE]
    assert (whole.check, whole.answer, whole.claim) == ("whole.job", Answer.NO, finding.text)


def test_a_header_that_only_has_a_failed_test(begun: str, imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(begun + FAILURE)
    assert words(record) == (
        "failed",
        0,
        "the log has no rows; it ends with: .. node1 pid 12: Test failure common.cu:1080",
    )
