from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.model.neighbour import Neighbour
from busbw.model.plan import Plan
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import check_settings, make_plan


def settings(*beside: str, **more: object) -> RunSettings:
    return RunSettings(beside=beside, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("compute", {}),
        ("memory:share=25%", {"share": 0.25}),
        ("compute:share=0", {"share": 0.0}),
        ("compute:share=100%", {"share": 1.0}),
        ("compute:share=1", {"share": 1.0}),
        ("compute:sms=100,length=500us", {"sms": 100, "length_ns": 500_000}),
        ("compute:sms=0", {"sms": 0}),
        ("gemm:n=8192", {"n": 8192}),
    ],
)
def test_what_runs_beside_is_read_once(text: str, wanted: dict[str, object]) -> None:
    plan = make_plan(("all_reduce",), settings(text, text), "nccl", 2)
    assert plan.beside == (Neighbour(text, text.partition(":")[0], **wanted),)  # type: ignore[arg-type]
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (settings("gem"), "'gem' is no load and no operation"),
        (settings("gemm", backend="mpi"), "cuBLAS works on GPUs"),
        (settings("gemm:n=8"), "matrices of n=8"),
        (settings("gemm:sms=4"), "unknown option 'sms'"),
        (settings("barrier"), "no operation that can run beside others"),
        (settings("alltoall:size=0"), "moves nothing"),
        (settings("alltoall", "alltoall:ranks=odd", ranks=4), "of the collectives and on others"),
        (settings("alltoall:share=50%"), "unknown option 'share'"),
        (settings("alltoall:ranks=1,3"), "ranks=1 is unknown"),
        (settings("alltoall:ranks=odd", ranks=3), "ranks=odd of 3 ranks"),
        (settings("alltoall:ranks=2-5", ranks=4), "ranks=2-5 of 4 ranks"),
        (settings("alltoall:ranks=1-3", ranks=4), "leaves 1 rank to the collectives"),
        (settings("alltoall", ranks=4, mode="latency"), "single calls on the same ranks"),
        (settings("alltoall", ranks=4, group_size=2), "--group-size"),
        (settings("alltoall", agg_iters=2), "-m"),
        (settings("alltoall", time="loop"), "--time loop"),
        (settings("compute:share"), "not a fraction"),
        (settings("compute:share=120%"), "not between 0 and 1"),
        (settings("compute:share=100"), "not between 0 and 1"),
        (settings("compute:sms=many"), "no number of multiprocessors"),
        (settings("compute:length=2ms"), "launches of 2ms"),
        (settings("compute:cores=2"), "unknown option 'cores'"),
        (settings("compute:sms=4,share=50%"), "the same choice"),
        (settings("compute:sms=4", backend="mpi"), "those of GPUs"),
        (settings("compute", iters=20), "-n"),
        (settings("compute", cycles=0), "--cycles"),
        (settings("compute", backend="null"), "--backend null"),
    ],
)
def test_what_cannot_run_beside_is_refused_before_anything_starts(asked: RunSettings, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        check_settings(("all_reduce",), asked)
    assert refused.value.hint


@pytest.mark.parametrize("ranks", [None, 8])
def test_a_range_of_ranks_is_none_to_refuse_before_the_ranks_are_known(ranks: int | None) -> None:
    check_settings(("all_reduce",), settings("alltoall:ranks=4-7", ranks=ranks))


@pytest.mark.parametrize(("typed", "meant"), [("all-reduce", "all_reduce"), ("comput", "compute")])
def test_a_mistyped_neighbour_is_named_as_it_was_probably_meant(typed: str, meant: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_settings(("all_reduce",), settings(typed))
    assert refused.value.hint == f"use {meant}"


def test_ranks_of_an_operation_are_left_to_it() -> None:
    plan = make_plan(("all_reduce",), settings("alltoall:ranks=odd,size=1M", minbytes=Size("64K")), "mpi", 5)
    (neighbour,) = plan.beside
    assert (neighbour.is_operation, neighbour.ranks, neighbour.size_bytes) == (True, (1, 3), 2**20)
    assert (plan.groups, plan.runs_at_once) == (((0, 2, 4),), False)
    own = plan.of_neighbour(neighbour)
    assert (own.groups, own.buffer_bytes) == (((1, 3),), 2**20)
    beside = neighbour.operation_beside(plan.cases[0])
    assert (beside.collective, beside.op, beside.requested_bytes) == ("alltoall", "", 2**20)


def test_an_operation_on_the_same_ranks_has_the_size_of_the_case() -> None:
    plan = make_plan(("all_reduce",), settings("all_gather", minbytes=Size("64K")), "mpi", 2)
    assert (plan.groups, plan.runs_at_once) == ((), True)
    assert plan.of_neighbour(plan.beside[0]).buffer_bytes == plan.buffer_bytes
    assert plan.beside[0].operation_beside(plan.cases[0]).requested_bytes == 64 * 1024


def test_each_size_is_one_case_out_of_place_where_there_is_that() -> None:
    plan = make_plan(("all_reduce", "broadcast"), settings("compute", maxbytes=64), "mpi", 2)
    found = [(case.collective, case.placement.value, case.applicable) for case in plan.cases]
    assert found == [("all_reduce", "out-of-place", True), ("broadcast", "in-place", True)]
    assert [case.index for case in plan.cases] == [0, 1]
