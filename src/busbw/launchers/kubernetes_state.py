"""What a job's objects, pods and events say about how far it is and why. Pure: JSON in, JobState out.

Several mistakes show in events alone: the objects are accepted, and nothing ever starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from busbw.errors import ExitCode
from busbw.launchers.engine import JobState, Phase
from busbw.launchers.kubernetes_form import Kind

Fields = Mapping[str, Any]

# The condition that says how a job ended.
_GOOD: Final = ("Succeeded", "Complete", "Completed")
_BAD: Final = "Failed"
_WILL_FAIL: Final = "FailureTarget"  # of a Job whose pods are being ended
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
_QUOTA: Final = re.compile(r"exceeded quota: \S+, requested: (.*?), used: (.*?), limited: (.*)")
_SUFFIXES: Final = {
    "": 1.0,
    "m": 1e-3,
    "k": 1e3,
    **{letter: 1e3 ** (power + 1) for power, letter in enumerate("KMGTPE")},
    **{f"{letter}i": 2.0 ** (10 * (power + 1)) for power, letter in enumerate("KMGTPE")},
}
# Events that name what no waiting changes.
_INVALID: Final = re.compile(
    r"is invalid|violates PodSecurity|admission webhook|Invalid value", re.IGNORECASE
)
# The same, of pods that are forbidden, with what to try. A namespace's own service account may come a moment
# after it.
_FORBIDDEN: Final[Mapping[re.Pattern[str], str]] = {
    re.compile(
        r"no PriorityClass with name"
    ): "give --set priority-class one of `kubectl get priorityclasses`",
    re.compile(r'RuntimeClass "[^"]*" not found'): (
        "give --set runtime-class one of `kubectl get runtimeclasses`"
    ),
    re.compile(r'serviceaccount "(?!default")[^"]*" not found'): (
        "give --set service-account one of `kubectl get serviceaccounts`, or create it"
    ),
    re.compile(r"(maximum|minimum) \S+ usage per|limit to request ratio per"): (
        "ask for what the namespace's LimitRange allows (`kubectl describe limitrange`), as --set memory=4Gi"
    ),
}
# Who makes a job's pods; a job that nobody has marked after this long was not seen.
_CONTROLLERS: Final[Mapping[Kind, str]] = {
    "mpijob": "the MPI Operator",
    "jobset": "the JobSet controller",
    "job": "the cluster's controller manager",
}
_IGNORED_SECONDS: Final = 15.0
# In an event of quota, the name that a pod would have had.
_POD_NAME: Final = re.compile(r'pods "[^"]*" is forbidden')
_IMAGE_HINT: Final = "check --image, and that the cluster may pull it (--set pull-secret=NAME)"
_QUOTA_HINT: Final = "ask for less (-N, --set gpu=COUNT), wait with --wait, or give another --namespace"
_SCHEDULE_HINT: Final = "ask for less (-N, --set gpu=COUNT), or for other nodes (--set instance-type=TYPE)"
_FORM_HINT: Final = "correct what it names with --set"
_LOG_HINT: Final = "look at the pods' output in log/ of the run folder"


@dataclass(frozen=True)
class View:
    """One look at a job. ``job`` is None where it is gone; ``last_words`` a pod's last line, by pod;
    ``waited_s`` for how long it has been looked at; ``inner`` the Job that a failed JobSet's controller made;
    ``lost`` workers, deleted while their launcher ran.
    """

    kind: Kind
    slots: int
    job: Fields | None
    pods: Sequence[Fields] = ()
    events: Sequence[Fields] = ()
    last_words: Mapping[str, str] | None = None
    waited_s: float = 0.0
    inner: Fields | None = None
    lost: Sequence[Fields] = ()


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
    if view.kind == "jobset" and view.job.get("status", {}).get("terminalState") == "Failed":
        return _failed(view, {})
    if is_running(view.kind, view.job, view.pods):
        return JobState(Phase.RUNNING)
    return _pending(view, conditions)


def is_running(kind: Kind, job: Fields, pods: Sequence[Fields]) -> bool:
    """Whether all ranks can take part: the launcher runs, which waits for its workers, or every pod does."""
    first = first_pod(kind, pods)
    if kind == "mpijob" or first is None:
        return first is not None and has_started(first)
    spec = job.get("spec", {})
    if kind == "jobset":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    return sum(has_started(pod) for pod in pods) >= int(spec.get("completions") or 1)


def has_no_time(job: Fields) -> bool:
    """Whether its time limit came, though its pods may not all have ended yet."""
    found = _conditions(job)
    return any(found.get(name, {}).get("reason") == _DEADLINE for name in (_BAD, _WILL_FAIL))


def has_failed(job: Fields) -> bool:
    """Whether its controller says that it failed."""
    return _BAD in _conditions(job)


def first_pod(kind: Kind, pods: Sequence[Fields]) -> Fields | None:
    """The pod whose output has rank 0's events: the launcher's, or number 0."""
    for pod in pods:
        marks = {**pod["metadata"].get("annotations", {}), **pod["metadata"].get("labels", {})}
        if (marks.get(_MPI_ROLE) == "launcher") if kind == "mpijob" else (marks.get(_INDEX) == "0"):
            return pod
    return None


def is_worker(pod: Fields) -> bool:
    """Whether a pod only waits for a launcher to come in; its output is sshd's."""
    return bool(pod["metadata"].get("labels", {}).get(_MPI_ROLE) == "worker")


