"""Events become the output of nccl-tests, byte for byte where its format says so, and its exit status."""

# ruff: noqa: E501 (lines have the width that nccl-tests gives them)
from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from busbw_testing.nccl_tests_format import read_output

from busbw.errors import ExitCode
from busbw.foreign.nccl_tests import write
from busbw.foreign.nccl_tests.display import NcclTestsDisplay
from busbw.foreign.nccl_tests.figures import Iterations, figures
from busbw.foreign.nccl_tests.flags import Line, Options, Variables, read
from busbw.foreign.nccl_tests.settings import operation, run_settings
from busbw.foreign.nccl_tests.write_json import new_file
from busbw.model.collective import Role
from busbw.model.event import EventKind, event
from busbw.model.mark import meaning
from busbw.model.plan import Plan
from busbw.model.record import Method, RankInfo, WorldInfo
from busbw.model.result import CaseResult, GroupResult, Status, WrongData
from busbw.model.sample import MAX_OVER_RANKS, SAMPLE_DTYPE, SampleFlag
from busbw.plan.make import make_plan

# Printed by nccl-tests 2.19.6.
HEADING = """\
#
#                                                              out-of-place                       in-place          \n\
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n\
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \
""".splitlines()
ITERATION_TITLES = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max"
    "    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%"
    "           timestamp"
)
ASKED = (
    "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 1048576 step: 1048576(bytes) warmup iters: 5 iters: 20"
    " agg iters: 1 validation: 1 graph: 0 unalign: 0"
)
ROW = (
    "     1048576        262144     float     sum      -1   100.00   10.49   10.49       0"
    "  99999.9    0.01    0.01       0"
)


class Shown:
    """A run as its display saw it."""

    def __init__(self, line: Line, plan: Plan, tmp_path: Path, ranks: int, variables: Variables) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.folder, self.plan = tmp_path, plan
        words = (line.program, "--made-for", "this")
        self.json_path = tmp_path / "out.json"
        line = replace(line, options=replace(line.options, output_file=str(self.json_path)))
        self.display = NcclTestsDisplay(line, variables, words, self.out, self.err)
        self.display.begin(line)
        assert self.out.getvalue() == f"# Writing JSON output to {self.json_path}\n"
        self.out.truncate(0)
        self.out.seek(0)
        same = {"device": "NVIDIA H100 80GB HBM3", "library": "NCCL", "library_version": "2.28.9"}
        infos = tuple(
            RankInfo(at, "node1.example.org", 100 + at, at, facts={"pci_bus_id": f"0000:0{at}:00.0"}, **same)
            for at in range(ranks)
        )
        header = {"run_id": "run", "folder": str(tmp_path), "busbw_version": "0.0"}
        world = WorldInfo("nccl", "none", ranks, infos)
        self.handle("header", plan=json.loads(plan.to_json()), world=world, method=Method(), **header)

    def handle(self, kind: str, **fields: Any) -> None:
        fields.get("plan", {}).pop("version", None)
        self.display.handle(event(EventKind(kind), **fields))

    def good(self, case: int, time_us: float = 100.0, **fields: Any) -> None:
        self.handle("case", result=good(case, time_us, **fields))

    def absent(self, case: int) -> None:
        self.handle("case", result=CaseResult(case, Status.NOT_APPLICABLE, error="none"))

    def end(self, code: ExitCode = ExitCode.OK) -> int:
        self.handle("end", exit_code=int(code), folder=str(self.folder), status="complete", wrong_cases=0)
        self.display.close()
        return self.display.status(code)

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.json_path.read_text())
        return found


def start(
    tmp_path: Path,
    *words: str,
    program: str = "all_reduce_perf",
    variables: Variables = Variables(),  # noqa: B008 (frozen)
    ranks: int = 2,
) -> Shown:
    line = read(program, ("-b", "1M", "-e", "1M", *words))
    settings = run_settings(line, variables, "nccl")
    return Shown(line, make_plan((operation(program),), settings, "nccl", ranks), tmp_path, ranks, variables)


