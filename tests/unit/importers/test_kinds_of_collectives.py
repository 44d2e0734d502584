"""Non-blocking, persistent and other collectives of OSU and IMB: their own names, the log's own numbers."""

from collections.abc import Callable

import pytest

from busbw.importers.operations import base, operation
from busbw.model.record import RunRecord

OSU_NON_BLOCKING = """\
# OSU MPI Non-blocking Allgather Latency Test v7.4
# Datatype: MPI_CHAR.
# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait

# Size           Overall(us)         Compute(us)      Coll. Init(us)        MPI_Test(us)        MPI_Wait(us)      Pure Comm.(us)       Min Comm.(us)       Max Comm.(us)          Overlap(%)
1                      10.00                4.00                1.00                0.00                1.20                5.00                4.00                6.00               25.00
"""  # noqa: E501 (the width that OSU gives it)
IMB_NON_BLOCKING = """\
# Benchmarking Iallreduce
# #processes = 4
#------------------------------------------------------------------------------------------
       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]
            0         1000         3.00         1.00         1.50         0.00
         4096         1000        30.00        20.00        21.00        50.00
"""
IMB_GROUPS = """\
# Benchmarking Multi-Allreduce
# ( 2 groups of 2 processes each running simultaneous )
# Group  0:     0    1
# Group  1:     2    3
#-----------------------------------------------------------------------------
        Group       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]

            0            4         1000         1.00         1.20         1.10
            1            4         1000         1.00         1.30         1.10

            0            8         1000         1.00         1.40         1.10
            1            8 out-of-mem.; needed X=   5.123 GB; use flag
"""


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("all_reduce_perf_mpi", "all_reduce"),
        ("alltoall_perf", "alltoall"),
        ("Non-blocking Allreduce", "iall_reduce"),
        ("Non-Blocking Broadcast", "ibroadcast"),
        ("Ibcast", "ibroadcast"),
        ("All-to-All Personalized Exchange Persistent", "alltoall_init"),
        ("Neighborhood Allgather", "neighbor_all_gather"),
        ("Non-blocking Neighborhood Alltoallv", "ineighbor_alltoallv"),
        ("Allreduce", "all_reduce"),
        ("perf", ""),
    ],
)
def test_names(word: str, name: str) -> None:
    assert operation(word) == name
    assert not name or base(name) in name


def test_osu_non_blocking(imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(OSU_NON_BLOCKING, ranks=4)
    (case,), (result,) = record.plan.cases, record.results
    assert (case.collective, case.size_bytes) == ("iall_gather", 4)  # a byte for each rank
    assert (result.time_ns, result.busbw_gb_per_s) == (5000.0, None)
    assert result.stats == {
        "overall": 10_000.0,
        "compute": 4000.0,
        "init": 1000.0,
        "test": 0.0,
        "wait": 1200.0,
        "min": 4000.0,
        "max": 6000.0,
        "overlap": 0.25,
    }
    assert "Pure Comm." in record.method.time


def test_imb_non_blocking(imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(IMB_NON_BLOCKING)
    assert {case.collective for case in record.plan.cases} == {"iall_reduce"}
    assert [case.dtype for case in record.plan.cases] == ["float"] * 2
    result = record.results[1]
    assert result.time_ns == 20_000.0
    assert result.stats == {"overall": 30_000.0, "compute": 21_000.0, "overlap": 0.5}
    assert "t_pure" in record.method.time


def test_imb_groups_one_by_one(imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(IMB_GROUPS)
    assert record.world.size == 2
    assert [(case.size_bytes, case.cycle) for case in record.plan.cases] == [(4, 0), (4, 1), (8, 0), (8, 1)]
    assert [result.time_ns for result in record.results] == [1200.0, 1300.0, 1400.0, None]
    assert [f.text for f in record.source.findings if f.kind == "groups"] == [
        "2 groups ran at the same time; rows of a size are those of one group after the other"
    ]


@pytest.mark.parametrize("memory", ["", "-CUDA", "-CUDA MANAGED", "-ROCM"])
def test_memories_of_osu(memory: str, imported: Callable[..., list[RunRecord]]) -> None:
    text = f"# OSU MPI{memory} Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n1024    20.00\n"
    (record,) = imported(text, ranks=4)
    assert record.plan.cases[0].collective == "all_reduce"
    assert record.source.header.get("memory", "") == memory.removeprefix("-")


def test_a_persistent_collective_is_not_the_plain_one(imported: Callable[..., list[RunRecord]]) -> None:
    text = "# OSU MPI Allreduce Persistent Latency Test v7.4\n# Size       Avg Latency(us)\n1024    20.00\n"
    (record,) = imported(text, ranks=4)
    assert record.plan.cases[0].collective == "all_reduce_init"
    assert (record.plan.cases[0].op, record.plan.cases[0].dtype) == ("sum", "float")


def test_programs_built_for_mpi_have_a_suffix(
    imported: Callable[..., list[RunRecord]], nccl_table: Callable[[int], str]
) -> None:
    text = nccl_table(1).replace("starting: all_reduce_perf", "starting: all_reduce_perf_mpi")
    (record,) = imported(text)
    assert record.source.fields["operation"] == "header"
    (record,) = imported(
        "mpirun -np 16 /opt/nccl-tests/build/all_reduce_perf_mpi -b 8\n" + text.split("\n", 1)[1], "x.log"
    )
    assert record.source.fields["operation"] == "command"
