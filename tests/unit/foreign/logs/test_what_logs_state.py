"""What a log states is what the record says: who took part, how it ended, what was measured and how finely."""

# ruff: noqa: E501 (tables have the width that their tools give them)

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from busbw_testing.logs import TOOL_TABLES, Command, imported, kinds, nccl_report, read

from busbw.errors import UndecidedError
from busbw.model.collective import Placement
from busbw.model.record import RunStatus
from busbw.record.shapes import check_sense

HEADING = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
ROW = "{size:>12}  {count:>12}     float  {op:>6}      -1  {time:>7}  {algbw:>6}  {busbw:>6}      0  {time:>7}  {algbw:>6}  {busbw:>6}      0\n"


def device(rank: int, host: str = "hostA", index: int | None = None, pid: int = 100) -> str:
    at = rank if index is None else index
    return f"#  Rank {rank:2} Group  0 Pid {pid + rank:6} on {host:>9} device {at:2} [0x{at:02x}] NVIDIA H100 80GB HBM3\n"


def row(
    size: int, time: str, *, ranks: int = 2, op: str = "sum", blocks: int = 1, factor: float = 0.0
) -> str:
    algbw = size / float(time) / 1e3
    busbw = algbw * (factor or 2 * (ranks - 1) / ranks)
    count = size // 4 // blocks
    return ROW.format(size=size, count=count, op=op, time=time, algbw=f"{algbw:.2f}", busbw=f"{busbw:.2f}")


def nccl(*rows: str, devices: str = "", head: str = "") -> str:
    return f"# Collective test starting: all_reduce_perf\n{head}# Using devices\n{devices}{HEADING}{''.join(rows)}# Avg bus bandwidth    : {average(rows)}\n"


def average(rows: tuple[str, ...]) -> str:
    values = [float(line.split()[at]) for line in rows for at in (7, 11)]
    return f"{sum(values) / len(values):.4f}"


def reads_the_same(text: str, changed: str) -> bool:
    wanted, found = (imported(each, op="all_reduce", ranks=16)[0] for each in (text, changed))
    return (found.results, kinds(found)) == (wanted.results, kinds(wanted))


ROWS = tuple(row(1 << power, f"{20 + (1 << power) / 1e5:.2f}") for power in range(20, 27))


# ---- who took part -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("listed", [(71,), tuple(range(8)), (3, 4, 70)])
def test_hosts_and_devices_are_known_only_where_every_rank_is_listed(listed: tuple[int, ...]) -> None:
    rows = [row(1 << power, f"{20 + (1 << power) / 1e5:.2f}", ranks=72) for power in range(28, 34)]
    (record,) = imported(nccl(*rows, devices="".join(map(device, listed))), ranks=72)
    assert record.world.size == 72
    assert {(rank.host, rank.device) for rank in record.world.ranks} == {("not stated", "not stated")}
    assert record.source.fields["hosts"] == f"not stated: the log lists {len(listed)} of 72 ranks"


LISTED = {
    "one of two": ("not known: the log lists 1 of 2 ranks\n", device(1)),
    "split": (
        "4 x NVIDIA H100 80GB HBM3\n",  # of all ranks of the job, where a communicator has a half of them
        "".join(device(rank).replace("Group  0", f"Group  {rank // 2}") for rank in range(4)),
    ),
    "shared": (
        "3 x NVIDIA H100 80GB HBM3, for 4 ranks\n",
        device(0, index=3) + device(1, index=3) + device(2, index=4) + device(3, "hostB", index=3),
    ),
}


@pytest.mark.parametrize("name", LISTED)
def test_ranks_on_one_device_are_counted_once(name: str, tmp_path: Path, command: Command) -> None:
    shown, devices = LISTED[name]
    ranks = 4 if name == "shared" else 2
    rows = [row(1 << power, f"{20 + (1 << power) / 1e5:.2f}", ranks=ranks) for power in range(20, 27)]
    (tmp_path / "a.log").write_text(nccl(*rows, devices=devices))
    code, out, _ = command("import", tmp_path / "a.log")
    assert code == 0
    assert ("shared-device: 2 ranks share device 3 [0x03] of hostA" in out) == (name == "shared")
    assert f"# devices  {shown}" in command("show", "last")[1]


