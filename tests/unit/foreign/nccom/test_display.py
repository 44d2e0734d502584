"""nccom-test's table and JSON file from the events of a run, read back by a reader of the format alone."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from busbw_testing.nccom_format import Table, parse

from busbw.errors import UsageError
from busbw.foreign.logs.assemble import Origin, assemble
from busbw.foreign.logs.decide import Given
from busbw.foreign.nccom.command import nccom_test
from busbw.foreign.nccom.display import NccomDisplay
from busbw.foreign.nccom.options import parse as options_of
from busbw.foreign.nccom.settings import one_placement, operations_of, run_settings
from busbw.foreign.read_any import read_file
from busbw.model.event import EventKind, event
from busbw.model.plan import Plan
from busbw.model.record import Method, RankInfo, WorldInfo
from busbw.model.result import CaseResult, Status, WrongData
from busbw.model.sample import HEADLINE, MAX_OVER_RANKS, SAMPLE_DTYPE, SampleFlag
from busbw.plan.make import make_plan
from busbw.record.folder import LOG_FILE, SAMPLES_FILE

RANKS = 4
WORLD = WorldInfo(
    "mpi", "mpich", RANKS, tuple(RankInfo(r, "node1", 10 + r, r, library="MPI") for r in range(RANKS))
)


class Shown:
    """A display, and the run that it is told of."""

    def __init__(self, line: str, folder: Path) -> None:
        self.options = options_of(line.split())
        self.folder = folder
        (folder / SAMPLES_FILE).parent.mkdir(parents=True, exist_ok=True)
        settings = run_settings(self.options, {})
        self.plan: Plan = one_placement(make_plan(operations_of(self.options), settings, "mpi", RANKS))
        self.out, self.err = io.StringIO(), io.StringIO()
        self.display = NccomDisplay(self.options, self.out, self.err)
        said = {"run_id": "r", "folder": str(folder), "busbw_version": "0"}
        header = event(EventKind.HEADER, **said, plan=self.plan, world=WORLD, method=Method())
        self.display.handle(header)

    def result(self, index: int, **fields: Any) -> None:
        case = self.plan.cases[index]
        good: dict[str, Any] = {"status": Status.GOOD, "time_ns": 1000.0, "mean_ns": 2000.0}
        if "status" not in fields:
            algbw = case.size_bytes / fields.get("time_ns", 1000.0)
            good |= {"algbw_gb_per_s": algbw, "busbw_gb_per_s": 1.5 * algbw}
        self.display.handle(event(EventKind.CASE, result=CaseResult(index, **{**good, **fields})))

    def all(self) -> None:
        """Every case with good numbers, as ranks send them: those that do not apply among them."""
        for case in self.plan.cases:
            if case.applicable:
                self.result(case.index)
            else:
                self.result(case.index, status=Status.NOT_APPLICABLE, time_ns=None, mean_ns=None)
        self.end()

    def end(self) -> None:
        self.display.handle(event(EventKind.END, exit_code=0, folder=str(self.folder)))

    @property
    def table(self) -> Table:
        (table,) = parse(self.out.getvalue())
        return table


def test_rows_come_as_they_finish_and_bandwidth_is_of_the_mean(tmp_path: Path) -> None:
    shown = Shown("-r 4 -b 1kb -e 4kb -f 4 -d fp32 allr", tmp_path)
    shown.result(0)
    assert len(shown.out.getvalue().splitlines()) == 2
    assert shown.out.getvalue().splitlines()[1].split() == ["1024", "256", "fp32", "2.00", "0.51", "0.77"]
    shown.result(2)
    shown.end()
    assert shown.table.sizes == [1024, 4096]
    assert shown.table.average == pytest.approx((0.768 + 3.072) / 2)
    assert shown.table.columns[3] == "time:avg(us)"


def test_optional_columns(tmp_path: Path) -> None:
    shown = Shown(
        "-r 4 -b 1kb -e 1kb allg --show-algorithm --show-input-output-size --stats p50 avg", tmp_path
    )
    assert {"in", "out"} <= set(shown.plan.show)
    shown.result(0, stats={"p50": 4000.0}, input_bytes=256, output_bytes=1024)
    shown.end()
    table = shown.table
    assert table.columns == [
        *("size(B)", "count(elems)", "total_input_size(B)", "total_output_size(B)", "type"),
        *("time:p50(us)", "time:avg(us)", "algbw(GB/s)", "busbw(GB/s)", "algorithm"),
    ]
    assert table.rows[0]["algorithm"] == "-"
    assert (table.rows[0]["total_input_size(B)"], table.rows[0]["total_output_size(B)"]) == ("256", "1024")
    # 1024 B in the 4 us of the first statistic
    assert table.rows[0]["algbw(GB/s)"] == "0.26"


def test_the_algorithm_is_the_librarys_word_and_what_it_is_not_is_said(tmp_path: Path) -> None:
    shown = Shown("-r 4 -b 1kb -e 2kb -f 2 allr --show-algorithm", tmp_path)
    assert "algorithm" in shown.plan.show
    shown.result(0, algorithm="RING LL128")
    shown.result(2)
    shown.end()
    assert [row["algorithm"] for row in shown.table.rows] == ["ring", "-"]
    assert "busbw: algorithm: - means not reported" in shown.err.getvalue()


def test_streams_have_a_table_each_the_first_one_as_it_goes(tmp_path: Path) -> None:
    streams = [
        {"operation": "allr", "minbytes": 1024, "maxbytes": 2048, "stepfactor": 2},
        {"operation": "allg", "minbytes": 64, "maxbytes": 64, "ops_per_iter": 3},
    ]
    (tmp_path / "s.json").write_text(json.dumps({"streams": streams}))
    shown = Shown(f"-r 4 allr -d fp32 --streams-json {tmp_path / 's.json'}", tmp_path)
    shown.result(0, overlap=0.25)
    shown.result(1, overlap=1.0)
    assert len(shown.out.getvalue().splitlines()) == 2
    shown.result(2, overlap=0.5)
    shown.result(3, status=Status.WRONG, wrong=3, wrong_at=(WrongData(2, "node1", 3, 0),))
    shown.end()
    reduced, gathered = parse(shown.out.getvalue())
    assert (reduced.sizes, gathered.sizes) == ([1024, 2048], [64])
    assert gathered.failures[0][1].startswith("Failure checking allg: 3 wrong elements")
    assert shown.display.failures == 1
    said = shown.err.getvalue()
    assert "stream 1 all_gather, 3 calls an iteration" in said
    assert [row["stream"] for row in shown.display.results()] == [0, 0, 1, 1]


def test_percentiles_of_few_calls_are_printed_with_a_note(tmp_path: Path) -> None:
    shown = Shown("-r 4 -b 1kb -e 1kb allr --stats avg p50 p99", tmp_path)
    rows = np.zeros(30, SAMPLE_DTYPE)
    rows["rank"][:10], rows["rank"][10:20], rows["rank"][20:] = MAX_OVER_RANKS, HEADLINE, MAX_OVER_RANKS
    rows["k"], rows["k"][20:] = 2, 1
    rows["elapsed_ns"][20:] = np.arange(1, 11) * 1000
    rows["flags"][20:] = int(SampleFlag.SINGLE_CALL)
    rows.tofile(tmp_path / SAMPLES_FILE)
    shown.result(0, stats={"p50": None, "p99": None})
    shown.end()
    assert (shown.table.rows[0]["time:p50(us)"], shown.table.rows[0]["time:p99(us)"]) == ("5.00", "10.00")
    assert "percentiles come from 10 samples" in shown.err.getvalue()


def test_percentiles_and_the_mean_are_of_the_same_calls(tmp_path: Path) -> None:
    """The mean is without a call in which a rank had no core, so p99 is too; what is left out is said."""
    shown = Shown("-r 4 -b 1kb -e 1kb allr --stats avg p99 -n 40", tmp_path)
    rows = np.zeros(40, SAMPLE_DTYPE)
    rows["rank"], rows["k"], rows["elapsed_ns"] = MAX_OVER_RANKS, 1, 2000
    rows["elapsed_ns"][-1], rows["flags"][-1] = 5_000_000, int(SampleFlag.DESCHEDULED)
    rows.tofile(tmp_path / SAMPLES_FILE)
    shown.result(0, stats={"p99": None}, samples=39, excluded=1)
    shown.end()
    assert shown.table.rows[0]["time:p99(us)"] == "2.00"
    assert "1 samples of 1 cases were left out" in shown.err.getvalue()
    assert "percentiles come from 39 samples" in shown.err.getvalue()


def test_wrong_and_failed_sizes_have_a_text_and_are_counted(tmp_path: Path) -> None:
    shown = Shown("-r 4 -b 1kb -e 16kb -f 4 -c allr", tmp_path)
    wrong_at = (WrongData(3, "node1", 17, 5),)
    shown.result(0, status=Status.WRONG, wrong=17, wrong_at=wrong_at)
    shown.result(2, status=Status.FAILED, time_ns=None, error="no memory\nleft")
    shown.result(4)
    shown.end()
    table = shown.table
    (wrong, failed), (good,) = table.failures, table.sizes
    assert wrong == (
        1024,
        f"Failure checking allr: 17 wrong elements, first on rank 3 - run folder {tmp_path}",
    )
    assert failed == (4096, f"Failure running allr: no memory left - log file {tmp_path / LOG_FILE}")
    assert (good, table.errors, shown.display.failures) == (16384, 2, 2)
    assert shown.out.getvalue().splitlines()[-1] == "2 errors found - test failed"


def test_sizes_that_a_broken_run_did_not_reach_are_failures(tmp_path: Path) -> None:
    shown = Shown("-r 4 -b 1kb -e 16kb -f 4 allr", tmp_path)
    shown.result(0)
    lost = event(
        EventKind.ERROR, message="rank 1 was killed by SIGKILL", hint="", rank=1, host="node1", exit_code=5
    )
    shown.display.handle(lost)
    shown.end()
    assert [size for size, _ in shown.table.failures] == [4096, 16384]
    assert all("rank 1 was killed by SIGKILL" in text for _, text in shown.table.failures)
    assert shown.table.average is not None


def test_an_interrupted_run_has_no_average(tmp_path: Path) -> None:
    shown = Shown("-r 4 -b 1kb -e 16kb -f 4 allr", tmp_path)
    shown.result(0)
    shown.display.handle(event(EventKind.END, exit_code=130, folder=str(tmp_path)))
    assert (shown.table.sizes, shown.table.average, shown.table.failures) == ([1024], None, [])
    assert "interrupted after 1 size\n" in shown.err.getvalue()


def test_a_second_end_adds_nothing(tmp_path: Path) -> None:
    shown = Shown("-r 4 -b 1kb -e 1kb allr", tmp_path)
    shown.all()
    before = shown.out.getvalue()
    shown.end()
    assert shown.out.getvalue() == before


def test_the_report_has_results_beside_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    shown = Shown(f"-r 4 -b 1kb -e 4kb -f 4 -d fp32 -c allr --report-to-json-file {path}", tmp_path)
    shown.result(0)
    shown.result(2, status=Status.FAILED, time_ns=None, error="no memory")
    shown.end()
    body = json.loads(path.read_text())
    config, results = body["config"], body["results"]
    assert (config["operation"], config["nworkers"], config["minbytes"]) == ("allr", 4, 1024)
    assert (config["check"], config["stepfactor"], config["seed"]) == ("random", 4.0, None)
    assert list(results[0]) == [
        *("size(B)", "count(elems)", "type", "algbw(GB/s)", "busbw(GB/s)", "time:avg(us)")
    ]
    assert results[0]["time:avg(us)"] == 2.0
    assert results[0]["algbw(GB/s)"] == pytest.approx(0.512, rel=1e-12)
    assert results[1]["size(B)"] == 4096
    assert "no memory" in results[1]["error"]
    assert "time:avg(us)" not in results[1]


def test_a_report_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    shown = Shown(f"-r 4 -b 1kb -e 1kb allr --report-to-json-file {tmp_path}/none/r.json", tmp_path)
    with pytest.raises(UsageError, match="cannot write") as caught:
        shown.all()
    assert "busbw export" in caught.value.hint


def test_the_seed_is_logged_with_a_check_and_rounding_is_said(tmp_path: Path) -> None:
    shown = Shown("-r 4 -b 1000 -e 1000 -d fp32 --seed 77 -c allg", tmp_path)
    shown.all()
    assert "seed 77" in shown.err.getvalue()
    golden = Shown("-r 4 -b 1000 -e 1000 -d fp32 -c all_ones allg", tmp_path)
    golden.all()
    assert "check all_ones\n" in golden.err.getvalue()
    assert "1 size was rounded" in shown.err.getvalue()
    assert shown.table.sizes == [960]


def test_sizes_of_which_no_rank_gets_a_byte_have_no_row(tmp_path: Path) -> None:
    """They would be right whatever happens, and pull the average down."""
    shown = Shown("-r 4 -b 8 -e 128 -f 2 -c alltoall", tmp_path)
    shown.all()
    assert shown.table.sizes == [64, 128]
    assert "no rows for 3 sizes up to 32 B" in shown.err.getvalue()
    assert shown.table.average == pytest.approx(1.5 * (64 + 128) / 2 / 2000, abs=1e-3)


def test_a_sweep_of_such_sizes_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_BACKEND", "null")
    words = ("-r", "2", "redsct", "-b", "8", "-e", "16", "-f", "2")
    with pytest.raises(UsageError, match="16 B cannot be shared equally"):
        nccom_test(words, (), io.StringIO(), io.StringIO())


def test_debug_shows_what_ranks_print(tmp_path: Path) -> None:
    shown = Shown("-r 4 -b 1kb -e 1kb --debug allr", tmp_path)
    (tmp_path / LOG_FILE).parent.mkdir()
    (tmp_path / LOG_FILE).write_text("a word of a rank\n")
    shown.all()
    assert shown.err.getvalue().count("a word of a rank") == 1


def test_bandwidths_that_do_not_exist_are_nan_and_in_no_average(tmp_path: Path) -> None:
    """The bus bandwidth of one rank; both of groups of unequal size."""
    shown = Shown("-r 4 -b 1kb -e 2kb -f 2 allr", tmp_path)
    shown.result(0, busbw_gb_per_s=None)
    shown.result(2, algbw_gb_per_s=None, busbw_gb_per_s=None)
    shown.end()
    _, one, unequal = map(str.split, shown.out.getvalue().splitlines())
    assert (one[-2:], unequal[-2:]) == (["0.51", "nan"], ["nan", "nan"])


def test_a_report_of_groups_is_no_mislabelled_log(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    line = f"-r 4 -b 1mb -e 4mb -f 2 allr --data-parallel-dimension 2 --report-to-json-file {report}"
    shown = Shown(line, tmp_path)
    for case in shown.plan.cases:
        if case.applicable:
            algbw = case.size_bytes / 1e3
            shown.result(case.index, mean_ns=1e3, algbw_gb_per_s=algbw, busbw_gb_per_s=algbw)
    shown.end()
    assert json.loads(report.read_text())["busbw"]["group_ranks"] == 2
    (table,) = read_file(report, "nccom-test").tables
    record = assemble(table, Origin(path=str(report)), Given(), run_id="r")
    assert record.world.size == 2
    assert [finding.kind for finding in record.source.findings] == []


def test_a_folder_for_logs_is_tried_before_measuring(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = ("-r", "2", "-b", "64", "-e", "64", "allr", "--mpi-log-dir", str(tmp_path / "file" / "logs"))
    out = io.StringIO()
    with pytest.raises(UsageError, match="cannot write logs into"):
        nccom_test(words, ("busbw",), out, io.StringIO())
    assert out.getvalue() == ""
