"""What needs no MPI; tests/mpi runs the rest."""

from __future__ import annotations

from busbw.backends.mpi import DATATYPES, FUNCTIONS, OPS, clock_cost_ns
from busbw.model.collective import COLLECTIVES
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS


def test_every_collective_that_has_an_mpi_placement_has_a_function() -> None:
    assert set(FUNCTIONS) == {row.name for row in COLLECTIVES}


def test_types_and_reductions_are_named_as_in_the_model() -> None:
    assert set(DATATYPES) == {row.name for row in DATA_TYPES} - {"half", "bfloat16"}
    assert set(OPS) == {row.name for row in REDUCE_OPS}


def test_a_clock_read_costs_nanoseconds() -> None:
    assert 1 <= clock_cost_ns() < 10_000
