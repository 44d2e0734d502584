"""The text table of OSU collectives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from busbw.errors import UsageError
from busbw.foreign.forms.formats import render
from busbw.model.record import RunRecord
from busbw.model.result import Status


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
