"""The index of the run home: every good launch is in it, from any process, and no run fails over it."""

from __future__ import annotations

import multiprocessing
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from busbw_testing.compared import record_of

from busbw.judge import kept, launch_history
from busbw.judge.compare_arms import key_of
from busbw.judge.launch_history import case_of, launch_of
from busbw.judge.levels import level_of
from busbw.model.history import Level
from busbw.model.record import RunRecord
from busbw.record.folder import create, environ_home
from busbw.record.index import FILE, Index
from busbw.record.write import write_record
from busbw.stats.change_points import WINDOW


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def at(minute: int) -> str:
    return f"2026-11-27T{minute // 60:02}:{minute % 60:02}:00.000+00:00"


def measured(minute: int, time_us: float, version: str = "5.0", **fields: object) -> RunRecord:
    """A launch of one size that ended in that minute of the day."""
    record = record_of({1 << 20: time_us}, version=version, name=f"20261127-00{minute:04}-x-{minute:04x}")
    return replace(record, ended=at(minute), **fields)  # type: ignore[arg-type]


def stored(home: Path, record: RunRecord) -> Path:
    folder = create(home, record.run_id)
    write_record(folder, record)
    return folder


def bring(home: Path) -> None:
    """Have every finished run in the index."""
    kept.reading(home, lambda _: None)


def slower_since_an_update(count: int = 30) -> list[RunRecord]:
    """Launches that scatter by 1 % and lose 10 % with a new version, 20 in."""
    wobble = (0.99, 1.0, 1.01, 1.0)
    return [
        measured(n, 100 * wobble[n % 4] * (1.1 if n >= 20 else 1.0), "5.1" if n >= 20 else "5.0")
        for n in range(count)
    ]


def everything(home: Path) -> list[tuple[object, ...]]:
    """What the index says, without the numbers that it gave."""

    def read(index: Index) -> list[tuple[object, ...]]:
        return [
            (
                series.testbed,
                series.case,
                [(point.at, point.time_ns) for point in index.points(series.number)],
                [replace(change, launch=0) for change in index.changes(series.number)],
            )
            for series in index.series()
        ]

    return kept.reading(home, read)


def level(record: RunRecord) -> Level:
    """Where the series of a run with one case stands."""
    (case,) = (case_of(key_of(case, record)) for case, _ in record.timed)

    def read(index: Index) -> Level:
        (series,) = index.series(launch_history.testbed_of(record).key, case)
        points, number = index.points(series.number, WINDOW), series.number
        return level_of(series, points, index.changes(number), index.accepted(number))

    return kept.reading(environ_home(), read)


def test_runs_one_by_one_in_any_order_and_all_at_once_make_the_same_index(home: Path) -> None:
    records = slower_since_an_update()
    for record in (*records[::2], *records[1::2]):
        stored(home, record)
        bring(home)
    one_by_one = everything(home)
    (_, _, points, (change,)) = one_by_one[0]
    assert len(points) == 30  # type: ignore[arg-type]
    assert change.explained == ("version MPI 5.0 -> MPI 5.1",)  # type: ignore[attr-defined]
    (home / FILE).unlink()
    assert everything(home) == one_by_one


def test_a_slower_level_is_lost_until_it_is_accepted(home: Path) -> None:
    records = slower_since_an_update()
    folders = [stored(home, record) for record in records]
    found = level(records[-1])
    assert found.is_lost
    assert (found.expected_ns, found.now_ns) == (pytest.approx(1e5), pytest.approx(1.1e5))
    assert (found.launches, found.deviation) == (20, pytest.approx(0.007, abs=0.002))
    kept.say(folders[25], {"accepted": "the new firmware costs 10 %"})
    found = level(records[-1])
    assert (found.is_lost, found.expected_ns, found.launches) == (False, pytest.approx(1.1e5), 10)


