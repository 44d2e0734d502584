"""Rows that contradict themselves or all others are left out, and said."""

import math

import pytest
from busbw_testing.logs import NEW_HEADING, PUBLISHED, format_row, imported, kinds

from busbw.foreign.logs.row_words import is_number, printed


def damaged(old: str, new: str) -> list[tuple[str, int]]:
    """The findings of a published log in which a text was replaced."""
    text = PUBLISHED["GB200 one rack"].text()
    assert text.count(old) == 1
    (record,) = imported(text.replace(old, new), op="all_reduce")
    return [(found.text, found.line) for found in record.source.findings if found.kind == "damaged"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        # The row of 2 GiB is line 8 of the log.
        (
            "536870912     float     sum      -1   5589.1",
            "536870913     float     sum      -1   5589.1",
            "count times",
        ),
        ("5589.1", "6589.1", "algbw is not size / time"),
        ("757.78", "857.78", "busbw / algbw"),
    ],
)
def test_damage(old: str, new: str, why: str) -> None:
    ((text, line),) = damaged(old, new)
    assert why in text
    assert line == 8


@pytest.mark.parametrize(
    ("token", "value", "half"),
    [
        ("13552", 13552.0, 0.5),
        ("0.00", 0.0, 0.005),
        ("1.2e+06", 1.2e6, 5e4),
        ("nan", math.nan, 0),
    ],
)
def test_digits_leave_half_a_unit_open(token: str, value: float, half: float) -> None:
    found = printed(token)
    assert found.value == pytest.approx(value, nan_ok=True)
    assert found.half == pytest.approx(half)


@pytest.mark.parametrize("token", ["1_0", "0x1", "164e3", "+1", "", "infinity", "\u0661"])
def test_what_printf_does_not_write_is_no_number(token: str) -> None:
    assert not is_number(token)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("1048576 262144 float sum -1 100.0 11.49 20.11 0 100.0 10.49 18.35 0", "algbw is not size / time"),
        ("1048576 262144 float sum -1 0.00 0.00 0.00 0 100.0 10.49 18.35 0", "a time is not positive"),
    ],
)
def test_a_single_row_that_contradicts_itself_is_damaged(row: str, why: str) -> None:
    text = f"# Collective test starting: all_reduce_perf\n{NEW_HEADING}{format_row(row)}\n"
    (record,) = imported(text, ranks=8)
    assert record.results == ()
    assert why in " ".join(f.text for f in record.source.findings if f.kind == "damaged")


def test_rows_that_are_there_twice_are_said() -> None:
    lines = PUBLISHED["GB200 one rack"].text().splitlines()
    (record,) = imported("\n".join([*lines[:8], lines[7], *lines[8:]]))
    (said,) = [f.text for f in record.source.findings if f.kind == "repeated"]
    assert said == (
        "2 of 12 cases repeat an earlier one and were kept as further cycles; 2 have the same time too:"
        " were lines copied?"
    )


def test_other_output_is_told_from_a_damaged_row_by_the_average() -> None:
    """No row is missing where the printed average is that of the rows, and would not be with one more."""
    lines = PUBLISHED["GB200 one rack"].text().splitlines()
    for kept, kind in ((lines[8:], "other-output"), (lines[9:], "damaged")):
        (record,) = imported("\n".join([*lines[:8], "8 2 float sum -1 1 2 3", *kept]))
        assert record.source.findings[0].kind == kind


def test_an_algbw_of_another_formula_is_not_taken() -> None:
    """All rows have it, so that none of them is damaged."""
    text = f"# Collective test starting: all_reduce_perf\n{NEW_HEADING}"
    for size in (1 << 20, 1 << 22, 1 << 24):
        side = f" 100.0 {1.5 * size / 1e5:.2f} {1.5 * size / 1e5:.2f} 0"
        text += format_row(f"{size} {size // 4} float sum -1{side}{side}") + "\n"
    (record,) = imported(text, ranks=2)
    assert kinds(record) == ["contradiction", "no-end"]
    assert record.results[-1].algbw_gb_per_s == pytest.approx((1 << 24) / 1e5)