def lost_workers(before: Sequence[Fields], kind: Kind, pods: Sequence[Fields]) -> list[Fields]:
    """Workers of an earlier look that are gone, or going, while their launcher still runs, or that the
    operator has made anew: it does neither at the end of a job.
    """
    launcher = first_pod(kind, pods)
    is_over = launcher is None or has_ended(launcher) or "deletionTimestamp" in launcher["metadata"]
    there = {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    names = {name_of(pod) for pod in pods if pod["metadata"]["uid"] in there}
    gone = [pod for pod in before if is_worker(pod) and pod["metadata"]["uid"] not in there]
    return [pod for pod in gone if not is_over or name_of(pod) in names]


def number_of(pod: Fields) -> int | None:
    """A pod's number in a job without MPI."""
    marks = {**pod["metadata"].get("annotations", {}), **pod["metadata"].get("labels", {})}
    index = str(marks.get(_INDEX, ""))
    return int(index) if index.isdecimal() and _MPI_ROLE not in marks else None


def was_wanted_away(pod: Fields) -> bool:
    """Whether somebody else ended a pod: deleted it, or shut its node down, or gave it to others. A node
    that was short of something (Evicted) may have been so for what the pod did.
    """
    is_disrupted = "DisruptionTarget" in _conditions(pod)
    is_evicted = pod.get("status", {}).get("reason") == "Evicted"
    return "deletionTimestamp" in pod["metadata"] or (is_disrupted and not is_evicted)


def name_of(item: Fields) -> str:
    """An object's name."""
    return str(item["metadata"]["name"])


def container_of(pod: Fields) -> str:
    """The name of a pod's container."""
    return str(pod["spec"]["containers"][0]["name"])


def has_started(pod: Fields) -> bool:
    """Whether its container runs or ran, so that it has a log."""
    return bool({"running", "terminated"} & set(_container_state(pod)))


def has_ended(pod: Fields) -> bool:
    """Whether its container will print no more."""
    return "terminated" in _container_state(pod)


def _container_state(pod: Fields) -> Fields:
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    return dict(statuses[0].get("state") or {})


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
    if late := _deadline(view, reason):  # its pods were told to end, and tell no more than that
        return JobState(Phase.ENDED, why=late, hint="give --time-limit more", out_of_time=True)
    if view.lost:
        lost = view.lost[0]
        why = f"pod {name_of(lost)} was deleted while its ranks ran"
        hint = "ask who or what deleted it: an eviction, the drain of its node, or a person"
        return JobState(Phase.ENDED, why=why, hint=hint, host=str(lost["spec"].get("nodeName") or ""))
    pod = _first_failure(view)
    if pod is None:
        return JobState(Phase.ENDED, why=reason or "it failed", code=1)
    name, ended = name_of(pod), _container_state(pod).get("terminated", {})
    code = int(ended.get("exitCode", 1))
    # A rank that left because another was lost says so in an event, which names that one.
    led = code != ExitCode.RANK_FAILED
    rank = _rank(pod, view.slots) if led else None
    who = f"rank {rank} in pod {name}" if rank is not None else f"pod {name}"
    why = f"{who} {_how(pod, ended, code)}"
    if words := (view.last_words or {}).get(name, ""):
        why += f": {words}"
    return JobState(
        Phase.ENDED,
        why=why,
        hint=_LOG_HINT,
        code=128 - code if 128 < code < 128 + 65 else code,
        rank=rank,
        host=str(pod["spec"].get("nodeName") or "") if led else "",
    )


def _deadline(view: View, reason: str) -> str:
    """What says that a job had no time left; empty where nothing does. A JobSet says only that a Job failed:
    that Job has the reason, and where it may not be read its event, which may come late or never.
    """
    inner = _conditions(view.inner or {}).get(_BAD, {})
    late = (event for event in view.events if event.get("reason") == _DEADLINE)
    return next((words for words in (reason, _words(inner), *map(_words, late)) if _DEADLINE in words), "")


def _how(pod: Fields, ended: Fields, code: int) -> str:
    if reason := pod.get("status", {}).get("reason"):  # Evicted, NodeLost
        return f"failed: {reason}: {pod['status'].get('message', '')}".rstrip(": ")
    reason = str(ended.get("reason") or "")
    if reason == "OOMKilled":
        return "was killed: it used more memory than its limit (OOMKilled)"
    if reason in ("StartError", "ContainerCannotRun"):
        return f"could not start: {ended.get('message', '')}".rstrip(": ")
    return f"was killed by signal {code - 128}" if 128 < code < 128 + 65 else f"exited with code {code}"


def _first_failure(view: View) -> Fields | None:
    """Of the pods that ended badly the first. An MPI job's workers are ended with it and tell nothing."""
    failed = [
        pod
        for pod in view.pods
        if not is_worker(pod)
        and (_container_state(pod).get("terminated", {}).get("exitCode") or pod["status"].get("reason"))
    ]
    # Who is told to end, ends later, and is marked; times have whole seconds only.
    return min(
        failed,
        key=lambda pod: (
            "deletionTimestamp" in pod["metadata"],
            _container_state(pod).get("terminated", {}).get("exitCode") == ExitCode.RANK_FAILED,
            str(_container_state(pod).get("terminated", {}).get("finishedAt") or ""),
        ),
        default=None,
    )


def _rank(pod: Fields, slots: int) -> int | None:
    """The rank in a pod, where it has one only."""
    return number_of(pod) if slots == 1 else None


def _pending(view: View, conditions: Mapping[str, Fields]) -> JobState:
    """Why a job has not started: what is hopeless first, then the first thing it waits for."""
    found = [*(_of_event(event) for event in view.events), *(_of_pod(pod) for pod in view.pods)]
    reasons = [state for state in found if state is not None]
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
            why=f"nobody has taken the job up for {_IGNORED_SECONDS:.0f} s",
            hint=f"ask whether {controller} is running",
        )
    return JobState(Phase.PENDING, why="its pods start" if view.pods else "")


