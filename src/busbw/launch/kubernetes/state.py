"""What a job's objects, pods and events say about how far it is and why. Pure.

Several mistakes show in events alone: the objects are accepted, and nothing ever starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from busbw.errors import ExitCode
from busbw.launch.engine import JobState, Phase
from busbw.launch.kubernetes.words import Kind

Fields = Mapping[str, Any]

# The condition that says how a job ended.
_GOOD: Final = ("Succeeded", "Complete", "Completed")
_BAD: Final = "Failed"
_DEADLINE: Final = "DeadlineExceeded"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_MPI_ROLE: Final = "training.kubeflow.org/job-role"
# The words of registries and runtimes for an image that will not come by waiting.
_NO_IMAGE: Final = re.compile(
    r"not found|manifest unknown|denied|unauthorized|does not exist|invalid reference|no match for platform",
    re.IGNORECASE,
)
_IMAGE_TROUBLE: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_STARTING: Final = ("ContainerCreating", "PodInitializing", "")
# How the API server, or a webhook of its own, refuses an object.
_REFUSED: Final = re.compile(
    r"is forbidden|is invalid|violates PodSecurity|denied the request|Invalid value", re.IGNORECASE
)
# What may pass by itself: others give back what they use of a quota, its controller counts, and a namespace's
# own service account comes a moment after it.
MAY_PASS: Final = re.compile(
    r'exceeded quota|status unknown for quota|serviceaccount "default" not found', re.IGNORECASE
)
# The controller of a job's pods. It marks the job; one without a mark after this long was not seen.
_CONTROLLERS: Final[Mapping[Kind, str]] = {
    "mpijob": "the MPI Operator",
    "jobset": "the JobSet controller",
    "job": "the cluster's controller manager",
}
_IGNORED_SECONDS: Final = 15.0
_POD_NAME: Final = re.compile(r'pods "[^"]*" is forbidden')
_IMAGE_HINT: Final = "check --image, and that the cluster may pull it (--set pull-secret=NAME)"
QUOTA_HINT: Final = "ask for less (-N, --set gpu=COUNT), wait with --wait, or give another --namespace"
_SCHEDULE_HINT: Final = "ask for less (-N, --set gpu=COUNT), or for other nodes (--set instance-type=TYPE)"
FORM_HINT: Final = "correct what it names with --set or --patch"
_LOG_HINT: Final = "look at the pods' output in log/ of the run folder"


@dataclass(frozen=True)
class Pod:
    """What is read of a pod. ``role``: launcher or worker of an MPIJob; ``number``: of an indexed Job's pod;
    ``phase``: its container is waiting, running or terminated, or it is empty. ``end`` and ``status`` are
    Kubernetes' own: the container's end, and all of the pod's state.
    """

    name: str
    uid: str
    node: str
    container: str
    role: str
    number: str
    is_leaving: bool
    phase: str
    end: Fields
    status: Fields

    @property
    def has_started(self) -> bool:
        """Whether its container runs or ran, so that it has a log."""
        return self.phase in ("running", "terminated")

    @property
    def has_ended(self) -> bool:
        """Whether its container will print no more."""
        return self.phase == "terminated"


def read_pod(item: Fields) -> Pod:
    """A pod as the API has it."""
    metadata, spec, status = item["metadata"], item["spec"], item.get("status", {})
    marks = {**metadata.get("annotations", {}), **metadata.get("labels", {})}
    state = (status.get("containerStatuses") or [{}])[0].get("state") or {}
    return Pod(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        node=spec.get("nodeName") or "",
        container=spec["containers"][0]["name"],
        role=marks.get(_MPI_ROLE, ""),
        number=marks.get(_INDEX, ""),
        is_leaving="deletionTimestamp" in metadata,
        phase=next(iter(state), ""),
        end=state.get("terminated") or {},
        status=status,
    )


@dataclass(frozen=True)
class View:
    """One look at a job. ``job`` is None where it is gone; ``last_words`` a pod's last line, by pod;
    ``waited_s`` for how long it has been looked at; ``inner`` the Job that a failed JobSet's controller made;
    ``lost`` workers, deleted while their launcher ran.
    """

    kind: Kind
    slots: int
    job: Fields | None
    pods: Sequence[Pod] = ()
    events: Sequence[Fields] = ()
    last_words: Mapping[str, str] | None = None
    waited_s: float = 0.0
    inner: Fields | None = None
    lost: Sequence[Pod] = ()


def job_state(view: View) -> JobState:
    """The state that a look shows."""
    if view.job is None:
        return JobState(Phase.ENDED, why="it is no longer on the cluster")
    conditions = _conditions(view.job)
    for name in _GOOD:
        if name in conditions:
            return JobState(Phase.ENDED, code=0)
    if _BAD in conditions:
        return _failed(view, conditions[_BAD])
    if is_running(view.kind, view.job, view.pods):
        return JobState(Phase.RUNNING)
    return _pending(view, conditions)


def is_running(kind: Kind, job: Fields, pods: Sequence[Pod]) -> bool:
    """Whether all ranks can take part: the launcher runs, which waits for its workers, or every pod does."""
    first = first_pod(kind, pods)
    if kind == "mpijob" or first is None:
        return first is not None and first.has_started
    spec = job.get("spec", {})
    if kind == "jobset":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    return sum(pod.has_started for pod in pods) >= int(spec.get("completions") or 1)


def has_failed(job: Fields) -> bool:
    """Whether its controller says that it failed."""
    return _BAD in _conditions(job)


def first_pod(kind: Kind, pods: Sequence[Pod]) -> Pod | None:
    """The pod whose output has rank 0's events: the launcher's, or number 0."""
    if kind == "mpijob":
        return next((pod for pod in pods if pod.role == "launcher"), None)
    return next((pod for pod in pods if pod.number == "0"), None)


def lost_workers(before: Sequence[Pod], kind: Kind, pods: Sequence[Pod]) -> list[Pod]:
    """Workers of an earlier look that are gone, or going, while their launcher still runs, or that the
    operator has made anew: it does neither at the end of a job.
    """
    launcher = first_pod(kind, pods)
    is_over = launcher is None or launcher.has_ended or launcher.is_leaving
    there = {pod.uid: pod.name for pod in pods if not pod.is_leaving}
    gone = [pod for pod in before if pod.role == "worker" and pod.uid not in there]
    return [pod for pod in gone if not is_over or pod.name in there.values()]


def _conditions(item: Fields) -> Mapping[str, Fields]:
    found = item.get("status", {}).get("conditions") or []
    return {one["type"]: one for one in found if one.get("status") == "True"}


def _words(condition: Fields) -> str:
    """A condition's reason and message; the MPI Operator leaves a slash at the end of its reasons."""
    reason = str(condition.get("reason") or "").rstrip("/")
    message = str(condition.get("message") or "")
    return ": ".join(filter(None, (reason, message)))