def test_a_device_list_that_is_there_twice_is_one() -> None:
    (record,) = imported(nccl(*ROWS, devices=(device(0) + device(1)) * 2))
    assert ([rank.host for rank in record.world.ranks], kinds(record)) == (["hostA", "hostA"], [])


@pytest.mark.parametrize("per_process", [1, 4])
def test_processes_without_mpi_are_communicators_of_their_own(per_process: int) -> None:
    devices = [
        device(rank, host, pid=pid)
        for host, pid in (("hostA", 7), ("hostB", 900))
        for rank in range(per_process)
    ]
    rows = [row(1 << 26, f"8{number}0.0", ranks=per_process) for number in range(4)]
    text = (
        f"# Using devices\n# Using devices\n{''.join(devices)}{HEADING}{rows[0]}{HEADING}{''.join(rows[1:])}"
        "# Avg bus bandwidth    : 7.5\n"
    )
    (record,) = imported(text, op="all_reduce")
    assert (record.world.size, len(record.results)) == (per_process, 8)
    assert kinds(record) == ["separate"]
    assert record.source.findings[0].text.startswith(
        "2 processes have a rank 0: they are separate communicators of"
    )
    assert [rank.host for rank in record.world.ranks] == ["not stated"]
    check_sense(record, "run.json")


def test_a_heading_whose_rows_stand_below_that_of_another_process_is_no_failed_test() -> None:
    head, zero, rows = IMB.replace("= 4", "= 1").partition("            0")
    (record,) = imported(head + head + 2 * (zero + rows + IMB_LAST))
    assert (record.world.size, len(record.results), kinds(record)) == (1, 6, ["separate"])


# ---- how it ended ------------------------------------------------------------------------------------------

IMB = """\
# Minimum message length in bytes:   0
# Maximum message length in bytes:   4096
# Benchmarking Allreduce
# #processes = 4
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.05         0.06         0.05
         2048         1000         1.52         1.61         1.57
"""
IMB_LAST = "         4096         1000         3.02         3.15         3.09\n"


def test_a_table_of_imb_that_ends_below_its_largest_size_is_cut() -> None:
    (cut,), (whole,) = imported(IMB), imported(IMB + IMB_LAST)
    assert (cut.status, kinds(cut)) == (RunStatus.INTERRUPTED, ["cut"])
    assert (whole.status, kinds(whole)) == (RunStatus.COMPLETE, [])


OSU = "# OSU MPI Allreduce Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n1                       1.53\n2                       2.58\n"


@pytest.mark.parametrize(
    "end",
    [
        "Exit code:    1",
        "prterun detected that one or more processes exited with non-zero status,",
        "=   EXIT CODE: 139",
        "Abort(15) on node 3 (rank 3 in comm 0): Fatal error",
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE ***",
        "ORTE has lost communication with a remote daemon.",
        "Traceback (most recent call last):",
        "make: *** [run] Error 137",
        "Watchdog caught collective operation timeout",
        "ssh: connect to host n7 port 22: Connection timed out",
        "mpirun has exited due to process rank 3 with PID 0 on node n7 exiting improperly.",
        "[n7:4242] *** Process received signal ***",
        "Warning  BackoffLimitExceeded  job-controller  Job has reached the specified backoff limit",
        "ERROR: Job failed (system failure): pod was deleted",
        "[NID 00012] Apid 77: exit codes: 139",
        "[proxy:0:0@n1] control_cmd_cb (proxy/pmip_cb.c:480): assert (!closed) failed",
        "srun: forcing job termination",
        "rank 3 in job 1 node1_1234 caused collective abort of all ranks",
        "An MPI communication peer process has unexpectedly disconnected.",
        "aprun: Apid 1: Caught signal Terminated, sending to application",
        "flux-job: task(s) exception type=timeout",
        "make: *** [Makefile:3: run] Interrupt",
        "double free or corruption (!prev)",
        "Illegal instruction",
        "terminate called after throwing an instance of 'std::runtime_error'",
        "KeyboardInterrupt",
        "^C",
        "Hangup",
        "client_loop: send disconnect: Broken pipe",
        "Connection to node1 closed by remote host.",
        "tee: run.log: No space left on device",
        "NVRM: GPU 0000:07:00.0: GPU has fallen off the bus.",
        "state: PREEMPTED",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "[12.5] Out of memory: Killed process 99 (all_reduce_perf)",
    ],
)
def test_words_of_an_end_make_the_run_interrupted(end: str) -> None:
    (record,) = imported(f"{OSU}{'-' * 40}\n{end}\n", ranks=4)
    assert (record.status, kinds(record)) == (RunStatus.INTERRUPTED, ["cut"])


