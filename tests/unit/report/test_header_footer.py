"""What stands above and below the rows of a run: exact text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw.model.mark import meaning
from busbw.model.plan import Limits, Plan
from busbw.model.record import Method, RankInfo, WorldInfo
from busbw.model.result import CaseResult, Status, StopReason
from busbw.report import header_footer

GOOD = CaseResult(
    0, Status.GOOD, 12345.6, 12000.0, 12600.0, 12400.0, 84.934, 148.635, 8, 4, 20, StopReason.PRECISION, 0
)


@pytest.mark.parametrize(
    ("stats", "words"),
    [
        ({"p50": 1.0, "p99": 2.0, "imbalance": 0.5}, "percentiles"),
        ({"max": 9.0, "p99": 2.0}, "max, percentiles"),
    ],
)
def test_columns_of_single_calls_are_said_with_what_timing_them_adds(stats: Any, words: str) -> None:
    evidence = {"single_calls": 320, "timing_overhead_ns": 3_500.0}
    single = replace(GOOD, stats=stats, evidence=evidence)
    slower = replace(single, evidence={**evidence, "timing_overhead_ns": 4_500.0})
    said = f"{words}: from 320 single calls, since a sample holds several"
    adds = "timing overhead: timing calls one by one adds {} us"
    assert header_footer.explanations([single]) == [said, adds.format("3.50")]
    assert header_footer.explanations([single, slower, GOOD]) == [
        said,
        adds.format("4.00") + " (median of 2 cases)",
    ]


def test_the_header(world: WorldInfo, plan: Plan) -> None:
    method = Method(buffers="one place (hot)")
    assert header_footer.header(world, method, plan, "0.1.0") == [
        "# busbw 0.1.0: backend nccl, NCCL 2.30.4",
        "# library  /opt/libnccl.so.2",
        "# ranks    2 on 2 hosts (node0, node1), world nccl, started by torchrun",
        "# devices  2 x NVIDIA H200",
        (
            "# time     median over samples of the maximum over ranks of elapsed / k;"
            " sampled to +-1.0% (2.5% below 50 us) or 0.5 s a case"
        ),
        "# buffers  one place (hot); GB/s = 10^9 bytes/s; 2 checks a case",
    ]


def test_the_header_of_a_large_mixed_world_stays_short(plan: Plan) -> None:
    ranks = tuple(RankInfo(i, f"n{i}", 1, 0, device="A" if i < 6 else "B") for i in range(8))
    lines = header_footer.header(WorldInfo("mpi", "slurm", 8, ranks), Method(), plan, "1")
    assert "# ranks    8 on 8 hosts (n[0-7]), world mpi, started by slurm" in lines
    assert "# devices  6 x A, 2 x B" in lines
    assert "# library  none" in lines
    # A GPU of several ranks is counted once.
    ranks = tuple(RankInfo(i, f"n{i}", 1, 0, device="H200", device_uuid=f"GPU-{i // 2}") for i in range(4))
    lines = header_footer.header(WorldInfo("nccl", "slurm", 4, ranks), Method(), plan, "1")
    assert "# devices  2 x H200, for 4 ranks" in lines


def test_the_footer_names_wrong_data_and_what_is_missing(plan: Plan, results: list[CaseResult]) -> None:
    assert header_footer.footer(plan, results, "/runs/id") == [
        "# WRONG all_reduce sum float 2048 B in-place: 17 elements",
        "#       rank 1 on node1: 17 wrong, first at element 5",
        "# 3 of 8 cases were not measured",
        "# record   /runs/id",
    ]
    good = [results[0]] * len(plan.cases)
    assert header_footer.footer(plan, good, "/r") == ["# no wrong data", "# record   /r"]
    assert header_footer.footer(plan, good[:7], "/r")[:2] == [
        "# 1 of 8 cases was not measured",
        "# no wrong data in the finished cases",
    ]


def test_marks_are_explained_once_and_in_the_order_of_their_rows(
    plan: Plan, results: list[CaseResult]
) -> None:
    marked = [replace(results[0], marks=marks) for marks in (("stopped",), ("unstable", "stopped"), ("new",))]
    lines = header_footer.footer(plan, marked * 2, "/r")
    # A mark of a newer busbw stays without words rather than being left out.
    assert [line.split(":")[0] for line in lines if ": " in line or line.endswith(":")] == [
        "# stopped",
        "# unstable",
        "# new",
    ]
    assert f"# stopped: {meaning('stopped')}" in lines


def test_why_cases_do_not_apply_failed_or_were_not_run_is_said_once(plan: Plan) -> None:
    form = (Status.NOT_APPLICABLE, "sendrecv has no in-place form on mpi")
    power = (Status.NOT_APPLICABLE, "3 ranks: hypercube needs a power of two")
    bench = (Status.FAILED, "Failure running neuron-bench - log file /tmp/a.log")
    ended = (Status.NOT_RUN, "the budget of 2 s ended before")
    ends = enumerate((form, form, power, bench, bench, ended, ended, ended))
    results = [CaseResult(at, status, error=error) for at, (status, error) in ends]
    assert header_footer.footer(plan, results, "/r") == [
        "# n/a: sendrecv has no in-place form on mpi",
        "# n/a: 3 ranks: hypercube needs a power of two",
        "# failed: Failure running neuron-bench - log file /tmp/a.log",
        "# not run: the budget of 2 s ended before",
        "# record   /r",
    ]


@pytest.mark.parametrize("checks", [0, 1])
def test_why_rows_of_n_0_have_no_numbers(plan: Plan, checks: int) -> None:
    wrong = 0 if checks else None
    results = [CaseResult(i, Status.GOOD, stop=StopReason.CHECK_ONLY, wrong=wrong) for i in range(8)]
    assert header_footer.footer(replace(plan, checks=checks), results, "/r") == [
        "# n/a: nothing was timed (-n 0)",
        "# no wrong data" if checks else "# N/A: nothing was checked (-c 0)",
        "# record   /r",
    ]


def test_memory_is_shown_where_it_was_asked_for(plan: Plan, results: list[CaseResult]) -> None:
    used = {"buffers": 2 * 2**20, "communicator": 3 * 2**29}
    asked = replace(plan, show=("p99", "memory"))
    assert header_footer.footer(asked, results, "/r", used)[-2:] == [
        "# memory   buffers 2.0 MiB, communicator 1.5 GiB (the most of any rank)",
        "# record   /r",
    ]
    assert not any("memory" in line for line in header_footer.footer(plan, results, "/r", used))
    assert not any("memory" in line for line in header_footer.footer(asked, results, "/r", {}))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(calls=200), "; 200 calls a case"),
        (Limits(calls=3, outer_iters=2), "; 2 x 3 calls a case"),
        (Limits(calls=3, outer_iters=2, outer_warmup_iters=1), "; 2 x 3 calls a case after 1 untimed round"),
        (Limits(calls=0), "; nothing is timed (-n 0)"),
        (Limits(budget_seconds=120.0), " (2.5% below 50 us) or 0.5 s a case, 120 s for all cases"),
        (Limits(precision=0.005, small_precision=0.005), "; sampled to +-0.5% or 0.5 s a case"),
        (Limits(precision=1e-4, small_precision=1e-4), "; sampled to +-0.01% or 0.5 s a case"),
        (Limits(precision=0.0125), "; sampled to +-1.25% (2.5% below 50 us) or 0.5 s a case"),
        (Limits(), "; sampled to +-1.0% (2.5% below 50 us) or 0.5 s a case"),
    ],
)
def test_the_header_says_how_it_was_sampled(world: WorldInfo, plan: Plan, limits: Limits, words: str) -> None:
    sampled = Plan(plan.backend, plan.cases, plan.buffer_bytes, limits, 0, 1)
    assert header_footer.header(world, Method(), sampled, "1")[4].endswith(words)
    assert header_footer.header(world, Method(), sampled, "1")[5].endswith("; unchecked")
    clocks = {0.0: "; the ranks share their host's clock", 1500.0: "; the ranks' clocks agree within 3.00 us"}
    for error_ns, said in clocks.items():
        assert header_footer.header(world, Method(clock_error_ns=error_ns), sampled, "1")[4].endswith(
            words + said
        )
