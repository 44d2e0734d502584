from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.model.collective import Placement, collective
from busbw.model.datatype import data_type, reduce_op
from busbw.planning.expand import Grid, expand


def grid(*operations: str, types: tuple[str, ...] = ("float",), roots: tuple[int, ...] = (0,)) -> Grid:
    return Grid(
        [collective(name) for name in operations],
        [data_type(name) for name in types],
        [reduce_op("sum"), reduce_op("max")],
        roots,
        [64, 128],
    )


def test_order_is_operation_type_reduction_size_placement() -> None:
    cases = expand(grid("all_reduce", "all_gather", types=("float", "int8")), 2, "mpi")
    assert [case.index for case in cases] == list(range(len(cases)))
    kinds = [(case.collective, case.dtype, case.op, case.size_bytes, case.in_place) for case in cases]
    assert kinds[:5] == [
        ("all_reduce", "float", "sum", 64, False),
        ("all_reduce", "float", "sum", 64, True),
        ("all_reduce", "float", "sum", 128, False),
        ("all_reduce", "float", "sum", 128, True),
        ("all_reduce", "float", "max", 64, False),
    ]
    # Reductions multiply only what reduces.
    assert [kind[:3] for kind in kinds[16::4]] == [("all_gather", "float", ""), ("all_gather", "int8", "")]


def test_a_missing_placement_stays_in_the_list_marked() -> None:
    cases = expand(grid("sendrecv"), 2, "mpi")
    assert [(case.placement, case.applicable) for case in cases[:2]] == [
        (Placement.OUT_OF_PLACE, True),
        (Placement.IN_PLACE, False),
    ]


def test_requested_and_rounded_sizes_are_both_kept() -> None:
    case = expand(grid("all_gather"), 3, "mpi")[2]
    assert (case.requested_bytes, case.size_bytes, case.count) == (128, 96, 8)


def test_collectives_without_a_root_print_minus_one() -> None:
    assert {case.root for case in expand(grid("all_reduce", "sendrecv"), 2, "mpi")} == {-1}


@pytest.mark.parametrize("root", [-1, 2])
def test_a_root_must_be_a_rank(root: int) -> None:
    with pytest.raises(UsageError, match=rf"root {root} is not a rank of 0\.\.1"):
        expand(grid("all_reduce", roots=(root,)), 2, "mpi")