@pytest.mark.parametrize(
    "end",
    [
        "Exit code: 0",
        "ExitCode=0:0",
        "# All processes entering MPI_Finalize",
        "Connection to node1 closed.",
    ],
)
def test_words_of_a_good_end_say_nothing(end: str) -> None:
    (record,) = imported(f"{OSU}{end}\n", ranks=4)
    assert (record.status, kinds(record)) == (RunStatus.COMPLETE, [])


def test_errors_that_nccom_test_counts_and_no_row_shows_are_said() -> None:
    text = "nccom-test -r 2 allr\n     size(B)    count(elems)     type    time(us)    algbw(GB/s)    busbw(GB/s)\n    33554432        33554432    uint8         768          43.69          43.69\n{}1 errors found - test failed\n"
    assert kinds(imported(text.format(""))[0]) == ["contradiction"]
    assert kinds(imported(text.format("    67108864    Failure running: timeout\n"))[0]) == []


# ---- rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "above",
    [
        "       131072          100        23.60        23.61        23.60\n",
        "       131072          100        23.60        23.61        23.60       8000.00\n",
        "131072                 23.60\n",
        "  131072  32768  float  sum  23.60  5.55  5.55  N/A\n",
    ],
)
def test_rows_above_the_first_heading_are_named(above: str) -> None:
    text = above + IMB + IMB_LAST
    assert [(finding.kind, finding.line) for finding in read(text).findings] == [("no-heading", 1)]
    assert len(imported(text)[0].results) == 3


@pytest.mark.parametrize("tool_table", TOOL_TABLES.values(), ids=TOOL_TABLES)
def test_comment_signs_may_be_missing_or_others(tool_table: Callable[[int], str]) -> None:
    text = tool_table(1)
    wanted = imported(text, op="all_reduce", ranks=16)[0]
    for sign in ("", "##", "\\#"):
        found = imported(text.replace("#", sign), op="all_reduce", ranks=16)[0]
        assert (found.results, found.world) == (wanted.results, wanted.world)
        assert kinds(found) == kinds(wanted)


