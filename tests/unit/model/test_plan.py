from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.model.collective import COLLECTIVES, Placement
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS
from busbw.model.plan import Limits, Plan
from busbw.planning.expand import Grid, expand


def plan(ranks: int = 4, backend: str = "mpi", limits: Limits | None = None) -> Plan:
    grid = Grid(COLLECTIVES, DATA_TYPES[:3], REDUCE_OPS[:2], [0], [64, 4096])
    return Plan(backend, expand(grid, ranks, backend), 4096, limits or Limits(), 1, 7, rotate=False)


def test_json_round_trip_keeps_every_field() -> None:
    first = plan(limits=Limits(calls=20, warmup_calls=0, precision=0.5))
    assert Plan.from_json(first.to_json()) == first
    assert Plan.from_json(first.to_json().encode()) == first


def test_placements_come_back_as_placements() -> None:
    assert {type(case.placement) for case in Plan.from_json(plan().to_json()).cases} == {Placement}


def test_a_plan_is_one_line() -> None:
    assert "\n" not in plan().to_json()


def test_another_version_is_refused() -> None:
    fields = {**json.loads(plan().to_json()), "version": 2}
    with pytest.raises(ValueError, match="another version"):
        Plan.from_json(json.dumps(fields))


@given(
    st.integers(0, 2**48),
    st.floats(1e-6, 0.999),
    st.one_of(st.none(), st.integers(1, 10**9)),
    st.booleans(),
    st.text(max_size=20),
)
def test_any_values_survive(seed: int, precision: float, calls: int | None, rotate: bool, path: str) -> None:
    limits = Limits(calls=calls, precision=precision)
    first = Plan("nccl", (), 8, limits, 0, seed, rotate=rotate, nccl_path=path)
    assert Plan.from_json(first.to_json()) == first


def test_a_case_knows_its_shape() -> None:
    case = next(case for case in plan().cases if case.collective == "all_gather" and case.size_bytes == 4096)
    assert case.shape(4).recv_count * case.data_type.size_bytes == 4096
    assert case.shape(4).call_count == case.count
    assert case.reduce_op is None
