"""What objects, pods and events say. Texts are those of Kubernetes 1.36, MPI Operator 0.8, JobSet 0.12."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.launch.engine import JobState, Phase
from busbw.launch.kubernetes.form import Kind
from busbw.launch.kubernetes.state import View, first_pod, job_state, lost_workers

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


def ended(name: str, code: int, index: int, *, at: str = "", reason: str = "Error") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}
    return pod(name, state, {INDEX: str(index)})


def warning(reason: str, message: str) -> dict[str, str]:
    return {"type": "Warning", "reason": reason, "message": message}


def seen(*pods: Any, job: Any = None, kind: Kind = "job", slots: int = 1, **view: Any) -> JobState:
    return job_state(View(kind, slots, job or work(), pods, **view))


@pytest.mark.parametrize("good", ["Succeeded", "Complete", "Completed"])
def test_good_end(good: str) -> None:
    assert seen(job=work(condition(good))) == JobState(Phase.ENDED, code=0)


def test_gone() -> None:
    assert job_state(View("job", 1, None)).why == "it is no longer on the cluster"


def test_the_first_pod_that_failed_is_named_with_its_last_words() -> None:
    pods = (ended("j-1", 143, 1, at="2026-11-22T10:00:05Z"), ended("j-3", 4, 3, at="2026-11-22T10:00:01Z"))
    state = seen(*pods, job=work(condition("Failed", "BackoffLimitExceeded")), last_words={"j-3": "no GPU"})
    assert state == JobState(
        Phase.ENDED,
        why="rank 3 in pod j-3 exited with code 4: no GPU",
        hint="look at the pods' output in log/ of the run folder",
        code=4,
        rank=3,
        host="node-7",
    )


def test_who_was_told_to_end_is_not_the_first() -> None:
    told = ended("j-0", 143, 0, at="2026-11-22T10:00:01Z")
    told["metadata"]["deletionTimestamp"] = "2026-11-22T10:00:01Z"
    state = seen(told, ended("j-1", 137, 1, at="2026-11-22T10:00:01Z"), job=work(condition("Failed")))
    assert (state.rank, state.code) == (1, -9)
    assert "was killed by signal 9" in state.why


def test_a_rank_that_left_for_another_is_not_blamed() -> None:
    left = ended("j-1", 5, 1, at="2026-11-22T10:00:01Z")
    killed = ended("j-2", 137, 2, at="2026-11-22T10:00:02Z")
    assert seen(left, killed, job=work(condition("Failed"))).rank == 2
    alone = seen(left, job=work(condition("Failed")))
    assert (alone.rank, alone.host, alone.why) == (None, "", "pod j-1 exited with code 5")


def test_a_pod_of_several_ranks_names_none() -> None:
    state = seen(ended("j-1", 5, 1), job=work(condition("Failed")), slots=8)
    assert state.rank is None
    assert state.why == "pod j-1 exited with code 5"


def test_too_much_memory() -> None:
    state = seen(ended("j-1", 137, 1, reason="OOMKilled"), job=work(condition("Failed")))
    assert "used more memory than its limit" in state.why


def test_an_mpi_job_fails_with_its_launcher() -> None:
    worker = pod("w", {"terminated": {"exitCode": 255}}, {ROLE: "worker"})
    launcher = pod("l", {"terminated": {"exitCode": 3, "reason": "Error"}}, {ROLE: "launcher", INDEX: "0"})
    failed = condition("Failed", "BackoffLimitExceeded/", "Job has reached the specified backoff limit: ")
    state = seen(worker, launcher, kind="mpijob", job=work(failed))
    assert state.why == "pod l exited with code 3"
    assert first_pod("mpijob", (worker, launcher)) is launcher


def test_a_failure_without_a_pod_has_the_controllers_words() -> None:
    state = seen(job=work(condition("Failed", "BackoffLimitExceeded/", "Job has reached it")))
    assert state.why == "BackoffLimitExceeded: Job has reached it"


def test_deadline() -> None:
    failed = condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    state = seen(ended("j-0", 143, 0), job=work(failed))
    assert state.why == "DeadlineExceeded: Job was active longer than specified deadline"
    assert state.hint == "give --time-limit more"


def test_an_end_that_is_coming_is_not_the_end() -> None:
    running = pod("j-0", {"running": {}}, {INDEX: "0"})
    assert seen(running, job=work(condition("FailureTarget"))).phase is Phase.RUNNING


def test_running_is_when_all_pods_run() -> None:
    """A rank that waits for another, whose pod cannot be made, would wait long."""
    first, other = pod("j-0", {"running": {}}, {INDEX: "0"}), pod("j-1", {"waiting": {}}, {INDEX: "1"})
    job = {**work(), "spec": {"completions": 2}}
    assert seen(first, job=job).phase is Phase.PENDING
    assert seen(first, other, job=job).phase is Phase.PENDING
    done = pod("j-1", {"terminated": {"exitCode": 0}}, {INDEX: "1"})
    assert seen(first, done, job=job).phase is Phase.RUNNING
    group = {**work(), "spec": {"replicatedJobs": [{"template": {"spec": {"completions": 2}}}]}}
    assert seen(first, job=group, kind="jobset").phase is Phase.PENDING
    assert seen(first, done, job=group, kind="jobset").phase is Phase.RUNNING


def test_an_mpi_job_runs_with_its_launcher() -> None:
    worker, launcher = (
        pod("w", {"running": {}}, {ROLE: "worker"}),
        pod("l", {"running": {}}, {ROLE: "launcher"}),
    )
    assert seen(worker, kind="mpijob").phase is Phase.PENDING
    assert seen(worker, launcher, kind="mpijob").phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("reason", "message", "hopeless"),
    [
        ("ErrImagePull", 'failed to resolve reference "x": x: not found', True),
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


@pytest.mark.parametrize(
    ("message", "is_final", "hint"),
    [
        ("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2", False, "ask for less"),
        ("status unknown for quota: q, resources: pods", False, "--set"),
        ('error looking up service account n/default: serviceaccount "default" not found', False, "--set"),
        ('error looking up service account n/nope: serviceaccount "nope" not found', True, "--set"),
        ("failed quota: q: must specify limits.memory for: rank", True, "--set"),
        ("maximum memory usage per Container is 1Gi, but limit is 2Gi", True, "--set"),
        ("no PriorityClass with name nope was found", True, "--set"),
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
    state = seen(events=[warning(reason, message), {"type": "Normal", "reason": "x"}])
    assert state.hopeless is is_final
    assert state.why == f"{reason}: {message}"
    assert state.hint == ("correct what it names with --set or --patch" if is_final else "")


def test_held_back_by_a_queue() -> None:
    assert seen(job=work(condition("Suspended"))).why == "suspended: a queue holds it back"


def test_a_job_that_nobody_takes_up_says_whom_to_ask_for() -> None:
    assert seen(kind="mpijob", waited_s=5.0) == JobState(Phase.PENDING)
    state = seen(kind="mpijob", waited_s=16.0)
    assert (state.phase, state.hopeless) == (Phase.PENDING, False)
    assert state.why == "no controller has picked the job up for 15 s"
    assert state.hint == "ask whether the MPI Operator is running"
    taken = {"status": {"conditions": [condition("Created")]}}
    assert seen(kind="mpijob", job=taken, waited_s=16.0).why == ""


def test_the_deadline_of_a_job_in_a_job_set_is_told_by_that_job() -> None:
    """Its event may come after the JobSet is marked."""
    inner = work(condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"))
    state = seen(kind="jobset", job=work(condition("Failed", "FailedJobs", "jobset failed")), inner=inner)
    assert state.out_of_time
    assert state.why == "DeadlineExceeded: Job was active longer than specified deadline"


def test_a_worker_that_was_deleted_is_the_cause() -> None:
    launcher = pod("l", {"running": {}}, {ROLE: "launcher", INDEX: "0"})
    workers = [pod(name, {"running": {}}, {ROLE: "worker"}) for name in ("w-0", "w-1")]
    for number, each in enumerate((launcher, *workers)):
        each["metadata"]["uid"] = str(number)
    before = (launcher, *workers)
    assert lost_workers(before, "mpijob", before) == []
    anew = {**workers[1], "metadata": {**workers[1]["metadata"], "uid": "9"}}
    (lost,) = lost_workers(before, "mpijob", (launcher, workers[0], anew))
    assert lost is workers[1]
    over = {**launcher, "status": {"containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}}
    assert lost_workers(before, "mpijob", (over,)) == []  # the operator's own doing
    assert lost_workers(before, "mpijob", (over, workers[0], anew)) == [workers[1]]
    failed = work(condition("Failed", "BackoffLimitExceeded/", "limit"))
    ended_badly = pod("l", {"terminated": {"exitCode": 255}}, {ROLE: "launcher", INDEX: "0"})
    state = seen(ended_badly, kind="mpijob", job=failed, lost=[lost])
    assert state.why == "pod w-1 was deleted while its ranks ran"
