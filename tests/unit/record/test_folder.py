from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from busbw.errors import UnknownWord, UsageError
from busbw.record.folder import (
    REQUEST_FILE,
    RUN_FILE,
    SERIES_FILE,
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
    assert home({"HOME": str(tmp_path)}) == tmp_path / ".local" / "state" / "busbw"


def test_run_ids_sort_by_time_and_do_not_collide() -> None:
    now = datetime(2026, 11, 21, 18, 15, 2, tzinfo=UTC)
    ids = {new_run_id("all_reduce", now) for _ in range(50)}
    assert len(ids) > 45
    assert all(re.fullmatch(r"20261121-181502-all_reduce-[0-9a-f]{4}", run_id) for run_id in ids)


def test_a_home_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot make the run folder") as refused:
        create(tmp_path / "file", "id")
    assert "BUSBW_HOME" in refused.value.hint


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
    ("name", "run_id"),
    [
        ("last", SECOND),
        (FIRST, FIRST),
        ("20260101", FIRST),
        (SECOND[:-1], SECOND),
        ("all_reduce", FIRST),
        ("all_red", FIRST),
    ],
)
def test_names_of_runs(runs: Path, name: str, run_id: str) -> None:
    assert find_run(name, runs) == runs / run_id


def test_a_name_means_its_newest_run_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day, label in ((1, "before"), (2, "before"), (3, "before-that"), (4, "setups")):
        make(tmp_path, f"2026010{day}-000000-{label}-aaaa")
    assert find_run("before", tmp_path).name == "20260102-000000-before-aaaa"
    said = capsys.readouterr().err
    assert said == "note: 2 runs are named before; this is the newest, 20260102-000000-before-aaaa\n"
    with pytest.raises(UsageError, match="'befor' fits 3 runs") as refused:
        find_run("befor", tmp_path)
    assert "20260103-000000-before-that-aaaa" in refused.value.hint


def test_last_is_a_run_that_measured(tmp_path: Path) -> None:
    """Whatever it is called: no preflight, no series of setups, no command of `busbw exec`."""
    wanted = make(tmp_path, "20260101-000000-mine-aaaa")
    (make(tmp_path, "20260102-000000-all_reduce-aaaa") / RUN_FILE).write_text(
        '{"settings": {"stop_after": "only"}}'
    )
    for day, settings in ((3, {"stop_after": "deep", "deliver": "/x"}), (4, {"command": ["hostname"]})):
        folder = create(tmp_path, f"2026010{day}-000000-mine-aaaa")
        (folder / REQUEST_FILE).write_text(json.dumps({"settings": settings}))
    series = create(tmp_path, "20260105-000000-setups-aaaa")
    (series / SERIES_FILE).write_text("{}")
    assert find_run("last", tmp_path) == wanted
    assert find_run("setups", tmp_path) == find_run("last", tmp_path, last=lambda _: True) == series


def test_a_whole_name_is_not_ambiguous(tmp_path: Path) -> None:
    make(tmp_path, "abc")
    make(tmp_path, "abcd")
    assert find_run("abc", tmp_path) == tmp_path / "abc"


def test_ambiguous_and_unknown_names_are_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fits 2 runs"):
        find_run("2026", runs)
    with pytest.raises(UsageError, match="no run 'last'"):
        find_run("last", tmp_path / "empty")
    # A mistyped short name is understood, and another id is not.
    for name, likely in (("al_reduce", "all_reduce"), ("20260109-111111", "")):
        with pytest.raises(UnknownWord, match=f"no run '{name}'") as refused:
            find_run(name, runs)
        assert refused.value.likely == likely
        assert (refused.value.hint == "use all_reduce") is bool(likely)


def test_a_log_in_place_of_a_run_is_to_be_imported(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    with pytest.raises(UnknownWord) as refused:
        find_run(str(tmp_path / "a.log"), tmp_path)
    assert refused.value.hint == f"`busbw import {tmp_path / 'a.log'}` reads a log as a run"