def _failed(view: View, condition: Fields) -> JobState:
    """How a job failed: by its first pod that did, else by the controller's own reason."""
    reason = _words(condition)
    if late := _deadline(view, reason):  # its pods were ended by it, so their codes say nothing
        return JobState(Phase.ENDED, why=late, hint="give --time-limit more", out_of_time=True)
    if view.lost:
        lost = view.lost[0]
        why = f"pod {lost.name} was deleted while its ranks ran"
        hint = "find out what deleted it: an eviction, a drained node, or a person"
        return JobState(Phase.ENDED, why=why, hint=hint, host=lost.node)
    pod = _first_failure(view)
    if pod is None:
        return JobState(Phase.ENDED, why=reason or "it failed", code=1)
    code = int(pod.end.get("exitCode", 1))
    # A rank that left because another was lost says so in an event, which names that one.
    led = code != ExitCode.RANK_FAILED
    # A pod of a job without MPI that has one rank only has its number.
    is_rank = led and view.slots == 1 and pod.number.isdecimal() and not pod.role
    rank = int(pod.number) if is_rank else None
    place = f"rank {rank} in pod {pod.name}" if is_rank else f"pod {pod.name}"
    why = f"{place} {_how(pod, code)}"
    if words := (view.last_words or {}).get(pod.name, ""):
        why += f": {words}"
    return JobState(
        Phase.ENDED,
        why=why,
        hint=_LOG_HINT,
        code=128 - code if 128 < code < 128 + 65 else code,
        rank=rank,
        host=pod.node if led else "",
    )


