"""What objects, pods and events say. Texts are those of Kubernetes 1.36, MPI Operator 0.8, JobSet 0.12."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.launch.engine import JobState, Phase
from busbw.launch.kubernetes.form import Kind
from busbw.launch.kubernetes.state import View, job_state, lost_workers, read_pod

INDEX = "batch.kubernetes.io/job-completion-index"
ROLE = "training.kubeflow.org/job-role"


def condition(kind: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


def work(*conditions: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "j"}, "status": {"conditions": list(conditions)}}


def pod(name: str, state: dict[str, Any], labels: dict[str, str], **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": "node-7", "containers": [{"name": "rank"}]},
        "status": {"containerStatuses": [{"name": "rank", "state": state}], **status},
    }


def ended(
    code: int, index: int, *, at: int = 0, reason: str = "Error", role: str = "", **metadata: str
) -> dict[str, Any]:
    """A pod that ended ``at`` a second; an MPI job's has a ``role``."""
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": f"2026-11-22T10:00:0{at}Z"}}
    found = pod(f"j-{index}", state, {INDEX: str(index), **({ROLE: role} if role else {})})
    found["metadata"].update(metadata)
    return found


def warning(reason: str, message: str) -> dict[str, str]:
    return {"type": "Warning", "reason": reason, "message": message}


def seen(*pods: Any, job: Any = None, kind: Kind = "job", slots: int = 1, **view: Any) -> JobState:
    return job_state(View(kind, slots, job or work(), [read_pod(each) for each in pods], **view))


@pytest.mark.parametrize("good", ["Succeeded", "Complete", "Completed"])
def test_good_end(good: str) -> None:
    assert seen(job=work(condition(good))) == JobState(Phase.ENDED, code=0)


def test_gone() -> None:
    assert job_state(View("job", 1, None)).why == "it is no longer on the cluster"


LATE = condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
# A job set's own word; the event of its job may come later.
INNER_LATE = {"kind": "jobset", "inner": work(LATE), "job": work(condition("Failed", "FailedJobs", "x"))}
OUT_OF_TIME = {
    "why": "DeadlineExceeded: Job was active longer than specified deadline",
    "hint": "give --time-limit more",
    "out_of_time": True,
    "code": None,  # its pods were ended by it
}


@pytest.mark.parametrize(
    ("pods", "view", "found"),
    [
        (
            (ended(143, 1, at=5), ended(4, 3, at=1)),
            {"last_words": {"j-3": "no GPU"}},
            {"why": "rank 3 in pod j-3 exited with code 4: no GPU", "code": 4, "rank": 3, "host": "node-7"},
        ),
        # One that was told to end is not the first.
        (
            (ended(143, 0, at=1, deletionTimestamp="2026-11-22T10:00:01Z"), ended(137, 1, at=1)),
            {},
            {"why": "rank 1 in pod j-1 was killed by signal 9", "code": -9, "rank": 1},
        ),
        # A rank that left for another is not blamed.
        ((ended(5, 1, at=1), ended(137, 2, at=2)), {}, {"rank": 2}),
        ((ended(5, 1),), {}, {"why": "pod j-1 exited with code 5", "rank": None, "host": ""}),
        ((ended(3, 1),), {"slots": 8}, {"why": "pod j-1 exited with code 3", "rank": None}),
        (
            (ended(137, 1, reason="OOMKilled"),),
            {},
            {"why": "rank 1 in pod j-1 was killed: it used more memory than its limit (OOMKilled)"},
        ),
        # An MPI job fails with its launcher.
        (
            (ended(255, 1, role="worker"), ended(3, 0, role="launcher")),
            {"kind": "mpijob"},
            {"why": "pod j-0 exited with code 3"},
        ),
        ((), {}, {"why": "BackoffLimitExceeded: Job has reached it", "code": 1}),
        ((ended(143, 0),), {"job": work(LATE)}, OUT_OF_TIME),
        ((), INNER_LATE, OUT_OF_TIME),
    ],
)
def test_a_failure(pods: tuple[Any, ...], view: dict[str, Any], found: dict[str, Any]) -> None:
    failed = work(condition("Failed", "BackoffLimitExceeded/", "Job has reached it"))
    state = seen(*pods, **{"job": failed, **view})
    assert state.phase is Phase.ENDED
    assert {name: getattr(state, name) for name in found} == found


def test_running_is_when_all_pods_run() -> None:
    """A rank that waits for another, whose pod cannot be made, would wait long."""
    first, other = pod("j-0", {"running": {}}, {INDEX: "0"}), pod("j-1", {"waiting": {}}, {INDEX: "1"})
    job = {**work(), "spec": {"completions": 2}}
    assert seen(first, job=job).phase is Phase.PENDING
    assert seen(first, other, job=job).phase is Phase.PENDING
    done = pod("j-1", {"terminated": {"exitCode": 0}}, {INDEX: "1"})
    assert seen(first, done, job=job).phase is Phase.RUNNING
    assert seen(first, done, job={**job, **work(condition("FailureTarget"))}).phase is Phase.RUNNING
    group = {**work(), "spec": {"replicatedJobs": [{"template": {"spec": {"completions": 2}}}]}}
    assert seen(first, job=group, kind="jobset").phase is Phase.PENDING
    assert seen(first, done, job=group, kind="jobset").phase is Phase.RUNNING
    worker, launcher = (pod(role, {"running": {}}, {ROLE: role}) for role in ("worker", "launcher"))
    assert seen(worker, kind="mpijob").phase is Phase.PENDING
    assert seen(worker, launcher, kind="mpijob").phase is Phase.RUNNING
    assert seen(job=work(condition("Suspended"))).why == "suspended: a queue holds it back"


