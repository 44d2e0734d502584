"""The memory of launches: every good run adds a line, from any process, and no run fails over it."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from busbw_testing.compared import record_of

from busbw.launch.remember import rebuild, remember
from busbw.record.folder import create
from busbw.record.launch_times import LaunchTimes, append, load
from busbw.record.write import write_record

LAUNCH = LaunchTimes("", "", {}, "", {"all_reduce": {"kind": dict.fromkeys(range(500), 1.5)}})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def stored(home: Path, name: str) -> Path:
    folder = create(home, name)
    write_record(folder, record_of({1024: 10.0}, name=folder.name))
    return folder


def test_each_run_is_added_and_the_memory_can_be_made_again(home: Path) -> None:
    stored(home, "20261127-000000-earlier-0001")  # before there was a memory
    remember(stored(home, "20261127-000001-now-0001"))
    series = create(home, "20261127-000002-series-0001")
    write_record(series, record_of({1024: [10.0, 11.0]}))
    remember(stored(series / "launches", "1"))
    kept = load(home)
    names = ["earlier-0001", "now-0001", "series-0001/launches/1"]
    assert sorted(launch.run[16:] for launch in kept) == names
    rebuild(home)
    assert sorted(load(home), key=str) == sorted(kept, key=str)


def test_a_memory_that_cannot_be_written_fails_no_run(home: Path) -> None:
    folder = stored(home, "run")
    (home / "scatter.jsonl").mkdir()
    remember(folder)
    assert load(home) == ()


def _write(home: Path, name: str) -> None:
    for _ in range(20):
        append(home, replace(LAUNCH, run=name))


def test_lines_of_several_writers_do_not_mix_and_one_that_was_cut_is_left_out(tmp_path: Path) -> None:
    writers = [multiprocessing.Process(target=_write, args=(tmp_path, str(number))) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    launches = load(tmp_path)
    assert sorted(launch.run for launch in launches) == sorted(list("0123") * 20)
    assert launches[0].times_ns == LAUNCH.times_ns
    with (tmp_path / "scatter.jsonl").open("a") as file:
        file.write('{"schema":1,"run":"cut\n{"schema":99}\n[]\n')
    assert load(tmp_path) == launches
