from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from busbw.model.collective import COLLECTIVES, Role
from busbw.model.counts import CountTable
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS
from busbw.model.plan import CallOptions, Limits, Plan, Stream, Timing
from busbw.plan.expand import Grid, expand


def plan(ranks: int = 4, backend: str = "mpi", limits: Limits | None = None) -> Plan:
    grid = Grid(COLLECTIVES, DATA_TYPES[:3], REDUCE_OPS[:2], [0], [64, 4096])
    return Plan(backend, expand(grid, ranks, backend), 4096, limits or Limits(), 1, 7, rotate=False)


def test_everything_that_can_be_asked_for_travels_to_the_ranks() -> None:
    """Every field has another value than by default, so one that is left out is seen."""
    first = replace(
        plan(limits=Limits(0, 0, 0.3, 0.5, 0.6, 7.0, 8, 13, 9.0, 10.0, 11, 12)),
        nccl_path="/nccl",
        options=CallOptions(2, 3, 1, 4, "managed", 5.5),
        timing=Timing("latency", "span", "trace:ab", barrier=False, trace_ns=((0, 5),)),
        show=("p99.9", "timestamp"),
        groups=((0, 2), (3, 1)),
        counts=(
            CountTable(
                "f", 2, ((1, 2), (3, 4)), 7, "bytes", True, ((0, 1), (0, 3)), ((0, 1), (2, 6)), 16, 9, "c"
            ),
        ),
        pairs=((0, 1),),
        data="random",
        save_wrong=True,
        pin=True,
        evidence=("counters",),
        streams=(
            Stream("c", 8, 2, ((0, 1),), (CountTable("g", 2, ((1, 2), (3, 4)), 7),), ((1, 0),)),
            Stream("d", 16),
        ),
    )
    for value, default in (
        (first.limits, Limits()),
        (first.options, CallOptions()),
        (first.timing, Timing()),
    ):
        assert all(getattr(value, f.name) != getattr(default, f.name) for f in fields(value))
    got = Plan.from_json(first.to_json())
    assert got == first
    assert isinstance(got.show, tuple)


def test_a_rank_has_its_number_in_its_group_and_may_sit_out() -> None:
    grouped = replace(plan(), groups=((0, 2), (3, 1)))
    places = [grouped.group_of(rank, 5) for rank in range(5)]
    roles = [Role(0, 2, group=0), Role(1, 2, group=1), Role(1, 2, group=0), Role(0, 2, group=1)]
    assert places == [*roles, None]
    assert plan().group_of(3, 5) == Role(3, 5)
    assert grouped.rank_bytes(grouped.cases[0], 4, 5) == (0, 0)


def test_bytes_of_a_rank_are_those_of_its_segments() -> None:
    case = next(case for case in plan().cases if case.collective == "alltoallv" and case.size_bytes == 64)
    uneven = replace(plan(), counts=(CountTable("f", 4, ((16, 0, 0, 0),), 64, collective="alltoallv"),))
    assert [uneven.rank_bytes(case, rank, 4) for rank in range(4)] == [(16, 64), (16, 0), (16, 0), (16, 0)]


def test_another_version_is_refused() -> None:
    fields = {**json.loads(plan().to_json()), "version": 2}
    with pytest.raises(ValueError, match="another version"):
        Plan.from_json(json.dumps(fields))
