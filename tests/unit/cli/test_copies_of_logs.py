"""A log is known by its rows: an excerpt or a copy with another line is still it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from busbw_testing.compared import HEADING, expect, nccl_tests_log, write

from busbw.cli.main import main
from busbw.judge.references.load import built_in

pytestmark = pytest.mark.usefixtures("home")
MiB = 2**20


def rows_of(name: str, least: int = 0) -> str:
    """A table in the layout of nccl-tests with the times of a reference."""
    points = next(each for each in built_in() if each.name == name).points
    lines = []
    for size in sorted({point.size_bytes for point in points if point.size_bytes >= least}):
        sides = {point.placement: point for point in points if point.size_bytes == size}
        line = f"{size:>12}  {size // 4:>12}     float     sum      -1"
        for placement in ("out-of-place", "in-place"):
            time, busbw = sides[placement].times_us[0], sides[placement].busbw_gb_per_s
            line += f"  {time:>8.6g}  {size / time / 1e3:>6.2f}  {busbw:>6.2f}      0"
        lines.append(line)
    return HEADING + "\n".join(lines) + "\n"


@pytest.mark.parametrize("around", ["", "\n", "as published:\n"])
@pytest.mark.parametrize(
    ("name", "least"), [("aws-p5-2x8", 0), ("aws-p5-2x8", 2**30), ("p4de-2x8-25MiB-n100", 0)]
)
def test_a_log_is_not_confirmed_against_itself(
    tmp_path: Path, around: str, name: str, least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "copy.log", around + rows_of(name, least))
    _, text = expect(capsys, log)
    assert f"# not      {name}: it is this very log" in text
    assert f"# against  {name}:" not in text
    assert "# note     this log is" in text


def test_a_known_log_with_another_line_is_still_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its machine is known by its rows, so a curve of that machine is held against it."""
    code, text = expect(capsys, write(tmp_path / "n100.log", rows_of("p4de-2x8-25MiB-n100") + "\n"))
    assert code == 1
    assert "# against  aws-p4de-2x8:" in text
    assert "not held against p4de-2x8-25MiB-n1000: it was measured together" in text


def test_another_launch_of_a_machine_is_not_that_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = nccl_tests_log({size * MiB: 26.3 for size in (25, 50)}, 16, devices=False)
    _, text = expect(capsys, write(tmp_path / "a.log", log), "--reference", "p4de-2x8-25MiB-n100")
    assert "it is this very log" not in text


def test_a_log_of_ones_own_reference_is_known_by_its_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = nccl_tests_log({MiB: 10.0, 2 * MiB: 11.0}, 8)
    expect(capsys, write(tmp_path / "a.log", text), "--save", "mine")
    _, told = expect(capsys, write(tmp_path / "b.log", text + "# done\n"))
    assert "# not      mine: it is this very log" in told


def test_a_gate_fails_where_data_were_wrong_and_names_or_counts_every_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = nccl_tests_log({size * MiB: 10.0 for size in (1, 2, 4)}, 8, devices=False)
    rows = text.splitlines()
    at = next(number for number, line in enumerate(rows) if line.split()[:1] == [str(2 * MiB)])
    head, _, _ = rows[at].rpartition(" 0")
    rows[at] = f"{head} 7"
    log = write(tmp_path / "wrong.log", "\n".join(rows) + "\n")
    code, told = expect(capsys, log, "--least", "1M=1")
    assert code == 1
    assert "# gate     1 GB/s from 1 MiB on: fail (2 MiB: 7 wrong elements)" in told
    code, told = expect(capsys, log, "--least", "4M=1")
    assert "# gate     1 GB/s from 4 MiB on: pass (2 cases)" in told
    code, told = expect(capsys, log, "--least", "1M=100")
    assert "fail (1 MiB 10, 2 MiB: 7 wrong elements, 4 MiB 10, 1 MiB 10 and 2 more)" in told


def test_the_date_of_a_logs_file_is_not_when_it_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "old.log", nccl_tests_log({MiB: 10.0, 2 * MiB: 11.0}, 8))
    os.utime(log, (10**9, 10**9))
    page = tmp_path / "page.md"
    assert main(["report", str(log), "-o", str(page)]) == 0
    assert "not stated (file dated 2001-09-09 01:46:40)" in page.read_text()
    expect(capsys, log, "--save", "mine")
    assert main(["expect", "--list"]) == 0
    listed = capsys.readouterr().out
    mine = "\n".join(listed[listed.index("mine:") :].splitlines()[:2])
    assert "2001" not in mine
    assert "not stated, one launch" in mine


def test_a_table_shows_what_the_log_says_and_no_host_of_a_few_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = nccl_tests_log({MiB: 10.0, 2 * MiB: 11.0}, 8)
    named = [line for line in text.splitlines() if "  Rank " in line]
    some = text.replace("\n".join(named[:-1]) + "\n", "")
    said = "node1:7:7 [0] NCCL INFO Using network Socket\n"
    assert main(["import", str(write(tmp_path / "some.log", said + some))]) == 0
    capsys.readouterr()
    assert main(["show", "last"]) == 0
    shown = capsys.readouterr().out
    assert "# log      network Socket" in shown
    assert "host" not in next(line for line in shown.splitlines() if line.startswith("# ranks"))
