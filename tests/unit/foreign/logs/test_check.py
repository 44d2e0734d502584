"""Rows that contradict themselves are left out, and said."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from busbw.foreign.logs.row_words import is_number, printed
from busbw.foreign.logs.solve import Consensus, ranks_of
from busbw.model.record import RunRecord


@pytest.fixture
def damaged(
    published_by_name: dict[str, Any], imported: Callable[..., list[RunRecord]]
) -> Callable[[str, str], list[tuple[str, int]]]:
    """The findings of a published log in which a text was replaced."""

    def find(old: str, new: str) -> list[tuple[str, int]]:
        text = published_by_name["GB200 one rack"].text()
        assert text.count(old) == 1
        (record,) = imported(text.replace(old, new), op="all_reduce")
        assert record.source is not None
        return [
            (finding.text, finding.line) for finding in record.source.findings if finding.kind == "damaged"
        ]

    return find


def test_damage(damaged: Callable[[str, str], list[tuple[str, int]]]) -> None:
    """The row of 2 GiB is line 8 of the log."""
    assert damaged("5589.1", "6589.1") == [("left out: algbw is not size / time", 8)]


@pytest.mark.parametrize("ranks", [2, 1024])
@pytest.mark.parametrize(("name", "limit"), [("all_reduce", 2), ("all_gather", 1)])
def test_every_number_of_ranks_is_found_again(ranks: int, name: str, limit: int) -> None:
    factor = limit * (ranks - 1) / ranks
    found = ranks_of(name, Consensus(factor * (1 - 1e-8), factor * (1 + 1e-8), 1, 1))
    assert found is not None
    assert found.only == ranks


@pytest.mark.parametrize(
    ("token", "value", "half"),
    [
        ("164.3", 164.3, 0.05),
        ("13552", 13552.0, 0.5),
        ("0.00", 0.0, 0.005),
        ("1.2e+06", 1.2e6, 5e4),
        ("nan", np.nan, 0),
    ],
)
def test_digits_leave_half_a_unit_open(token: str, value: float, half: float) -> None:
    found = printed([token])
    assert found.value[0] == pytest.approx(value, nan_ok=True)
    assert found.half[0] == pytest.approx(half)


@pytest.mark.parametrize("token", ["1_0", "0x1", "164e3", "+1", "1.2.3", "", "infinity", "\u0661", "-1.0"])
def test_what_printf_does_not_write_is_no_number(token: str) -> None:
    assert not is_number(token)


def test_rows_that_are_there_twice_are_said(
    published_by_name: dict[str, Any], imported: Callable[..., list[RunRecord]]
) -> None:
    lines = published_by_name["GB200 one rack"].text().splitlines()
    (record,) = imported("\n".join([*lines[:8], lines[7], *lines[8:]]))
    assert record.source is not None
    (said,) = [f.text for f in record.source.findings if f.kind == "repeated"]
    assert said == "2 of 12 cases repeat an earlier one and were kept as further cycles"


def test_a_text_that_ends_inside_its_last_number(imported: Callable[..., list[RunRecord]]) -> None:
    text = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n4   20.30\n8   21.35"
    assert len(imported(text, ranks=4)[0].results) == 2
    (record,) = imported(text[:-1], ranks=4)
    assert record.source is not None
    assert (len(record.results), [f.kind for f in record.source.findings]) == (1, ["damaged"])
