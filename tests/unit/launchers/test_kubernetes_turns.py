"""Launches in turn on Kubernetes: one manifest for all, and each launch's own part of the pods' output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.golden import is_golden

pytest.importorskip("kubernetes")

from busbw.errors import UsageError
from busbw.launchers import in_turn, kubernetes, kubernetes_turns
from busbw.launchers.engine import TURN, Handle, Item, Job, JobRequest, JobState, Output, Phase, Work
from busbw.launchers.in_turn import End, Mark, Plan, command, environment, read_mark
from busbw.launchers.kubernetes_manifest import JOB_FILE, unescaped
from busbw.launchers.kubernetes_state import View
from busbw.launchers.kubernetes_turns import TurnFollower, join, of_turn
from busbw.launchers.kubernetes_yaml import from_yaml
from busbw.model.event import EventKind, encode, event
from busbw.settings.launch import LaunchSettings

GOLDEN = Path(__file__).parent / "golden" / "kubernetes"
STRANGE = "a  b'c\"d $(PATH) $$ $HOME `id` \\ ;\nsecond line"
FACTS = {"namespace": "team", "token": "t", "bundle": "b"}
FILLED = "what the cluster fills in"
KINDS = {
    "job": {"mpi": "none"},
    "job-slots": {"mpi": "none", "ranks_per_node": 4, "bring": True},
    "jobset": {"mpi": "none", "set": ("kind=jobset",)},
    "mpich": {"mpi": "mpich", "ranks_per_node": 2},
    "openmpi": {"mpi": "openmpi", "bring": True, "mpirun_args": "--mca pml ^ucx"},
}
SETUPS: Mapping[str, tuple[dict[str, str], dict[str, str]]] = {
    "plain": ({}, {}),
    "strange": ({"A": STRANGE, "PYTHONPATH": "/own", "BUSBW_TOKEN": "mine"}, {}),
    "before": ({"PATH": "/bin", "B": "$(C)"}, {"LD_LIBRARY_PATH": "/opt/$x y"}),
}
ORDER = [("strange", "/runs/s/launches/0001"), ("plain", "/runs/s/launches/0002")]
ORDER += [("before", "/runs/s/launches/0003"), ("strange", "/runs/s/launches/0004")]


def request(setup: str, folder: str = ORDER[0][1], **flags: Any) -> JobRequest:
    environ, prepend = SETUPS[setup]
    launch = LaunchSettings(on="kubernetes", **{"nodes": "2", "image": "registry/busbw:1", **flags})
    words = ("run", "all_reduce", "--format=jsonl", f"--deliver={folder}")
    job = Job("20261122-101500-setups-3f9an2", folder, Work(words), launch, environ, prepend=prepend)
    return kubernetes.request(job, FACTS)


def joined(kind: str) -> JobRequest:
    return join({name: request(name, **KINDS[kind]) for name in SETUPS}, ORDER, 600.0)


def objects(made: JobRequest) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A request's objects, and the container that starts the ranks."""
    found = from_yaml(made.files[JOB_FILE])
    spec = found[-1]["spec"]
    if "mpiReplicaSpecs" in spec:
        template = spec["mpiReplicaSpecs"]["Launcher"]["template"]
    elif "replicatedJobs" in spec:
        template = spec["replicatedJobs"][0]["template"]["spec"]["template"]
    else:
        template = spec["template"]
    return found, template["spec"]["containers"][0]


def seen_in(container: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, str]]:
    """What a container executes and gets, as Kubernetes makes it: of two of a name the last one counts."""
    words = [*container["command"], *container.get("args", ())]
    environ = {}
    for entry in container["env"]:
        environ[entry["name"]] = unescaped(entry["value"]) if "value" in entry else FILLED
    return tuple(map(unescaped, words)), environ


