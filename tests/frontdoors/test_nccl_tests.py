"""``busbw nccl-tests`` over real MPI ranks: the command lines of those who use nccl-tests, scaled to two
ranks and small sizes. Output is read by a reader of the format alone and by ``busbw import``.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.nccl_tests_format import Output, Row, Side, read_output
from busbw_testing.runs import start
from busbw_testing.wrong_data import wrong_mpi

from busbw.judge import kept
from busbw.model.collective import collective
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult
from busbw.record.folder import run_folders
from busbw.record.read import read_record

MPIEXEC: Final = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")

BUSBW: Final = (sys.executable, "-m", "busbw")
PATIENCE_S: Final = 100
LARGEST: Final = 16384
CALLS: Final = 20

# Lines of other kits that differ by more than their sizes.
LINES: Final = (
    "/opt/nccl_tests/build/all_reduce_perf -b 512K -e 32G -f 2 -c 0 -n 100 -g 1",
    "reduce_perf -b 8 -e 64 -f 2 -o max -d int8 -r 1 -T 60 -R 0 -G 0 -m 1 -a 3",
    *(f"{name}_perf -b 8 -e 16G -f 2 -g 1 -c 1 -n 100" for name in ("broadcast", "sendrecv", "hypercube")),
)


class Ran:
    """A finished line."""

    def __init__(self, done: subprocess.CompletedProcess[str], home: Path) -> None:
        self.status, self.out, self.err, self.home = done.returncode, done.stdout, done.stderr, home

    @property
    def output(self) -> Output:
        return read_output(self.out)

    @property
    def record(self) -> RunRecord:
        return read_record(run_folders(self.home)[0])


def run(
    tmp_path: Path, *words: str, ranks: int = 0, command: tuple[str, ...] = BUSBW, **variables: str
) -> Ran:
    """Run ``busbw nccl-tests WORDS``, by itself or as ranks of our own mpiexec."""
    home = tmp_path / "home"
    if not ranks and command is BUSBW:
        return Ran(start(home, "nccl-tests", *words, cwd=tmp_path, **variables), home)
    before = (str(MPIEXEC), "-n", str(ranks)) if ranks else ()
    done = subprocess.run(
        [*before, *command, "nccl-tests", *words],
        env=clean_environ(BUSBW_HOME=str(home), **variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    return Ran(done, home)


def scaled(line: str) -> list[str]:
    """The line for this machine: two ranks, sizes that end at 16K, 20 calls; all other words as they were."""
    words = line.split()
    for flag, value in (("-g", "2"), ("-n", str(CALLS)), ("-t", "1")):
        if flag in words:
            words[words.index(flag) + 1] = value
    if "-g" not in words:
        words += ["-g", "2"]
    for flag in ("-b", "-e"):
        at = words.index(flag) + 1
        words[at] = words[at] if words[at] in ("4", "8") else str(LARGEST)
    if "-f" in words:
        at = words.index("-f") + 1
        words[at] = "8" if words[at] == "2" else words[at]
    return words


def checked(ran: Ran, program: str, *, is_checked: bool = True) -> Output:
    """What must hold for the output of any good run, from the description of the format."""
    assert ran.status == 0, ran.err
    output, ranks = ran.output, 2
    assert output.program == output.concluded == program
    assert [words[0] for words in output.devices] == ["0", "1"]
    assert output.rows
    assert (output.out_of_bounds, output.data_ok, output.bandwidth_ok) == (0, "OK", "")
    row_of = collective(program.removesuffix("_perf"))
    factor = row_of.busbw_factor(ranks)
    sides = [side for row in output.rows for side in (row.out_of_place, row.in_place)]
    for side in sides:
        if math.isnan(side.time_us):  # a placement that MPI does not have
            assert side.wrong is None
            continue
        assert side.wrong == (0 if is_checked else None)
        assert side.busbw == pytest.approx(side.algbw * factor, abs=0.011)
    for row in output.rows:
        _bandwidth_fits(row, row.out_of_place)
    there = [side.busbw for side in sides if not math.isnan(side.busbw)]
    assert output.average == pytest.approx(sum(there) / len(there), abs=0.01)
    return output


def _bandwidth_fits(row: Row, side: Side) -> None:
    """algbw = bytes / time, as far as both are printed: each to two digits behind the point."""
    if row.size and side.time_us >= 1:
        last = 0.0051
        least, most = (row.size / (side.time_us + off) / 1e3 for off in (last, -last))
        # Hypercube has an algbw of other bytes than its size: on 2 ranks the half.
        assert any(least * part - last <= side.algbw <= most * part + last for part in (1.0, 0.5)), row


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_lines_of_other_kits_run(tmp_path: Path, line: str) -> None:
    words = scaled(line)
    program = words[0].rpartition("/")[2]
    ran = run(tmp_path, *words)
    output = checked(ran, program, is_checked="-c 0" not in line)
    _as_recorded(output, ran.record)
    _as_imported(ran, tmp_path)


def _as_recorded(output: Output, record: RunRecord) -> None:
    """The table shows what the record has."""
    assert len(output.rows) * 2 == len(record.results)
    for row, out_of_place, in_place in zip(
        output.rows, record.results[::2], record.results[1::2], strict=True
    ):
        case = record.plan.cases[out_of_place.case]
        assert (row.size, row.type) == (case.size_bytes, case.dtype)
        assert row.redop == _redop(case.collective, case.op)
        for side, result in ((row.out_of_place, out_of_place), (row.in_place, in_place)):
            _same(side, result)
    assert record.plan.limits.calls == CALLS


def _redop(name: str, op: str) -> str:
    return {"sendrecv": "sum", "hypercube": ""}.get(name, op or "none")


def _same(side: Side, result: CaseResult) -> None:
    if result.mean_ns is None:
        assert math.isnan(side.time_us)
        return
    # One loop of all calls, and over ranks the mean.
    assert (result.samples, result.calls_per_sample) == (1, CALLS)
    assert side.time_us == pytest.approx(result.mean_ns / 1e3, rel=0.001, abs=0.006)
    assert side.wrong == result.wrong


def _as_imported(ran: Ran, tmp_path: Path) -> None:
    """``busbw import`` reads the same numbers back."""
    (tmp_path / "run.log").write_text(ran.out)
    measured = ran.record
    done = start(tmp_path / "imported", "import", "run.log", cwd=tmp_path)
    assert done.returncode == 0, (done.stdout, done.stderr)
    record = read_record(run_folders(tmp_path / "imported")[0])
    assert record.world.size == 2
    known = [result for result in measured.results if result.mean_ns is not None]
    found = [result for result in record.results if result.time_ns is not None]
    assert [record.plan.cases[result.case].size_bytes for result in found] == [
        measured.plan.cases[result.case].size_bytes for result in known
    ]
    for old, new in zip(known, found, strict=True):
        assert new.time_ns == pytest.approx(old.mean_ns, rel=0.001, abs=6)


def test_a_line_with_everything(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        *["all_reduce_perf", "-b1K", "--maxbytes=4K", "--stepf", "2", "-g", "2", "-n20", "-I", "1", "-K2"],
        *["-S", "1", "-M", "1", "-J", "out.json", "-u", "1", "-w", "3", "-p", "1", "-y", "1"],
        NCCL_DEBUG="INFO",
        NCCL_TOKEN="secret-word",
    )
    output = checked(ran, "all_reduce_perf")
    assert [row.size for row in output.rows] == [1024, 2048, 4096]
    for row in output.rows:
        assert len(row.stamp) == len("2026-01-02 03:04:05")
        for side in (row.out_of_place, row.in_place):
            least, most, p99, cv = side.iterations
            assert 0 < least <= p99 == most  # 18 samples: p99 is the largest
            assert cv >= 0
    assert "# GPU memory usage     : Initialization N/A | User-Allocated 24" in ran.out
    assert "with 18 samples i_p99 is the largest" in ran.err
    document = json.loads((tmp_path / "out.json").read_text())
    assert "secret-word" not in (tmp_path / "out.json").read_text()
    assert [row["size"] for row in document["results"]] == [row.size for row in output.rows]
    found = document["results"][0]["out_of_place_per_iter"]
    assert (found["skipped_iterations"], len(found["times_us"])) == (2, 20)
    per_process = found["per_process_max_times_us"]
    assert [max(times) for times in zip(*per_process, strict=True)] == found["times_us"]
    assert output.rows[0].out_of_place.iterations[0] == pytest.approx(found["min_us"], rel=1e-5, abs=0.006)


def test_cycles_are_rows_again_and_the_average_is_over_all(tmp_path: Path) -> None:
    line = ["all_reduce_perf", "-b1K", "-e4K", "-f2", "-g2", "-n20", "-N3", "-J", "out.json"]
    ran = run(tmp_path, *line)
    output = checked(ran, "all_reduce_perf")
    assert [row.size for row in output.rows] == [1024, 2048, 4096] * 3
    document = json.loads((tmp_path / "out.json").read_text())
    assert [row["size"] for row in document["results"]] == [row.size for row in output.rows]
    assert [result.samples for result in ran.record.results] == [3] * 6


def test_ranks_of_a_launcher_join(tmp_path: Path) -> None:
    ran = run(tmp_path, "all_gather_perf", "-b", "1K", "-e", "1K", "-g", "1", ranks=2)
    checked(ran, "all_gather_perf")
    assert ran.out.count("# Collective test starting") == 1
    assert "ranks 2 = processes 2 (started by mpich)" in ran.err
    assert kept.reading(ran.home, lambda index: len(index.launches())) == 1


def test_cpu_ranks_beside_a_process_of_mpirun_are_refused(tmp_path: Path) -> None:
    ran = run(tmp_path, "all_gather_perf", "-b", "1K", "-e", "1K", "-g", "2", ranks=2)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.count("error: ") == 1
    assert "start 4 processes, each with -t 1 -g 1" in ran.err


def test_split_ranks_make_one_row_and_the_groups_are_in_the_record(tmp_path: Path) -> None:
    ran = run(
        tmp_path, *["all_reduce_perf", "-b", "1K", "-e", "1K", "-n", "5"], ranks=4, NCCL_TESTS_SPLIT="DIV 2"
    )
    assert ran.status == 0, ran.err
    assert [words[1] for words in ran.output.devices] == ["0", "0", "1", "1"]
    (row,) = ran.output.rows
    result = ran.record.results[0]
    assert [group.ranks for group in result.groups] == [2, 2]
    times_us = [(group.mean_ns or math.nan) / 1e3 for group in result.groups]
    assert row.out_of_place.time_us == pytest.approx(sum(times_us) / 2, rel=0.001, abs=0.006)
    # On two ranks the factor of all_reduce is 1, on four it is not.
    assert row.out_of_place.busbw == row.out_of_place.algbw


def test_a_split_is_of_processes_and_one_process_is_one_group(tmp_path: Path) -> None:
    words = ("all_reduce_perf", "-b", "1K", "-e", "1K", "-n", "5", "-g", "2")
    ran = run(tmp_path, *words, NCCL_TESTS_SPLIT="MOD 2", BUSBW_BACKEND="null")
    assert ran.status == 0, ran.err
    assert [words[1] for words in ran.output.devices] == ["0", "0"]
    assert ran.record.plan.groups == ()
    assert ran.err.count("split MOD 2 has no effect") == 1


# The front door on a machine whose memory holds 5000 bytes a buffer.
SMALL_MACHINE: Final = """
from busbw.foreign.nccl_tests import settings
settings.largest_size = lambda backend, check, ranks_here: 5000
from busbw.__main__ import main
raise SystemExit(main())
"""


def test_a_size_that_does_not_fit_lowers_e(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SMALL_MACHINE)
    words = ("all_reduce_perf", "-b", "1K", "-e", "16G", "-f", "4", "-g", "2")
    ran = run(tmp_path, *words, command=(sys.executable, "small.py"))
    output = checked(ran, "all_reduce_perf")
    assert [row.size for row in output.rows] == [1024, 4096]
    assert f"maxBytes {16 << 30} " in output.options
    reduced = "#\n# Reducing maxBytes to 5000 due to memory limitation\n#\n"
    assert ran.out.count(reduced) == 1
    assert ran.out.index("# Using devices") < ran.out.index(reduced) < ran.out.index("out-of-place")
    assert ran.err.count(f"busbw: -e {16 << 30} lowered to 5000, ") == 1


def test_a_matrix_of_other_ranks_is_refused_in_their_words(tmp_path: Path) -> None:
    (tmp_path / "matrix.txt").write_text("64\n")
    ran = run(tmp_path, "alltoallv_perf", "-g", "2", NCCL_TESTS_ALLTOALLV_MATRIX_FILE="matrix.txt")
    assert ran.status == 2
    assert "NCCL_TESTS_ALLTOALLV_MATRIX_FILE matrix.txt is for 1 ranks, these are 2" in ran.err
    assert "--matrix" not in ran.err


# ---- exit statuses ------------------------------------------------------------------------------------


def test_wrong_data_fails(tmp_path: Path) -> None:
    words = ("all_reduce_perf", "-b", "512", "-e", "1K", "-f", "2")
    ran = run(tmp_path, *words, ranks=2, LD_PRELOAD=wrong_mpi(tmp_path))
    assert ran.status == 7
    good, wrong = ran.output.rows
    assert (good.out_of_place.wrong, good.in_place.wrong) == (0, 0)
    assert (wrong.out_of_place.wrong, wrong.in_place.wrong) == (1, 1)  # as in nccl-tests: of one check
    assert (ran.output.out_of_bounds, ran.output.data_ok) == (2, "FAILED")
    # Printed there, wrong or not; 1 KiB in 205 us rounds to 0.00.
    assert wrong.out_of_place.busbw > 0 or wrong.out_of_place.time_us > 200
