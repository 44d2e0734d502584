"""nccom-test, OSU, IMB, and the JSON and CSV forms."""

# ruff: noqa: E501 (tables have the width that their tools give them)

import json

import pytest
from busbw_testing.logs import AWS_ROWS, aws_csv, imported, kinds, nccl_report, nccom_report

from busbw.foreign.nccom.read import command
from busbw.model.collective import Placement
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


@pytest.mark.parametrize(
    ("text", "operation", "ranks"),
    [
        ("-r 64 -N 2 -b 8 -e 1GB allr --hosts 127.0.0.1 10.1.4.138", "all_reduce", 64),
        ("--stats avg p50 --iters 9 redsct", "reduce_scatter", None),
        ("-r 2 'unclosed", "", 2),
    ],
)
def test_commands_of_nccom_test(text: str, operation: str, ranks: int | None) -> None:
    assert command(text) == (operation, ranks)


def test_old_nccom_tables_are_gib() -> None:
    (record,) = imported(NCCOM_GIB)
    assert kinds(record) == ["unit"]
    assert (record.plan.cases[0].collective, record.world.size) == ("all_reduce", 2)
    assert record.results[3].algbw_gb_per_s == pytest.approx(1073741824 / 18930e3)  # 56.72, not 52.83
    assert record.results[3].mean_ns is None  # the median or the mean: the log does not say
    assert [case.placement for case in record.plan.cases] == [Placement.OUT_OF_PLACE] * 4
    assert record.plan.cases[0].dtype == "float"


def test_new_nccom_tables_are_decimal_and_have_percentiles() -> None:
    (record,) = imported(NCCOM_GB)
    assert kinds(record) == []
    assert (record.plan.cases[0].collective, record.plan.cases[0].op) == ("all_gather", "")
    assert record.world.size == 8
    assert record.results[3].stats == {"p50": 15000.0, "p99": 17000.0}
    assert record.results[3].mean_ns == 14830.0
    assert record.results[3].busbw_gb_per_s == 30.92  # the time has fewer digits


def test_an_average_of_any_letters() -> None:
    (record,) = imported(NCCOM_GIB.replace("41.4325", "1.2.3"))
    assert len(record.results) == 4
    assert "rows-missing" not in kinds(record)


def test_failed_rows_of_nccom_test_are_failed_cases() -> None:
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
def test_what_nccom_test_tells_of_a_row_is_in_its_result(failed: bool) -> None:
    """With a failed row among them results are values, without one columns."""
    lines = [line for line in NCCOM_TOLD.splitlines() if failed or "Failure" not in line]
    (record,) = imported("\n".join(lines))
    told = [(each.algorithm, each.input_bytes, each.output_bytes) for each in record.results]
    assert told == [("mesh", 128, 1024), *([("", None, None)] * failed), ("", 131072, 1048576)]
    assert record.plan.show == ("in", "out", "algorithm")
    assert "algorithm" not in record.source.header


def test_osu_sizes_are_one_ranks_share() -> None:
    (record,) = imported(OSU)
    assert (record.plan.cases[0].collective, record.world.size) == ("all_gather", 16)
    case, result = record.plan.cases[1], record.results[1]
    assert (case.size_bytes, case.count, case.dtype) == (16 * 1048576, 1048576, "int8")
    assert result.time_ns == pytest.approx(104_300)
    assert result.stats == {"min": 104_260.0, "max": 104_330.0}
    assert result.busbw_gb_per_s == pytest.approx(16 * 1048576 / 104_300 * 15 / 16)
    assert record.source.fields["ranks"] == "command"


@pytest.mark.parametrize(
    ("title", "operation", "size"),
    [
        ("MPI Allreduce", "all_reduce", 1024),
        ("MPI Broadcast", "broadcast", 1024),
        ("MPI All-to-All Personalized Exchange", "alltoall", 4096),
        ("MPI Reduce_scatter", "reduce_scatter", 1024),
        ("MPI Gather", "gather", 4096),
    ],
)
def test_osu_titles(title: str, operation: str, size: int) -> None:
    (record,) = imported(
        f"# OSU {title} Latency Test v5.8\n# Size       Avg Latency(us)\n1024    20.00\n", ranks=4
    )
    (case,) = record.plan.cases
    assert (case.collective, case.size_bytes) == (operation, size)
    assert case.dtype == ("float" if operation in ("all_reduce", "reduce_scatter") else "int8")


def test_osu_barrier_has_no_size() -> None:
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


def test_imb_has_a_table_for_every_number_of_processes() -> None:
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


def test_json_of_nccl_tests() -> None:
    report = nccl_report(rows=1)
    (row,) = report["results"]
    row["out_of_place_per_iter"] = {
        "min_us": 9.8,
        "max_us": 10.3,
        "p50_us": 9.9,
        "p95_us": 10.2,
        "p99_us": 10.3,
    }
    row["in_place"]["nwrong"] = None
    (record,) = imported(json.dumps(report), "a.json")
    assert (record.plan.cases[0].collective, record.world.size) == ("all_reduce", 4)
    assert (record.plan.limits.calls, record.created) == (20, "2026-09-26T10:00:00")
    out_of_place, in_place = record.results
    assert out_of_place.time_ns == pytest.approx(10_001.234)
    assert out_of_place.stats == pytest.approx(
        {"min": 9800, "max": 10300, "p50": 9900, "p95": 10200, "p99": 10300}
    )
    assert (out_of_place.wrong, in_place.wrong) == (0, None)
    assert (in_place.stats, kinds(record)) == ({}, [])
    assert record.environment == {  # less what is no setting; secrets are not taken
        "variables": {"NCCL_DEBUG": "INFO", "NCCL_AUTH_TOKEN": "[redacted]"},
        "redacted": ["NCCL_AUTH_TOKEN"],
    }
    assert "abc" not in str(record)


def test_damaged_entries_of_json_are_reported() -> None:
    report = nccl_report(rows=1)
    report["results"] += [{"size": 8}, "x", {**report["results"][0], "in_place": None}]
    (record,) = imported(json.dumps(report), "a.json")
    assert kinds(record).count("damaged") == 3  # the last has no in_place, where the others have
    assert [result.status for result in record.results] == [Status.GOOD] * 2


def test_json_of_nccom_test() -> None:
    report = nccom_report()
    report["results"].append({"size(B)": 1048576, "error": "timeout"})
    (record,) = imported(json.dumps(report), "nccom-allr.json", op="all_reduce")
    assert record.source.fields["ranks"] == "rows (4 fit the rows)"
    assert [result.time_ns for result in record.results[:2]] == [10_000.0, 11_000.0]
    assert record.results[-1].status is Status.FAILED


def test_csv_of_the_aws_kit() -> None:
    (record,) = imported(
        aws_csv(*AWS_ROWS[:2], "broken,,,,"), "nccl_2_ami_allreduce_0x0_20250901_results.csv"
    )
    assert (record.plan.cases[0].collective, record.world.size) == ("all_reduce", 16)
    assert [result.wrong for result in record.results] == [None, None, None, 2]  # a 0 may have been N/A
    assert kinds(record) == ["damaged"]
