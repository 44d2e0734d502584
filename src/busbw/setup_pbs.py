"""Launches of setups on PBS, all in one job, which holds its nodes throughout. Not run on a real PBS."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from busbw import job_session, job_submit
from busbw.errors import AllocationOver, ExitCode, SiteError
from busbw.job_allocation import Ways, allocated, over
from busbw.job_session import wait_seconds
from busbw.launchers import pbs, pbs_hold
from busbw.launchers.engine import Handle, Job, JobRequest, JobState, Phase, Work
from busbw.model.event import Event
from busbw.planning.setups import Setup
from busbw.record import folder as folders
from busbw.setup_jobs import Launching

# In the folder of runs: what a job that holds is told, and what it says.
_FOLDER: Final = ".held"


class PbsStarter:
    """Starts launches (see ``setup_jobs.Starter``) on ``counts`` nodes in one job. Close it at the end.

    Raises AllocationOver for a launch that failed where the job has ended.
    """

    def __init__(self, shared: Launching, setups: Sequence[Setup], counts: Sequence[int]) -> None:
        self._shared, self._setups, self._counts = shared, setups, counts
        self._stack = contextlib.ExitStack()
        self._held: Handle | None = None
        self._folder = Path()
        self._launches = 0
        for setup in setups:
            for count in counts:
                shared.refuse(setup, count)

    def request(self, run_id: str = "compare") -> JobRequest:
        """The job that holds the nodes."""
        shared = self._shared
        job = Job(run_id, str(self._place(run_id)), Work(()), shared.launch)
        planned = [
            shared.engine.request(shared.job_of(setup, count, Path("0"), shared.launch), shared.facts)
            for setup in self._setups
            for count in self._counts
        ]
        return pbs.hold(job, planned)

    def __call__(self, setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        shared = self._shared
        held = self._held or self._take()
        self._launches += 1
        request = shared.engine.request(shared.job_of(setup, nodes, folder, shared.launch), shared.facts)
        request = pbs_hold.in_held(request, held, self._folder, self._launches)
        job = shared.job_of(setup, nodes, folder, replace(shared.launch, job_id=held.id))
        code = ExitCode.ENVIRONMENT
        try:
            handle = job_submit.submit(job, request, shared.argv, shared.settings_of(setup))
            following = job_session.start_following(
                handle, folder, hear, shared.err, wait="", limit_seconds=shared.limit_seconds
            )
            code = job_session.follow(following)
        finally:
            if code not in (ExitCode.OK, ExitCode.BAD_VERDICT, ExitCode.INTERRUPTED):
                _refuse_over(held)
        return code

    def close(self) -> None:
        """Give the nodes back."""
        self._held = None
        self._stack.close()

    def _place(self, run_id: str) -> Path:
        return folders.environ_home().absolute() / _FOLDER / run_id

    def _take(self) -> Handle:
        run_id = folders.new_run_id("setups")
        request, self._folder = self.request(run_id), self._place(run_id)
        pbs_hold.make(self._folder, run_id)
        for name, text in request.files.items():
            (self._folder / name).write_text(text)
        shared = self._shared
        waits = wait_seconds(shared.launch.wait, shared.engine)
        taken = allocated(request, WAYS, waits, shared.err, self._folder)
        self._held = self._stack.enter_context(taken)
        return self._held


def _refuse_over(held: Handle) -> None:
    """Raises AllocationOver where the job has ended; not where nobody knows."""
    state = JobState(Phase.RUNNING)
    with contextlib.suppress(SiteError):
        state = pbs.state(held)
    if state.phase is not Phase.ENDED:
        return
    if state.code == pbs_hold.UNSEEN:
        raise AllocationOver(
            f"job {held.id} has ended: its first node does not see {folders.environ_home()}",
            hint="set BUSBW_HOME to a folder that the nodes share; or use --on hosts inside a job",
        )
    raise over(held.id, state.why or "PBS ended it")


def _end(handle: Handle) -> None:
    pbs.cancel(handle, now=False)


WAYS: Final = Ways(look=pbs.state, end=_end, by_hand=lambda handle: f"qdel {handle.id}")