def _deadline(view: View, reason: str) -> str:
    """What says that a job had no time left; empty where nothing does. A JobSet says only that a Job failed:
    that Job has the reason.
    """
    inner = _words(_conditions(view.inner or {}).get(_BAD, {}))
    return next((words for words in (reason, inner) if _DEADLINE in words), "")


def _how(pod: Pod, code: int) -> str:
    if reason := pod.status.get("reason"):  # Evicted, NodeLost
        return f"failed: {reason}: {pod.status.get('message', '')}".rstrip(": ")
    reason = str(pod.end.get("reason") or "")
    if reason == "OOMKilled":
        return "was killed: it used more memory than its limit (OOMKilled)"
    if reason in ("StartError", "ContainerCannotRun"):
        return f"could not start: {pod.end.get('message', '')}".rstrip(": ")
    return f"was killed by signal {code - 128}" if 128 < code < 128 + 65 else f"exited with code {code}"


def _first_failure(view: View) -> Pod | None:
    """The first pod that ended badly. An MPI job's workers are ended with it, so they are left out."""
    failed = [
        pod
        for pod in view.pods
        if pod.role != "worker" and (pod.end.get("exitCode") or pod.status.get("reason"))
    ]

    def order(pod: Pod) -> tuple[bool, bool, str]:
        # A pod that Kubernetes ends is marked, and ends later; times have whole seconds only.
        left = pod.end.get("exitCode") == ExitCode.RANK_FAILED
        return pod.is_leaving, left, str(pod.end.get("finishedAt") or "")

    return min(failed, key=order, default=None)


def _pending(view: View, conditions: Mapping[str, Fields]) -> JobState:
    """Why a job has not started: what is hopeless first, then the first thing it waits for."""
    reasons = [_of_event(event) for event in view.events]
    reasons += filter(None, map(_of_pod, view.pods))
    for state in reasons:
        if state.hopeless:
            return state
    if "Suspended" in conditions:
        return JobState(Phase.PENDING, why="suspended: a queue holds it back")
    if reasons:
        return reasons[-1]
    status = view.job.get("status") if view.job is not None else None
    is_ignored = not view.pods and not any((status or {}).values()) and view.waited_s > _IGNORED_SECONDS
    if is_ignored:
        controller = _CONTROLLERS[view.kind]
        return JobState(
            Phase.PENDING,
            why=f"no controller has picked the job up for {_IGNORED_SECONDS:.0f} s",
            hint=f"ask whether {controller} is running",
        )
    return JobState(Phase.PENDING, why="its pods are starting" if view.pods else "")


def _of_event(event: Fields) -> JobState:
    """A Warning about the job itself."""
    reason, message = str(event.get("reason") or ""), str(event.get("message") or "")
    is_refusal = reason == "ValidationError" or bool(_REFUSED.search(message))
    return JobState(
        Phase.PENDING,
        why=without_pod_name(f"{reason}: {message}"),
        hopeless=is_refusal and not MAY_PASS.search(message),
        hint=hint_of(message) if is_refusal else "",
    )


def hint_of(message: str) -> str:
    """What to try where the API server refuses an object in these words."""
    return QUOTA_HINT if "exceeded quota" in message else FORM_HINT


def without_pod_name(message: str) -> str:
    """A refusal without the name that the pod would have had: controllers make another one each time."""
    return _POD_NAME.sub("a pod is forbidden", message)


def _of_pod(pod: Pod) -> JobState | None:
    """What a pod that has not started waits for."""
    name, status = pod.name, pod.status
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = container.get("state", {}).get("waiting") or {}
        reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
        if reason in _IMAGE_TROUBLE:
            never = reason == "InvalidImageName" or bool(_NO_IMAGE.search(message))
            why = f"pod {name}: {reason}: {message}"
            return JobState(Phase.PENDING, why=why, hopeless=never, hint=_IMAGE_HINT)
        if reason not in _STARTING:
            return JobState(Phase.PENDING, why=f"pod {name}: {reason}: {message}".rstrip(": "))
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            words = condition.get("message") or condition.get("reason") or ""
            return JobState(Phase.PENDING, why=f"pod {name}: {words}", hint=_SCHEDULE_HINT)
    return None