def _of_event(event: Fields) -> JobState | None:
    """A Warning about the job itself."""
    if event.get("type") != "Warning":
        return None
    reason, message = str(event.get("reason") or ""), str(event.get("message") or "")
    why = _POD_NAME.sub("a pod is forbidden", f"{reason}: {message}")
    if quota := _QUOTA.search(message):
        asked, _, limit = (_quantities(text) for text in quota.groups())
        never = any(asked[name] > limit[name] for name in asked.keys() & limit.keys())
        return JobState(Phase.PENDING, why=why, hopeless=never, hint=_QUOTA_HINT)
    if reason == "ValidationError" or _INVALID.search(message):
        return JobState(Phase.PENDING, why=why, hopeless=True, hint=_FORM_HINT)
    for known, hint in _FORBIDDEN.items():
        if known.search(message):
            return JobState(Phase.PENDING, why=why, hopeless=True, hint=hint)
    return JobState(Phase.PENDING, why=why)


def _quantities(text: str) -> Mapping[str, float]:
    """``pods=3,memory=2Gi`` as numbers."""
    found = {}
    for word in text.split(","):
        name, _, quantity = word.strip().rpartition("=")
        match = re.fullmatch(r"([\d.]+)([A-Za-z]{0,2})", quantity)
        if match and match[2] in _SUFFIXES:
            found[name] = float(match[1]) * _SUFFIXES[match[2]]
    return found


def _of_pod(pod: Fields) -> JobState | None:
    """What a pod that has not started waits for."""
    name, status = name_of(pod), pod.get("status", {})
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