def good(case: int, time_us: float, **fields: Any) -> CaseResult:
    """The mean is what nccl-tests prints; the median here is another number."""
    defaults = {"status": Status.GOOD, "time_ns": 1.0, "mean_ns": time_us * 1e3, "wrong": 0}
    return CaseResult(case, **{**defaults, **fields})


def test_the_whole_output(tmp_path: Path) -> None:
    shown = start(tmp_path, "-g", "2", "-w", "5")
    shown.good(0)
    assert "float     sum" not in shown.out.getvalue()  # a row is whole or not there
    shown.good(1, 99999.94)
    assert shown.end() == 0
    lines = shown.out.getvalue().splitlines()
    assert lines[0].startswith("# busbw: measured by busbw 0.0")
    assert lines[1].startswith("# busbw: time = mean over samples")
    assert lines[2:] == [
        "# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809",
        "# Collective test starting: all_reduce_perf",
        ASKED,
        "#",
        "# Using devices",
        "#  Rank  0 Group  0 Pid    100 on      node1 device  0 [0000:00:00] NVIDIA H100 80GB HBM3",
        "#  Rank  1 Group  0 Pid    101 on      node1 device  1 [0000:01:00] NVIDIA H100 80GB HBM3",
        *HEADING,
        ROW,
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 5.24812 ",
        "#",
        "# Collective test concluded: all_reduce_perf",
        "#",
        "",
    ]
    assert f"record {tmp_path}" in shown.err.getvalue()


def test_what_a_row_must_not_be_read_without_is_said_on_standard_error(tmp_path: Path) -> None:
    shown = start(tmp_path)
    shown.good(0, marks=("stopped",), conditions=("user-op",), excluded=2)
    shown.good(1, marks=("stopped",), excluded=1)
    shown.end()
    said = shown.err.getvalue()
    assert f"busbw: marked stopped, 2 of 2 cases: {meaning('stopped')}\n" in said
    assert f"busbw: user-op (float): {meaning('user-op')}\n" in said
    assert "3 samples of 2 cases were left out" in said
    assert "stopped" not in shown.out.getvalue()


def test_the_heading_with_iterations_and_stamps() -> None:
    lines = write.heading(Options(per_iter_timing=1, report_timestamps=1))
    assert lines[2] == ITERATION_TITLES
    assert lines[3].endswith("(%)   %Y-%m-%d %H:%M:%S")


def test_what_blocks_and_skips_is_said_above_the_devices() -> None:
    line = read("all_reduce_perf", ("-z", "2", "-I", "1", "-K", "3", "-p", "1"))
    blocking, report, init = write.header(line.program, line.options, ())[2:5]
    assert blocking == "# Blocking Enabled: wait after each inner iteration (-m), no barrier "
    assert report.endswith("i_* uses max over process rows; summary skips first 3 iterations ")
    assert init == "# Parallel Init Enabled: threads call into NcclInitRank concurrently "


def test_wrong_data_fails_as_in_nccl_tests(tmp_path: Path) -> None:
    shown = start(tmp_path)
    at = tuple(WrongData(rank, "node1", 5, 0) for rank in range(2))
    shown.good(0, status=Status.WRONG, wrong=10, wrong_at=at)
    shown.good(1)
    assert shown.end(ExitCode.BAD_VERDICT) == 7
    output = read_output(shown.out.getvalue())
    # Its bandwidth is printed there too, and the count is of processes with wrong data, case by case.
    assert (output.rows[0].out_of_place.wrong, output.rows[0].out_of_place.busbw) == (10, 10.49)
    assert (output.out_of_bounds, output.data_ok) == (2, "FAILED")
    assert "Test failure" in shown.out.getvalue()
    assert shown.json["out_of_bounds"] == {"count": 2, "okay": "false"}


@pytest.mark.parametrize(("minimum", "verdict", "status"), [(11.65, "OK", 0), (11.66, "FAILED", 7)])
def test_the_average_must_reach_nine_tenths(
    tmp_path: Path, minimum: float, verdict: str, status: int
) -> None:
    shown = start(tmp_path, variables=Variables(min_bandwidth=minimum))
    shown.good(0)  # 10.48576 GB/s
    shown.good(1)
    assert shown.end() == status
    assert read_output(shown.out.getvalue()).bandwidth_ok == verdict
    assert shown.json["average_bus_bandwidth"] == {
        "bandwidth": 10.48576,
        "okay": "true" if verdict == "OK" else "false",
    }


