from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.model.case import Case
from busbw.model.collective import Placement, Role
from busbw.model.datatype import reduce_op

REDUCE = Case(0, "reduce", "half", "avg", 2, 100, 100, 50, Placement.IN_PLACE)


def test_names_lead_to_rows() -> None:
    assert (REDUCE.row.name, REDUCE.data_type.size_bytes, REDUCE.in_place) == ("reduce", 2, True)
    assert REDUCE.reduce_op == reduce_op("avg")
    assert replace(REDUCE, op="").reduce_op is None


def test_the_root_is_the_rank_that_the_case_names() -> None:
    assert [REDUCE.role(rank, 4).is_root for rank in range(4)] == [False, False, True, False]


def test_a_case_without_a_root_has_a_role_too() -> None:
    assert replace(REDUCE, collective="all_reduce", root=-1).role(3, 4) == Role(3, 4, 0)


@pytest.mark.parametrize(("requested", "count"), [(1000, 80), (999, 80), (95, 0), (96, 8)])
def test_counts_follow_from_what_was_asked_for(requested: int, count: int) -> None:
    """And not from the rounded size, which would be rounded twice."""
    case = replace(REDUCE, collective="gather", op="", requested_bytes=requested)
    assert case.shape(6).call_count == count
