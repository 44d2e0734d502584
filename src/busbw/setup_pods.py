"""Launches of setups on Kubernetes, all in the pods of one job, which holds them throughout."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final, Self

from busbw import job_session
from busbw.errors import AllocationOver, ExitCode, SiteError
from busbw.job_allocation import Ways, allocated, over
from busbw.job_session import wait_seconds
from busbw.launchers import kubernetes
from busbw.launchers.engine import Handle, JobRequest, JobState, Phase
from busbw.launchers.hosts_request import JOB_VARIABLE
from busbw.launchers.kubernetes_api import JOBS, POD, Api, NotFound
from busbw.launchers.kubernetes_follow import SubmittedJob
from busbw.launchers.kubernetes_form import kind_in
from busbw.launchers.kubernetes_held import Held, held_by, holding, in_pods, kubectl
from busbw.launchers.kubernetes_logs import read_log
from busbw.launchers.kubernetes_state import container_of, has_ended, has_no_time, job_state, name_of
from busbw.launchers.time_limit import seconds_of
from busbw.model.event import Event, EventKind
from busbw.planning.setups import Setup
from busbw.record import folder as folders
from busbw.settings.launch import LaunchSettings
from busbw.setup_jobs import Launching

_PYTHON: Final = "python3"
# Connecting to all pods, and starting an agent in each.
_CONNECT: Final = "60s"
# After a launch that failed: how soon the cluster knows that it was the end of a pod.
_SETTLE_SECONDS: Final = 3.0
# A job whose pods end is ended once all have: their grace period, and a moment.
_ENDING_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.5
# How long the API server may not answer, as where a job of a launch's own is followed.
_SILENT_SECONDS: Final = 120.0
_TIMES: Final = 2
# In the series' folder: launches that were started again.
_LOST: Final = "lost"

WAYS: Final = Ways(
    look=kubernetes.state,
    end=kubernetes.clean,
    by_hand=lambda handle: (
        f"{kubectl(handle.details)} delete {JOBS[kind_in(handle.details)].plural} {handle.name}"
    ),
)


def missing_rights(launch: LaunchSettings, namespace: str) -> list[str]:
    """What this user may not do that launches in held pods need: servers ask for either verb. Raises
    SiteError.
    """
    wanted = [(verb, POD, "exec") for verb in ("get", "create")]
    return Api(launch.context, namespace).missing_rights(wanted)


class Fate(Enum):
    """What became of held pods while a launch failed: a container that ends takes its launch's memory limit,
    or what the launch did; one that is deleted was wanted away by somebody else.
    """

    INTACT = auto()
    DIED = auto()
    DELETED = auto()


@dataclass
class _Ear:
    """Hears a launch, and keeps its errors back until it is known that they are its own."""

    hear: Callable[[Event], None]
    errors: list[Event] = field(default_factory=list)

    def __call__(self, item: Event) -> None:
        if item["event"] == EventKind.ERROR:
            self.errors.append(item)
        else:
            self.hear(item)

    def tell(self) -> None:
        """Pass the errors on."""
        for item in self.errors:
            self.hear(item)


class HeldStarter:
    """Starts launches (see ``setup_jobs.Starter``) on ``counts`` nodes (0: as the settings say) in held pods,
    which are there from when it is entered as a context until that is left.

    A job whose pods did not survive a launch is followed by another one on the same nodes, for as long as the
    time limit of all says. A launch that failed because pods were deleted, or a connection was lost, is
    started once more. A job that somebody deleted, that had no time left or that does not come again, or a
    cluster that does not answer, raises AllocationOver.
    """

    def __init__(self, shared: Launching, setups: Sequence[Setup], counts: Sequence[int]) -> None:
        self._shared, self._setups, self._counts = shared, setups, counts
        self._stack = contextlib.ExitStack()
        self._run_id = ""
        self._held: Held | None = None
        self._nodes: tuple[str, ...] = ()  # those that were held before
        self._over_s: float | None = None
        shared.planned(setups, counts)

    def __enter__(self) -> Self:
        try:
            self._held = self._take(self._shared.launch)
        except BaseException:
            self._stack.close()
            raise
        limit = seconds_of(self._shared.launch.time_limit)
        self._over_s = None if limit is None else time.monotonic() + limit
        return self

    def __exit__(self, *exc: object) -> None:
        self._held = None
        self._stack.close()

    def request(self, run_id: str = "compare", launch: LaunchSettings | None = None) -> JobRequest:
        """The job that holds the pods, with what every launch has of variables."""
        shared = self._shared
        nobody = replace(self._setups[0], environ={}, prepend={})
        job = shared.job_of(nobody, max(self._counts), Path("compare"), launch or shared.launch, run_id)
        waits = wait_seconds(shared.launch.wait, shared.engine)
        return holding(shared.engine.request(job, shared.facts), self._python, waits)

    def __call__(self, setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        number = 1
        while True:
            held, ear = self._taken(), _Ear(hear)
            following, code = self._launch(held, setup, nodes, folder, ear, number)
            good = code in (ExitCode.OK, ExitCode.BAD_VERDICT)
            if good or following.stopped or not self._is_innocent(held, following) or number == _TIMES:
                ear.tell()
                return code
            why = str(ear.errors[0]["message"]) if ear.errors else "its pods were deleted"
            kept = folder.parent.parent / _LOST / f"{folder.name}-{number}"
            kept.parent.mkdir(exist_ok=True)
            folder.rename(kept)
            self._shared.say(f"launch {folder.name} is started again: {why}; what there was is in {kept}")
            number += 1

    def _launch(
        self, held: Held, setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None], number: int
    ) -> tuple[job_session.Following, ExitCode]:
        shared = self._shared
        name = f"{held.handle.name}-{folder.name}-{number}"
        own = shared.job_of(setup, nodes, folder, shared.launch, self._run_id)
        marked = replace(own, environ={**own.environ, JOB_VARIABLE: name})
        token = hashlib.sha256(f"{shared.facts['token']} {name}".encode()).hexdigest()[:32]
        alone = shared.engine.request(marked, shared.facts)
        request = in_pods(alone, held, name, token, self._python, shared.last_limit_seconds)
        job = shared.job_of(setup, nodes, folder, replace(shared.launch, job_id=held.handle.name))
        return shared.follow(setup, job, request, hear, _CONNECT)

    @property
    def _python(self) -> str:
        return self._shared.launch.python or _PYTHON

    def _taken(self) -> Held:
        """The held pods; new ones where they are gone."""
        held = self._held
        assert held is not None, "entered as a context"
        if held.is_intact(self._pods(held)):
            return held
        if self._fate(held) is Fate.INTACT:
            return held
        self._stack.close()
        launch, only = self._shared.launch, ",".join(self._nodes)
        launch = replace(launch, set=(*launch.set, "only=", f"only={only}"))
        if self._over_s is not None:
            left_s = int(self._over_s - time.monotonic())
            if left_s < 1:
                raise over(held.handle.id, "no time of --time-limit is left for another one")
            launch = replace(launch, time_limit=f"{left_s}s")
        self._shared.say(f"the next job keeps to the nodes of the last one: {only}")
        try:
            self._held = self._take(launch)
        except SiteError as error:
            raise AllocationOver(
                f"the pods of all launches are gone, and there are no others on their nodes: {error.message}",
                hint=error.hint,
            ) from error
        return self._held

    def _take(self, launch: LaunchSettings) -> Held:
        shared = self._shared
        self._run_id = folders.new_run_id("setups")
        waits = wait_seconds(launch.wait, shared.engine)
        request = self.request(self._run_id, launch)
        handle: Handle = self._stack.enter_context(allocated(request, WAYS, waits, shared.err))
        pods = SubmittedJob(handle).pods()
        found = held_by(handle, pods, int(request.nodes or 1))
        if found is None or not found.is_intact(pods):
            why = self._ended(handle).why or "its pods do not run"
            raise SiteError(
                f"job {handle.id} does not hold its pods: {why}",
                hint="look at --image, --python and --mounts",
            )
        self._nodes = found.nodes
        return found

    def _is_innocent(self, held: Held, following: job_session.Following) -> bool:
        """Whether a launch failed for what it did not do: nothing is a setup's before its agents are there.
        Raises AllocationOver where the end of the job was meant.
        """
        fate = self._fate(held)
        lost = following.state.unreachable or following.given_up is not None
        return fate is Fate.DELETED or (fate is Fate.INTACT and lost)

    def _fate(self, held: Held) -> Fate:
        """What became of the pods; their end is told. Raises AllocationOver where it was meant."""
        give_up_s = time.monotonic() + _SETTLE_SECONDS
        while held.is_intact(pods := self._pods(held)):
            if time.monotonic() > give_up_s:
                return Fate.INTACT
            time.sleep(_LOOK_SECONDS)
        state = self._ended(held.handle)
        died = held.died(pods) or held.died(self._pods(held))
        why = f": {state.why}" if died and state.why else "" if died else ": somebody deleted them"
        self._shared.say(f"job {held.handle.id} has lost pods{why}")
        return Fate.DIED if died else Fate.DELETED

    def _pods(self, held: Held) -> list[dict[str, Any]]:
        """As the API server has them, once it answers. Raises AllocationOver where it does not."""
        give_up_s, told = time.monotonic() + _SILENT_SECONDS, False
        while True:
            try:
                return SubmittedJob(held.handle).pods()
            except SiteError as error:
                if time.monotonic() > give_up_s:
                    raise over(held.handle.id, error.message) from error
                if not told:
                    self._shared.say(f"{error.message}: asking again")
                told = True
                time.sleep(_LOOK_SECONDS)

    def _ended(self, handle: Handle) -> JobState:
        """The state of a job whose pods end, once it has ended. Raises AllocationOver where it was meant."""
        give_up_s = time.monotonic() + _ENDING_SECONDS
        state = self._state(handle)
        while state.phase is not Phase.ENDED and time.monotonic() < give_up_s:
            time.sleep(_LOOK_SECONDS)
            state = self._state(handle)
        return state

    def _state(self, handle: Handle) -> JobState:
        """Of the job, with last words of pods that ended. Raises AllocationOver where its end was meant."""
        job = SubmittedJob(handle)
        try:
            view = job.look(self._last_words(job))
        except SiteError:
            return JobState(Phase.RUNNING)  # nobody knows
        if view.job is None or "deletionTimestamp" in view.job["metadata"]:
            raise over(handle.id, "it was deleted")
        state = job_state(view)
        if state.out_of_time or has_no_time(view.job):
            raise over(handle.id, state.why or "its time limit (DeadlineExceeded)")
        return state

    def _last_words(self, job: SubmittedJob) -> dict[str, str]:
        words = {}
        for pod in job.pods():
            if has_ended(pod):
                with contextlib.suppress(NotFound):
                    lines = [line.strip() for line in read_log(job.api, name_of(pod), container_of(pod))]
                    words[name_of(pod)] = next(filter(None, reversed(lines)), "")
        return words
