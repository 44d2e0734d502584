"""``busbw history``, and runs that are meant by a selection elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from busbw_testing.compared import csv_rows, record_of

from busbw.cli.main import main
from busbw.record.folder import create
from busbw.record.write import write_record

WOBBLE = (0.99, 1.0, 1.01, 1.0)


@pytest.fixture
def slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Thirty launches of four sizes; with version 5.1, from the 21st on, the two large ones lose 10 %."""
    home = tmp_path / "home"
    monkeypatch.setenv("BUSBW_HOME", str(home))
    for n in range(30):
        lost = 1.1 if n >= 20 else 1.0
        times = {
            1 << power: 100 * WOBBLE[n % 4] * (lost if power > 20 else 1.0) for power in (10, 11, 21, 22)
        }
        name = f"202611{n + 1:02}-010000-nightly-{n:04x}"
        record = record_of(times, version="5.1" if n >= 20 else "5.0", name=name)
        settings = {"tag": ["nightly"] if n % 2 else []}
        folder = create(home, name)
        write_record(folder, replace(record, ended=f"2026-11-{n + 1:02}T01:00:00+00:00", settings=settings))
    return home


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["history", *words]) == 0
    return capsys.readouterr().out


def test_sizes_of_one_story_are_one_line_with_what_changed(
    slower: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heading, small, large, change = said(capsys).splitlines()
    assert heading == "# all_reduce float sum: 2 ranks, Xeon"
    assert small.split()[0] == "1K-2K"
    assert large.split()[0] == "2M-4M"
    assert [line.endswith("below its level") for line in (small, large)] == [False, True]
    assert change.split(": ") == ["    -9.1% since 2026-11-21", "version MPI 5.0 -> MPI 5.1"]
    assert max(map(len, (heading, small, large, change))) <= 100


def test_one_series_shows_its_course_its_levels_and_its_newest_launches(
    slower: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "all_reduce", "--size", "2M").splitlines()
    assert lines[1].startswith("# 30 points, 2026-11-01 to 2026-11-30: newest 19.07 GB/s")
    course = lines[3].removeprefix("  ").ljust(30)
    assert (set(course[:20]), set(course[20:])) == (set("*#"), set(" ."))
    assert "-9.1% since 2026-11-21: version MPI 5.0 -> MPI 5.1" in lines[4]
    assert lines[-2].split()[-1] == "20261130-010000-nightly-001d"


def test_programs_get_every_launch_that_fits(slower: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = csv_rows(said(capsys, "tag:nightly", "2026-11-11:", "--format", "csv"))
    assert len(rows) == 4 * 10
    assert {row["version"] for row in rows} == {"MPI 5.0", "MPI 5.1"}
    (series,) = json.loads(said(capsys, "--size", "4M", "--format", "json"))
    assert len(series["points"]) == 30
    (change,) = series["changes"]
    assert (change["run"], change["explained"]) == (
        "20261121-010000-nightly-0014",
        ["version MPI 5.0 -> MPI 5.1"],
    )


def test_a_level_that_is_accepted_is_the_new_one_until_that_is_taken_back(
    slower: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "accept", "20261125", "--why", "new firmware")
    assert "below" not in (told := said(capsys))
    assert told.splitlines()[-1].endswith("accepted: new firmware")
    said(capsys, "accept", "20261125", "--why", "")
    assert "below" in said(capsys)


def test_a_run_that_is_excluded_is_gone_from_its_series(
    slower: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "exclude", "20261105", "--why", "another job")
    assert "20261105" not in said(capsys, "--size", "2M", "--format", "csv")


def test_series_of_which_every_launch_is_excluded_are_not_shown(
    slower: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = said(capsys)
    for n in range(2):
        name = f"202612{n + 1:02}-010000-other-{n:04x}"
        record = record_of({1 << 26: 400.0 + n}, version="5.1", name=name)
        write_record(create(slower, name), replace(record, ended=f"2026-12-{n + 1:02}T01:00:00+00:00"))
    assert said(capsys) != shown
    for n in range(2):
        said(capsys, "exclude", f"202612{n + 1:02}", "--why", "another job")
    assert said(capsys) == shown


def test_nothing_that_fits_is_said(slower: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "alltoall"]) == 0
    assert capsys.readouterr().err.startswith("no launch of alltoall fits in ")
    assert main(["history", "al_reduce"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown operation 'al_reduce'")


def test_list_compare_and_report_take_the_same_words(
    slower: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "tag:nightly", "version:5.1", "-n", "50"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 5
    assert main(["list", "--tag", "nightly", "2026-11-21:", "-n", "50"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 5
    assert main(["compare", "version:5.0", "version:5.1", "--format", "json"]) == 0
    assert "version:5.1" in capsys.readouterr().out
    page = tmp_path / "report.md"
    assert main(["report", "2026-11-29:", "-o", str(page)]) == 0
    assert "20261130-010000" in page.read_text()
    assert "20261128-010000-nightly-001b |" in page.read_text()  # a point of the history of both
    assert "20261127-010000-nightly-001a: " not in page.read_text()
    capsys.readouterr()
    assert main(["compare", "tag:none", "tag:nightly"]) == 2
    assert "no measurement fits 'tag:none'" in capsys.readouterr().err