PREFIXES = {
    "ctime and stream": lambda at: f"Tue Aug 14 09:23:{at % 60:02} 2024<stdout>:",
    "journald": lambda at: f"Aug 14 09:23:{at % 60:02} node17 kubelet[1234]: ",
    "github": lambda at: f"build (a, b)\tRun tests\t2024-08-14T09:23:{at % 60:02}.1234567Z ",
    "cat -n": lambda at: f"{at + 1:6}\t",
    "grep -C": lambda at: f"out/a.log{':-'[at % 2]}{at + 1}{':-'[at % 2]}",
    "kernel": lambda at: f"[{12345.678 + at:.6f}] ",
    "epoch": lambda at: f"{1723627410 + at} ",
    "diff": lambda at: "+",
    "label": lambda at: "0 ",
    "web server": lambda at: f"14/Aug/2024:09:23:{at % 60:02} +0000 ",
    "seconds": lambda at: f"{at * 0.73:.2f}s  ",
    "quotes": lambda at: "> > ",
    "unicode": lambda at: "\u2502 ",
    # Times that change once name no stream.
    "minutes": lambda at: ("10:59 | ", "11:00 | ")[at > 6],
    "date and minutes": lambda at: f"2026-11-21 10:0{5 + (at > 6)} ",
    "since the start": lambda at: ("+59s ", "+60s ")[at > 6],
    "minutes since the start": lambda at: ("59.9s | ", "1m0.2s | ")[at > 6],
    "twelve hours": lambda at: ("11/21/2026 9:59:59 AM ", "11/21/2026 10:00:00 AM ")[at > 6],
}


@pytest.mark.parametrize("name", PREFIXES)
@pytest.mark.parametrize("tool_table", TOOL_TABLES.values(), ids=TOOL_TABLES)
def test_whatever_repeats_before_lines_is_a_prefix(name: str, tool_table: Callable[[int], str]) -> None:
    text = tool_table(1)
    behind = "".join(f"{PREFIXES[name](at)}{line}\n" for at, line in enumerate(text.splitlines()))
    assert reads_the_same(text, behind)


def test_numbers_behind_a_row_are_no_remark() -> None:
    text = nccl(*ROWS, devices=device(0) + device(1))
    for behind in (" 12.5", " x", " -1", " %"):
        (record,) = imported(text.replace(ROWS[-1], f"{ROWS[-1].rstrip()}{behind}\n"))
        assert (len(record.results), kinds(record)) == (12, ["damaged", "rows-missing"])


@pytest.mark.parametrize("key", ["log", "msg"])
@pytest.mark.parametrize("tool_table", TOOL_TABLES.values(), ids=TOOL_TABLES)
def test_lines_within_json_are_read(key: str, tool_table: Callable[[int], str]) -> None:
    text = tool_table(1)
    entries = [{"time": "2024-08-14T09:23:01Z", key: f"{line}\n"} for line in text.splitlines()]
    behind = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    assert reads_the_same(text, behind)


# ---- what was measured -------------------------------------------------------------------------------------


def old_gather(size: int, time: str) -> str:
    algbw = f"{size * 7 / 8 / float(time) / 1e3:.2f}"
    return f"{size:12}  {size // 32:12}   float  {time:>7}  {algbw:>6}  {algbw:>6}  0e+00  {time:>7}  {algbw:>6}  {algbw:>6}  0e+00\n"


def test_an_old_algbw_is_converted_and_contradicts_nothing() -> None:
    head = (
        "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
    )
    rows = [old_gather(1 << power, f"{(1 << power) / 150e3:.1f}") for power in (24, 26, 28, 30)]
    mean = sum(float(line.split()[4]) for line in rows) / len(rows)
    (record,) = imported(head + "".join(rows) + f"# Avg bus bandwidth    : {mean:.3f}\n", op="all_gather")
    assert (record.world.size, kinds(record)) == (8, ["formula"])
    assert record.results[-1].busbw_gb_per_s == pytest.approx(131.25, rel=1e-3)


MODES = """\
# Benchmarking {name}
# #processes = 2
#
#    MODE: AGGREGATE
#
       #bytes #repetitions      t[usec]   Mbytes/sec
            4         1000         0.05        80.00
# Benchmarking {name}
# #processes = 2
#    MODE: NON-AGGREGATE
       #bytes #repetitions      t[usec]   Mbytes/sec
            4          100         1.05         3.81
"""


@pytest.mark.parametrize(
    ("name", "ours", "kind"),
    [("Unidir_Put", "unidir_put", ("", "uint8")), ("Accumulate", "accumulate", ("sum", "float"))],
)
def test_modes_of_one_sided_tests_are_tests_apart(name: str, ours: str, kind: tuple[str, str]) -> None:
    cases = [record.plan.cases[0] for record in imported(MODES.format(name=name))]
    assert [case.collective for case in cases] == [f"{ours}_aggregate", f"{ours}_non_aggregate"]
    assert {(case.op, case.dtype) for case in cases} == {kind}


