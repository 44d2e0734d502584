"""nccl-tests and rccl-tests text: every layout since 2.0, by the words of its heading."""

# ruff: noqa: E501 (tables have the width that their tools give them)

import pytest
from busbw_testing.logs import NEW_HEADING, format_row, imported, kinds, nccl_table

from busbw.errors import UndecidedError
from busbw.model.record import RunStatus
from busbw.model.result import Status

# 12 GPUs of one node; no column for the reduction, which all_gather does not have.
V2_8_ALL_GATHER = """\
# nThread 1 nGpus 1 minBytes 4 maxBytes 4800 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
{ranks}#
#                                             out-of-place                       in-place
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0   float    57.30    0.00    0.00  0e+00    57.09    0.00    0.00  0e+00
      196608          4096   float    60.00    3.00    3.00  0e+00    61.00    2.95    2.95  0e+00
     1966080         40960   float    80.00   22.53   22.53  0e+00    81.00   22.25   22.25  0e+00
    19660800        409600   float    300.0   60.07   60.07  0e+00    301.0   59.87   59.87  0e+00
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 21.3337
#
""".format(
    ranks="".join(
        f"#   Rank {r:2} Pid  87569 on    seville device {r:2} [0xb7] Tesla V100\n" for r in range(12)
    )
)

V2_19_PER_ITERATION = """\
# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
# Per-Iteration Report: CUDA event timing; i_* uses max over process rows
#
# Using devices
#  Rank  0 Group  0 Pid    100 on      node1 device  0 [0000:05:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid    101 on      node1 device  1 [0000:06:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid    200 on      node2 device  0 [0000:05:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid    201 on      node2 device  1 [0000:06:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place (+ per-iteration)                                in-place (+ per-iteration)
#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%)     (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%) %Y-%m-%d %H:%M:%S
     1048576         65536     float    none      -1   100.00   10.49    7.86       0    98.10   103.20   103.00     1.20   101.00   10.38    7.79       0    99.00   104.00   104.00     1.10  2026-09-26 10:00:00
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 7.82541
#
# Collective test concluded: all_gather_perf
"""


def test_old_all_gather_left_out_the_own_block() -> None:
    (record,) = imported(V2_8_ALL_GATHER, op="all_gather")
    assert record.world.size == 12
    assert "formula" in kinds(record)
    case, result = record.plan.cases[2], record.results[2]
    assert (case.size_bytes, case.op) == (196608, "")
    assert result.algbw_gb_per_s == pytest.approx(196608 / 60e3)
    assert result.busbw_gb_per_s == pytest.approx(196608 / 60e3 * 11 / 12)  # what was printed
    assert result.wrong == 0  # by the line below the table: the column is a deviation


def test_old_all_gather_without_its_name_could_be_others() -> None:
    with pytest.raises(UndecidedError, match=r"all_gather.* all fit"):
        imported(V2_8_ALL_GATHER)


def test_per_iteration_columns_and_time_stamps() -> None:
    (record,) = imported(V2_19_PER_ITERATION)
    assert record.status is RunStatus.COMPLETE
    assert record.world.size == 4
    assert record.world.hosts == ("node1", "node2")
    assert [rank.local_rank for rank in record.world.ranks] == [0, 1, 0, 1]
    assert record.world.ranks[3].facts == {"device_index": 1, "bus_id": "0000:06:00", "group": 0}
    assert record.world.ranks[0].library_version == "2.28.9"
    assert record.plan.limits.calls == 20
    assert record.plan.limits.warmup_calls == 1
    out_of_place, in_place = record.results
    assert out_of_place.stats == {
        "min": 98100.0,
        "max": 103200.0,
        "p99": 103000.0,
        "cv": pytest.approx(0.012),
    }
    assert in_place.time_ns == 101000.0
    assert record.source.fields["operation"] == "header"
    assert record.source.fields["ranks"] == "header (4 fit the rows)"
    assert kinds(record) == []


def test_cpu_time_is_not_the_time_of_the_operation() -> None:
    heading = NEW_HEADING.replace("   time", "cputime")
    rows = [
        "1048576 262144 float sum -1 5.00 10.00 18.75 0 5.10 10.00 18.75 N/A",
        "8 2 float sum -1 4.00 0.00 0.00 0 4.00 0.00 0.00 0",
    ]
    (record,) = imported(heading + "".join(format_row(row) + "\n" for row in rows), ranks=16)
    assert record.results[0].time_ns == pytest.approx(1048576 / 10.0)
    assert record.results[0].busbw_gb_per_s == pytest.approx(18.75)
    assert record.results[1].wrong is None
    assert record.results[2].time_ns is None  # 0.00 GB/s does not tell


def test_wrong_rows_have_no_bandwidth_and_unchecked_ones_no_count() -> None:
    rows = ["1048576 262144 float sum -1 100.0 10.49 18.35 3 101.0 10.38 18.17 N/A"]
    (record,) = imported(NEW_HEADING + format_row(rows[0]) + "\n", ranks=8)
    wrong, unchecked = record.results
    assert (wrong.status, wrong.wrong, wrong.time_ns) == (Status.WRONG, 3, 100_000.0)
    assert wrong.algbw_gb_per_s is None
    assert wrong.busbw_gb_per_s is None
    assert (unchecked.status, unchecked.wrong) == (Status.GOOD, None)


