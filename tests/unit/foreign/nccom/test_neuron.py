"""The vendor's tool, by a stand-in that speaks its documented format: no Neuron hardware is here."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from busbw.errors import ExitCode, RankFailed, SiteError, UndecidedError, UsageError
from busbw.foreign.nccom import neuron
from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import Status
from busbw.record.read import read_record

# Rows of the documentation: all_gather over 32 ranks, fp32, time:avg, decimal GB/s.
STAND_IN = """\
import json, os, signal, sys, time

HEADING = "     size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)"
ROWS = ((1024, 6.19, 0.17, 0.16), (8192, 6.55, 1.25, 1.21), (65536, 8.18, 8.01, 7.76),
        (524288, 23.11, 22.69, 21.98))
mode = os.environ["STAND_IN"]
if mode == "environment":
    print("Neuron DKMS Driver is not running!", file=sys.stderr)
    sys.exit(1)
print(HEADING, flush=True)
busbw, results = [], []
for number, (size, us, algbw, bus) in enumerate(ROWS):
    if mode == "dies" and number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "leaves" and number == 2:
        sys.exit(3)
    if mode == "hangs" and number == 2:
        time.sleep(60)
    if mode == "fails" and number == 2:
        print(f"{size:12}    Failure running neuron-bench - log file /tmp/nccom_test_log_7pqpdfjf.log")
        continue
    busbw.append(size / us / 1e3 * 31 / 32)
    print(f"{size:12}{size // 4:16}    fp32{us:16.2f}{algbw:15.2f}{bus:15.2f}", flush=True)
    results.append({"size(B)": size, "count(elems)": size // 4, "type": "fp32", "time:avg(us)": us + 0.0012,
                    "algbw(GB/s)": size / (us + 0.0012) / 1e3, "busbw(GB/s)": busbw[-1]})
print(f"Avg bus bandwidth:\\t{sum(busbw) / len(busbw):.4f}GB/s")
if mode == "fails":
    print("1 errors found - test failed")
if "--report-to-json-file" in sys.argv:
    with open(sys.argv[sys.argv.index("--report-to-json-file") + 1], "w") as file:
        json.dump({"results": results}, file)
