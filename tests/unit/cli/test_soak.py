"""``busbw soak`` with scripted times: how it ends, what it keeps, and what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from busbw.cli.main import main
from busbw.model.soak import KEPT_WHOLE
from busbw.record.folder import LAST, find_run
from busbw.record.read import read_record

NULL = ("--backend", "null", "--world", "nccl", "--ranks", "2")


def last(home: Path) -> Any:
    return read_record(find_run(LAST, home))


def test_it_ends_when_its_time_is_over_and_says_what_would_have_been_seen(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["soak", "all_reduce", "-b", "1M", "--time", "4s", *NULL]) == 0
    out = capsys.readouterr().out
    record = last(home)
    soak = record.soak
    assert record.status == "complete"
    assert soak["seconds"] >= 4
    assert soak["windows"] > 20
    assert len(soak["kept"]) < 2 * KEPT_WHOLE
    (result,) = record.results
    assert result.samples == len(soak["kept"])
    assert result.time_ns > 0
    line = out.splitlines()[-1]
    said = r"# a loss of 5% that lasts \d+ (s|ms) would have been seen after the first \d+ (s|ms)"
    assert re.fullmatch(rf"{said} \(probability 0\.95\)", line), out
    assert main(["show", "last"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == line
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


def test_several_operations_take_turns(home: Path) -> None:
    assert main(["soak", "all_reduce,alltoall", "-b", "64K", "--time", "1s", *NULL]) == 0
    windows = [window["case"] for window in last(home).soak["kept"]]
    assert abs(windows.count(0) - windows.count(1)) <= 1
    assert {case.collective for case in last(home).plan.cases} == {"all_reduce", "alltoall"}


def test_cycles_0_repeats_the_sweep_until_its_budget_is_spent(home: Path) -> None:
    words = ("run", "all_reduce", "-b", "1K", "-e", "4K", "-n", "20", "--cycles", "0", "--budget", "1s")
    assert main([*words, *NULL]) == 0
    record = last(home)
    assert len(record.results) == len(record.plan.cases) == 6
    assert record.soak["windows"] > 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("soak", "all_reduce", "--time", "0"), "leaves no time"),
        (("run", "all_reduce", "--cycles", "0", "--launches", "2"), "--launches cannot be combined"),
        (("nccl-tests", "all_reduce_perf", "-N", "0", "-I", "1"), "-N 0 has no end"),
    ],
)
def test_what_has_no_end_is_refused(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert main(list(words)) == 2
    assert message in capsys.readouterr().err
