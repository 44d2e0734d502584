from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.model.ranges import CallRange
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import DataTypes, Size
from busbw.plan.make import make_plan


def test_what_a_rank_writes_is_what_is_read() -> None:
    settings = RunSettings(minbytes=Size("8"), maxbytes=Size("64M"), datatype=DataTypes("float,bfloat16"))
    for case in make_plan(("all_reduce", "all_gather", "sendrecv"), settings, "null", 4).cases:
        for written in (CallRange.of(case), CallRange.of(case, 8), CallRange.of(case, graph=True)):
            assert CallRange.read(str(written)) == written
    case = make_plan(("all_gather",), RunSettings(minbytes=Size("1K")), "null", 4).cases[0]
    assert str(CallRange.of(replace(case, size_bytes=1024))) == "all_gather float - 1024 B out-of-place"


@pytest.mark.parametrize(
    "text",
    ["", "ncclAllReduce", "step 5", "all_reduce float sum 8 B sideways", "all_reduce float sum x B in-place"],
)
def test_ranges_of_others_are_left_alone(text: str) -> None:
    assert CallRange.read(text) is None
