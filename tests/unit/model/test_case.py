from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.model.case import Case
from busbw.model.collective import Placement

REDUCE = Case(0, "reduce", "half", "avg", 2, 100, 100, 50, Placement.IN_PLACE)


def test_the_root_is_the_rank_that_the_case_names() -> None:
    assert [REDUCE.role(rank, 4).is_root for rank in range(4)] == [False, False, True, False]


@pytest.mark.parametrize(("requested", "count"), [(1000, 80), (999, 80), (95, 0), (96, 8)])
def test_counts_follow_from_what_was_asked_for(requested: int, count: int) -> None:
    """And not from the rounded size, which would be rounded twice."""
    case = replace(REDUCE, collective="gather", op="", requested_bytes=requested)
    assert case.shape(6).call_count == count
