"""Layouts of real versions of the tests whose operation reduces nothing, or which print one placement."""

# ruff: noqa: E501 (tables have the width that their tools give them)

import pytest
from busbw_testing.logs import NEW_HEADING, format_row, imported

from busbw.model.collective import Placement

RANKS = 8
SIZES = [1 << power for power in range(20, 30)]

# What each test prints for its root; an empty reduction leaves its field blank (TimeTest(..., "", root)).
OPERATIONS = {
    "alltoall": (-1, 7 / 8, 1.0),
    "all_gather": (-1, 7 / 8, 1.0),
    "broadcast": (0, 1.0, 1.0),
    "gather": (0, 7 / 8, 1.0),
    "scatter": (0, 7 / 8, 1.0),
    "hypercube": (-1, 1.0, 7 / 8),
    "alltoallv": (-1, 7 / 8, 0.83),
}
BLOCKED = {"alltoall", "all_gather", "gather", "scatter", "hypercube", "alltoallv"}
DEVICES = "".join(
    f"#  Rank {rank:2} Group  0 Pid   1000 on      node0 device {rank:2} [0x0{rank}] Tesla V100\n"
    for rank in range(RANKS)
)


def sides(size: int, factor: float, share: float) -> str:
    us = 50 + size / 20e3
    time = f"{us:.0f}" if us >= 10_000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}"
    algbw = size * share / float(time) / 1e3
    return f"  {time:>7}  {algbw:6.2f}  {algbw * factor:6.2f}  {0:>5}"


def log_2_13(operation: str, redop: str = "") -> str:
    """2.13.0 to 2.13.3: one layout for all tests, the reduction empty where there is none."""
    root, factor, share = OPERATIONS[operation]
    blocks = RANKS if operation in BLOCKED else 1
    lines = NEW_HEADING.splitlines()
    for size in SIZES:
        left = f"{size:12}  {size // 4 // blocks:12}  {'float':>8}  {redop:>6}  {root:6}"
        lines.append(left + 2 * sides(size, factor, share))
    return DEVICES + "\n".join(lines) + "\n"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_empty_reduction_is_none(operation: str) -> None:
    (record,) = imported(log_2_13(operation), f"logs/{operation}_perf.log")
    assert [case.size_bytes for case in record.plan.cases[::2]] == SIZES
    assert {(case.collective, case.op, case.root) for case in record.plan.cases} == {
        (operation, "", OPERATIONS[operation][0])
    }
    assert {f.kind for f in record.source.findings} <= {"no-end"}
    assert record.world.size == RANKS


def test_alltoall_of_2_9_has_no_root_either() -> None:
    lines = [
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error",
        "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       ",
    ]
    for size in SIZES:
        cells = sides(size, 7 / 8, 1.0)[:-5] + "0e+00"
        lines.append(f"{size:12}  {size // 4 // RANKS:12}  {'float':>6}  {'':>6}" + 2 * cells)
    (record,) = imported(DEVICES + "\n".join(lines) + "\n", "alltoall_perf.log")
    assert len(record.results) == 2 * len(SIZES)
    assert {case.op for case in record.plan.cases} == {""}


def test_a_type_that_is_missing_is_no_empty_reduction() -> None:
    lines = log_2_13("alltoall", "none").splitlines()
    lines[12] = lines[12].replace("float", "     ")
    (record,) = imported("\n".join(lines), "alltoall_perf.log")
    assert len(record.results) == 2 * len(SIZES) - 2
    assert [f.line for f in record.source.findings if f.kind == "damaged"] == [13]


def test_rccl_tests_without_out_of_place() -> None:
    lines = [
        "rccl-tests: Version develop:1234567",
        f"#{'':55}in-place",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)       ",
    ]
    lines += [
        f"{size:12}  {size // 4:12}  {'float':>8}  {'sum':>6}  {-1:6}{sides(size, 1.75, 1.0)}"
        for size in SIZES
    ]
    (record,) = imported(DEVICES + "\n".join(lines) + "\n")
    assert (record.source.tool, record.plan.cases[0].collective) == ("rccl-tests", "all_reduce")
    assert {case.placement for case in record.plan.cases} == {Placement.IN_PLACE}


def test_sendrecv_prints_a_reduction_and_has_none() -> None:
    side = "100.0 10.49 10.49 0"
    text = NEW_HEADING + format_row(f"1048576 262144 float sum -1 {side} {side}") + "\n"
    (record,) = imported("# Collective test starting: sendrecv_perf\n" + text, ranks=8)
    assert {(case.collective, case.op) for case in record.plan.cases} == {("sendrecv", "")}