def test_types_of_osu_are_tables_apart() -> None:
    more = "# Datatype: MPI_INT.\n# Size       Avg Latency(us)\n4                       1.53\n"
    first, second = imported(OSU + more, ranks=2)
    assert (first.plan.cases[0].dtype, second.plan.cases[0].dtype) == ("int8", "int32")
    assert second.plan.cases[0].collective == "all_reduce"


@pytest.mark.parametrize(
    "text",
    [
        "# OSU MPI Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n1                       0.91\n",
        "# OSU MPI-CUDA Latency Test v5.6.2\n# Send Buffer on DEVICE (D)\n# Size          Latency (us)\n1                       0.91\n",
        "# Benchmarking PingPong\n# #processes = 2\n       #bytes #repetitions      t[usec]   Mbytes/sec\n            1         1000         0.91         1.10\n",
    ],
)
def test_ping_pongs_are_half_a_round_trip_of_two_ranks(text: str) -> None:
    (record,) = imported(text)
    assert (record.plan.cases[0].collective, record.world.size) == ("sendrecv", 2)
    assert record.method.time.startswith("half a round trip")
    assert kinds(record) == ["point-to-point"]
    with pytest.raises(UndecidedError, match="--op all_reduce contradicts the title"):
        imported(text, op="all_reduce", ranks=2)


def test_a_time_of_imb_without_a_spread_is_no_maximum() -> None:
    (record,) = imported(
        IMB.replace("Allreduce", "PingPing")
        .replace("  t_min[usec]  t_max[usec]  t_avg[usec]", "  t[usec]   Mbytes/sec")
        .replace("0.06         0.05", "0.00")
        .replace("1.61         1.57", "1.20")
        .replace("4096", "2048")
    )
    assert "maximum" not in record.method.time


def test_one_sided_tests_of_osu_are_no_ping_pongs() -> None:
    (record,) = imported(
        "# OSU MPI_Put Latency Test v7.4\n# Window creation: MPI_Win_allocate\n# Size          Latency (us)\n1                       0.91\n"
    )
    assert (record.plan.cases[0].collective, record.world.size, kinds(record)) == ("put", 2, [])


@pytest.mark.parametrize(
    ("kind", "backend"), [("NCCL-CUDA", "nccl"), ("RCCL-ROCM", "rccl"), ("MPI-CUDA", "mpi")]
)
def test_the_backend_of_osu_is_that_of_its_title(kind: str, backend: str) -> None:
    (record,) = imported("#Using NCCL\n" + OSU.replace("MPI All", f"{kind} All"), ranks=8)
    assert (record.plan.backend, record.plan.cases[0].collective) == (backend, "all_reduce")


@pytest.mark.parametrize(
    "prose",
    [
        "nccom-test is a tool that measures collective operations.",
        "Usage: nccom-test [-h] [-r NWORKERS] operation",
        "See nccom-test's guide: nccom-test prints one row a size, as for allg.",
    ],
)
def test_a_sentence_about_nccom_test_is_no_command(prose: str) -> None:
    table = "     size(B)    count(elems)     type    time(us)    algbw(GB/s)    busbw(GB/s)\n    33554432        33554432    uint8         768          43.69          43.69\n"
    (record,) = imported(f"{prose}\nnccom-test -r 2 allr\n{table}Avg bus bandwidth:      43.6900GB/s\n")
    (case,) = record.plan.cases
    assert (case.collective, record.world.size) == ("all_reduce", 2)
    assert (case.op, record.source.fields["op"]) == ("sum", "assumed: nccom-test's check is that of a sum")