@pytest.mark.parametrize(
    ("reason", "message", "hopeless"),
    [
        ("ErrImagePull", "pull access denied, repository does not exist or may require authorization", True),
        ("InvalidImageName", "couldn't parse image name", True),
        ("ErrImagePull", "dial tcp: i/o timeout", False),
        ("ImagePullBackOff", 'Back-off pulling image "x"', False),
    ],
)
def test_image(reason: str, message: str, hopeless: bool) -> None:
    state = seen(pod("j-0", {"waiting": {"reason": reason, "message": message}}, {INDEX: "0"}))
    assert state.hopeless is hopeless
    assert state.why == f"pod j-0: {reason}: {message}"
    assert "--image" in state.hint


def test_no_node() -> None:
    waits = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
    }
    state = seen(pod("j-0", {}, {INDEX: "0"}, conditions=[waits]))
    assert not state.hopeless  # a node may come
    assert state.why == "pod j-0: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    assert "ask for less" in state.hint


@pytest.mark.parametrize(
    ("message", "is_final", "hint"),
    [
        ("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2", False, "ask for less"),
        ("status unknown for quota: q, resources: pods", False, "--set"),
        ('error looking up service account n/default: serviceaccount "default" not found', False, "--set"),
        ("failed quota: q: must specify limits.memory for: rank", True, "--set"),
        ("maximum memory usage per Container is 1Gi, but limit is 2Gi", True, "--set"),
    ],
)
def test_a_pod_that_is_forbidden(message: str, is_final: bool, hint: str) -> None:
    """Controllers make another name for it each time."""
    texts = (f'Error creating: pods "j-0-{name}" is forbidden: {message}' for name in ("x7k2p", "9sdf3"))
    first, second = (seen(events=[warning("FailedCreate", text)]) for text in texts)
    assert first == second
    assert (first.phase, first.hopeless) == (Phase.PENDING, is_final)
    assert first.why == f"FailedCreate: Error creating: a pod is forbidden: {message}"
    assert hint in first.hint


@pytest.mark.parametrize(
    ("reason", "message", "is_final"),
    [
        ("ValidationError", "Found validation errors: x", True),
        ("FailedCreate", 'Error creating: Pod "j-0" is invalid: spec.nodeSelector: x', True),
        ("FailedCreate", 'admission webhook "a.b" denied the request: no', True),
        ("FailedCreate", "connection refused", False),
    ],
)
def test_other_warnings(reason: str, message: str, is_final: bool) -> None:
    state = seen(events=[warning(reason, message)])
    assert state.hopeless is is_final
    assert state.why == f"{reason}: {message}"
    assert state.hint == ("correct what it names with --set or --patch" if is_final else "")


def test_a_job_that_nobody_takes_up_says_whom_to_ask_for() -> None:
    assert seen(kind="mpijob", waited_s=5.0) == JobState(Phase.PENDING)
    state = seen(kind="mpijob", waited_s=16.0)
    assert (state.phase, state.hopeless) == (Phase.PENDING, False)
    assert state.why == "no controller has picked the job up for 15 s"
    assert state.hint == "ask whether the MPI Operator is running"
    taken = {"status": {"conditions": [condition("Created")]}}
    assert seen(kind="mpijob", job=taken, waited_s=16.0).why == ""


def test_a_worker_that_was_deleted_is_the_cause() -> None:
    launcher = pod("l", {"running": {}}, {ROLE: "launcher", INDEX: "0"})
    workers = [pod(name, {"running": {}}, {ROLE: "worker"}) for name in ("w-0", "w-1")]
    for number, each in enumerate((launcher, *workers)):
        each["metadata"]["uid"] = str(number)
    before = [read_pod(each) for each in (launcher, *workers)]
    assert lost_workers(before, "mpijob", before) == []
    anew = {**workers[1], "metadata": {**workers[1]["metadata"], "uid": "9"}}
    first, kept, made = map(read_pod, (launcher, workers[0], anew))
    (lost,) = lost_workers(before, "mpijob", (first, kept, made))
    assert lost is before[2]
    over = read_pod(
        {**launcher, "status": {"containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}}
    )
    assert lost_workers(before, "mpijob", (over,)) == []  # the operator's own doing
    assert lost_workers(before, "mpijob", (over, kept, made)) == [before[2]]
    failed = work(condition("Failed", "BackoffLimitExceeded/", "limit"))
    ended_badly = pod("l", {"terminated": {"exitCode": 255}}, {ROLE: "launcher", INDEX: "0"})
    state = seen(ended_badly, kind="mpijob", job=failed, lost=[lost])
    assert state.why == "pod w-1 was deleted while its ranks ran"