def test_a_placement_that_nccl_does_not_have_shows_no_number(tmp_path: Path) -> None:
    shown = start(tmp_path, "-o", "max", program="sendrecv_perf")
    shown.good(0)
    shown.absent(1)
    assert shown.end() == 0
    (row,) = read_output(shown.out.getvalue()).rows
    assert row.redop == "max"  # nccl-tests' sendrecv shows -o
    assert (row.in_place.wrong, np.isnan(row.in_place.busbw)) == (None, True)
    assert f"{row.out_of_place.busbw:g}" == "10.49"


def test_one_rank_has_a_bus_bandwidth_of_0_as_there(tmp_path: Path) -> None:
    shown = start(tmp_path, ranks=1)
    shown.good(0)
    shown.good(1)
    shown.end()
    (row,) = read_output(shown.out.getvalue()).rows
    assert (row.out_of_place.algbw, row.out_of_place.busbw) == (10.49, 0.0)


def test_hypercube_is_skipped_where_ranks_are_no_power_of_two(tmp_path: Path) -> None:
    shown = start(tmp_path, "-b", "1M", "-e", "4M", program="hypercube_perf", ranks=3)
    for case in shown.plan.cases:
        shown.absent(case.index)
    assert shown.end() == 0
    assert shown.out.getvalue().count("nRanks 3 is not a power of 2, skipping\n") == 1
    assert "Avg bus bandwidth    : nan" in shown.out.getvalue()


def test_a_run_that_fails_has_no_footer_and_busbws_own_code(tmp_path: Path) -> None:
    shown = start(tmp_path)
    shown.good(0)
    lost = {"message": "rank 1 was killed", "hint": "look", "rank": 1, "host": "node1"}
    shown.handle("error", **lost, exit_code=5, peer_lost=False)
    assert shown.end(ExitCode.RANK_FAILED) == 5
    assert "Out of bounds" not in shown.out.getvalue()
    assert "rank 1 was killed" in shown.err.getvalue()
    assert (shown.json["errors"], shown.json["results"]) == (["rank 1 was killed"], [])


def test_a_timeout_has_the_status_of_nccl_tests(tmp_path: Path) -> None:
    shown = start(tmp_path, "-T", "1")
    late = {"message": "all_reduce: no end within 1 s (-T)", "hint": "", "rank": 0, "host": "a"}
    shown.handle("error", **late, exit_code=5, peer_lost=False)
    assert shown.end(ExitCode.RANK_FAILED) == 4


def test_memory_is_by_what_it_is_for() -> None:
    used = {"communicator": 300 << 20, "buffers": 64 << 20, "registration": 0, "calls": 5 << 19}
    assert write.memory_line(used) == (
        "# GPU memory usage     : Initialization 300 MB | User-Allocated 64.0 MB | Collective 2.50 MB"
        " | Total  366 MB"
    )


# ---- single iterations --------------------------------------------------------------------------------


def samples(case: int, times_us: dict[int, list[float]]) -> np.ndarray:
    rows = [
        (case, rank, i, 1, int(time * 1e3), int(time * 1e2), int(SampleFlag.SINGLE_CALL))
        for rank, times in times_us.items()
        for i, time in enumerate(times)
    ]
    loop = (case, MAX_OVER_RANKS, 0, 20, 10**9, 10**9, 0)
    return np.array([loop, *rows], SAMPLE_DTYPE)


