from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.model.collective import COLLECTIVES
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS
from busbw.model.plan import CallOptions, Limits
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import DataTypes, ReduceOps, Size, read_settings
from busbw.plan.make import check_settings, make_plan

OPERATIONS = ("all_reduce",)


def settings(**changed: object) -> RunSettings:
    """Texts are read as flags' values."""
    return read_settings(RunSettings, changed)


def test_the_defaults() -> None:
    plan = make_plan(OPERATIONS, settings(), "mpi", 2)
    assert [case.size_bytes for case in plan.cases[::2]] == [2**power for power in range(3, 27)]
    assert plan.buffer_bytes == 64 * 2**20
    assert (plan.checks, plan.rotate, plan.limits) == (1, True, Limits())
    assert 0 <= plan.seed < 2**48


def test_the_null_backend_has_nothing_to_check() -> None:
    assert make_plan(OPERATIONS, settings(check=3), "null", 2).checks == 0


@pytest.mark.parametrize(
    ("changed", "limits"),
    [
        ({"precision": "0.5%"}, {"precision": 0.005, "small_precision": 0.005}),
        (
            {"iters": 20, "warmup_iters": 0, "case_time": "2s"},
            {"calls": 20, "warmup_calls": 0, "case_seconds": 2.0},
        ),
        ({"iters": 20, "warmup_iters": 5, "agg_iters": 4}, {"calls": 80, "warmup_calls": 20}),
        ({"agg_iters": 4}, {}),  # until it is known well enough
        ({"iters": 10**13}, {"calls": 10**13}),  # more than any count of elements
    ],
)
def test_limits(changed: dict[str, object], limits: dict[str, Any]) -> None:
    assert make_plan(OPERATIONS, settings(**changed), "nccl", 2).limits == replace(Limits(), **limits)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"stepfactor": 2.0, "stepbytes": "8"}, "cannot be combined"),
        ({"precision": "200%"}, "--precision: '200%' is not between 0 and 1"),
        ({"root": "first"}, "'first' is not a root"),
        ({"root": ","}, "no root given"),
        ({"budget": "0s"}, "--budget leaves no time"),
        ({"local_register": 3}, "-R 3 is unknown"),
        ({"timeout": -1.0}, "-T: -1 seconds are not between 0 and 100 years"),
        ({"stats": ("p99,median",)}, "not a statistic: 'median'"),
        ({"agg_iters": 2}, "-m does not apply to CPU ranks"),
        ({"cudagraph": 1}, "-G does not apply to CPU ranks"),
        ({"local_register": 1}, "-R does not apply to CPU ranks"),
        ({"buffers": "managed"}, "--buffers does not apply to CPU ranks"),
        ({"time": "max", "average": 1}, "--time and -a ask for different times"),
        ({"time": "span", "mode": "latency", "backend": "null"}, "the null backend has none"),
        ({"time": "span", "mode": "latency", "backend": "nccl"}, "needs synchronised clocks"),
        ({"arrival": "ramp"}, "--arrival needs single calls"),
        ({"datatype": ","}, "no element type"),
        ({"datatype": "all,float"}, "unknown type 'all'"),
        ({"evidence": ("tea",)}, "unknown evidence 'tea'"),
        ({"evidence": ("counters",), "backend": "null"}, "moves no data"),
        ({"unique_buffers": True}, "needs a fixed number of calls"),
        ({"unique_buffers": True, "iters": 0}, "needs a fixed number of calls"),
        ({"unique_buffers": True, "iters": 5, "hot": True}, "needs a fixed number of calls"),
        ({"unique_buffers": True, "warmup_iters": 5}, "needs a fixed number of calls"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_hint(changed: dict[str, object], words: str) -> None:
    refuses(changed, words, "mpi")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mode": "latency", "cudagraph": 1}, "latency mode measures single calls"),
        ({"mode": "latency", "agg_iters": 2}, "latency mode measures single calls"),
        ({"blocking": 1, "cudagraph": 1}, "latency mode measures single calls"),
        ({"buffers": "managed", "local_register": 1}, "--buffers managed cannot be registered"),
        ({"buffers": "host", "local_register": 1}, "--buffers host cannot be registered"),
        ({"iters": 10**15, "agg_iters": 2}, "-n is too large"),
    ],
)
def test_what_gpus_cannot_do_is_refused_with_a_hint(changed: dict[str, object], words: str) -> None:
    refuses(changed, words, "nccl")