def test_a_loss_is_not_forgotten_after_a_hundred_launches_and_is_over_when_it_is_mended(home: Path) -> None:
    wobble = (0.99, 1.0, 1.01, 1.0)
    lost = [measured(n, 100 * wobble[n % 4] * (1.1 if n >= 20 else 1.0)) for n in range(160)]
    for record in lost:
        stored(home, record)
    found = level(lost[-1])
    assert (found.is_lost, found.expected_ns, found.launches) == (True, pytest.approx(1e5), 0)
    for record in (measured(160 + n, 100.2 * wobble[n % 4]) for n in range(12)):
        stored(home, record)
        bring(home)
    found = level(lost[-1])
    assert (found.is_lost, found.now_ns) == (False, pytest.approx(1.002e5, rel=1e-3))


def test_a_run_that_was_excluded_is_in_no_series_until_it_is_said_again(home: Path) -> None:
    records = [measured(n, 100.0) for n in range(3)]
    folders = [stored(home, record) for record in records]
    kept.say(folders[1], {"excluded": "a neighbour used the links"})
    assert level(records[0]).launches == 2
    kept.say(folders[1], {})
    assert level(records[0]).launches == 3


def test_each_launch_of_a_series_is_one_and_its_summary_is_none(home: Path) -> None:
    summary = record_of({1024: [10.0, 11.0]}, name="20261127-000002-series-0001")
    for number in (1, 2):
        inner = create(home / summary.run_id / "launches", str(number))
        write_record(inner, record_of({1024: 10.0 + number}, name=inner.name))
    stored(home, summary)
    assert len(everything(home)[0][2]) == 2  # type: ignore[arg-type]


def _measure(home: str, first: int) -> None:
    for minute in range(first, first + 4):
        stored(Path(home), measured(minute, 100.0))
        bring(Path(home))


def test_several_processes_add_at_once_and_nothing_is_lost(home: Path) -> None:
    fresh = multiprocessing.get_context("spawn")
    writers = [fresh.Process(target=_measure, args=(str(home), first)) for first in range(0, 16, 4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert (home / FILE).is_file()
    assert len(everything(home)[0][2]) == 16  # type: ignore[arg-type]


@pytest.mark.parametrize("whole_bytes", [0, 8192])
def test_a_damaged_index_is_made_again(home: Path, whole_bytes: int) -> None:
    for minute in range(40):
        stored(home, measured(minute, 100.0))
    whole = everything(home)
    data = (home / FILE).read_bytes()
    assert len(data) > whole_bytes
    (home / FILE).write_bytes(data[:whole_bytes] + b"\xff" * (len(data) - whole_bytes))
    assert everything(home) == whole


def test_where_there_can_be_no_index_the_folders_are_read(home: Path) -> None:
    for minute in range(3):
        stored(home, measured(minute, 100.0))
    (home / FILE).mkdir()
    assert len(everything(home)[0][2]) == 3  # type: ignore[arg-type]


def test_while_another_process_holds_the_index_the_folders_are_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busbw.record.index._BUSY_S", 0.1)
    stored(home, measured(0, 100.0))
    bring(home)
    other = sqlite3.connect(home / FILE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    stored(home, measured(1, 100.0))
    bring(home)
    assert len(everything(home)[0][2]) == 2  # type: ignore[arg-type]
    other.execute("ROLLBACK")
    bring(home)
    assert len(everything(home)[0][2]) == 2  # type: ignore[arg-type]


def test_what_explains_is_no_part_of_the_series_and_settings_are() -> None:
    first, updated = (launch_of(measured(0, 100.0, version), "x") for version in ("5.0", "5.1"))
    assert first is not None
    assert updated is not None
    assert first.testbed == updated.testbed
    assert (first.alike == updated.alike, first.explains["version"]) == (False, "MPI 5.0")
    tuned = measured(0, 100.0, environment={"variables": {"NCCL_ALGO": "Ring"}})
    other = launch_of(tuned, "x")
    assert other is not None
    assert other.testbed != first.testbed
