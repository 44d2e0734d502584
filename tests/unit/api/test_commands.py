"""Commands as functions: the same record, table and errors as on the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import busbw
from busbw.cli.main import main
from busbw.errors import SiteError, UndecidedError, UnknownWord, UsageError
from busbw.model.record import RunStatus
from busbw.record.read import read_record

pytest.importorskip("polars")
SMALL = {"backend": "null", "ranks": 2, "b": "1K", "e": "2K", "iters": 16}
LOG = """\
#                                                out-of-place
#       size         count      type   redop    root     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    20.00    0.05    0.05      0
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(home))


@pytest.fixture(scope="module")
def measured(home: Path) -> busbw.Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUSBW_HOME", str(home))
        return busbw.run(
            "all_reduce,broadcast", **SMALL, tag=["a", "b"], env={"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
        )


def test_keywords_are_the_flags(measured: busbw.Run) -> None:
    settings = measured.record.settings
    assert (settings["minbytes"], settings["maxbytes"], settings["iters"]) == ("1K", "2K", 16)
    assert settings["tag"] == ["a", "b"]
    variables = measured.record.environment["variables"]
    assert (variables["NCCL_ALGO"], variables["NCCL_PROTO"]) == ("Ring", "LL")
    assert {case.collective for case in measured.record.plan.cases} == {"all_reduce", "broadcast"}


def test_nothing_is_printed_unless_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = busbw.run("all_reduce", **SMALL)
    assert capsys.readouterr() == ("", "")
    busbw.run("all_reduce", **SMALL, show=True)
    shown = capsys.readouterr().out
    assert "(elements)" in shown
    assert main(["show", str(quiet.folder)]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert [line for line in shown.splitlines() if not line.startswith("#")] == rows


def test_a_run_is_one_line_a_table_and_a_plot(measured: busbw.Run) -> None:
    assert repr(measured).startswith(f"<Run {measured.folder.name}: all_reduce,broadcast, 2 ranks, ")
    assert "\n" not in repr(measured)
    html = measured._repr_html_()
    assert html.startswith("<pre># busbw")
    assert "&lt;" not in html.partition("# record")[0]
    assert measured.plot("broadcast").to_dict()["title"].startswith("Bandwidth of broadcast")
    with pytest.raises(UsageError, match="has no plot 'nothing'"):
        measured.plot("nothing")
    assert measured.to_pandas()["size_bytes"].tolist() == measured.df["size_bytes"].to_list()


def test_runs_are_newest_first_and_one_that_cannot_be_read_says_so(measured: busbw.Run, home: Path) -> None:
    bad = home / "20010101-000000-all_reduce-0000"
    bad.mkdir()
    (bad / "run.json").write_text("{")
    every = busbw.runs()
    moments = [run.folder.name[:15] for run in every]  # runs of one second differ by chance in what follows
    assert moments == sorted(moments, reverse=True)
    assert measured in every
    assert "unreadable" in repr(every[-1])


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"minbyte": "1K"}, UsageError, "unknown flag '--minbyte'"),
        ({"ranks": "many"}, UsageError, "--ranks takes a whole number"),
        ({"backend": "nccl", "nccl": "/nowhere/libnccl.so"}, SiteError, "nccl"),
        ({"dry_run": True}, UndecidedError, "no record"),
    ],
)
def test_errors_are_the_command_s(settings: dict[str, object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as refused:
        busbw.run("all_reduce", **{**SMALL, **settings})
    assert refused.value.hint
    assert "jsonl" not in refused.value.hint  # which the caller did not write


def test_an_interrupt_ends_the_ranks_and_keeps_what_was_measured(home: Path, tmp_path: Path) -> None:
    program = (
        "import busbw; busbw.run('all_reduce', backend='null', ranks=2, b=8, e=8, iters=10**8, name='long')"
    )
    environ = {**os.environ, "BUSBW_HOME": str(tmp_path)}
    script = subprocess.Popen([sys.executable, "-c", program], env=environ, stderr=subprocess.PIPE)
    while not list(tmp_path.glob("*-long-*/run.json")):
        time.sleep(0.05)
    script.send_signal(signal.SIGINT)
    _, said = script.communicate()
    assert b"KeyboardInterrupt" in said
    [folder] = tmp_path.glob("*-long-*")
    assert read_record(folder).status is RunStatus.INTERRUPTED


def test_compare_is_the_command_s(measured: busbw.Run, capsys: pytest.CaptureFixture[str]) -> None:
    answer = busbw.compare(measured, measured.folder, delta="3%", all=True)
    words = ["compare", str(measured.folder), str(measured.folder), "--delta", "3%", "--all"]
    assert main(words) == answer.code
    assert capsys.readouterr().out == f"{answer}\n"
    assert answer.df.height == len(answer.rows) == 8
    assert answer.fields[0]["rule"]["delta"] == 0.03
    assert "\n" not in repr(answer)
    with pytest.raises(UnknownWord, match="--dleta"):
        busbw.compare(measured, measured, dleta="3%")
    with pytest.raises(UsageError, match="only for measuring setups"):
        busbw.compare(measured, measured, blocks=3)


def test_expect_is_the_command_s(measured: busbw.Run, capsys: pytest.CaptureFixture[str]) -> None:
    answer = busbw.expect(measured, least="1K=1000")
    assert main(["expect", str(measured.folder), "--least", "1K=1000"]) == answer.code == 1
    assert capsys.readouterr().out == f"{answer}\n"
    assert answer.df["answer"].unique().to_list() == ["no reference"]
    with pytest.raises(UsageError, match="only judges"):
        busbw.expect(measured, save="x")


def test_a_log_is_a_run_for_each_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "all_reduce.log"
    log.write_text(LOG)
    [run] = busbw.import_log(log, op="all_reduce", name="old")
    assert capsys.readouterr().out == ""
    assert run.df["size_bytes"].to_list() == [1024]
    assert busbw.open_run("old") == run
    log.write_text("nothing\n")
    with pytest.raises(UsageError, match="no table"):
        busbw.import_log(log)


def test_a_log_that_does_not_say_its_operation(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(LOG)
    with pytest.raises(UndecidedError, match="cannot determine the operation") as refused:
        busbw.import_log(log)
    assert refused.value.__notes__ == [f"hint: {refused.value.hint}", f"in {log}: table 1"]