def refuses(changed: dict[str, object], words: str, backend: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        make_plan(OPERATIONS, settings(**changed), backend, 2)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("operation", "flag", "written", "text", "words"),
    [
        ("all_reduce", "arrival", "trace:{}", "0 -4ms", "line 1: not a duration: '-4ms'"),
        ("all_reduce", "arrival", "trace:{}", "0 4ms\n1ms", "line 2 has 1 delays for 2 ranks"),
        ("all_reduce", "arrival", "trace:{}", None, "No such file"),
        ("alltoallv", "skew", "counts:{}", "[[0, 5], [3", "line 1 is not JSON"),
        ("alltoallv", "skew", "counts:{}", "[[0, 5], [3, 2]]\n[[1]]", "line 2 has 1 rows for 2 ranks"),
    ],
)
def test_a_damaged_file_is_refused_before_the_ranks_are_known(
    tmp_path: Path, operation: str, flag: str, written: str, text: str | None, words: str
) -> None:
    path = tmp_path / "file"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=words) as refused:
        check_settings((operation,), settings(mode="latency", **{flag: written.format(path)}))
    assert refused.value.hint
    assert text is not None or refused.value.hint == "give --arrival trace:FILE"


def sizes_of(**changed: object) -> list[int]:
    plan = make_plan(OPERATIONS, settings(datatype="int8", **changed), "mpi", 2)
    assert plan.buffer_bytes >= max(case.size_bytes for case in plan.cases)
    return [case.size_bytes for case in plan.cases[::2]]


# ---- the sweep ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", ["minbytes", "maxbytes"])
def test_one_end_alone_is_the_only_size(one: str) -> None:
    assert sizes_of(**{one: "3K"}) == [3072]
    assert make_plan(OPERATIONS, settings(**{one: "3K"}), "mpi", 2).buffer_bytes == 3072


@pytest.mark.parametrize(
    ("changed", "sizes"),
    [
        ({"minbytes": "1K", "maxbytes": "4K"}, [1024, 2048, 4096]),
        # nccl-tests steps by 1 MiB where it has no factor.
        ({"minbytes": "8", "maxbytes": "2M", "stepfactor": 1.0}, [8, 2**20 + 8]),
        ({"minbytes": "8", "maxbytes": "40", "stepfactor": 1.0, "stepbytes": "16"}, [8, 24, 40]),
        ({"minbytes": "8", "maxbytes": "40", "stepbytes": "16"}, [8, 24, 40]),
    ],
)
def test_steps(changed: dict[str, object], sizes: list[int]) -> None:
    assert sizes_of(**changed) == sizes


def test_all_of_everything() -> None:
    plan = make_plan(("all",), settings(datatype="all", op="all", root="all", maxbytes="64"), "nccl", 4)
    assert {case.collective for case in plan.cases} == {row.name for row in COLLECTIVES}
    assert {case.dtype for case in plan.cases} == {row.name for row in DATA_TYPES}
    assert {case.op for case in plan.cases if case.row.reducing} == {row.name for row in REDUCE_OPS}
    assert {case.root for case in plan.cases if case.row.rooted} == {0, 1, 2, 3}
    # NCCL does not reduce all of them, which is no reason to refuse the others.
    assert {case.dtype for case in plan.cases if case.row.reducing and not case.applicable} == {
        "int16",
        "uint16",
    }


@pytest.mark.parametrize(
    ("text", "roots"),
    [("all", [0, 1, 2]), ("-1", [0, 1, 2]), ("2,0", [2, 0]), (" 1 , ", [1]), ("0,0,1", [0, 1])],
)
def test_roots(text: str, roots: list[int]) -> None:
    plan = make_plan(("broadcast",), settings(root=text, maxbytes="8"), "nccl", 3)
    assert [case.root for case in plan.cases[::2]] == roots


def test_what_is_named_twice_is_measured_once() -> None:
    settings = RunSettings(
        minbytes=Size("64"), datatype=DataTypes("half,fp16,float,fp32"), op=ReduceOps("sum,sum")
    )
    kinds = [(case.dtype, case.op) for case in make_plan(("all_reduce",), settings, "mpi", 2).cases[::2]]
    assert kinds == [("half", "sum"), ("float", "sum")]


def test_all_is_a_word_for_itself() -> None:
    with pytest.raises(UsageError, match="unknown operation 'all'"):
        make_plan(("all", "sendrecv"), settings(), "mpi", 2)


# ---- how it is timed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocking", "mode", "barrier"),
    [(0, "throughput", True), (1, "latency", True), (2, "latency", False), (3, "latency", True)],
)
def test_z_is_a_mode(blocking: int, mode: str, barrier: bool) -> None:
    timing = make_plan(OPERATIONS, settings(blocking=blocking), "mpi", 2).timing
    assert (timing.mode, timing.barrier) == (mode, barrier)


