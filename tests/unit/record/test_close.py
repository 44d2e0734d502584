from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import CaseResult, Status
from busbw.record.close import close, read_status
from busbw.record.folder import REQUEST_FILE
from busbw.record.read import read_record
from busbw.record.results import write_record


def write_request(folder: Path, record: RunRecord) -> None:
    fields = {"run_id": record.run_id, "folder": str(folder), "argv": record.argv}
    fields |= {"settings": record.settings, "plan": record.plan.to_json()}
    (folder / REQUEST_FILE).write_text(json.dumps(fields))


@pytest.mark.parametrize(("own", "ended"), [("", "later"), ("earlier", "earlier")])
def test_the_end_is_written_for_ranks_that_were_killed(
    folder: Path, record: RunRecord, own: str, ended: str
) -> None:
    """An end that the ranks wrote keeps its time."""
    record = replace(record, ended=own)
    write_record(folder, record)
    assert read_status(folder) is RunStatus.RUNNING
    assert close(folder, RunStatus.FAILED, "later", error="rank 1 was killed", hint="look")
    results = tuple(CaseResult(case.index, Status.NOT_RUN) for case in record.plan.cases)
    said = {"error": "rank 1 was killed", "hint": "look", "results": results}
    assert read_record(folder) == replace(record, status=RunStatus.FAILED, ended=ended, **said)
    assert read_status(folder) is RunStatus.FAILED


def test_ranks_that_never_wrote_a_record_get_one_from_the_request(folder: Path, record: RunRecord) -> None:
    write_request(folder, record)
    assert read_status(folder) is RunStatus.RUNNING
    assert close(folder, RunStatus.FAILED, "later", error="rank 1 ended", hint="look")
    got = read_record(folder)
    asked = (record.run_id, record.plan, record.argv, record.settings)
    assert (got.run_id, got.plan, got.argv, got.settings) == asked
    assert (got.status, got.ended, got.error, got.world) == (RunStatus.FAILED, "later", "rank 1 ended", None)
    assert [result.status for result in got.results] == [Status.NOT_RUN] * len(record.plan.cases)
