from __future__ import annotations

from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.model.collective import COLLECTIVES, Placement, collective
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS, data_type, reduce_op
from busbw.plan.expand import Grid, expand


def grid(
    *operations: str, types: tuple[str, ...] = ("float",), roots: tuple[int, ...] = (0,), **changed: Any
) -> Grid:
    return Grid(
        [collective(name) for name in operations],
        [data_type(name) for name in types],
        [reduce_op("sum"), reduce_op("max")],
        roots,
        [64, 128],
        **changed,
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


def test_requested_and_rounded_sizes_are_both_kept() -> None:
    case = expand(grid("all_gather"), 3, "mpi")[2]
    assert (case.requested_bytes, case.size_bytes, case.count) == (128, 96, 8)


@pytest.mark.parametrize("root", [-1, 2])
def test_a_root_must_be_a_rank(root: int) -> None:
    with pytest.raises(UsageError, match=rf"root {root} is not one of the ranks 0\.\.1"):
        expand(grid("all_reduce", roots=(root,)), 2, "mpi")


def test_roots_multiply_what_has_one_and_nothing_else() -> None:
    cases = expand(grid("broadcast", "reduce", "all_gather", roots=(2, 0)), 3, "nccl")
    kinds = [(case.collective, case.op, case.root) for case in cases if case.size_bytes >= 96][::2]
    assert kinds == [
        ("broadcast", "", 2),
        ("broadcast", "", 0),
        ("reduce", "sum", 2),
        ("reduce", "sum", 0),
        ("reduce", "max", 2),
        ("reduce", "max", 0),
        ("all_gather", "", -1),
    ]


@pytest.mark.parametrize(
    ("name", "backend", "placement"),
    [
        ("sendrecv", "mpi", Placement.IN_PLACE),
        ("sendrecv", "nccl", Placement.IN_PLACE),
        ("broadcast", "mpi", Placement.OUT_OF_PLACE),
        ("alltoall", "nccl", Placement.IN_PLACE),
        ("barrier", "mpi", Placement.IN_PLACE),
    ],
)
def test_a_missing_placement_says_where_it_is_missing(name: str, backend: str, placement: Placement) -> None:
    cases = expand(grid(name), 2, backend)
    assert {case.placement: case.reason for case in cases} == {
        **dict.fromkeys(Placement, ""),
        placement: f"{name} has no {placement.value} form on {backend}",
    }
    assert all(case.applicable == (not case.reason) for case in cases)


def test_hypercube_on_three_ranks_is_one_pair_that_says_why() -> None:
    cases = expand(grid("hypercube", "all_gather"), 3, "mpi")
    assert [(case.collective, case.applicable) for case in cases] == [("hypercube", False)] * 2 + [
        ("all_gather", True)
    ] * 4
    assert {case.reason for case in cases[:2]} == {"3 ranks: hypercube needs a power of two"}
    assert [case.placement for case in cases[:2]] == list(Placement)
    assert len(expand(grid("hypercube"), 4, "mpi")) == 4


def test_a_barrier_has_one_case_whatever_is_swept() -> None:
    cases = expand(grid("barrier", types=("float", "int8"), roots=(0, 1)), 2, "mpi")
    assert [(case.placement, case.size_bytes, case.count, case.applicable) for case in cases] == [
        (Placement.OUT_OF_PLACE, 0, 0, True),
        (Placement.IN_PLACE, 0, 0, False),
    ]
    assert (cases[0].op, cases[0].root, cases[0].requested_bytes) == ("", -1, 0)


def test_a_type_that_was_named_and_cannot_be_reduced_is_refused() -> None:
    with pytest.raises(UsageError, match="all_reduce of int16: NCCL has no 16-bit integers") as refused:
        expand(grid("all_gather", "all_reduce", types=("float", "int16")), 2, "nccl")
    assert "-d" in refused.value.hint


def test_where_all_types_are_meant_it_is_shown_as_not_applicable() -> None:
    cases = expand(grid("all_gather", "all_reduce", types=("float", "int16"), lenient=True), 2, "nccl")
    without = [case for case in cases if not case.applicable]
    assert {(case.collective, case.dtype) for case in without} == {("all_reduce", "int16")}
    assert all("16-bit integers" in case.reason for case in without)
    assert any((case.collective, case.dtype) == ("all_gather", "int16") for case in cases)


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("backend", ["mpi", "nccl"])
def test_everything_at_once_comes_in_pairs(ranks: int, backend: str) -> None:
    """The table has a line for two neighbours; a case without its other half would shift all that follow."""
    every = Grid(COLLECTIVES, DATA_TYPES, REDUCE_OPS, range(ranks), [0, 8, 1000], lenient=True)
    cases = expand(every, ranks, backend)
    assert [case.index for case in cases] == list(range(len(cases)))
    for first, second in zip(cases[::2], cases[1::2], strict=True):
        assert [first.placement, second.placement] == list(Placement)
        for name in ("collective", "dtype", "op", "root", "requested_bytes", "size_bytes", "count"):
            assert getattr(first, name) == getattr(second, name)
    assert all(case.applicable == (not case.reason) for case in cases)
    assert all(case.shape(ranks).call_count == case.count for case in cases)
