"""nccom-test, OSU, IMB, and the JSON and CSV forms."""

# ruff: noqa: E501 (tables have the width that their tools give them)

import json
from collections.abc import Callable
from typing import Any

import pytest

from busbw.errors import UndecidedError
from busbw.foreign.nccom.read import command
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import Status

# The two tables of the guide of nccom-test (aws-neuron-sdk, tools/neuron-sys-tools/nccom-test.rst): the older
# divides by 2^30, the newer by 10^9.
NCCOM_GIB = """\
nccom-test -r 2 --minbytes 1kb --maxbytes 1gb --stepfactor 4 --datatype fp32 allr
       size(B)    count(elems)    type    time(us)    algbw(GB/s)    busbw(GB/s)
       1048576          262144    fp32          68          14.36          14.36
      16777216         4194304    fp32         332          47.06          47.06
      67108864        16777216    fp32        1214          51.48          51.48
    1073741824       268435456    fp32       18930          52.83          52.83
Avg bus bandwidth:      41.4325GB/s
"""
NCCOM_GB = """\
    nccom-test -r 8 --minbytes 1kb --maxbytes 1mb --stepfactor 8 --stats avg p25 p50 p90 p99 allg
    size(B)    count(elems)    type    time:avg(us)    time:p50(us)    time:p99(us)    algbw(GB/s)    busbw(GB/s)
       1024             256    fp32           10.00              10              12           0.10           0.09
       8192            2048    fp32           10.22              10              12           0.80           0.70
      65536           16384    fp32           11.31              11              13           5.80           5.07
     524288          131072    fp32           14.83              15              17          35.34          30.92
    Avg bus bandwidth:\t9.1966GB/s
"""
NCCOM_FAILED = """\
nccom-test -r 2 allr
     size(B)    count(elems)    type    time(us)    algbw(GB/s)    busbw(GB/s)
    33554432    Failure running neuron-bench - log file /tmp/nccom_test_log_7pqpdfjf.log
1 errors found - test failed
"""
OSU = """\
$ srun -N 2 -n 16 ./osu_allgather -f

# OSU MPI Allgather Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
1                       2.81              1.89              3.73        1000
1048576               104.30            104.26            104.33         100
"""
IMB = """\
#----------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part
#----------------------------------------------------------------
# Date                  : Tue Jul  2 05:18:08 2024
# MPI Version           : 3.1
# MPI_Datatype                   :   MPI_BYTE
# MPI_Datatype for reductions    :   MPI_FLOAT
# MPI_Op                         :   MPI_SUM
#----------------------------------------------------------------
# Benchmarking Alltoall
# #processes = 2
# ( 2 additional processes waiting in MPI_Barrier)
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.07         0.07         0.07
         1024         1000         0.65         6.07         3.36

#----------------------------------------------------------------
# Benchmarking Alltoall
# #processes = 4
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         1024         1000         0.80         8.00         4.00

#----------------------------------------------------------------
# Benchmarking Allreduce
# #processes = 4
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         4096         1000         1.00        10.00         5.00

#---------------------------------------------------
# Benchmarking Barrier
# #processes = 4
#---------------------------------------------------
 #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         1000        12.74        12.80        12.75

# All processes entering MPI_Finalize
"""


def kinds(record: RunRecord) -> list[str]:
    return [finding.kind for finding in record.source.findings]


@pytest.mark.parametrize(
    ("text", "operation", "ranks"),
    [
        ("-r 64 -N 2 -b 8 -e 1GB allr --hosts 127.0.0.1 10.1.4.138", "all_reduce", 64),
        ("allg --nworkers 32 --check all_ones", "all_gather", 32),
        ("-r 8 --custom-src-target-pairs pairs.json permute", "permute", 8),
        ("--stats avg p50 --iters 9 redsct", "reduce_scatter", None),
        ("-r 2 'unclosed", "", 2),
    ],
)
def test_commands_of_nccom_test(text: str, operation: str, ranks: int | None) -> None:
    assert command(text) == (operation, ranks)


