"""An engine whose cluster is this machine: real ranks under the bundled hydra, a file as their channel, and a
process that outlives whoever submitted it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from busbw.errors import SiteError
from busbw.launch.base import Command
from busbw.launch.engine import Handle, Item, Job, JobRequest, JobState, Output, Phase
from busbw.plan.flags.launch import LaunchSettings

WAIT_SECONDS: float | None = 20.0
# How long the cluster takes to answer once it has a job, in seconds.
SLOW_SUBMIT = "BUSBW_TEST_SLOW_SUBMIT"
# The cluster takes one job of a home, and refuses others.
REFUSE_SECOND = "BUSBW_TEST_REFUSE_SECOND"
# The ranks do not see the run folder: the record comes home with the events.
UNSHARED = "BUSBW_TEST_UNSHARED"
# A folder for what the job prints, and a file that is to fill its disk once there is a job.
OUT, FILL = "BUSBW_TEST_OUT", "BUSBW_TEST_FILL"
# While this file is there, the cluster does not answer those who want to cancel a job.
SILENT = "BUSBW_TEST_SILENT"
TO_STDERR = "to stderr"
_BUNDLED = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
MPIEXEC, has_mpiexec = _BUNDLED or "mpiexec", _BUNDLED is not None


def inquire(launch: LaunchSettings, command: tuple[str, ...] = (), *, dry: bool = False) -> Mapping[str, str]:
    return {}


def request(job: Job, facts: Mapping[str, str]) -> JobRequest:
    ranks = job.ranks or 2
    argv = (MPIEXEC, "-n", str(ranks), *job.argv(sys.executable))
    return JobRequest("here", job.name, ranks, 1, commands=(Command(argv, dict(job.environ)),))


def submit(request: JobRequest, folder: Path) -> Handle:
    if os.environ.get(REFUSE_SECOND) and list(folder.parent.glob("*/request/job.json")):
        raise SiteError("the queue takes one job of a user", hint="ask for less")
    if os.environ.get(UNSHARED):
        (folder / "request" / "ticket").unlink()
    out = Path(os.environ.get(OUT, folder / "log")) / "job.out"
    (command,) = request.commands
    keeper = 'import subprocess, sys; print("job ended", subprocess.call(sys.argv[1:]), flush=True)'
    with out.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", keeper, *command.argv],
            env={**os.environ, **command.environ},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    time.sleep(float(os.environ.get(SLOW_SUBMIT, "0")))
    return Handle("here", str(process.pid), request.name, {"out": str(out)})


def follow(handle: Handle, folder: Path) -> Iterator[Item]:
    if path := os.environ.get(FILL):
        with contextlib.suppress(OSError), Path(path).open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))
    with Path(handle.details["out"]).open() as file:
        line, is_gone = "", False
        while True:
            line += file.readline()
            if line.endswith("\n"):
                if line.startswith("job ended"):
                    yield JobState(Phase.ENDED, code=int(line.split()[-1]))
                    return
                yield _output(line.rstrip("\n"))
                line = ""
            elif is_gone:  # and what it wrote last was read after that
                yield JobState(Phase.ENDED, why="the job is gone", code=-9)
                return
            else:
                time.sleep(0.02)
                is_gone = not _alive(int(handle.id))
                yield JobState(Phase.RUNNING)


def _output(text: str) -> Output:
    """A command says where its line goes."""
    source = "here" if text.startswith(("to stdout", TO_STDERR)) else ""
    return Output(text, source, is_error=text.startswith(TO_STDERR))


def _alive(session: int) -> bool:
    """Whether any process of the job is: on a cluster too, it has ended when all have."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(session, os.WNOHANG)
    return any(_session_of(folder) == session for folder in Path("/proc").glob("[0-9]*"))


def _session_of(folder: Path) -> int | None:
    """Of a process that is not a zombie."""
    try:
        state, _, _, session = (folder / "stat").read_text().rpartition(") ")[2].split()[:4]
    except OSError:
        return None
    return None if state == "Z" else int(session)


def cancel(handle: Handle, *, now: bool) -> None:
    if Path(os.environ.get(SILENT, "/no such file")).exists():
        raise SiteError("the cluster does not answer", hint="wait")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(int(handle.id), signal.SIGKILL if now else signal.SIGTERM)


def state(handle: Handle) -> JobState:
    return JobState(Phase.RUNNING if _alive(int(handle.id)) else Phase.ENDED)


def collect(handle: Handle, folder: Path) -> None:
    return None


def clean(handle: Handle) -> None:
    return None
