"""Wrong data, in whatever way a tool says so: the row is there, marked, and has no bandwidth."""

# ruff: noqa: E501 (tables have the width that their tools give them)

import pytest
from busbw_testing.logs import imported, kinds

from busbw.model.record import RunRecord
from busbw.model.result import Status

OLD_HEADING = (
    "# nThread {threads} nGpus 8 minBytes 8 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 validation: 1\n"
    "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
    "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n"
)


def old_table(errors: list[str], end: str, dtype: str = "float", threads: int = 1) -> str:
    """A table from before nccl-tests 2.13 on 8 ranks: deviations, two a row."""
    text = OLD_HEADING.format(threads=threads)
    for number in range(0, len(errors), 2):
        size = 1 << 20 + number // 2 % 10
        text += f"{size:12}  {size // {'float': 4, 'half': 2}[dtype]:12}  {dtype:>6}  {'sum':>6}"
        for error in errors[number : number + 2]:
            algbw = size / 100.0 / 1e3
            text += f"  {'100.0':>7}  {algbw:6.2f}  {algbw * 1.75:6.2f}  {error:>5}"
        text += "\n"
    return text + end


def statuses(record: RunRecord) -> list[Status]:
    return [result.status for result in record.results]


FAILED = "# Out of bounds values : 1 FAILED\n# Avg bus bandwidth    : 32.1 \n"


def test_a_deviation_beyond_the_limit_is_wrong() -> None:
    """1e-5 for each of the 7 other ranks: 6e-05 is within, 8e-05 is not."""
    (record,) = imported(old_table(["1e-06", "6e-05", "8e-05", "2e+00"], FAILED))
    assert statuses(record) == [Status.GOOD, Status.GOOD, Status.WRONG, Status.WRONG]
    wrong = record.results[2]
    assert (wrong.wrong, wrong.algbw_gb_per_s, wrong.busbw_gb_per_s) == (None, None, None)
    assert wrong.time_ns == 100_000.0
    assert record.results[0].wrong is None  # the column is no count


@pytest.mark.parametrize(
    ("errors", "dtype", "threads", "end"),
    [
        (["8e-05", "8e-05"], "half", 1, FAILED),  # half may deviate by 1e-2
        (["8e-05", "8e-05"], "float", 4, FAILED),  # of several threads they are added up
        (["8e-05", "8e-05"], "float", 1, "# Out of bounds values : 0 OK\n"),
    ],
)
def test_what_is_not_beyond_the_limit_is_not_wrong(
    errors: list[str], dtype: str, threads: int, end: str
) -> None:
    (record,) = imported(old_table(errors * 2, end, dtype, threads), ranks=8)
    assert Status.WRONG not in statuses(record)
    assert ("contradiction" in kinds(record)) == (end == FAILED)  # it counts some, no row shows which


def test_the_star_of_rccl_tests_is_wrong() -> None:
    text = "rccl-tests: Version develop:924521f\n" + old_table(["1e-06", "3e-01*", "0e+00", "N/A"], FAILED)
    (record,) = imported(text)
    assert statuses(record) == [Status.GOOD, Status.WRONG, Status.GOOD, Status.GOOD]
    assert "damaged" not in kinds(record)


OSU = """\
# OSU MPI Allreduce Latency Test v7.5
# Datatype: MPI_FLOAT.
# Size       Avg Latency(us)        Validation
4                      12.46              Pass
8                      12.05              Fail
16                     11.99              Pass
"""
IMB = """\
# Benchmarking Allreduce
# #processes = 4
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]      defects
            4         1000         1.00         1.20         1.10         0.00
            8         1000         1.00         1.20         1.10         0.50
           16         1000         1.00         1.20         1.10         0.00
"""


@pytest.mark.parametrize("text", [OSU, IMB])
def test_what_other_tools_call_wrong(text: str) -> None:
    (record,) = imported(text, ranks=4)
    assert [case.size_bytes for case in record.plan.cases] == [4, 8, 16]
    assert statuses(record) == [Status.GOOD, Status.WRONG, Status.GOOD]
    assert [result.wrong for result in record.results] == [0, None, 0]
    assert record.results[1].busbw_gb_per_s is None
    assert record.plan.checks == 1


def test_sizes_that_imb_could_not_run_have_failed() -> None:
    text = IMB.replace("      defects", "").replace("         0.00\n", "\n").replace("         0.50\n", "\n")
    text += (
        '           32 out-of-mem.; needed X=   5.123 GB; use flag "-mem X" or MAX_MEM_USAGE>=X (IMB_mem_info.h)\n'
        "           64 int-overflow; The production rank*size caused int overflow;\n"
        "          128 time-out.; Time limit (secs_per_sample * msg_sizes_list_len) is over;\n"
    )
    (record,) = imported(text)
    assert statuses(record) == [Status.GOOD] * 3 + [Status.FAILED] * 3
    assert [case.size_bytes for case in record.plan.cases][3:] == [32, 64, 128]
    assert "needed X=" in record.results[3].error
    assert "damaged" not in kinds(record)
