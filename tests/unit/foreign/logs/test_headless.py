"""Rows without what stands above them: a log that lost its beginning, lines that lost their prefix."""

import pytest
from busbw_testing.logs import PUBLISHED, imported, kinds, nccl_table

from busbw.foreign.logs.scan import layout_of_row
from busbw.foreign.read_any import TOOLS


def tail(text: str, lines: int) -> str:
    """What ``kubectl logs --tail`` leaves."""
    return "".join(text.splitlines(keepends=True)[-lines:])


@pytest.mark.parametrize("prefix", ["", "[pod/nccl-x7k2p/nccl] "])
def test_rows_without_their_heading_are_kept(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in nccl_table(3).splitlines())
    (whole,) = imported(text)
    (record,) = imported(tail(text, 24), op="all_reduce")
    rows = len(record.results) // 2
    assert rows == 24 - 4  # four lines below the rows
    assert [r.time_ns for r in record.results] == [r.time_ns for r in whole.results[-2 * rows :]]
    assert [c.size_bytes for c in record.plan.cases] == [c.size_bytes for c in whole.plan.cases[-2 * rows :]]
    assert record.world.size == 16  # by the rows
    assert kinds(record) == ["no-heading", "rows-missing"]
    assert record.source.header["out_of_bounds"] == 0


def test_the_tool_is_found_by_the_row() -> None:
    rows = "".join(
        f"{1 << power:14}{1 << power - 2:16}{'fp32':>8}{(1 << power) / 1e4:16.2f}{10:15.2f}{18.75:15.2f}\n"
        for power in range(14, 20)
    )
    (record,) = imported(rows)
    assert (record.source.tool, record.plan.cases[0].collective, record.world.size) == (
        "nccom-test",
        "all_reduce",
        16,
    )


@pytest.mark.parametrize(
    ("row", "tool"),
    [
        ("1048576 262144 float sum -1 100.0 10.49 18.35 0 101.0 10.38 18.17 0", "nccl-tests"),
        ("1048576 262144 float sum -1 100.0 10.49 18.35 N/A 101.0 10.38 18.17 N/A", "nccl-tests"),
        ("1048576 262144 fp32 100.0 10.49 18.35", "nccom-test"),
        ("1073741824 268435456 fp32 18930 52.83 52.83", "nccom-test"),  # GiB/s
        # Not the columns that they would have to be.
        ("1048576 262144 flaot sum -1 100.0 10.49 18.35 0 101.0 10.38 18.17 0", ""),
        ("1024 20.00", ""),
    ],
)
def test_only_rows_that_say_what_they_are(row: str, tool: str) -> None:
    found = layout_of_row(row.split(), TOOLS)
    assert (found[0].name if found is not None else "") == tool


def test_a_row_that_lost_its_prefix_is_said() -> None:
    lines = [f"0: {line}\n" for line in nccl_table(3).splitlines()]
    number = next(at for at, line in enumerate(lines) if line.split()[1].isdigit()) + 5
    for damaged in (lines[number][3:], "x" + lines[number], "0 " + lines[number][3:]):
        (record,) = imported("".join([*lines[:number], damaged, *lines[number + 1 :]]))
        assert len(record.results) == 2 * 28
        assert "damaged" in kinds(record)
        assert next(f.line for f in record.source.findings if f.kind == "damaged") == number + 1


def test_a_row_without_a_prefix_is_not_that_of_the_stream_before() -> None:
    """Two tables, the lines of one with a prefix: each row belongs to its own."""
    first = PUBLISHED["GB200 twenty racks"].text().splitlines()
    second = PUBLISHED["GB200 two racks labelled 144"].text().splitlines()
    records = imported("".join(f"0: {a}\n{b}\n" for a, b in zip(first, second, strict=True)))
    assert [(record.source.stream, record.world.size) for record in records] == [("0:", 1440), ("", 128)]
    assert all(kinds(record) in ([], ["mislabelled"]) for record in records)


def test_rows_below_a_table_that_has_ended_are_perhaps_another_jobs() -> None:
    text = nccl_table(3)
    rows = [line for line in text.splitlines() if line.strip()[:1].isdigit()]
    first, second = imported(text + "\n".join(rows) + "\n", op="all_reduce", ranks=16)
    assert (len(first.results), len(second.results)) == (58, 58)
    assert "did two jobs write this log at the same time?" in second.source.findings[0].text
