"""A submission that the engine does not answer: nobody may be left with a job that nobody knows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.cli import jobs
from busbw.errors import ExitCode, SiteError
from busbw.launch import submit as job_submit
from busbw.launch.engine import Handle, Job, JobRequest, JobState, Phase, Unanswered, Work
from busbw.plan.flags.launch import LaunchSettings
from busbw.record import folder as folders

RUN = "20261121-181502-all_reduce-3f9a"


class Engine:
    """Takes the job without saying so; ``answers`` is what it says of it later, None where it is silent."""

    def __init__(self) -> None:
        self.answers: list[str] | None = None
        self.cleaned = 0

    def submit(self, request: JobRequest, folder: Path) -> Handle:
        raise Unanswered(SiteError("sbatch: timed out"), Handle("slurm", request.name, request.name))

    def find(self, handle: Handle) -> Handle | None:
        if self.answers is None:
            raise SiteError("silent")
        return replace(handle, id=self.answers[0]) if self.answers else None

    def clean(self, handle: Handle) -> None:
        self.cleaned += 1

    def state(self, handle: Handle) -> JobState:
        return JobState(Phase.RUNNING)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    made = Engine()
    for name in ("_SEEK_SECONDS", "_LATE_SECONDS", "_AGAIN_SECONDS"):
        monkeypatch.setattr(job_submit, name, 0.0)
    for module in (job_submit, jobs):
        monkeypatch.setattr(module, "load", lambda _: made)
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    return made


def submit(home: Path) -> Handle:
    job = Job(RUN, str(home / RUN), Work(("run", "all_reduce")), LaunchSettings(on="slurm", nodes="1"))
    return job_submit.submit(job, JobRequest("slurm", job.name, 1, 1), ())


def row(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    jobs.jobs("json", 10)
    (found,) = json.loads(capsys.readouterr().out)
    return dict(found)


def test_a_job_that_is_there_is_ours(engine: Engine, tmp_path: Path) -> None:
    engine.answers = ["17"]
    assert submit(tmp_path).id == "17"
    assert job_submit.read_handle(tmp_path / RUN).id == "17"


def test_one_that_is_not_was_refused(engine: Engine, tmp_path: Path) -> None:
    engine.answers = []
    with pytest.raises(SiteError, match=r"^sbatch: timed out$"):
        submit(tmp_path)
    assert engine.cleaned == 1
    assert not (tmp_path / RUN / folders.JOB_FILE).exists()


def test_one_that_nobody_tells_of_is_kept_until_somebody_does(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SiteError, match=r"slurm has job busbw-20261121-181502-3f9a is not known") as told:
        submit(tmp_path)
    assert f"busbw cancel {RUN}" in told.value.hint
    assert row(capsys)["state"] == "uncertain"
    with pytest.raises(SiteError, match="is not known"):
        jobs.cancel(RUN, now=False)
    engine.answers = ["17"]
    found = row(capsys)
    assert (found["job"], found["state"]) == ("17", "running")


def test_one_that_never_was_has_ended(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SiteError):
        submit(tmp_path)
    engine.answers = []
    found = row(capsys)
    assert (found["state"], found["record"]) == ("ended", "failed")
    assert jobs.cancel(RUN, now=False) is ExitCode.OK
    assert "has ended already" in capsys.readouterr().err
