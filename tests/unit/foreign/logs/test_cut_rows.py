"""A text cut inside a number, a row and other output in one line, columns in another order."""

from collections.abc import Callable

import pytest
from busbw_testing.logs import TOOL_TABLES, imported, rows_of

from busbw.model.record import RunRecord

Imported = Callable[..., list[RunRecord]]
INFO = "ip-10-0-1-2:14:20 [0] NCCL INFO comm 0x55 rank 0 nranks 16 - Init COMPLETE"


def damaged(record: RunRecord) -> list[tuple[int, str]]:
    return [(found.line, found.text) for found in record.source.findings if found.kind == "damaged"]


# ---- the end of a text ---------------------------------------------------------------------------------


def osu_row(decimals: int = 2) -> str:
    text = "# OSU MPI Allreduce Latency Test v7.4\n# Datatype: MPI_FLOAT.\n# Size       Avg Latency(us)\n"
    return text + f"{4:<10d}{20.30:20.{decimals}f}"


@pytest.mark.parametrize("lost", [1, 3, 4])
def test_a_text_that_ends_inside_its_only_number(lost: int) -> None:
    (record,) = imported(osu_row(), ranks=4)
    assert [result.time_ns for result in record.results] == [pytest.approx(20_300)]
    (record,) = imported(osu_row()[:-lost], ranks=4)
    assert len(record.results) == 0
    assert len(damaged(record)) == 1


def test_a_text_that_ends_inside_a_verdict() -> None:
    head = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)        Validation\n"
    row = f"{4:<10d}{20.30:20.2f}{'Fail':>18}"
    (record,) = imported(head + row, ranks=4)
    assert record.results[0].status.value == "wrong"
    (record,) = imported(head + row[:-1], ranks=4)
    assert (len(record.results), len(damaged(record))) == (0, 1)


# ---- a row and other output in one line ----------------------------------------------------------------


def test_a_whole_row_before_other_output_is_kept() -> None:
    lines = TOOL_TABLES["nccl-tests"](1).splitlines()
    rows = [number for number, line in enumerate(lines) if line.strip()[:1].isdigit()]
    (whole,) = imported("\n".join(lines) + "\n", op="all_reduce", ranks=16)
    at = rows[8]
    glued = [*lines[:at], lines[at] + INFO, "", *lines[at + 1 :]]
    (record,) = imported("\n".join(glued) + "\n", op="all_reduce", ranks=16)
    assert rows_of([record]) == rows_of([whole])
    assert [found.line for found in record.source.findings if found.kind == "joined"] == [at + 1]
    cut = [*lines[:at], lines[at][:-1] + INFO, "", *lines[at + 1 :]]
    (record,) = imported("\n".join(cut) + "\n", op="all_reduce", ranks=16)
    assert rows_of([record]) < rows_of([whole])


# ---- blanks and quotes around a line -------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOL_TABLES)
@pytest.mark.parametrize(
    "change", [str.strip, lambda line: line.replace("  ", "\t"), lambda line: f'        "{line}", ']
)
def test_rows_without_padding_are_read(tool: str, change: Callable[[str], str]) -> None:
    """An editor, or Ansible's list of a command's lines."""
    text = TOOL_TABLES[tool](1)
    changed = "".join(f"{change(line)}\n" for line in text.splitlines())
    (wanted,), (found,) = (imported(each, op="all_reduce", ranks=16) for each in (text, changed))
    assert (found.results, damaged(found)) == (wanted.results, damaged(wanted))
