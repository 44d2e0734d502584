"""Logs that are copies of one another, and what a log says of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from busbw_testing.compared import expect, nccl_tests_log, write

from busbw.cli.main import main

pytestmark = pytest.mark.usefixtures("home")
MiB = 2**20


def test_a_log_is_not_confirmed_against_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path / "a.log", nccl_tests_log({MiB: 10.0, 2 * MiB: 11.0}, 8))
    expect(capsys, log, "--save", "mine")
    _, told = expect(capsys, write(tmp_path / "b.log", log.read_text()))
    assert "# not      mine: it is this very log" in told
    assert "# against  mine:" not in told


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
