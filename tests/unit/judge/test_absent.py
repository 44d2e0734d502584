"""Files of samples that are gone: a run must not look as one that never had any."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import busbw
from busbw.model.record import RunStatus
from busbw.record.absent import absent_files, note_left_out
from busbw.record.folder import DIGESTS_FILE, SAMPLES_FILE, STREAM_FILE
from busbw.record.parquet import compact
from busbw.record.read import read_record
from busbw.record.write import write_record


@pytest.mark.parametrize("name", [SAMPLES_FILE, DIGESTS_FILE])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_file_that_was_removed_is_said(written: Path, name: Path, compacted: bool) -> None:
    if compacted:
        compact(written)
    assert busbw.open_run(written).warnings == ()
    (written / (name.with_suffix(".parquet") if compacted else name)).unlink()
    with pytest.warns(UserWarning, match="1 case was measured with samples"):
        run = busbw.open_run(written)
    assert run.warnings == (
        f"{written}/{name} is missing, and {name.stem}.parquet too: 1 case was measured with samples",
    )


def test_a_run_that_was_ended_had_not_written_them(written: Path) -> None:
    (written / SAMPLES_FILE).unlink()
    record = read_record(written)
    assert absent_files(written, replace(record, status=RunStatus.INTERRUPTED)) == ()


def test_a_file_that_did_not_come_home_may_be_there(written: Path) -> None:
    (written / STREAM_FILE).touch()
    (written / SAMPLES_FILE).unlink()
    (said,) = absent_files(written, read_record(written))
    assert "(removed, or never brought home from its job)" in said
    note_left_out(written, (str(SAMPLES_FILE),))
    assert absent_files(written, read_record(written)) == ()


@pytest.mark.parametrize("frame", ["samples", "digests"])
def test_the_summary_of_launches_names_their_folders(written: Path, tmp_path: Path, frame: str) -> None:
    series = tmp_path / "20260102-040000-all_reduce-0100"
    numbers = ("1", "2", "10")
    for number in numbers:
        shutil.copytree(written, series / "launches" / number)
    write_record(series, read_record(written))
    run = busbw.open_run(series)
    assert run.warnings == ()
    with pytest.warns(UserWarning, match="summary of 3 launches") as told:
        assert len(getattr(run, frame)) == 0
    assert str(told[0].message).endswith(
        "the folder of each: " + ", ".join(str(series / "launches" / number) for number in numbers)
    )
    assert told[0].filename == __file__
    assert len(getattr(busbw.open_run(series / "launches" / "10"), frame)) > 0
