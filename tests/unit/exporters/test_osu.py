"""The text table of OSU collectives, read by a small parser written from its description."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.exporters.formats import render
from busbw.exporters.rows import tables
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import Status

SHARED = {"all_gather", "all_gatherv", "alltoall", "alltoallv", "gather", "scatter"}
NOT_OSU = {"sendrecv", "hypercube", "permute"}


def parse(text: str) -> list[list[tuple[int, str]]]:
    """Tables of (size, latency), which begin with a heading; a barrier's latency has size 0."""
    found: list[list[tuple[int, str]]] = []
    for line in text.splitlines():
        if re.match(r"# (Size +)?Avg Latency\(us\)$", line):
            found.append([])
        elif line and not line.startswith("#"):
            words = line.split()
            found[-1].append((int(words[0]) if len(words) > 1 else 0, words[-1]))
    return found


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_text_is_the_record_within_its_digits(
    any_table: st.SearchStrategy[RunRecord], data: st.DataObject
) -> None:
    record = data.draw(any_table)
    (table,) = tables(record)
    assume(table.collective not in NOT_OSU)
    assert record.world is not None
    blocks = record.world.size if table.collective in SHARED else 1
    written = sorted(pair for rows in parse(render(record, "osu").decode()) for pair in rows)
    expected = []
    for placement in Placement:
        for rows in _by_type(record).values():
            sides = [(row, row.side(placement)) for row in rows]
            if all(result is None or result.status is Status.NOT_APPLICABLE for _, result in sides):
                continue
            for row, result in sides:
                good = result is not None and result.status is Status.GOOD
                time = f"{(result.time_ns or 0) / 1000:.2f}" if good and result else "nan"
                expected.append((row.case.size_bytes // blocks, time))
    assert written == sorted(expected)


def _by_type(record: RunRecord) -> dict[str, list]:  # type: ignore[type-arg]
    found: dict[str, list] = {}  # type: ignore[type-arg]
    for row in tables(record)[0].rows:
        found.setdefault(row.case.dtype, []).append(row)
    return found


def test_the_layout_is_that_of_the_original(make: Callable[..., RunRecord]) -> None:
    text = render(make("all_gather", sizes=(1024, 2**30), both=((1e4, 2e4), (1.5e9, 2.0))), "osu").decode()
    assert (
        "\n# OSU NCCL Allgather Latency Test v7.4\n"
        "# Datatype: MPI_FLOAT.\n"
        "# Size       Avg Latency(us)\n"
        "256                    10.00\n"
        "268435456         1500000.00\n"
    ) in text
    assert "# busbw: all_gather float out-of-place, 4 ranks, checked; Size = bytes of one block of 4" in text
    assert "# busbw: time = median over samples of the maximum over ranks" in text


def test_a_barrier_has_no_size(make: Callable[..., RunRecord]) -> None:
    text = render(make("barrier", sizes=(0,), both=((2310.0, Status.NOT_APPLICABLE),)), "osu").decode()
    assert "# OSU NCCL Barrier Latency Test v7.4\n# Avg Latency(us)\n             2.31\n" in text


def test_what_is_not_good_is_nan_and_named(make: Callable[..., RunRecord]) -> None:
    text = render(make(both=((Status.WRONG, 1.0), (Status.FAILED, 1.0))), "osu").decode()
    assert f"1024{'nan':>24}\n4096{'nan':>24}\n" in text
    assert "# busbw: WRONG, out-of-place, 1 case (1024 B): 17 wrong elements" in text


def test_sizes_without_equal_blocks_are_refused(make: Callable[..., RunRecord]) -> None:
    with pytest.raises(UsageError, match="all_gatherv of 1030 B has no equal ones"):
        render(make("all_gatherv", sizes=(1024, 1030)), "osu")


def test_an_operation_without_a_test_is_refused(make: Callable[..., RunRecord]) -> None:
    with pytest.raises(UsageError, match="OSU has no test for sendrecv"):
        render(make("sendrecv"), "osu")