def test_old_nccom_tables_are_gib(imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(NCCOM_GIB)
    assert kinds(record) == ["unit"]
    assert (record.plan.cases[0].collective, record.world.size) == ("all_reduce", 2)
    assert record.results[3].algbw_gb_per_s == pytest.approx(1073741824 / 18930e3)  # 56.72, not 52.83
    assert record.results[3].mean_ns is None  # the median or the mean: the log does not say
    assert [case.placement for case in record.plan.cases] == [Placement.OUT_OF_PLACE] * 4
    assert record.plan.cases[0].dtype == "float"


def test_new_nccom_tables_are_decimal_and_have_percentiles(imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(NCCOM_GB)
    assert kinds(record) == []
    assert (record.plan.cases[0].collective, record.world.size) == ("all_gather", 8)
    assert record.results[3].stats == {"p50": 15000.0, "p99": 17000.0}
    assert record.results[3].mean_ns == 14830.0
    assert record.results[3].busbw_gb_per_s == 30.92  # the time has fewer digits


def test_a_reduction_of_nccom_test_is_the_sum_that_its_check_is_of(
    imported: Callable[..., list[RunRecord]],
) -> None:
    (reduced,), (gathered,) = imported(NCCOM_GIB), imported(NCCOM_GB)
    assert (reduced.plan.cases[0].op, gathered.plan.cases[0].op) == ("sum", "")
    assert reduced.source.fields["op"].startswith("assumed: ")


@pytest.mark.parametrize("average", ["1.2.3", "41.4325"])
def test_an_average_of_any_letters(average: str, imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(NCCOM_GIB.replace("41.4325", average))
    assert len(record.results) == 4
    assert "rows-missing" not in kinds(record)


def test_failed_rows_of_nccom_test_are_failed_cases(imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(NCCOM_FAILED)
    (result,) = record.results
    assert result.status is Status.FAILED
    assert "nccom_test_log_7pqpdfjf.log" in result.error
    assert record.plan.cases[0].size_bytes == 33554432
    assert record.source.header["errors_found"] == 1


NCCOM_TOLD = """\
nccom-test -r 8 --show-algorithm --show-input-output-size allg
    size(B)  count(elems)  total_input_size(B)  total_output_size(B)  type  time:avg(us)  algbw(GB/s)  busbw(GB/s)  algorithm
       1024           256                  128                  1024  fp32         10.00         0.10         0.09       mesh
   33554432  Failure running neuron-bench - log file /tmp/nccom_test_log_7pqpdfjf.log
    1048576        262144               131072               1048576  fp32        100.00        10.49         9.18          -
"""


@pytest.mark.parametrize("failed", [True, False])
def test_what_nccom_test_tells_of_a_row_is_in_its_result(
    failed: bool, imported: Callable[..., list[RunRecord]]
) -> None:
    """With a failed row among them results are values, without one columns."""
    lines = [line for line in NCCOM_TOLD.splitlines() if failed or "Failure" not in line]
    (record,) = imported("\n".join(lines))
    told = [(each.algorithm, each.input_bytes, each.output_bytes) for each in record.results]
    assert told == [("mesh", 128, 1024), *([("", None, None)] * failed), ("", 131072, 1048576)]
    assert record.plan.show == ("in", "out", "algorithm")
    assert "algorithm" not in record.source.header


def test_osu_sizes_are_one_ranks_share(imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(OSU)
    assert (record.plan.cases[0].collective, record.world.size) == ("all_gather", 16)
    case, result = record.plan.cases[1], record.results[1]
    assert (case.size_bytes, case.count, case.dtype) == (16 * 1048576, 1048576, "int8")
    assert result.time_ns == pytest.approx(104_300)
    assert result.stats == {"min": 104_260.0, "max": 104_330.0}
    assert result.busbw_gb_per_s == pytest.approx(16 * 1048576 / 104_300 * 15 / 16)
    assert record.source.fields["ranks"] == "command"


def test_osu_without_a_command_line_asks_for_ranks(imported: Callable[..., list[RunRecord]]) -> None:
    text = OSU.split("\n", 1)[1]
    with pytest.raises(UndecidedError, match="number of ranks"):
        imported(text)
    (record,) = imported(text, ranks=4)
    assert record.plan.cases[1].size_bytes == 4 * 1048576


@pytest.mark.parametrize(
    ("title", "operation", "size"),
    [
        ("MPI Allreduce", "all_reduce", 1024),
        ("MPI-CUDA Allreduce", "all_reduce", 1024),
        ("NCCL Allreduce", "all_reduce", 1024),
        ("MPI Broadcast", "broadcast", 1024),
        ("MPI All-to-All Personalized Exchange", "alltoall", 4096),
        ("MPI Reduce_scatter", "reduce_scatter", 1024),
        ("MPI Gather", "gather", 4096),
    ],
)
def test_osu_titles(title: str, operation: str, size: int, imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(
        f"# OSU {title} Latency Test v5.8\n# Size       Avg Latency(us)\n1024    20.00\n", ranks=4
    )
    (case,) = record.plan.cases
    assert (case.collective, case.size_bytes) == (operation, size)
    assert case.dtype == ("float" if operation in ("all_reduce", "reduce_scatter") else "int8")


def test_osu_barrier_has_no_size(imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(
        "# OSU MPI Barrier Latency Test v5.8\n# Avg Latency(us)\n             2.31\n", ranks=4
    )
    (case,), (result,) = record.plan.cases, record.results
    assert (case.collective, case.size_bytes, result.time_ns, result.busbw_gb_per_s) == (
        "barrier",
        0,
        2310.0,
        None,
    )


def test_imb_has_a_table_for_every_number_of_processes(imported: Callable[..., list[RunRecord]]) -> None:
    two, four, reduction, barrier = imported(IMB)
    assert [r.world.size for r in (two, four, reduction, barrier)] == [2, 4, 4, 4]
    assert "waiting" in two.source.header
    assert "waiting" not in four.source.header
    assert two.created == "2024-07-02T05:18:08"
    assert [case.size_bytes for case in two.plan.cases] == [0, 2048]
    assert four.results[0].time_ns == 8000.0  # t_max
    assert four.results[0].stats == {"min": 800.0, "avg": 4000.0}
    assert four.results[0].algbw_gb_per_s == pytest.approx(4096 / 8000)
    (case,) = reduction.plan.cases
    assert (case.collective, case.dtype, case.op, case.size_bytes) == ("all_reduce", "float", "sum", 4096)
    assert reduction.results[0].busbw_gb_per_s == pytest.approx(4096 / 10_000 * 1.5)
    assert (barrier.plan.cases[0].collective, barrier.results[0].time_ns) == ("barrier", 12800.0)


def nccl_json() -> dict[str, Any]:
    side = {"time": 100.001234, "alg_bw": 10.485631, "bus_bw": 7.864223, "nwrong": 0.0}
    return {
        "version": 3,
        "start_time": "2026-09-26 10:00:00",
        "args": ["./build/all_gather_perf", "-b", "1M"],
        "env": ["NCCL_DEBUG=INFO", "AWS_SECRET_ACCESS_KEY=abc", "HOME=/root", "NCCL_AUTH_TOKEN=x"],
        "nccl_version": 22809,
        "config": {
            "nthreads": 1,
            "ngpus": 1,
            "minimum_bytes": 1048576,
            "maximum_bytes": 1048576,
            "warmup_iters": 1,
            "iterations": 20,
            "validation": 1,
            "devices": [
                {
                    "rank": r,
                    "group": 0,
                    "pid": r,
                    "hostname": "node1",
                    "device": r,
                    "device_hex": "0000:05:00",
                    "device_info": "NVIDIA H100",
                }
                for r in range(4)
            ],
        },
        "results": [
            {
                "size": 1048576,
                "count": 65536,
                "type": "float",
                "redop": "none",
                "root": "    -1",
                "out_of_place": side,
                "out_of_place_per_iter": {
                    "min_us": 98.1,
                    "max_us": 103.2,
                    "p50_us": 99.0,
                    "p95_us": 102.0,
                    "p99_us": 103.0,
                },
                "in_place": {**side, "nwrong": None},
            }
        ],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 7.864223, "okay": "unchecked"},
        "end_time": "2026-09-26 10:00:09",
    }


def test_json_of_nccl_tests(imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(json.dumps(nccl_json()), "a.json")
    assert (record.plan.cases[0].collective, record.world.size, record.plan.limits.calls) == (
        "all_gather",
        4,
        20,
    )
    assert record.created == "2026-09-26T10:00:00"
    out_of_place, in_place = record.results
    assert out_of_place.time_ns == pytest.approx(100_001.234)
    assert out_of_place.stats == {
        "min": 98100.0,
        "max": 103200.0,
        "p50": 99000.0,
        "p95": 102000.0,
        "p99": 103000.0,
    }
    assert (out_of_place.wrong, in_place.wrong) == (0, None)
    assert in_place.stats == {}
    assert kinds(record) == []


def test_secrets_of_the_environment_are_not_taken(imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(json.dumps(nccl_json()), "a.json")
    assert record.environment == {
        "variables": {"NCCL_DEBUG": "INFO", "NCCL_AUTH_TOKEN": "[redacted]"},
        "redacted": ["NCCL_AUTH_TOKEN"],
    }
    assert "abc" not in str(record)


def test_damaged_entries_of_json_are_reported(imported: Callable[..., list[RunRecord]]) -> None:
    document = nccl_json()
    document["results"] += [{"size": 8}, "x", {**document["results"][0], "in_place": None}]
    (record,) = imported(json.dumps(document))
    assert kinds(record).count("damaged") == 3  # the last has no in_place, where the others have
    assert [result.status for result in record.results] == [Status.GOOD] * 2


def test_json_of_nccom_test(imported: Callable[..., list[RunRecord]]) -> None:
    rows = [
        {
            "size(B)": 1024,
            "count(elems)": 256,
            "type": "fp32",
            "algbw(GB/s)": 0.16553675170497603,
            "busbw(GB/s)": 0.16036372821419553,
            "time:avg(us)": 6.19,
        },
        {
            "size(B)": 524288,
            "count(elems)": 131072,
            "type": "fp32",
            "algbw(GB/s)": 22.688776793562784,
            "busbw(GB/s)": 21.97975251876395,
            "time:avg(us)": 23.11,
        },
        {"size(B)": 1048576, "error": "timeout"},
    ]
    (record,) = imported(json.dumps({"results": rows}), "nccom-allg.json", op="all_gather")
    assert record.world.size == 32
    assert record.source.fields["ranks"] == "rows (32 fit the rows)"
    assert record.results[1].time_ns == 23110.0
    assert record.results[2].status is Status.FAILED


def test_csv_of_the_aws_kit(imported: Callable[..., list[RunRecord]]) -> None:
    text = (
        "Size_Bytes,Size_KB,Size_MB,Count,Data_Type,Operation,Root,OOP_Time_us,OOP_AlgBW_GBps,OOP_BusBW_GBps,OOP_Errors,"
        "IP_Time_us,IP_AlgBW_GBps,IP_BusBW_GBps,IP_Errors\n"
        "1073741824,1048576.0,1024.0,268435456,float,sum,-1,26217.0,40.96,76.79,0,26194.0,40.99,76.86,0\n"
        "2147483648,2097152.0,2048.0,536870912,float,sum,-1,51406.0,41.78,78.33,0,51406.0,41.77,78.33,2\n"
        "broken,,,,\n"
    )
    (record,) = imported(text, "nccl_2_ami_allreduce_0x0_20250901_results.csv")
    assert (record.plan.cases[0].collective, record.world.size) == ("all_reduce", 16)
    assert [result.wrong for result in record.results] == [None, None, None, 2]  # a 0 may have been N/A
    assert kinds(record) == ["damaged"]