@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_has_what_a_job_of_its_own_would_have(kind: str) -> None:
    _, container = objects(joined(kind))
    words, pod = seen_in(container)
    assert words == ("python3", "-m", in_turn.__name__)
    plan = Plan.from_json(pod[in_turn.VARIABLE])
    image = {"PATH": "/usr/bin", "A": "of the image", "LC_ALL": "C"}
    for number, (setup, folder) in enumerate(ORDER):
        _, alone = objects(request(setup, folder, **KINDS[kind]))
        argv, environ = seen_in(alone)
        got = environment(plan, number, image | pod)
        if "BUSBW_TOKEN" in environ and environ["BUSBW_TOKEN"] == FILLED:
            assert got.pop("BUSBW_TOKEN") == f"{FILLED}-{number}"
            environ.pop("BUSBW_TOKEN")
        assert got == image | environ
        assert command(plan, number) == argv


@pytest.mark.parametrize("kind", KINDS)
def test_all_else_is_as_in_a_job_of_its_own(kind: str) -> None:
    (alone, one), (together, container) = objects(request("plain", **KINDS[kind])), objects(joined(kind))
    for each in (one, container):
        for name in ("command", "args", "env"):
            each.pop(name, None)
    assert together == alone
    assert joined(kind).details == request("plain", **KINDS[kind]).details


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_says_who_meets_where(kind: str) -> None:
    _, container = objects(joined(kind))
    plan = Plan.from_json(seen_in(container)[1][in_turn.VARIABLE])
    is_mpi = kind in ("mpich", "openmpi")
    assert plan.pods == (1 if is_mpi else 2)
    assert plan.limit_seconds == 600.0
    if not is_mpi:
        assert plan.root == seen_in(objects(request("plain", **KINDS[kind]))[1])[1]["BUSBW_ROOT"]


def test_whole_manifest() -> None:
    is_golden(joined("job").files[JOB_FILE], GOLDEN / "turns.yaml")


def test_requests_of_other_jobs_are_refused() -> None:
    requests = {"plain": request("plain", mpi="none"), "more": request("plain", mpi="none", nodes="3")}
    with pytest.raises(UsageError, match="setup more needs another job than setup plain"):
        join(requests, [("plain", "/0001")], None)


def test_a_plan_that_no_pod_takes_is_refused() -> None:
    with pytest.raises(UsageError, match="the plan of 4000 launches has"):
        join({"plain": request("plain", mpi="none")}, [("plain", "/runs/0001")] * 4000, None)


# ---- following


def mark(turn: int, what: str, lost: tuple[int, ...] = (), **ends: tuple[int, float, bool]) -> str:
    """A line of it; ends by pod as ``p0=(code, seconds, late)``."""
    told = {pod[1:]: {"code": end[0], "seconds": end[1], "late": end[2]} for pod, end in ends.items()}
    return encode(event(EventKind.TURN, turn=turn, what=what, ends=told, lost=lost))


def test_a_mark_is_read() -> None:
    line = mark(3, "end", (2,), p0=(5, 1.5, False))
    assert read_mark(f"0: {line}") == Mark(3, "end", {0: End(5, 1.5)}, (2,))
    assert read_mark(encode(event(EventKind.CASE, result={}))) is None
    assert read_mark("plain") is None


class Stream:
    """A pod's log that a test writes."""

    def __init__(self, api: Any, pod: str, container: str, take: Any, is_over: Any) -> None:
        self.pod, self.take, self.is_over = pod, take, is_over
        self.error, self.left = None, False

    def start(self) -> None:
        ALL[self.pod] = self

    def is_alive(self) -> bool:
        return not self.left and not self.is_over()

    @property
    def unread(self) -> bool:
        return False

    def leave(self) -> None:
        self.left = True


ALL: dict[str, Stream] = {}