def test_iterations_of_each_case_are_read_from_the_run(tmp_path: Path) -> None:
    shown = start(tmp_path, "-b1M", "-e1M", "-I1", "-K1", "-n4")
    folder = tmp_path / "samples"
    folder.mkdir()
    for case, slow in ((0, 12.0), (1, 40.0)):
        own = {0: [99.0, 10.0, slow, 8.0], 1: [9.0, 9.0, 9.0, 11.0]}
        with (folder / "samples.bin").open("ab") as file:
            file.write(samples(case, {MAX_OVER_RANKS: [99.0, 10.0, slow, 11.0], **own}).tobytes())
        shown.good(case)
    shown.end()
    (row,) = read_output(shown.out.getvalue()).rows
    cv = 100 * np.std([10.0, 12.0, 11.0]) / 11
    assert row.out_of_place.iterations == (10.0, 12.0, 12.0, pytest.approx(cv, abs=0.005))
    assert row.in_place.iterations[:2] == (10.0, 40.0)
    found = shown.json["results"][0]["out_of_place_per_iter"]
    assert (found["skipped_iterations"], found["times_us"]) == (1, [99.0, 10.0, 12.0, 11.0])
    assert found["per_process_max_times_us"] == [[99.0, 10.0, 12.0, 8.0], [9.0, 9.0, 9.0, 11.0]]
    assert (found["min_us"], found["max_us"], found["avg_us"], found["p50_us"]) == (10.0, 12.0, 11.0, 11.0)


def test_samples_of_later_cases_may_be_there_already(tmp_path: Path) -> None:
    """Rank 0 does not wait for whoever shows its events."""
    shown = start(tmp_path, "-b1M", "-e2M", "-f2", "-I1", "-n2")
    (tmp_path / "samples").mkdir()
    times = {case: {MAX_OVER_RANKS: [case + 1.0, case + 2.0]} for case in (0, 1, 3)}
    written = b"".join(samples(case, found).tobytes() for case, found in times.items())
    (tmp_path / "samples" / "samples.bin").write_bytes(written + b"half a row")
    for case in range(4):
        (shown.good if case in times else shown.absent)(case)
    shown.end()
    found = [
        side.iterations[:2]
        for row in read_output(shown.out.getvalue()).rows
        for side in (row.out_of_place, row.in_place)
    ]
    assert found[:2] + found[3:] == [(1.0, 2.0), (2.0, 3.0), (4.0, 5.0)]
    assert all(map(np.isnan, found[2]))


def test_percentiles_are_by_nearest_rank_and_the_median_the_upper_one() -> None:
    found = Iterations(np.arange(1.0, 101.0), (), 0).summary()
    assert (found["p50_us"], found["p95_us"], found["p99_us"]) == (51.0, 95.0, 99.0)
    few = Iterations(np.arange(1.0, 21.0), (), 0).summary()
    assert (few["p95_us"], few["p99_us"], few["max_us"]) == (19.0, 20.0, 20.0)


# ---- groups -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("average", "time_us"), [(0, 300.0), (1, (300 * 1 + 100 * 3) / 4), (2, 100.0), (3, 300.0)]
)
def test_groups_become_one_row_over_all_ranks(tmp_path: Path, average: int, time_us: float) -> None:
    case = start(tmp_path).plan.cases[0]
    groups = (
        GroupResult(0, 1, 1 << 20, time_ns=1.0, mean_ns=300e3),
        GroupResult(1, 3, 1 << 20, time_ns=1.0, mean_ns=100e3),
    )
    found = figures(case, good(0, 1.0, groups=groups), Role(0, 1), average)
    assert found.time_us == pytest.approx(time_us)
    # Bandwidth is that of rank 0's group, which is alone.
    assert found.algbw_gb_per_s == pytest.approx((1 << 20) / (time_us * 1e3))
    assert found.busbw_gb_per_s == 0


# ---- the JSON file ------------------------------------------------------------------------------------