def test_a_command_may_go_on_in_the_next_line() -> None:
    command = "mpirun -np 2 \\\n  -x NCCL_DEBUG=WARN \\\n  ./build/all_reduce_perf \\\n  -b 8\n"
    text = nccl(*ROWS).replace("# Collective test starting: all_reduce_perf\n", command)
    (record,) = imported(text)
    fields = record.source.fields
    assert (fields["operation"], record.source.header["ranks_by_command"]) == ("command", 2)


def test_sizes_that_are_rounded_are_no_copies() -> None:
    def gather(size: int, time: str) -> str:
        return row(size, time, op="none", blocks=16, factor=15 / 16)

    rows = [gather(0, "9.01"), gather(0, "9.01"), gather(0, "9.05"), gather(1 << 28, "1800.0")]
    text = nccl(*rows).replace("all_reduce", "all_gather")
    assert kinds(imported(text, ranks=16)[0]) == []
    copied = text.replace(rows[-1], rows[-1] * 2)
    assert "repeated" in kinds(imported(copied, ranks=16)[0])


def test_numbers_keep_the_digits_that_the_log_has() -> None:
    """Below 1 us a printed bandwidth has more digits than the time, and beyond 10 ms."""
    numbers = (
        (1 << 20, "0.50", 2078.2, 3636.9),
        (1 << 33, "20299", 423.16, 740.54),
        (1024, "8.13", 0.13, 0.22),
    )
    rows = [
        ROW.format(size=size, count=size // 4, op="sum", time=time, algbw=algbw, busbw=busbw)
        for size, time, algbw, busbw in numbers
    ]
    (record,) = imported(nccl(*rows), ranks=8)
    short, long, plain = record.results[::2]
    assert (short.time_ns, short.algbw_gb_per_s, short.busbw_gb_per_s) == (500.0, 2078.2, 3636.9)
    assert (long.time_ns, long.algbw_gb_per_s, long.busbw_gb_per_s) == (20299e3, 423.16, 740.54)
    assert plain.algbw_gb_per_s == pytest.approx(1024 / 8130)
    assert record.source.fields["busbw_gb_per_s"].endswith("; as printed where that has more digits")


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("# nccl-tests version 2.20.0 (b4d5bee) nccl-headers=23102 nccl-library=23102", "2.31.2"),
        ("# nccl-tests version 2.17.8 nccl-headers=22907 nccl-library=22809", "2.28.9"),
        ("node1:7:7 [0] NCCL INFO NCCL version 2.21.5+cuda12.4", "2.21.5+cuda12.4"),
        ("RCCL version : 2.22.3-HEAD:abc1234", "2.22.3-HEAD:abc1234"),
    ],
)
def test_versions_of_the_library(line: str, version: str) -> None:
    (record,) = imported(nccl(*ROWS, head=f"{line}\n"), ranks=2)
    assert record.world.ranks[0].library_version == version


def test_a_log_of_rccl_is_one_by_its_word() -> None:
    devices = "".join(device(rank).replace("NVIDIA H100 80GB HBM3", "gfx942") for rank in range(2))
    (record,) = imported(nccl(*ROWS, devices=devices, head="RCCL version : 2.22.3-HEAD:abc1234\n"))
    assert (record.source.tool, record.plan.backend) == ("rccl-tests", "rccl")


@pytest.mark.parametrize(
    ("title", "version"),
    [
        ("Benchmarks 4.1", "4.1"),
        ("Benchmark Suite V3.2.4", "3.2.4"),
        ("Benchmarks 2019 Update 6", "2019 Update 6"),
    ],
)
def test_the_version_of_an_old_imb(title: str, version: str) -> None:
    (record,) = imported(f"#    Intel (R) MPI {title}, MPI-1 part\n" + IMB + IMB_LAST)
    assert record.source.header["tests_version"] == version


