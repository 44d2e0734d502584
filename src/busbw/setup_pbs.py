"""Launches of setups on PBS, all in one job, which holds its nodes throughout. Not run on a real PBS."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

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
_UNSEEN: Final = "set BUSBW_HOME to a folder that the nodes share; or use --on hosts inside a job"
_SETTLE_SECONDS: Final = 3.0
_ENDING_SECONDS: Final = 30.0
_LAST_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.5


class PbsStarter:
    """Starts launches (see ``setup_jobs.Starter``) on ``counts`` nodes in one job, which is there from when
    it is entered as a context until that is left.

    Raises AllocationOver for a launch that failed where the job has ended.
    """

    def __init__(self, shared: Launching, setups: Sequence[Setup], counts: Sequence[int]) -> None:
        self._shared = shared
        self._stack = contextlib.ExitStack()
        self._run_id = ""
        self._held = Handle("pbs", "", "")
        self._launches = 0
        self._ran = False  # PBS has said so
        self._planned = shared.planned(setups, counts)

    def __enter__(self) -> Self:
        shared = self._shared
        self._run_id = folders.new_run_id("setups")
        request, folder = self.request(self._run_id), self._folder
        pbs_hold.make(folder, self._run_id)
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        waits = wait_seconds(shared.launch.wait, shared.engine)
        ways = Ways(look=self._look, end=self._end, by_hand=_by_hand)
        try:
            for name, text in request.files.items():
                (folder / name).write_text(text)
            taken = allocated(request, ways, waits, shared.err, folder)
            self._held = self._stack.enter_context(taken)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def request(self, run_id: str = "compare") -> JobRequest:
        """The job that holds the nodes."""
        job = Job(run_id, str(self._place(run_id)), Work(()), self._shared.launch)
        return pbs.hold(job, self._planned)

    def __call__(self, setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        shared, held = self._shared, self._held
        self._launches += 1
        request = shared.engine.request(shared.job_of(setup, nodes, folder, shared.launch), shared.facts)
        request = pbs_hold.in_held(request, held, self._folder, self._launches, shared.last_limit_seconds)
        job = shared.job_of(setup, nodes, folder, replace(shared.launch, job_id=held.id))
        try:
            _, code = shared.follow(setup, job, request, hear, wait="")
        except SiteError:
            self._refuse_over(_SETTLE_SECONDS)
            raise
        if code not in (ExitCode.OK, ExitCode.BAD_VERDICT):
            # What PBS ends looks as if somebody had: ours leaves the job.
            self._refuse_over(0.0 if code is ExitCode.INTERRUPTED else _SETTLE_SECONDS)
        return code

    @property
    def _folder(self) -> Path:
        return self._place(self._run_id)

    def _place(self, run_id: str) -> Path:
        return folders.environ_home().absolute() / _FOLDER / run_id

    def _look(self, handle: Handle) -> JobState:
        """The job's state, in our own words where it is our script that ended it."""
        state = pbs.state(handle)
        if state.phase is not Phase.ENDED:
            self._ran = self._ran or state.phase is Phase.RUNNING
            return state
        unseen = state.code is None and self._ran and not pbs_hold.was_seen(self._folder)
        if state.code == pbs_hold.UNSEEN or unseen:
            return replace(state, why=f"its first node does not see {folders.environ_home()}", hint=_UNSEEN)
        if state.code == pbs_hold.IDLE:
            minutes = pbs_hold.IDLE_SECONDS // 60
            return replace(state, why=f"no launch came for {minutes} minutes", hint="start the series again")
        return replace(state, why=state.why or "PBS ended it")

    def _end(self, handle: Handle) -> None:
        with contextlib.suppress(SiteError):  # it needs no server
            pbs_hold.over(self._folder)
        pbs.cancel(handle, now=False)
        give_up_s = time.monotonic() + _LAST_SECONDS
        while pbs.state(handle).phase is not Phase.ENDED and time.monotonic() < give_up_s:
            time.sleep(_LOOK_SECONDS)  # it still writes to the folder

    def _refuse_over(self, patience_s: float) -> None:
        """After a launch that failed: raises AllocationOver where the job has ended, or does; not where
        nobody knows. PBS may learn of a lost node a little later.
        """
        give_up_s = time.monotonic() + patience_s
        try:
            while not pbs.is_ending(self._held):
                if time.monotonic() > give_up_s:
                    return
                time.sleep(_LOOK_SECONDS)
        except SiteError:
            return
        state, give_up_s = JobState(Phase.RUNNING), time.monotonic() + _ENDING_SECONDS
        with contextlib.suppress(SiteError):
            while state.phase is not Phase.ENDED and time.monotonic() < give_up_s:
                time.sleep(_LOOK_SECONDS)
                state = self._look(self._held)
        found = over(self._held.id, state.why or "PBS ends it")
        raise AllocationOver(found.message, hint=state.hint or found.hint)


def _by_hand(handle: Handle) -> str:
    has_number = handle.id != handle.name
    return f"qdel {handle.id if has_number else f'$(qselect -N {pbs.short_name(handle.name)})'}"
