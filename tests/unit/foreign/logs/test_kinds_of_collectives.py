"""What tools call their operations; those that we do not have keep their names and numbers."""

from busbw_testing.logs import imported, nccl_table


def test_a_persistent_collective_is_not_the_plain_one() -> None:
    text = "# OSU MPI Allreduce Persistent Latency Test v7.4\n# Size       Avg Latency(us)\n1024    20.00\n"
    (record,) = imported(text, ranks=4)
    assert record.plan.cases[0].collective == "allreduce_persistent"
    assert record.results[0].busbw_gb_per_s is None
    (kin,) = imported(text, op="all_reduce", ranks=4)
    assert kin.plan.cases[0].collective == "all_reduce"
    assert kin.results[0].busbw_gb_per_s is not None


def test_programs_built_for_mpi_have_a_suffix() -> None:
    text = nccl_table(1).replace("starting: all_reduce_perf", "starting: all_reduce_perf_mpi")
    (record,) = imported(text)
    assert record.source.fields["operation"] == "header"
    (record,) = imported(
        "mpirun -np 16 /opt/nccl-tests/build/all_reduce_perf_mpi -b 8\n" + text.split("\n", 1)[1], "x.log"
    )
    assert record.source.fields["operation"] == "command"