def test_the_json_file_has_the_shape_of_nccl_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("NCCL_TOKEN", "x")
    shown = start(tmp_path, "-f", "2")
    shown.good(0)
    shown.good(1)
    shown.end()
    found = shown.json
    assert list(found) == [
        *("version", "start_time", "args", "env", "nccl_version", "config", "results"),
        *("out_of_bounds", "average_bus_bandwidth", "errors", "end_time"),
    ]
    assert found["version"] == 3
    assert found["args"] == ["all_reduce_perf", "--made-for", "this"]
    assert {"NCCL_DEBUG=INFO", "NCCL_TOKEN=[redacted]"} <= set(found["env"])
    assert not any(pair.startswith("HOME=") for pair in found["env"])
    assert found["nccl_version"] == 22809
    assert (found["config"]["step_factor"], found["config"]["parallel_init"]) == (2, "false")
    assert found["config"]["devices"][1] == {
        "rank": 1,
        "group": 0,
        "pid": 101,
        "hostname": "node1",
        "device": 1,
        "device_hex": "0000:01:00",
        "device_info": "NVIDIA H100 80GB HBM3",
    }
    (row,) = found["results"]
    side = {"time": 100.0, "alg_bw": 10.48576, "bus_bw": 10.48576, "nwrong": 0.0}
    assert row == {
        "size": 1 << 20,
        "count": 1 << 18,
        "type": "float",
        "redop": "sum",
        "root": "    -1",
        "out_of_place": side,
        "in_place": side,
        "actual_iterations": 20,
        "experiment_name": "",
    }
    assert found["average_bus_bandwidth"] == {"bandwidth": 10.48576, "okay": "unchecked"}


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("mine")
    assert new_file(str(path))[1] == (f"# Writing JSON output to {path}.0",)
    assert new_file(str(path))[1] == (f"# Writing JSON output to {path}.1",)
    assert path.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_said_and_another_suffix_writes_nothing(tmp_path: Path) -> None:
    said = f"# skipping json output; {tmp_path}/no/a.json not accessible"
    assert new_file(str(tmp_path / "no" / "a.json")) == (None, (said,))
    assert new_file(str(tmp_path / "a.txt")) == (None, ())
    assert list(tmp_path.iterdir()) == []


# ---- alltoallv ----------------------------------------------------------------------------------------


def test_alltoallv_shows_the_count_of_an_even_exchange_and_each_ranks_bytes(tmp_path: Path) -> None:
    shown = start(
        tmp_path,
        *["-b", "1K", "-e", "1K"],
        program="alltoallv_perf",
        variables=Variables(print_summary=True),
        ranks=4,
    )
    shown.good(0, 1.0)
    shown.absent(1)
    assert shown.end() == 0
    (row,) = read_output(shown.out.getvalue()).rows
    # In proportion to the distances 0, 1, 2 and 3, each rounded down to 16 bytes: 0 + 160 + 336 + 512.
    assert (row.size, row.count) == (1008, 64)
    assert (row.out_of_place.algbw, row.out_of_place.busbw) == (1.01, 0.76)
    lines = shown.out.getvalue().splitlines()
    at = lines.index(
        "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=4 total_bytes=1024 spread=1.000"
        " time_usec=1.00"
    )
    assert lines[at + 1] == "#   rank=0 send_bytes=1008 recv_bytes=1008 alg_bw=1.01 bus_bw=0.76"
    assert lines[at + 4].startswith("#   rank=3 ")


def summary_of(shown: Shown, time_us: float = 1.0) -> list[str]:
    shown.good(0, time_us)
    shown.absent(1)
    lines = shown.out.getvalue().splitlines()
    at = next(number for number, line in enumerate(lines) if "PRINT_SUMMARY" in line)
    return [line for line in lines[at:] if line.startswith(("# NCCL_TESTS", "#   rank="))]


def test_the_summary_of_a_matrix_says_what_its_file_is_for_and_uses_the_groups_part(tmp_path: Path) -> None:
    path = tmp_path / "matrix.txt"
    path.write_text("0 64 16\n32 0 16\n16 16 0\n")
    variables = Variables(print_summary=True, split="DIV 2", matrix=str(path))
    shown = start(tmp_path, program="alltoallv_perf", variables=variables, ranks=4)
    assert summary_of(shown) == [
        "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=matrix nranks=2 matrix_dim=3 scale=1.000 time_usec=1.00",
        "#   rank=0 send_bytes=64 recv_bytes=32 alg_bw=0.06 bus_bw=0.03",
        "#   rank=1 send_bytes=32 recv_bytes=64 alg_bw=0.06 bus_bw=0.03",
    ]
