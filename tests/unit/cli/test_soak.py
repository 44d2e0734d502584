"""``busbw soak`` with scripted times: how it ends, what it keeps, and what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from busbw.cli.main import main
from busbw.record.folder import LAST, find_run
from busbw.record.read import read_record

NULL = ("--backend", "null", "--world", "nccl", "--ranks", "2")


def last(home: Path) -> Any:
    return read_record(find_run(LAST, home))


def test_it_ends_when_its_time_is_over(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "all_reduce", "-b", "1M", "--time", "1s", *NULL]) == 0
    out = capsys.readouterr().out
    record = last(home)
    assert record.status == "complete"
    assert record.soak["seconds"] >= 1
    (result,) = record.results
    assert result.samples == len(record.soak["kept"]) == record.soak["windows"]
    assert result.time_ns > 0
    assert "# soak     for 1.0 s" in out
    assert main(["show", "last"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == out.splitlines()[-1]
    assert not (find_run(LAST, home) / "samples" / "samples.bin").exists()


def test_its_page_says_what_was_found_and_shows_its_course(home: Path) -> None:
    assert main(["soak", "all_reduce", "-b", "1M", "--time", "1s", *NULL]) == 0
    assert main(["report", "last", "-o", str(home / "soak.html")]) == 0
    page = (home / "soak.html").read_text()
    assert re.search(r'<p class="verdict yes">\d+ calls timed in \d.*, none checked</p>', page)
    plots = re.findall(r'<div class="plot" id="([^"]*)"', page)
    assert plots == ["windows-1MiB-out-of-place"]  # one size has no curve
    marks = re.findall(r'aria-label="after [^"]*: ([0-9.]+) GB/s, \d+ calls"', page)
    assert len(marks) == len(last(home).soak["kept"])
    assert len(set(marks)) == 1  # scripted times are all alike
    assert "<dt>soak</dt>" in page  # which loss would have been seen


def test_it_says_what_would_have_been_seen(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("run", "sendrecv", "-b", "1M", "-e", "1M", "-n", "5", "--cycles", "100")
    assert main([*words, *NULL]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    said = r"# a loss of 5% that lasts \d+ (s|ms) would have been seen after the first"
    assert re.fullmatch(rf"{said} \d+ (s|ms) \(probability 0\.95\)", line), line


def test_several_operations_take_turns(home: Path) -> None:
    assert main(["soak", "all_reduce,alltoall", "-b", "64K", "--time", "1s", *NULL]) == 0
    windows = [window["case"] for window in last(home).soak["kept"]]
    assert abs(windows.count(0) - windows.count(1)) <= 1
    assert {case.collective for case in last(home).plan.cases} == {"all_reduce", "alltoall"}


SWEEP = ("run", "all_reduce", "-b", "1K", "-e", "4K", "-n", "20", *NULL)


def test_cycles_end_after_so_many_sweeps(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SWEEP, "--cycles", "3"]) == 0
    out = capsys.readouterr().out
    record = last(home)
    assert [result.samples for result in record.results] == [3] * len(record.plan.cases) == [3] * 6
    assert record.soak["windows"] == 18
    assert "# soak     for 3 cycles" in out
    rows = [line.split()[0] for line in out.splitlines() if not line.startswith("#")]
    assert rows == ["1024", "2048", "4096"]
    assert main(["show", "last"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line not in out.splitlines()] == []


@pytest.mark.parametrize("cycles", ["0", "100000"])
def test_the_end_that_comes_first_ends_it(cycles: str, home: Path) -> None:
    assert main([*SWEEP, "--cycles", cycles, "--budget", "1s"]) == 0
    record = last(home)
    assert record.status == "complete"
    assert 0 < record.soak["windows"] < 600_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("soak", "all_reduce", "--time", "0"), "leaves no time"),
        (("run", "all_reduce", "--cycles", "2", "--launches", "2"), "combined with --cycles"),
        (("nccl-tests", "all_reduce_perf", "-N", "2", "-I", "1"), "-I keeps every iteration"),
    ],
)
def test_what_a_soak_does_not_do_is_refused(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert main(list(words)) == 2
    assert message in capsys.readouterr().err
