"""Files of samples that were cut or are gone: what is left must not pass for the whole."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import busbw
from busbw.judge.samples import missing_samples, without_result
from busbw.model.record import RunStatus
from busbw.model.result import not_run
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.record.absent import absent_files, note_left_out
from busbw.record.folder import DIGESTS_FILE, SAMPLES_FILE, STREAM_FILE
from busbw.record.parquet import compact
from busbw.record.read import read_record
from busbw.record.write import write_record

EVERY = 6 * 300  # maximum, minimum and four ranks of ``LATE``


def rows_of(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    return np.fromfile(folder / SAMPLES_FILE, SAMPLE_DTYPE), np.fromfile(folder / DIGESTS_FILE, DIGEST_DTYPE)


@pytest.mark.parametrize("kept", [1, 100, 300, EVERY // 2, EVERY - 300, EVERY - 1])
def test_any_cut_between_two_samples_is_found(written: Path, kept: int) -> None:
    rows, digests = rows_of(written)
    assert kept < len(rows) == EVERY
    (short,) = missing_samples(read_record(written), rows[:kept], digests)
    assert (short.case, short.found) == (0, kept)
    assert short.found < short.expected <= EVERY


def test_ranks_that_were_never_kept_are_not_missing(written: Path) -> None:
    record, (rows, digests) = read_record(written), rows_of(written)
    few = replace(record, plan=replace(record.plan, raw_ranks=2))
    rows = rows[(rows["rank"] < 2) | (rows["rank"] == 3)]
    assert missing_samples(few, rows, digests) == ()
    assert len(missing_samples(few, rows[:-1], digests)) == 1
    assert len(missing_samples(record, rows, digests)) == 1


def test_cases_of_which_there_are_samples_alone(written: Path) -> None:
    record, (rows, _) = read_record(written), rows_of(written)
    assert without_result(record, rows) == ()
    later = rows.copy()
    later["case"] = 2
    assert without_result(record, np.concatenate((rows, later))) == (2,)
    assert without_result(replace(record, results=not_run(4, 0)), rows) == (0,)


def test_without_digests_the_headline_says_how_many_there_were(written: Path) -> None:
    record, (rows, digests) = read_record(written), rows_of(written)
    (result,) = record.results
    record = replace(record, results=(replace(result, samples=300),))
    assert missing_samples(record, rows, digests[:0]) == ()
    assert missing_samples(record, rows[:299], digests[:0])[0].expected == 300


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
