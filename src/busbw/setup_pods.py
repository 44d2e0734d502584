"""Launches of setups on Kubernetes, all in the pods of one job, which holds them throughout."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from busbw import job_session, job_submit
from busbw.errors import AllocationOver, ExitCode, SiteError
from busbw.job_allocation import Ways, allocated, over
from busbw.job_session import wait_seconds
from busbw.launchers import kubernetes
from busbw.launchers.engine import Handle, JobRequest, JobState, Phase
from busbw.launchers.hosts_request import JOB_VARIABLE
from busbw.launchers.kubernetes_api import JOBS, POD, Api
from busbw.launchers.kubernetes_follow import SubmittedJob
from busbw.launchers.kubernetes_held import Held, held_by, holding, in_pods
from busbw.launchers.kubernetes_state import job_state
from busbw.model.event import Event
from busbw.planning.setups import Setup
from busbw.record import folder as folders
from busbw.settings.launch import LaunchSettings
from busbw.setup_jobs import Launching

_PYTHON: Final = "python3"
# After a launch that failed: how soon the cluster knows that it was the end of a pod.
_SETTLE_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.5

WAYS: Final = Ways(
    look=kubernetes.state,
    end=kubernetes.clean,
    by_hand=lambda handle: (
        f"kubectl delete {JOBS[SubmittedJob(handle).kind].plural} {handle.name}"
        f" -n {handle.details['namespace']}"
    ),
)


def missing_rights(launch: LaunchSettings, namespace: str) -> list[str]:
    """What this user may not do that launches in held pods need: servers ask for either verb. Raises
    SiteError.
    """
    wanted = [(verb, POD, "exec") for verb in ("get", "create")]
    return Api(launch.context, namespace).missing_rights(wanted)


class HeldStarter:
    """Starts launches (see ``setup_jobs.Starter``) on ``counts`` nodes (0: as the settings say) in held pods.
    Close it at the end.

    A job whose pods did not survive a launch is followed by another one on the same nodes. One that somebody
    deleted, that had no time left, or that does not come again raises AllocationOver.
    """

    def __init__(self, shared: Launching, setups: Sequence[Setup], counts: Sequence[int]) -> None:
        self._shared, self._setups, self._counts = shared, setups, counts
        self._stack = contextlib.ExitStack()
        self._run_id = ""
        self._held: Held | None = None
        self._told: Held | None = None  # the end of its pods was
        self._nodes: tuple[str, ...] = ()  # those that were held before
        for setup in setups:
            for count in counts:
                shared.refuse(setup, count)

    def request(self, run_id: str = "compare") -> JobRequest:
        """The job that holds the pods."""
        request = self._in_job(self._setups[0], max(self._counts), Path("compare"), run_id, "")
        return holding(request, self._python)

    def __call__(self, setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        held = self._taken()
        shared = self._shared
        name = f"{held.handle.name}-{folder.name}"
        request = self._in_job(setup, nodes, folder, self._run_id, name)
        token = hashlib.sha256(f"{shared.facts['token']} {name}".encode()).hexdigest()[:32]
        request = in_pods(request, held, name, token, self._python)
        job = shared.job_of(setup, nodes, folder, replace(shared.launch, job_id=held.handle.name))
        code = ExitCode.ENVIRONMENT
        try:
            handle = job_submit.submit(job, request, shared.argv, shared.settings_of(setup))
            following = job_session.start_following(
                handle, folder, hear, shared.err, wait="", limit_seconds=shared.limit_seconds
            )
            code = job_session.follow(following)
        finally:
            if code not in (ExitCode.OK, ExitCode.BAD_VERDICT, ExitCode.INTERRUPTED):
                self._look_after(held)
        return code

    def close(self) -> None:
        """Give the pods back."""
        self._held = None
        self._stack.close()

    @property
    def _python(self) -> str:
        return self._shared.launch.python or _PYTHON

    def _in_job(self, setup: Setup, nodes: int, folder: Path, run_id: str, mark: str) -> JobRequest:
        """A launch as a job of its own, of the held job's name; ``mark`` is what its processes carry."""
        job = self._shared.job_of(setup, nodes, folder, self._shared.launch, run_id)
        marked = {JOB_VARIABLE: mark} if mark else {}
        return self._shared.engine.request(
            replace(job, environ={**job.environ, **marked}), self._shared.facts
        )

    def _taken(self) -> Held:
        """The held pods; new ones where there are none any more."""
        if self._held is not None:
            if self._is_intact(self._held):
                return self._held
            self._tell_end(self._held)
        again = bool(self._nodes)
        self.close()
        try:
            self._held = self._take()
        except SiteError as error:
            if not again:
                raise
            raise AllocationOver(
                f"the pods of all launches are gone, and there are no others on their nodes: {error.message}",
                hint=error.hint,
            ) from error
        return self._held

    def _take(self) -> Held:
        shared = self._shared
        self._run_id = folders.new_run_id("setups")
        launch = shared.launch
        if self._nodes:
            only = ",".join(self._nodes)
            launch = replace(launch, set=(*launch.set, "only=", f"only={only}"))
            shared.say(f"the next job keeps to the nodes of the last one: {only}")
        kept = HeldStarter(replace(shared, launch=launch), self._setups, self._counts)
        waits = wait_seconds(launch.wait, shared.engine)
        handle: Handle = self._stack.enter_context(
            allocated(kept.request(self._run_id), WAYS, waits, shared.err)
        )
        found = held_by(handle, SubmittedJob(handle).pods())
        self._nodes = found.nodes
        return found

    def _is_intact(self, held: Held) -> bool:
        """Nobody knows where the cluster does not say: then the launch finds out."""
        try:
            return held.is_intact(SubmittedJob(held.handle).pods())
        except SiteError:
            return True

    def _look_after(self, held: Held) -> None:
        """After a launch that failed. Raises AllocationOver where the end of the job was meant."""
        give_up_s = time.monotonic() + _SETTLE_SECONDS
        while self._is_intact(held):
            if time.monotonic() > give_up_s:
                return
            time.sleep(_LOOK_SECONDS)
        self._tell_end(held)

    def _tell_end(self, held: Held) -> None:
        """Why pods are gone. Raises AllocationOver where it was meant."""
        if self._told is held:
            return
        self._told = held
        give_up_s = time.monotonic() + _SETTLE_SECONDS
        state = self._state(held)
        while state.phase is not Phase.ENDED and time.monotonic() < give_up_s:
            time.sleep(_LOOK_SECONDS)
            state = self._state(held)
        why = f": {state.why}" if state.why else ""
        self._shared.say(f"job {held.handle.id} has lost its pods{why}")

    def _state(self, held: Held) -> JobState:
        """Of the job. Raises AllocationOver where its end was meant."""
        try:
            view = SubmittedJob(held.handle).look()
        except SiteError:
            return JobState(Phase.RUNNING)  # nobody knows
        if view.job is None or "deletionTimestamp" in view.job["metadata"]:
            raise over(held.handle.id, "it was deleted")
        state = job_state(view)
        if state.out_of_time:
            raise over(held.handle.id, state.why)
        return state
