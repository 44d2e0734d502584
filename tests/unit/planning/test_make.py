from __future__ import annotations

import dataclasses

import pytest

from busbw.errors import UsageError
from busbw.model.plan import Limits
from busbw.planning.make import make_plan
from busbw.settings.run import RunSettings

OPERATIONS = ("all_reduce",)


def settings(**changed: object) -> RunSettings:
    return dataclasses.replace(RunSettings(), **changed)  # type: ignore[arg-type]


def test_the_defaults() -> None:
    plan = make_plan(OPERATIONS, settings(), "mpi", 2)
    assert [case.size_bytes for case in plan.cases[::2]] == [2**power for power in range(3, 27)]
    assert plan.buffer_bytes == 64 * 2**20
    assert (plan.checks, plan.rotate, plan.limits) == (1, True, Limits())
    assert 0 <= plan.seed < 2**48


def test_the_null_backend_has_nothing_to_check() -> None:
    assert make_plan(OPERATIONS, settings(check=3), "null", 2).checks == 0


def test_lists_of_types_and_reductions() -> None:
    plan = make_plan(OPERATIONS, settings(datatype="float, bf16,", op="sum,max", maxbytes="8"), "nccl", 2)
    assert [(case.dtype, case.op) for case in plan.cases[::2]] == [
        ("float", "sum"),
        ("float", "max"),
        ("bfloat16", "sum"),
        ("bfloat16", "max"),
    ]


def test_a_precision_holds_for_small_times_too() -> None:
    limits = make_plan(OPERATIONS, settings(precision="0.5%"), "mpi", 2).limits
    assert (limits.precision, limits.small_precision) == (0.005, 0.005)


def test_fixed_calls_and_warmup() -> None:
    limits = make_plan(OPERATIONS, settings(iters=20, warmup_iters=0, case_time="2s"), "mpi", 2).limits
    assert (limits.calls, limits.warmup_calls, limits.case_seconds) == (20, 0, 2.0)


def test_stepping_by_bytes() -> None:
    plan = make_plan(OPERATIONS, settings(minbytes="8", maxbytes="32", stepbytes="8"), "mpi", 2)
    assert [case.size_bytes for case in plan.cases[::2]] == [8, 16, 24, 32]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"minbytes": "1K", "maxbytes": "8"}, "larger than the last"),
        ({"datatype": "float8"}, "unknown type 'float8'"),
        ({"op": "xor"}, "unknown reduction 'xor'"),
        ({"minbytes": "8MB"}, "ambiguous size"),
        ({"stepfactor": 2.0, "stepbytes": "8"}, "exclude each other"),
        ({"iters": 0}, "-n 0 is too small"),
        ({"warmup_iters": -1}, "-w -1 is too small"),
        ({"check": -1}, "-c -1 is too small"),
        ({"precision": "200%"}, "not between 0 and 1"),
        ({"case_time": "soon"}, "not a duration"),
        ({"root": 2}, "root 2 is not a rank"),
        ({"datatype": ","}, "no element type"),
        ({"op": ""}, "no reduction"),
        ({"seed": -1}, "--seed -1 is too small"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_hint(changed: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        make_plan(OPERATIONS, settings(**changed), "mpi", 2)
    assert refused.value.hint


def test_an_operation_is_needed() -> None:
    with pytest.raises(UsageError, match="no operation given") as refused:
        make_plan((), settings(), "mpi", 2)
    assert "all_gather" in refused.value.hint


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown operation 'all_reduc'"):
        make_plan(("all_reduc",), settings(), "mpi", 2)


def test_the_null_backend_refuses_bad_counts_too() -> None:
    with pytest.raises(UsageError, match="-c -1"):
        make_plan(OPERATIONS, settings(check=-1), "null", 2)