def pod_object(number: int, code: int | None = None) -> dict[str, Any]:
    state = {"running": {}} if code is None else {"terminated": {"exitCode": code, "finishedAt": "1"}}
    return {
        "metadata": {
            "name": f"j-{number}",
            "uid": str(number),
            "labels": {"batch.kubernetes.io/job-completion-index": str(number)},
        },
        "spec": {"nodeName": f"node-{number}", "containers": [{"name": "rank"}]},
        "status": {"containerStatuses": [{"name": "rank", "state": state}]},
    }


class Submitted:
    """A job of two pods with a rank each."""

    kind, slots, name, api = "job", 1, "j", None

    def __init__(self) -> None:
        self.job: dict[str, Any] | None = {"metadata": {"name": "j"}, "spec": {"completions": 2}}
        self.pods = [pod_object(0), pod_object(1)]

    def look(self, last_words: Mapping[str, str] | None = None, *, waited_s: float = 0.0) -> View:
        return View("job", 1, self.job, self.pods, (), last_words, waited_s)

    def fail(self, number: int, code: int) -> None:
        self.pods[number] = pod_object(number, code)
        self.job = {
            "metadata": {"name": "j"},
            "status": {"conditions": [{"type": "Failed", "status": "True"}]},
        }


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Submitted:
    monkeypatch.setattr(kubernetes_turns, "LogStream", Stream)
    ALL.clear()
    return Submitted()


def turn(number: int) -> Handle:
    return Handle("kubernetes", "team/j", "j", {TURN: str(number)})


def say(pod: int, *lines: str) -> None:
    for line in lines:
        ALL[f"j-{pod}"].take(line)


class Followed:
    """A turn as it is followed, up to what a test waits for."""

    def __init__(self, follower: TurnFollower, number: int, folder: Path) -> None:
        self._items = follower.follow_turn(turn(number), folder)
        self.lines: list[str] = []
        self.states: list[JobState] = []

    def until(self, wanted: JobState | str) -> Followed:
        """Take items up to this state or line."""
        for item in self._items:
            self._take(item)
            if wanted in (item, getattr(item, "text", None)):
                return self
        raise AssertionError(f"{wanted} did not come: {self.lines}, {self.states}")

    def end(self) -> Followed:
        """Take the rest."""
        for item in self._items:
            self._take(item)
        assert self.states[-1].phase is Phase.ENDED
        return self

    def _take(self, item: Item) -> None:
        if isinstance(item, Output):
            self.lines.append(f"{item.source} {item.text}")
        elif isinstance(item, JobState):
            self.states.append(item)


RUNNING = JobState(Phase.RUNNING)
GOOD = JobState(Phase.ENDED, code=0)


def started(job: Submitted, tmp_path: Path) -> tuple[TurnFollower, Followed]:
    follower = TurnFollower(job)  # type: ignore[arg-type]
    first = Followed(follower, 0, tmp_path / "0")
    (tmp_path / "0").mkdir()
    next_item = next(first._items)
    while not ALL:
        next_item = next(first._items)
    assert next_item is None or isinstance(next_item, JobState)
    return follower, first


def test_each_turn_gets_its_own_lines_of_every_pod(job: Submitted, tmp_path: Path) -> None:
    follower, first = started(job, tmp_path)
    say(0, "before", mark(0, "begin"), "a0")
    say(1, mark(0, "begin"), "b0")
    first.until("b0")
    # Pod 0 is done and ahead, by the order in which its lines come, while pod 1's come late.
    end = mark(0, "end", p0=(0, 1.0, False), p1=(0, 1.0, False))
    say(0, "a0 last", end, mark(1, "begin"), "a1")
    say(1, "b0 last", mark(0, "end", p1=(0, 1.0, False)), mark(1, "begin"), "b1")
    first.end()
    assert first.lines == ["j-0 before", "j-0 a0", "j-1 b0", "j-0 a0 last", "j-1 b0 last"]
    assert first.states[-2:] == [RUNNING, GOOD]
    (tmp_path / "1").mkdir()
    second = Followed(follower, 1, tmp_path / "1")
    say(1, mark(1, "end", p1=(0, 1.0, False)))
    say(0, mark(1, "end", p0=(0, 1.0, False), p1=(0, 1.0, False)))
    second.end()
    assert sorted(second.lines) == ["j-0 a1", "j-1 b1"]
    assert second.states == [RUNNING, GOOD]
    assert (tmp_path / "0/log/j-1.log").read_text() == "b0\nb0 last\n"
    assert (tmp_path / "1/log/j-1.log").read_text() == "b1\n"
    assert follower.over() is None


