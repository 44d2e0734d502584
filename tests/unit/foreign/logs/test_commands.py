"""Labels of a log against its rows and against the user: whose word is taken, and for how long."""

import pytest
from busbw_testing.logs import NEW_HEADING, PUBLISHED, format_row, imported

from busbw.errors import UndecidedError
from busbw.foreign.logs.context import job_facts
from busbw.model.record import RunRecord


def findings(record: RunRecord) -> list[tuple[str, str]]:
    return [(finding.kind, finding.text) for finding in record.source.findings if finding.kind != "no-end"]


BROADCAST = NEW_HEADING + format_row("1048576 262144 float none 0" + 2 * " 100.0 10.49 10.49 0") + "\n"


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("+ srun --mpi=pmix /opt/all_reduce_perf -b 8 -e 2G -f 2 -g 1 -n 100", None),
        ("+ srun -n 16 --mpi=pmix /opt/all_reduce_perf -b 8 -n 100", 16),
        ("mpirun --np 4 bash -c './all_reduce_perf -n 9'", 4),
        ("all_reduce_perf -n 20 # instead of mpirun -np 4", None),
    ],
)
def test_ranks_are_those_of_the_launcher(line: str, ranks: int | None) -> None:
    assert job_facts(line).get("command_ranks") == ranks
    assert job_facts(line)["command_program"] == "all_reduce"


def test_a_command_does_not_outlive_its_table() -> None:
    first = PUBLISHED["p4de 25 MiB"].text()
    text = "+ mpirun -np 16 all_reduce_perf -b 25M\n" + first
    assert imported(text)[0].source.fields["operation"] == "command"
    with pytest.raises(UndecidedError, match="number of ranks"):
        imported(text + BROADCAST)
    _, second = imported(text + BROADCAST, ranks=8)
    assert second.plan.cases[0].collective == "broadcast"
    assert second.source.fields["operation"] == "rows"
    assert "ranks_by_header" not in second.source.header


def test_a_script_that_is_printed_first_names_no_table() -> None:
    script = "mpirun -np 16 sendrecv_perf -b 8\nmpirun -np 8 broadcast_perf -b 8\n"
    (record,) = imported(script + BROADCAST, ranks=4)
    assert record.plan.cases[0].collective == "broadcast"
    assert record.source.fields["operation"] == "rows"


def test_a_header_that_the_factor_contradicts_loses() -> None:
    text = "# Collective test starting: all_gather_perf\n" + PUBLISHED["GB200 one rack"].text()
    (record,) = imported(text)
    assert record.plan.cases[0].collective == "all_reduce"
    assert record.source.fields["operation"] == "rows"
    assert findings(record) == [
        ("mislabelled", "the header says all_gather, but size, count and factor fit only all_reduce")
    ]


def test_the_users_word_is_taken_and_the_contradiction_said() -> None:
    text = "# Collective test starting: all_reduce_perf\n" + PUBLISHED["GB200 one rack"].text()
    (record,) = imported(text, op="all_gather", ranks=4)
    assert (record.plan.cases[0].collective, record.world.size) == ("all_gather", 4)
    assert ("overridden", "--op all_gather was taken, but the log says all_reduce") in findings(record)
    (record,) = imported(PUBLISHED["GB200 one rack"].text(), op="all_gather", ranks=72)
    said = "--op all_gather was taken, but size, count and factor fit only all_reduce"
    assert ("overridden", said) in findings(record)
    (record,) = imported(text, ranks=8)
    assert findings(record) == [
        ("overridden", "--ranks 8 was taken, but the rows fit 72 ranks only"),
        ("overridden", "--ranks 8 was taken, but header says 72"),
    ]
    assert record.source.fields["ranks"].startswith("flag")


def test_sizes_of_an_untitled_osu_table_follow_the_operation() -> None:
    text = "# Size       Avg Latency(us)\n1024    20.00\n"
    for record in (
        imported(text, op="all_gather", ranks=4)[0],
        imported(text, "osu_allgather.txt", ranks=4)[0],
    ):
        (case,), (result,) = record.plan.cases, record.results
        assert (case.size_bytes, case.count, case.dtype) == (4096, 1024, "int8")
        assert result.busbw_gb_per_s == pytest.approx(4096 / 20_000 * 3 / 4)
    (record,) = imported(text, op="reduce", ranks=4)
    assert (record.plan.cases[0].size_bytes, record.plan.cases[0].dtype) == (1024, "float")
    assert record.source.fields["op"] == "assumed: osu's default"
    assert record.source.fields["root"] == "assumed: OSU's default"


def test_sizes_of_an_untitled_imb_table_follow_the_operation() -> None:
    text = "#bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n 1024  1000  0.80  8.00  4.00\n"
    (record,) = imported(text, op="alltoall", ranks=4)
    assert record.plan.cases[0].size_bytes == 4096
    assert record.source.fields["dtype"] == "assumed: MPI_BYTE, imb's default"