sys.exit(1 if mode == "fails" else 0)
"""
WORDS = ("-r", "32", "-b", "1kb", "-e", "1mb", "-f", "8", "-d", "fp32", "--check", "allg")


@dataclass
class Ran:
    code: ExitCode
    out: str
    err: str
    record: RunRecord


Run = Callable[..., Ran]


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    return program(tmp_path / "nccom-test", STAND_IN)


@pytest.fixture
def run(tool: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(mode: str, *more: str, raises: type[Exception] | None = None) -> Ran:
        monkeypatch.setenv("STAND_IN", mode)
        out, err = io.StringIO(), io.StringIO()
        code = ExitCode.OK
        if raises is None:
            code = neuron.run(tool, (*WORDS, *more), ("busbw",), out, err)
        else:
            with pytest.raises(raises) as caught:
                neuron.run(tool, (*WORDS, *more), ("busbw",), out, err)
            err.write(f"{caught.value} | {getattr(caught.value, 'hint', '')}")
        (folder,) = home.glob("2*")
        return Ran(code, out.getvalue(), err.getvalue(), read_record(folder))

    return call


def test_its_table_is_ours_and_its_result_a_record(run: Run) -> None:
    ran = run("good")
    assert ran.code is ExitCode.OK
    assert ran.out.splitlines()[0].split()[0] == "size(B)"
    assert ran.out.splitlines()[-1].startswith("Avg bus bandwidth:")
    record = ran.record
    assert record.run_id in ran.err
    assert (record.plan.backend, record.status, record.argv) == ("nccom", RunStatus.COMPLETE, ("busbw",))
    assert record.world.size == 32
    assert [case.collective for case in record.plan.cases] == ["all_gather"] * 4
    assert [case.size_bytes for case in record.plan.cases] == [1024, 8192, 65536, 524288]
    assert [result.time_ns for result in record.results] == [6190.0, 6550.0, 8180.0, 23110.0]
    assert record.results[3].busbw_gb_per_s == pytest.approx(21.98, abs=0.005)
    assert record.source.tool == "nccom-test"


def test_a_failed_row_is_a_failed_case(run: Run) -> None:
    ran = run("fails")
    assert ran.code is ExitCode.BAD_VERDICT
    assert "1 errors found - test failed" in ran.out
    pairs = zip(ran.record.plan.cases, ran.record.results, strict=True)
    statuses = {case.size_bytes: result.status for case, result in pairs}
    assert statuses == {1024: Status.GOOD, 8192: Status.GOOD, 65536: Status.FAILED, 524288: Status.GOOD}
    failed = next(result for result in ran.record.results if result.status is Status.FAILED)
    assert "nccom_test_log_7pqpdfjf.log" in failed.error


@pytest.mark.parametrize(("mode", "words"), [("dies", "signal 9"), ("leaves", "exit code 3")])
def test_one_that_dies_half_way_keeps_its_rows(run: Run, mode: str, words: str) -> None:
    ran = run(mode, raises=RankFailed)
    assert words in ran.err
    assert ran.record.status is RunStatus.FAILED
    assert words in ran.record.error
    assert [result.time_ns for result in ran.record.results[:2]] == [6190.0, 6550.0]


def test_one_that_hangs_is_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(neuron.TIMEOUT_VARIABLE, "0.5")
    ran = run("hangs", raises=RankFailed)
    assert "printed nothing for" in ran.err
    assert ran.record.status is RunStatus.FAILED
    assert len([result for result in ran.record.results if result.status is Status.GOOD]) == 2


def test_a_machine_that_cannot_run_it(run: Run) -> None:
    ran = run("environment", raises=SiteError)
    assert "exit code 1 and no table" in ran.err
    assert "Neuron DKMS Driver is not running!" in ran.err
    assert ran.record.status is RunStatus.FAILED
    assert ran.record.results == ()


def test_output_that_is_no_table(home: Path, tmp_path: Path) -> None:
    tool = program(tmp_path / "other", "print('hello')\n")
    with pytest.raises(UndecidedError, match="printed no table"):
        neuron.run(tool, WORDS, (), io.StringIO(), io.StringIO())


def test_flags_newer_than_our_table_go_through(run: Run) -> None:
    assert run("good", "--flag-of-next-year", "7").code is ExitCode.OK


# ---- which tool ----------------------------------------------------------------------------------------


def test_a_device_calls_for_the_tool(tool: Path, tmp_path: Path) -> None:
    assert neuron.find_tool({"PATH": str(tool.parent)}, tmp_path) is None
    devices = tmp_path / "dev"
    devices.mkdir()
    (devices / "neuron0").touch()
    assert neuron.find_tool({"PATH": str(tool.parent)}, devices) == tool
    assert neuron.find_tool({"PATH": str(tool.parent), neuron.TOOL_VARIABLE: "none"}, devices) is None
    with pytest.raises(SiteError, match="1 Neuron devices") as caught:
        neuron.find_tool({"PATH": str(devices)}, devices)
    assert "aws-neuronx-tools" in caught.value.hint


def test_a_tool_can_be_named(tool: Path, tmp_path: Path) -> None:
    assert neuron.find_tool({neuron.TOOL_VARIABLE: str(tool)}, tmp_path / "nowhere") == tool
    with pytest.raises(UsageError, match="is not a program"):
        neuron.find_tool({neuron.TOOL_VARIABLE: str(tmp_path / "nothing")}, tmp_path)


def test_a_time_limit_that_is_none(run: Run, monkeypatch: pytest.MonkeyPatch, tool: Path, home: Path) -> None:
    monkeypatch.setenv(neuron.TIMEOUT_VARIABLE, "soon")
    with pytest.raises(UsageError, match="BUSBW_NCCOM_TIMEOUT=soon is not a number of seconds"):
        neuron.run(tool, WORDS, (), io.StringIO(), io.StringIO())


# ---- streams -------------------------------------------------------------------------------------------

# Two tables, as nccom-test prints one for each stream. Over 2 ranks all_gather, reduce_scatter and alltoall
# print the same, so the rows alone do not tell which it is; nor does a table without bandwidths.
OF_STREAMS = """\
print("     size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)")
print("     1048576         1048576   uint8          100.00          10.49          10.49")
print("     2097152         2097152   uint8          200.00          10.49          10.49")
print("Avg bus bandwidth:\\t10.4900GB/s")
print("     size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)")
print("     1048576         1048576   uint8          100.00          10.49           5.24")
print("     2097152         2097152   uint8          200.00          10.49           5.24")
print("Avg bus bandwidth:\\t5.2400GB/s")
"""
STREAMS_WORDS = ("-r", "2", "--streams-json")


@pytest.fixture
def of_streams(tmp_path: Path, home: Path) -> Path:
    del home
    return program(tmp_path / "streams-tool", OF_STREAMS)


def test_the_operation_of_every_stream_is_in_its_file(of_streams: Path, tmp_path: Path, home: Path) -> None:
    streams = tmp_path / "s.json"
    streams.write_text('{"streams": [{"operation": "allr"}, {"operation": "redsct"}]}')
    err = io.StringIO()
    words = (*STREAMS_WORDS, str(streams))
    assert neuron.run(of_streams, words, (), io.StringIO(), err) is ExitCode.OK
    first, second = (read_record(folder) for folder in sorted(home.glob("2*")))
    assert [case.collective for case in first.plan.cases] == ["all_reduce"] * 2
    assert [case.collective for case in second.plan.cases] == ["reduce_scatter"] * 2
    assert [record.world.size for record in (first, second) if record.world] == [2, 2]


def test_a_table_that_cannot_be_read_leaves_the_others(of_streams: Path, tmp_path: Path, home: Path) -> None:
    streams = tmp_path / "s.json"
    streams.write_text('{"streams": [{"operation": "allr"}, {}]}')
    with pytest.raises(UndecidedError, match="cannot determine the operation"):
        neuron.run(of_streams, (*STREAMS_WORDS, str(streams)), (), io.StringIO(), io.StringIO())
    first, second = (read_record(folder) for folder in sorted(home.glob("2*")))
    assert (first.status, len(first.results)) == (RunStatus.COMPLETE, 2)
    assert [case.collective for case in first.plan.cases] == ["all_reduce"] * 2
    assert (second.status, second.results) == (RunStatus.FAILED, ())
    assert "cannot determine the operation" in second.error
