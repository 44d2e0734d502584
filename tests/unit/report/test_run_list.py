"""The list of runs: what it says, and that it fits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from busbw.report.run_list import Listed, table

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
RUN = Listed(
    run="20261127-090000-before-upgrade-3f9a",
    short="20261127-090000",
    made=NOW - timedelta(hours=3),
    kind="run",
    status="complete",
    verdict="complete",
    name="before-upgrade",
    backend="nccl",
    ranks=64,
    cases="28/28",
    operations=("all_reduce", "all_gather", "reduce_scatter"),
    sizes=(8, 8 << 30),
    device="H200",
    peak_busbw_gb_per_s=478.23,
    tags=("nightly",),
)
HUNT = replace(
    RUN,
    short="20261125-090000",
    made=NOW - timedelta(days=2),
    kind="isolate",
    name="",
    operations=("isolate",),
    sizes=(1 << 26, 1 << 26),
    verdict="SLOW node-with-a-long-name-0042,node-with-a-long-name-0043",
    peak_busbw_gb_per_s=None,
    tags=(),
)


def test_a_wide_terminal_shows_every_column_that_says_something() -> None:
    heading, first, second = table([RUN, HUNT], NOW, 200)
    assert heading.split()[-1] == "tags"
    assert first.split() == [
        *("20261127-090000", "3", "h", "before-upgrade", "all_reduce", "+2", "8-8G", "64", "H200", "478.2"),
        *("complete", "nightly"),
    ]
    assert second.split() == [
        *("20261125-090000", "2", "d", "isolate", "64M", "64", "H200", "SLOW", "node-with-a-long..."),
    ]
    assert "tags" not in table([HUNT], NOW, 200)[0]


@pytest.mark.parametrize("columns", [40, 80, 100, 120])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    lines = table([RUN, HUNT], NOW, columns)
    assert max(map(len, lines)) <= columns
    if columns >= 80:  # what is left out is not what was found
        assert "478.2" in lines[1]
        assert "SLOW node" in lines[2]


def test_runs_of_one_second_are_listed_by_what_finds_them() -> None:
    """Imports of one command: a name finds its run, and an id is whole."""
    named = replace(RUN, name="k18-osu-latency-pt2pt.log", short=RUN.run)
    nameless = replace(named, name="")
    for columns in (80, 100):
        _, first, second = table([named, nameless], NOW, columns)
        assert first.split()[0] == "20261127-090000"
        assert second.split()[0] == RUN.run


def test_a_pipe_gets_everything_whole() -> None:
    _, first, second = table([RUN, HUNT], NOW, None)
    assert first.startswith("20261127-090000-before-upgrade-3f9a  ")
    assert "all_reduce,all_gather,reduce_scatter" in first
    assert HUNT.verdict in second