@pytest.mark.parametrize(("average", "time"), [(0, "rank0"), (1, "avg"), (2, "min"), (3, "max")])
def test_a_is_a_time_also_of_a_loop(average: int, time: str) -> None:
    for said, meant in ((None, time), (time, time), ("loop", f"loop-{time}")):
        asked = settings(average=average, time=said, iters=20)
        assert make_plan(OPERATIONS, asked, "mpi", 2).timing.time == meant


TIMES = {
    "throughput": {"max", "avg", "min", "rank0", "loop"},
    "latency": {"max", "avg", "min", "rank0", "last", "span"},
}


@pytest.mark.parametrize("mode", TIMES)
@pytest.mark.parametrize("time", ["max", "avg", "min", "rank0", "loop", "last", "span"])
@pytest.mark.parametrize("backend", ["mpi", "nccl"])
def test_times_of_a_mode(mode: str, time: str, backend: str) -> None:
    asked = settings(mode=mode, time=time)
    if time in TIMES[mode] and (time, backend) != ("span", "nccl"):
        timing = make_plan(OPERATIONS, asked, backend, 2).timing
        assert (timing.mode, timing.time) == (mode, time)
    else:
        with pytest.raises(UsageError, match=f"--time {time}") as refused:
            make_plan(OPERATIONS, asked, backend, 2)
        assert refused.value.hint


def test_what_gpus_have() -> None:
    asked = settings(cudagraph=3, agg_iters=2, local_register=2, unalign=1, timeout=2.5)
    assert make_plan(OPERATIONS, asked, "nccl", 2).options == CallOptions(2, 3, 2, 1, "device", 2.5)
    assert make_plan(OPERATIONS, settings(buffers="host"), "nccl", 2).options.memory == "host"


# ---- unique buffers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "calls"),
    [
        ({"iters": 20, "warmup_iters": 5}, 25),
        ({"iters": 20}, 20),
        ({"iters": 4, "warmup_iters": 1, "agg_iters": 3}, 15),
    ],
)
def test_every_call_has_a_buffer_of_the_largest_size(changed: dict[str, object], calls: int) -> None:
    asked = settings(maxbytes="4K", unique_buffers=True, **changed)
    plan = make_plan(("all_reduce",), asked, "null", 2)
    assert (plan.buffer_bytes, plan.rotate) == (4096 * calls, True)


# ---- columns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "show"),
    [
        ({}, ("imbalance", "n")),
        ({"mode": "latency"}, ("p99", "skew", "imbalance", "n")),
        ({"mode": "latency", "stats": ("n",)}, ("n",)),
        ({"stats": ("avg,p50", "P99.9")}, ("avg", "p50", "p99.9")),
        ({"report_cputime": 1}, ("imbalance", "n", "issue")),
        ({"stats": ("issue,avg",), "report_cputime": 1}, ("issue", "avg")),
        ({"report_timestamps": 1, "memory": 1}, ("imbalance", "n", "timestamp", "memory")),
    ],
)
def test_columns(changed: dict[str, object], show: tuple[str, ...]) -> None:
    assert make_plan(OPERATIONS, settings(**changed), "mpi", 2).show == show


@pytest.mark.parametrize("backend", ["nccl", "null"])
def test_no_skew_is_promised_where_clocks_do_not_tell_it(backend: str) -> None:
    asked = settings(mode="latency", backend=backend)
    assert make_plan(OPERATIONS, asked, backend, 2).show == ("p99", "imbalance", "n")


def test_evidence_is_named_once() -> None:
    asked = RunSettings(evidence=("counters,algorithm", "counters"))
    assert make_plan(OPERATIONS, asked, "mpi", 4).evidence == ("counters", "algorithm")


# ---- words alone ----------------------------------------------------------------------------------------


def test_what_a_named_backend_lacks_is_known_before_there_are_ranks() -> None:
    lacking = settings(backend="nccl", datatype="int16,float")
    with pytest.raises(UsageError, match="NCCL has no 16-bit integers"):
        check_settings(("all_reduce",), lacking)
    check_settings(("all_reduce",), replace(lacking, backend="auto"))  # CPU ranks have them
    check_settings(("all_gather",), lacking)


def test_roots_need_the_ranks_that_there_will_be() -> None:
    with pytest.raises(UsageError, match="root"):
        check_settings(("broadcast",), settings(root="3", ranks=3))
    check_settings(("broadcast",), settings(root="3", ranks=4))
    check_settings(("broadcast",), settings(root="3"))