INFO = "node1:1887:1999 [0] NCCL INFO "


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        (INFO + "Using network FasTrak", "network", "FasTrak"),
        (INFO + "Using network Socket", "network", "Socket"),
        (INFO + "Initialized NET plugin Socket", "network_started", "Socket"),
        (INFO + "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0", "network_started", "IB"),
        (INFO + "Assigned NET plugin IB to comm", "network", "IB"),
        (INFO + "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0", "network", "Socket"),
        (
            INFO + "Channel 01/0 : 8[0] -> 0[0] [receive] via NET/AWS Libfabric/1/GDRDMA",
            "network",
            "AWS Libfabric",
        ),
        (INFO + "NET/OFI Selected Provider is tcp (found 1 nics)", "provider", "tcp"),
        ("[0] MPI startup(): libfabric provider: tcp;ofi_rxm", "provider", "tcp;ofi_rxm"),
        (INFO + "NET/FasTrak : Using 8 NICs", "devices", "8 NICs"),
        (INFO + "NET/IB : No device found.", "no_devices", "IB"),
    ],
)
def test_causes_that_a_log_states_are_evidence(line: str, key: str, value: str) -> None:
    (record,) = imported(nccl(*ROWS, head=f"{line}\n"), ranks=2)
    assert record.source.evidence[key] == [value]


def test_what_libraries_say_is_of_the_table_of_their_launch() -> None:
    """Networks and versions of two launches in one log, whose words may stand above their title."""
    texts = [
        nccl(*ROWS, head=f"NCCL version 2.{minor}.1+cuda12.4\n{INFO}Using network {network}\n")
        for minor, network in ((18, "IB"), (21, "Socket"))
    ]
    said = [record.source.evidence for record in imported("".join(texts), ranks=2)]
    assert [each["network"] for each in said] == [["IB"], ["Socket"]]
    assert [each["nccl_version"] for each in said] == [["NCCL 2.18.1+cuda12.4"], ["NCCL 2.21.1+cuda12.4"]]
    above = "".join(
        f"[0] MPI startup(): libfabric provider: {provider}\n{OSU}" for provider in ("tcp", "verbs")
    )
    said = [record.source.evidence for record in imported(above, ranks=2)]
    assert [each["provider"] for each in said] == [["tcp"], ["verbs"]]
    below = nccl(*ROWS) + f"{INFO}Using network IB\n"  # two streams of one launch, one behind the other
    assert imported(below, ranks=2)[0].source.evidence["network"] == ["IB"]


# ---- result files of rccl-tests ----------------------------------------------------------------------------

ENTRY = '{{"numCycle":{cycle}, "name":"AllGather", "nodes":1, "ranks":8, "ranksPerNode":8, "size":{size}, "type":"float", "redop":"none", "inPlace":{place}, "time":{time:f}, "algBw":{algbw:f}, "busBw":{busbw:f}, "wrong":"{wrong}"}}'


def entry(size: int, place: int, time: float, *, cycle: int = 0, wrong: str = "0") -> str:
    algbw = size / time / 1e3
    return ENTRY.format(
        size=size, place=place, time=time, algbw=algbw, busbw=algbw * 7 / 8, cycle=cycle, wrong=wrong
    )


ENTRIES = [
    entry(1 << power, place, 9.5 + (1 << power) / 1e4, wrong=("0", "N/A")[place])
    for power in (10, 20)
    for place in (0, 1)
]
KEYS = json.loads(ENTRIES[0])


