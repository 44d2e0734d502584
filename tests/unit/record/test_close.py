from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from busbw.model.record import RunRecord, RunStatus
from busbw.record.close import close, read_status
from busbw.record.read import read_record
from busbw.record.write import write_record


def test_the_end_is_written_for_ranks_that_were_killed(folder: Path, record: RunRecord) -> None:
    write_record(folder, record)
    assert read_status(folder) is RunStatus.RUNNING
    assert close(folder, RunStatus.FAILED, "later", error="rank 1 was killed", hint="look")
    expected = replace(record, status=RunStatus.FAILED, ended="later", error="rank 1 was killed", hint="look")
    assert read_record(folder) == expected
    assert read_status(folder) is RunStatus.FAILED


def test_an_end_that_the_ranks_wrote_keeps_its_time(folder: Path, record: RunRecord) -> None:
    write_record(folder, replace(record, ended="earlier"))
    close(folder, RunStatus.FAILED, "later")
    assert read_record(folder).ended == "earlier"


def test_a_run_without_a_record_has_no_end(folder: Path) -> None:
    assert not close(folder, RunStatus.FAILED, "later")
    assert read_status(folder) is None
    assert not (folder / "run.json").exists()