def test_a_turn_that_nobody_followed_is_left_out(job: Submitted, tmp_path: Path) -> None:
    follower, first = started(job, tmp_path)
    say(0, mark(0, "begin"), "a0", mark(0, "end", p0=(0, 1.0, False)))
    say(1, mark(0, "begin"), mark(0, "end"))
    first.end()
    say(0, mark(1, "begin"), "a1", mark(1, "end", p0=(0, 1.0, False)), mark(2, "skip"))
    say(1, mark(1, "begin"), "b1", mark(1, "end"), mark(2, "skip"))
    (tmp_path / "2").mkdir()
    third = Followed(follower, 2, tmp_path / "2").end()
    assert third.lines == []
    assert third.states[-1].why.startswith("its pods did not start it again")


def test_a_rank_that_died_is_told_as_of_a_job_of_its_own(job: Submitted, tmp_path: Path) -> None:
    _, first = started(job, tmp_path)
    say(1, mark(0, "begin"), "no GPU", mark(0, "end", p1=(4, 1.0, False)))
    say(0, mark(0, "begin"), mark(0, "end", p0=(143, 6.0, False), p1=(4, 1.0, False)))
    state = first.end().states[-1]
    job.fail(1, 4)
    alone = TurnFollower(job)._job.look({"j-1": "no GPU"})  # type: ignore[arg-type]
    from busbw.launchers.kubernetes_state import job_state

    assert state == job_state(alone)
    assert state.why == "rank 1 in pod j-1 exited with code 4: no GPU"
    assert (state.rank, state.host, state.code) == (1, "node-1", 4)


def test_the_limit_is_told_once_and_before_the_end(job: Submitted, tmp_path: Path) -> None:
    _, first = started(job, tmp_path)
    late = replace(RUNNING, out_of_time=True)
    say(0, mark(0, "begin"), "a", mark(0, "late"))
    say(1, mark(0, "begin"), mark(0, "late"), mark(0, "end"))
    first.until(late)
    say(0, "last words", mark(0, "end", p0=(130, 9.0, True)))
    assert first.end().states[-3:-1] == [RUNNING, late]
    assert first.lines[-1] == "j-0 last words"


def test_a_pod_that_is_lost_is_told_by_the_jobs_end(job: Submitted, tmp_path: Path) -> None:
    follower, first = started(job, tmp_path)
    say(0, mark(0, "begin"), mark(0, "end", (1,), p0=(5, 1.0, False)))
    say(1, mark(0, "begin"))
    first.until(RUNNING)
    job.fail(1, 137)
    state = first.end().states[-1]
    assert state.why == "rank 1 in pod j-1 was killed by signal 9"
    over = follower.over()
    assert over is not None
    assert over.host == "node-1"


def test_a_job_that_ends_before_a_turn_ends_that(job: Submitted, tmp_path: Path) -> None:
    follower, first = started(job, tmp_path)
    say(0, "No module named busbw")
    first.until("No module named busbw")
    job.job = None
    assert first.end().states[-1].why == "it is no longer on the cluster"
    assert follower.over() == first.states[-1]


def test_what_a_pod_printed_in_one_turn() -> None:
    lines = ["x", mark(0, "begin"), "a", mark(0, "end"), mark(1, "begin"), "b", mark(1, "late"), "c"]
    assert list(of_turn([*lines, mark(1, "end"), "y"], 1)) == ["b", "c"]
    assert list(of_turn(lines, 0)) == ["a"]
