"""`busbw cancel` of a job whose engine only asks its ranks to end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.cli import jobs
from busbw.errors import ExitCode, NotHome
from busbw.launch import follow, submit
from busbw.launch.engine import Handle, JobState, Phase
from busbw.record import folder as folders


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A running job of Slurm that nobody follows, and what is done to it."""
    found: dict[str, Any] = {"steps": [], "home": True, "owned": False, "error": None}

    def bring(folder: Path, err: Any, **how: bool) -> ExitCode:
        found["steps"].append("followed")
        if found["error"] is not None:
            raise found["error"]
        return ExitCode.INTERRUPTED

    engine = SimpleNamespace(state=lambda _: JobState(Phase.RUNNING))
    monkeypatch.setattr(folders, "find_run", lambda *_, **__: tmp_path)
    monkeypatch.setattr(submit, "read_handle", lambda _: Handle("slurm", "40", "busbw-x"))
    monkeypatch.setattr(jobs, "load", lambda _: engine)
    monkeypatch.setattr(jobs, "is_owned", lambda _: found["owned"])
    monkeypatch.setattr(follow, "is_home", lambda _: found["home"])
    monkeypatch.setattr(follow, "cancel", lambda _, now: found["steps"].append("now" if now else "asked"))
    monkeypatch.setattr(follow, "bring", bring)
    return found


def test_whoever_asks_a_job_to_end_sees_to_it(
    done: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks that do not heed it are killed by who follows."""
    assert jobs.cancel("last", now=False) is ExitCode.OK
    assert done["steps"] == ["asked", "followed"]
    assert capsys.readouterr().err == "cancelled slurm job 40\n"


def test_one_that_is_killed_or_followed_needs_nobody_else(done: dict[str, Any]) -> None:
    assert jobs.cancel("last", now=True) is ExitCode.OK
    done["owned"] = True
    assert jobs.cancel("last", now=False) is ExitCode.OK
    assert done["steps"] == ["now", "asked"]


def test_who_leaves_before_the_end_is_told(done: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    done["home"] = False
    assert jobs.cancel("last", now=False) is ExitCode.INTERRUPTED
    assert "cancelled slurm" not in capsys.readouterr().err


def test_output_that_cannot_be_read_now_leaves_it_cancelled(
    done: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    done["error"] = NotHome("its output is on h1", hint="try again")
    assert jobs.cancel("last", now=False) is ExitCode.OK
    told = capsys.readouterr().err
    assert told == "note: its output is on h1\nhint: try again\ncancelled slurm job 40\n"
