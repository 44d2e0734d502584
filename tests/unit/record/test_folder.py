from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.record.folder import (
    REQUEST_FILE,
    RUN_FILE,
    create,
    find_run,
    home,
    is_started,
    new_run_id,
    run_folders,
)

FIRST, SECOND = "20260101-000000-all_reduce-aaaa", "20260102-000000-all_gather-bbbb"


def make(run_home: Path, run_id: str) -> Path:
    folder = create(run_home, run_id)
    (folder / RUN_FILE).write_text("{}")
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make(tmp_path, SECOND)
    make(tmp_path, FIRST)
    create(tmp_path, "20260103-000000-sendrecv-cccc")  # died before it wrote anything
    return tmp_path


def test_home_is_busbw_home_else_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home({"BUSBW_HOME": "/a", "XDG_STATE_HOME": "/b"}) == Path("/a")
    assert home({"XDG_STATE_HOME": "/b"}) == Path("/b/busbw")
    assert home({}) == tmp_path / ".local" / "state" / "busbw"


def test_run_ids_sort_by_time_and_do_not_collide() -> None:
    now = datetime(2026, 11, 21, 18, 15, 2, tzinfo=UTC)
    ids = {new_run_id("all_reduce", now) for _ in range(50)}
    assert len(ids) > 45
    assert all(re.fullmatch(r"20261121-181502-all_reduce-[0-9a-f]{4}", run_id) for run_id in ids)


def test_a_new_run_has_its_folders(tmp_path: Path) -> None:
    folder = create(tmp_path / "new" / "home", "id")
    assert sorted(entry.name for entry in folder.iterdir()) == ["log", "request", "samples"]


def test_a_home_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot make the run folder") as refused:
        create(tmp_path / "file", "id")
    assert "BUSBW_HOME" in refused.value.hint


def test_runs_are_listed_newest_first(runs: Path) -> None:
    assert [folder.name for folder in run_folders(runs)] == [SECOND, FIRST]
    assert run_folders(runs / "missing") == []


def test_a_run_that_was_requested_and_never_started_is_a_run(runs: Path) -> None:
    third = runs / "20260103-000000-sendrecv-cccc"
    (third / REQUEST_FILE).write_text("{}")
    assert run_folders(runs)[0] == find_run("last", runs) == find_run(str(third), runs) == third
    assert [is_started(folder) for folder in run_folders(runs)] == [False, True, True]


def test_runs_of_the_same_second_are_ordered_by_when_they_were_written(tmp_path: Path) -> None:
    for age, suffix in enumerate("cab"):
        folder = make(tmp_path, f"20260101-000000-all_reduce-{suffix}")
        os.utime(folder / RUN_FILE, (1000 - age, 1000 - age))
    assert [folder.name[-1] for folder in run_folders(tmp_path)] == ["c", "a", "b"]


def test_a_run_with_a_name_of_somebodys_own_has_the_age_of_its_record(runs: Path) -> None:
    for name, created in (("baseline", "2026-01-01T12:00:00+02:00"), ("20x-mine", "2026-01-03T00:00:00Z")):
        make(runs, name)
        (runs / name / RUN_FILE).write_text(json.dumps({"created": created}))
    unreadable = make(runs, "zz-cut")
    (unreadable / RUN_FILE).write_text("{")
    os.utime(unreadable / RUN_FILE, (0, 0))
    assert [folder.name for folder in run_folders(runs)] == ["20x-mine", SECOND, "baseline", FIRST, "zz-cut"]


@pytest.mark.parametrize(
    ("name", "run_id"), [("last", SECOND), (FIRST, FIRST), ("20260101", FIRST), (SECOND[:-1], SECOND)]
)
def test_names_of_runs(runs: Path, name: str, run_id: str) -> None:
    assert find_run(name, runs) == runs / run_id


def test_a_folder_is_a_name_too(runs: Path) -> None:
    assert find_run(str(runs / FIRST), Path("/nowhere")) == runs / FIRST


def test_a_whole_name_is_not_ambiguous(tmp_path: Path) -> None:
    make(tmp_path, "abc")
    make(tmp_path, "abcd")
    assert find_run("abc", tmp_path) == tmp_path / "abc"


def test_ambiguous_and_unknown_names_are_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fits 2 runs"):
        find_run("2026", runs)
    with pytest.raises(UsageError, match="no run 'x'"):
        find_run("x", runs)
    with pytest.raises(UsageError, match="no run 'last'"):
        find_run("last", tmp_path / "empty")
