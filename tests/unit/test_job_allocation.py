"""Nodes that are held for many launches, against stand-ins for Slurm (tests/slurm has a real one)."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from busbw_testing import here_engine

from busbw import job_allocation
from busbw.cli.main import main
from busbw.errors import AllocationOver, SiteError
from busbw.job_allocation import SLURM, allocated, refuse_over
from busbw.launchers.base import Command
from busbw.launchers.engine import JobRequest
from busbw.settings import engines

REQUEST = JobRequest(
    "slurm",
    "busbw-x",
    2,
    2,
    commands=(Command(("sbatch", "--parsable", "--wrap=x")),),
    details={"step_of": "", "bring": "", "called": ""},
)
SHOW = 'printf "JobId=17 JobName=busbw-x\\n   JobState={state} Reason={reason} x\\n   NumNodes=2 x\\n"'
HOLD = """
import sys, time
sys.path[:0] = {places!r}
from test_job_allocation import REQUEST
from busbw.job_allocation import SLURM, allocated
with allocated(REQUEST, SLURM, None, sys.stderr):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Slurm that gives job 17 at once, and notes what is cancelled."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "home"))
    for name in ("SLURM_JOB_ID", "PBS_NODEFILE"):
        monkeypatch.delenv(name, raising=False)
    program(tmp_path, "sbatch", "echo 17")
    program(tmp_path, "scontrol", SHOW.format(state="RUNNING", reason="None"))
    program(tmp_path, "scancel", f'echo "$@" >> {tmp_path}/cancelled')
    program(tmp_path, "srun", "echo pmi2")
    program(tmp_path, "sinfo", "echo 'debug*|(null)'")
    return tmp_path


def program(site: Path, name: str, text: str) -> None:
    path = site / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def cancelled(site: Path) -> list[str]:
    path = site / "cancelled"
    return path.read_text().split() if path.is_file() else []


def hold(wait_seconds: float | None = None, err: io.StringIO | None = None) -> str:
    with allocated(REQUEST, SLURM, wait_seconds, err or io.StringIO()) as job:
        return job.id


def test_it_is_told_which_job_it_is_and_cancelled_once(site: Path) -> None:
    err = io.StringIO()
    assert hold(err=err) == "17"
    assert cancelled(site) == ["17"]
    assert err.getvalue().splitlines() == [
        "submitted slurm job 17: 2 nodes, for all launches",
        "job 17: running",
        "cancelled slurm job 17",
    ]


@pytest.mark.parametrize(
    ("state", "reason", "wait", "message"),
    [
        ("PENDING", "PartitionNodeLimit", None, "job 17 cannot start: PartitionNodeLimit"),
        ("PENDING", "Resources", 0.0, "job 17 has not started within 0 s: Resources"),
        ("CANCELLED", "None", None, "job 17 ended before its first launch: it was cancelled"),
    ],
)
def test_one_that_does_not_start_is_cancelled(
    site: Path, state: str, reason: str, wait: float | None, message: str
) -> None:
    program(site, "scontrol", SHOW.format(state=state, reason=reason))
    with pytest.raises(SiteError, match=message):
        hold(wait)
    assert cancelled(site) == ["17"]


def test_one_that_is_refused(site: Path) -> None:
    program(site, "sbatch", 'echo "sbatch: error: invalid partition specified: x" >&2; exit 1')
    with pytest.raises(SiteError, match=r"^sbatch: invalid partition specified: x$") as refused:
        hold()
    assert "sinfo" in refused.value.hint
    assert cancelled(site) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_it_back(site: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), allocated(REQUEST, SLURM, None, io.StringIO()):
        os.kill(os.getpid(), number)
    assert cancelled(site) == ["17"]
    assert signal.getsignal(number) is before


def test_an_error_gives_it_back(site: Path) -> None:
    with pytest.raises(OSError, match="full"), allocated(REQUEST, SLURM, None, io.StringIO()):
        raise OSError("full")
    assert cancelled(site) == ["17"]


