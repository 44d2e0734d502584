"""Writing, reading back, and what a kill at any moment leaves."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from busbw.errors import UsageError
from busbw.model.choice import Choice
from busbw.model.neighbour import Beside, Factor
from busbw.model.record import READABLE_SCHEMAS, SCHEMA_VERSION, RunRecord, RunStatus
from busbw.model.result import CaseResult, GroupResult, Status, StopReason, WrongData
from busbw.model.sample import SAMPLE_DTYPE
from busbw.record import read
from busbw.record.folder import RUN_FILE, SAMPLES_FILE
from busbw.record.write import RunWriter, write_record

GOOD = CaseResult(0, Status.GOOD, 1010.0, 1000.0, 1020.0, 1011.5, 1.0, 1.0, 8, 4, 20, StopReason.PRECISION, 0)
WRONG = CaseResult(1, Status.WRONG, 1010.0, wrong=3, wrong_at=(WrongData(1, "node1", 3, 17),))


def test_what_is_finished_is_readable_at_once_and_reads_back_equal(
    folder: Path, record: RunRecord, samples: np.ndarray, digests: np.ndarray
) -> None:
    writer = RunWriter(folder, record)
    assert read.read_record(folder).status is RunStatus.RUNNING
    assert len(read.read_samples(folder)) == 0
    writer.append(GOOD, samples, digests)
    assert read.read_record(folder).results == (GOOD,)
    assert len(read.read_samples(folder)) == len(samples)
    writer.append(WRONG, samples, digests)
    writer.finish(RunStatus.INTERRUPTED, "2026-01-02T03:05:00.000+00:00")
    got = read.read_record(folder)
    assert got == writer.record
    assert got.results[:2] == got.finished == (GOOD, WRONG)
    assert [result.case for result in got.results] == list(range(len(record.plan.cases)))
    assert {result.status for result in got.results[2:]} == {Status.NOT_RUN}
    assert (read.read_samples(folder) == np.concatenate((samples, samples))).all()
    assert (read.read_digests(folder) == np.concatenate((digests, digests))).all()


def test_every_field_of_a_result_reads_back_equal(
    folder: Path, record: RunRecord, samples: np.ndarray, digests: np.ndarray
) -> None:
    full = replace(
        GOOD,
        marks=("stopped",),
        conditions=("contended",),
        finished="2026-01-02T03:04:05.678+00:00",
        issue_ns=12.5,
        skew_ns=40.0,
        first_call_ns=7e6,
        tau=1.25,
        excluded=3,
        stats={"p99": 1500.0, "cv": None},
        evidence={"flagged": {"descheduled": 3}, "shape": ["level moved"], "shift": {"z": -4.5}},
        stop=StopReason.BUDGET,
        error="words",
        groups=(GroupResult(0, 2, 8, time_ns=1.5),),
        algorithm="RING",
        choice=Choice("profiler v5", "RING", "LL", functions=("AllReduce",), channels=8, ranks=2),
        input_bytes=8,
        output_bytes=16,
        overlap=0.75,
        passes=4,
        pass_samples=(8, 11),
        neighbours=(
            Beside(
                *("compute", "a thread", (1.5,), (2.5,), Factor(1.7, 1.6, 1.8), Factor(1.6), Factor(2.0)),
                *(Factor(0.7), Factor(1.3), (3.0,), (2.0,), "GFLOP/s", (1980, 1755)),
            ),
        ),
    )
    # The place of wrong data has a test of its own; everything else differs from its default.
    defaults = CaseResult(0, Status.GOOD)
    same = {f.name for f in fields(full) if getattr(full, f.name) == getattr(defaults, f.name)}
    assert same == {"case", "status", "wrong_at"}
    writer = RunWriter(folder, record)
    writer.append(full, samples, digests)
    writer.describe(memory_bytes={"buffers": 2**40})
    got = read.read_record(folder)
    assert got.results == (full,)
    assert got.memory_bytes == {"buffers": 2**40}


@pytest.mark.parametrize("lost_bytes", [1, SAMPLE_DTYPE.itemsize - 1])
def test_a_cut_sample_file_keeps_every_whole_record(
    folder: Path, record: RunRecord, samples: np.ndarray, digests: np.ndarray, lost_bytes: int
) -> None:
    RunWriter(folder, record).append(GOOD, samples, digests)
    path = folder / SAMPLES_FILE
    path.write_bytes(path.read_bytes()[:-lost_bytes])
    assert (read.read_samples(folder) == samples[:-1]).all()


def test_the_record_is_replaced_whole(folder: Path, record: RunRecord) -> None:
    write_record(folder, record)
    first = (folder / RUN_FILE).stat().st_ino
    with (folder / RUN_FILE).open() as held:
        write_record(folder, record)
        assert json.loads(held.read())["run_id"] == record.run_id
    assert (folder / RUN_FILE).stat().st_ino != first
    assert [path.name for path in folder.iterdir() if path.is_file()] == [RUN_FILE]


@pytest.mark.parametrize(
    "schema", [0, min(READABLE_SCHEMAS) - 1, SCHEMA_VERSION + 1, None, str(SCHEMA_VERSION)]
)
def test_an_unknown_schema_is_refused(folder: Path, record: RunRecord, schema: object) -> None:
    write_record(folder, record)
    fields = json.loads((folder / RUN_FILE).read_text())
    (folder / RUN_FILE).write_text(json.dumps({**fields, "schema": schema}))
    with pytest.raises(UsageError, match=f"record schema {schema}; this busbw reads 2 and 3") as refused:
        read.read_record(folder)
    assert "busbw_version" in refused.value.hint