@pytest.mark.parametrize(
    "text",
    [
        "[\n{}\n]\n".format(",\n".join(ENTRIES)),
        "\n".join(ENTRIES) + "\n",
        f"[{', '.join(ENTRIES)}]",
        json.dumps(list(map(json.loads, ENTRIES)), indent=2),
        "\n".join(
            ", ".join(map(str, row)) for row in (KEYS, *(json.loads(each).values() for each in ENTRIES))
        ),
    ],
)
def test_result_files_of_rccl_tests(text: str) -> None:
    (record,) = imported(text)
    assert (record.source.tool, record.plan.backend, record.world.size, kinds(record)) == (
        "rccl-tests",
        "rccl",
        8,
        [],
    )
    cases = [(case.collective, case.size_bytes, case.count, case.placement) for case in record.plan.cases]
    places = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
    assert cases == [
        ("all_gather", 1 << power, (1 << power) // 32, place) for power in (10, 20) for place in places
    ]
    assert [result.time_ns for result in record.results] == pytest.approx(
        [9602.4, 9602.4, 114357.6, 114357.6]
    )


def test_older_result_files_of_rccl_tests() -> None:
    text = "".join(
        f'{{"#wrong":"{wrong}","algBw":0.1024,"busBw":0.1536,"gpus":4,"inPlace":{place},"name":"AllReduce","redop":"sum","size":1024,"time":10.0,"type":"float"}}\n'
        for place, wrong in ((0, 0), (1, 3))
    )
    (record,) = imported(text)
    assert (record.plan.cases[0].collective, record.world.size) == ("all_reduce", 4)
    assert [result.wrong for result in record.results] == [0, 3]


def test_a_result_file_that_is_cut_says_what_is_lost() -> None:
    text = "[\n" + ",\n".join([*ENTRIES[:3], ENTRIES[3][:90]])
    (record,) = imported(text)
    assert record.status is RunStatus.INTERRUPTED
    assert sorted(kinds(record)) == ["cut", "damaged"]
    assert [result.time_ns is None for result in record.results] == [False, False, False, True]


def test_a_bad_entry_does_not_take_the_other_placement_along() -> None:
    text = "\n".join(
        [ENTRIES[0], entry(1 << 10, 1, 9.6).replace('"time":9.600000', '"time":NaN'), *ENTRIES[2:]]
    )
    (record,) = imported(text)
    assert [(each.kind, each.line) for each in record.source.findings] == [("damaged", 2)]
    assert [result.time_ns is None for result in record.results] == [False, True, False, False]


# ---- output that is none of ours ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("INFO:torch.distributed.launcher.api:Starting elastic_operator\n8 1.2 3.4\n", ""),
        (
            "                    RDMA_Write BW Test\n #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]\n 65536      5000             23000.1            22999.0\n",
            "",
        ),
        (
            "#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] stddev[%]\n 64 16 1.2 1.3 1.2 3.0\n",
            "",  # oneCCL's
        ),
        ("# Benchmarking Ibcast\n#bytes #repetitions t_ovrl[usec] t_pure[usec]\n 0 1000 1.46 0.28\n", "IMB"),
        (
            "# OSU MPI Bandwidth Test v7.4\n# Datatype: MPI_CHAR.\n# Size      Bandwidth (MB/s)\n1    8.2\n",
            "OSU",
        ),
    ],
)
def test_output_of_other_tests_is_no_table(text: str, name: str) -> None:
    reading = read(text)
    assert (reading.tables, reading.findings) == ((), ())
    assert name in reading.no_text


def test_no_escape_of_a_file_or_its_name_comes_to_the_terminal(tmp_path: Path, command: Command) -> None:
    report = nccl_report(rows=1)
    report["config"]["devices"][0]["hostname"] = "a\x1b]0;x\x07"
    report["results"][0]["type"] = "flo\x1b[31mat"
    log = nccl(*ROWS, devices=device(0, "h\x1b]0;x\x07\x9b2K") + device(1)).replace("sum", "s\x1b\u202em", 2)
    (tmp_path / "a\x1b[2J.json").write_text(json.dumps(report))
    (tmp_path / "b\x1b]0;x\x07.log").write_text(f"{log}Killed \x1b[31m\x08 by \x01\n")
    (tmp_path / "c\x1bc").write_text("x")
    code, *printed = command("import", *sorted(tmp_path.iterdir()))
    assert code == 0
    assert "damaged" in printed[0]
    printed += command("import", tmp_path / "c\x1bc")[1:]
    assert all(line.isprintable() for line in "".join(printed).splitlines())