def test_a_kill_leaves_it_to_the_guard(site: Path) -> None:
    words = [sys.executable, "-c", HOLD.format(places=[str(Path(__file__).parent), *sys.path])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert cancelled(site) == []
        holder.kill()
    deadline = time.monotonic() + 20
    while not cancelled(site) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert cancelled(site) == ["17"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the guard outlives us
def test_a_slurm_that_does_not_take_the_end_is_told_of(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_allocation, "_REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(job_allocation, "_AGAIN_SECONDS", 0.0)
    first = f"if mkdir {site}/asked 2>/dev/null; then echo no >&2; exit 1; fi"
    program(site, "scancel", f'{first}\necho "$@" >> {site}/cancelled')
    err = io.StringIO()
    hold(err=err)
    assert "error: job 17 was not cancelled and may go on: scancel: no\nhint: " in err.getvalue()
    deadline = time.monotonic() + 20
    while not cancelled(site) and time.monotonic() < deadline:  # the guard asks again
        time.sleep(0.05)
    assert cancelled(site) == ["17"]


def test_an_allocation_that_has_ended(site: Path) -> None:
    refuse_over("")
    refuse_over("17")
    program(site, "scontrol", SHOW.format(state="TIMEOUT", reason="TimeLimit"))
    with pytest.raises(AllocationOver, match="job 17, the allocation of all launches, has ended: its time l"):
        refuse_over("17")
    program(site, "scontrol", "echo no answer >&2; exit 1")
    refuse_over("17")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text("setups: {plain: {}, other: {env: {A: b}}}")
    return path


WORDS = ("--ops", "all_reduce", "--blocks", "2", "--on", "slurm")


@pytest.mark.usefixtures("site")
def test_a_dry_run_shows_the_allocation(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-N", "2,4", "--partition", "p", "--wait", "5m", "--dry-run")
    assert main(["compare", str(spec), *WORDS, *words]) == 0
    told = capsys.readouterr().out
    assert "# all in one allocation, cancelled at the end:\n# sbatch --parsable --job-name=busbw-" in told
    assert "--nodes=4 --ntasks-per-node=1 --partition=p " in told
    assert main(["compare", str(spec), *WORDS, "--job-id", "17", "--dry-run"]) == 0
    assert "allocation" not in capsys.readouterr().out


def test_inside_a_job_launches_are_its_steps(
    site: Path, spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert main(["compare", str(spec), *WORDS, "--dry-run"]) == 0
    told = capsys.readouterr()
    assert "note: launches are steps of job 17, which this is in" in told.err
    assert "allocation" not in told.out
    assert main(["compare", str(spec), *WORDS, "-N", "4", "--dry-run"]) == 2
    assert "--nodes 4, but job 17 has 2" in capsys.readouterr().err
    assert main(["compare", str(spec), *WORDS, "-N", "4", "--partition", "p", "--dry-run"]) == 0
    assert "# all in one allocation" in capsys.readouterr().out


@pytest.mark.usefixtures("site")
def test_nobody_follows_launches_that_nobody_waits_for(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(spec), *WORDS, "-N", "2", "--detach"]) == 2
    assert "--detach means nothing here: launches follow one another" in capsys.readouterr().err


def test_a_series_ends_with_its_allocation(
    site: Path, spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its setups would be called FAILED for what they did not do."""

    def submit(*_: object) -> None:
        raise SiteError("srun: error: Unable to confirm allocation for job 17")

    for name in ("slurm", "here"):
        monkeypatch.setitem(engines.ENGINES, name, engines.EngineRow("busbw_testing.here_engine"))
    monkeypatch.setattr(here_engine, "submit", submit)
    program(site, "scontrol", SHOW.format(state="TIMEOUT", reason="TimeLimit"))
    assert main(["compare", str(spec), *WORDS, "--job-id", "17"]) == 4
    out, err = capsys.readouterr()
    assert "error: job 17, the allocation of all launches, has ended: its time limit came" in err
    assert "has ended: its time limit came): 0 of 4 launches" in out
    assert "FAILED" not in out