def test_hypercube_moves_all_blocks_but_one() -> None:
    # 8 ranks: algbw is 7/8 of size / time, busbw the same
    rows = [
        "1048576 32768 float none -1 100.0 9.18 9.18 0 100.0 9.18 9.18 0",
        "8388608 262144 float none -1 400.0 18.35 18.35 0 400.0 18.35 18.35 0",
    ]
    (record,) = imported(NEW_HEADING + "".join(format_row(row) + "\n" for row in rows))
    assert record.plan.cases[0].collective == "hypercube"
    assert record.world.size == 8
    assert record.results[0].algbw_gb_per_s == pytest.approx(1048576 / 1e5 * 7 / 8)


def test_count_and_size_tell_the_ranks_of_operations_with_blocks() -> None:
    row = format_row("1048576 16384 float sum -1 100.0 10.49 9.83 0 100.0 10.49 9.83 0")
    (record,) = imported(NEW_HEADING + row + "\n")
    assert record.plan.cases[0].collective == "reduce_scatter"  # the only one with blocks that reduces
    assert record.world.size == 16


def test_several_tables_of_one_job_are_several_records() -> None:
    first, second, third = imported(V2_19_PER_ITERATION + nccl_table(1) + V2_19_PER_ITERATION)
    assert [first.world.size, second.world.size, third.world.size] == [4, 16, 4]
    assert [r.plan.cases[0].collective for r in (first, second, third)] == [
        "all_gather",
        "all_reduce",
        "all_gather",
    ]
    assert second.world.ranks[4].device == "NVIDIA H100 80GB HBM3"
    assert second.world.ranks[0].library_version == ""  # that of the first launch is not its own
    assert (first.source.table, third.source.table) == (1, 3)


def test_rccl_tests_are_their_own_tool() -> None:
    text = V2_19_PER_ITERATION.replace(
        "# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809",
        "# rccl-tests version 2.17.9-develop:4a65e8d rccl-headers=22707 rccl-library=22707",
    )
    (record,) = imported(text)
    assert (record.source.tool, record.plan.backend) == ("rccl-tests", "rccl")
    assert (record.world.ranks[0].library, record.world.ranks[0].library_version) == ("RCCL", "2.27.7")


def test_split_groups_have_the_ranks_of_one() -> None:
    text = V2_19_PER_ITERATION.replace("Rank  2 Group  0", "Rank  2 Group  1").replace(
        "Rank  3 Group  0", "Rank  3 Group  1"
    )
    text = (
        text.replace("         65536     float", "        131072     float")
        .replace("7.86", "5.24")
        .replace("7.79", "5.19")
        .replace("7.82541", "5.215")
    )
    (record,) = imported(text)
    assert record.world.size == 2
    assert len(record.world.ranks) == 4
    assert kinds(record) == []


def test_foreign_types_and_operations_are_kept() -> None:
    rows = "".join(
        format_row(
            f"{size} {size} fp4e2m1 weird -1 100.0 {size / 1e5:.2f} {size / 1e5:.2f} 0 100.0 {size / 1e5:.2f} {size / 1e5:.2f} 0"
        )
        + "\n"
        for size in (10**6, 10**7)
    )
    (record,) = imported(NEW_HEADING + rows, op="my_own_collective", ranks=4)
    case, result = record.plan.cases[0], record.results[0]
    assert (case.collective, case.dtype, case.op) == ("my_own_collective", "fp4e2m1", "weird")
    assert result.busbw_gb_per_s == pytest.approx(10.0)  # the log's own
    said = " ".join(finding.text for finding in record.source.findings)
    assert "busbw does not know the operation my_own_collective" in said


AMD = """\
{first}# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 1024 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid    100 on      node1 device  0 [{bus}] AMD {name}
#  Rank  1 Group  0 Pid    101 on      node1 device  1 [{bus}] AMD {name}
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1   100.00   10.49   10.49       0   100.00   10.49   10.49       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 10.49
"""
OWN_LINE = "# nccl-tests version 2.19.6 nccl-headers=0 nccl-library=0\n"


@pytest.mark.parametrize(
    ("first", "bus", "name", "tool"),
    [
        (OWN_LINE, "cpu", "EPYC 9454", "nccl-tests"),
        (OWN_LINE, "0000:0f:00", "Instinct MI300X", "nccl-tests"),
        ("", "cpu", "EPYC 9454", "nccl-tests"),
        ("", "", "EPYC 9454", "nccl-tests"),
        ("", "0000:0f:00", "Instinct MI300X", "rccl-tests"),
    ],
)
def test_the_tool_is_named_by_its_line_then_by_its_gpus(first: str, bus: str, name: str, tool: str) -> None:
    """A CPU of AMD is no GPU of AMD."""
    (record,) = imported(AMD.format(first=first, bus=bus, name=name))
    assert record.source.tool == tool
