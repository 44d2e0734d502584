"""Launches in turn in one job: which job has which launch, and what becomes of it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.compared import record_of

from busbw import job_end, job_session, job_submit, setup_jobs
from busbw.errors import ExitCode, RankFailed, SiteError, UsageError
from busbw.launchers.engine import TURN, Handle, Item, Job, JobRequest, JobState, Phase
from busbw.launchers.kubernetes_form import check as check_form
from busbw.planning.setups import Setup, blocks
from busbw.record.write import write_record
from busbw.settings.launch import LaunchSettings
from busbw.settings.run import RunSettings
from busbw.setup_jobs import Launching, TurnStarter, held, turn_starter
from busbw.setup_series import Series, measure
from busbw.worker.lead import error_event

SETUPS = (Setup("plain"), Setup("tuned", {"A": "1"}))
GOOD = (JobState(Phase.RUNNING), JobState(Phase.ENDED, code=0))
BAD = (
    JobState(Phase.RUNNING),
    JobState(Phase.ENDED, why="rank 1 in pod j-1 exited", code=4, rank=1, host="n"),
)


@dataclass
class Cluster:
    """An engine whose turns go as ``fates`` says, by folder's name; ``over`` is a job's end with that."""

    fates: dict[str, tuple[JobState, ...]] = field(default_factory=dict)
    over: dict[str, JobState] = field(default_factory=dict)
    refuses: int = 0
    submitted: list[list[tuple[str, str]]] = field(default_factory=list)
    followed: list[tuple[str, str]] = field(default_factory=list)  # job and turn
    said: list[str] = field(default_factory=list)
    WAIT_SECONDS: float | None = 900.0

    def inquire(self, launch: LaunchSettings, command: tuple[str, ...] = ()) -> Mapping[str, str]:
        return {}

    def request(self, job: Job, facts: Mapping[str, str]) -> JobRequest:
        check_form(job.launch)
        return JobRequest("kubernetes", job.name, 2, 2)

    def join(
        self, requests: Mapping[str, JobRequest], order: list[tuple[str, str]], limit_seconds: float | None
    ) -> JobRequest:
        one = next(iter(requests.values()))
        return JobRequest("kubernetes", one.name, 2, 2, files={"order": json.dumps(order)})

    def submit(self, request: JobRequest, folder: Path) -> Handle:
        if self.refuses:
            self.refuses -= 1
            raise SiteError("no quota")
        self.submitted.append([tuple(one) for one in json.loads(request.files["order"])])
        return Handle("kubernetes", request.name, request.name, {TURN: request.details[TURN]})

    def turns(self, handle: Handle) -> FakeTurns:
        assert TURN not in handle.details
        return FakeTurns(self)

    def cancel(self, handle: Handle, *, now: bool) -> None:
        self.said.append("cancel")

    def collect(self, handle: Handle, folder: Path) -> None:
        return None

    def clean(self, handle: Handle) -> None:
        if TURN not in handle.details:
            self.said.append(f"clean {handle.name}")


@dataclass
class FakeTurns:
    cluster: Cluster
    last: str = ""

    def follow_turn(self, handle: Handle, folder: Path) -> Iterator[Item]:
        self.last = folder.name
        self.cluster.followed.append((handle.name, handle.details[TURN]))
        if folder.name not in self.cluster.fates:
            write_record(folder, record_of({1024: 10.0}, name=folder.name))
        yield from self.cluster.fates.get(folder.name, GOOD)

    def over(self) -> JobState | None:
        return self.cluster.over.get(self.last)

    def close(self) -> None:
        self.cluster.said.append("close")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    made = Cluster()
    for module in (setup_jobs, job_session, job_submit, job_end):
        monkeypatch.setattr(module, "load", lambda _: made)
    monkeypatch.setattr(setup_jobs, "load_turns", lambda _: made)
    monkeypatch.setattr(job_end, "judge", judged)
    return made


def judged(following: Any) -> tuple[ExitCode, Any]:
    """By the engine's code alone: no rank says anything here."""
    if following.story.interrupted:
        return ExitCode.INTERRUPTED, None
    if following.given_up is not None:
        return following.given_up.exit_code, error_event(following.given_up)
    if following.state.code == 0:
        return ExitCode.OK, None
    return ExitCode.RANK_FAILED, error_event(RankFailed(following.state.why or "ended"))


def series(cluster: Cluster, nodes: tuple[int, ...] = (2,), count: int = 3) -> tuple[Series, str]:
    err = io.StringIO()
    launch = LaunchSettings(on="kubernetes", image="i", namespace="n")
    shared = Launching(("all_reduce",), RunSettings(), launch, {}, 60.0, ("busbw",), err)
    by_name = {setup.name: setup for setup in SETUPS}
    order = [by_name[name] for block in blocks(list(by_name), count, 7) for name in block]
    starter = turn_starter(shared, order, nodes)
    assert isinstance(starter, TurnStarter)
    with held(starter) as start:
        made = measure(SETUPS, count, 7, nodes, {}, start, err)
    return made, err.getvalue()


def test_all_launches_on_a_number_of_nodes_are_one_job(cluster: Cluster) -> None:
    made, told = series(cluster, (2, 4))
    assert [outcome.error for outcome in made.outcomes] == [""] * 12
    assert len(cluster.submitted) == 2
    order = [name for names in made.order for name in names]
    expected = [(name, str(made.folder / "launches" / f"{n:04}")) for n, name in enumerate(order, 1)]
    assert cluster.submitted[0] == expected
    assert [Path(folder).name for _, folder in cluster.submitted[1]] == [f"{n:04}" for n in range(7, 13)]
    names = list(dict.fromkeys(name for name, _ in cluster.followed))
    assert [turn for name, turn in cluster.followed if name == names[1]] == [str(n) for n in range(6)]
    assert cluster.said == ["close", f"clean {names[0]}", "close", f"clean {names[1]}"]
    assert "new one" not in told
    request = json.loads((made.folder / "launches/0008/request/request.json").read_text())
    assert request["settings"]["launch"]["turn"] == 1
    assert json.loads((made.folder / "launches/0008/request/job.json").read_text())["details"] == {TURN: "1"}


def test_a_launch_that_fails_does_not_end_the_job(cluster: Cluster) -> None:
    cluster.fates = {"0002": BAD, "0003": BAD}
    made, _ = series(cluster)
    assert [bool(outcome.error) for outcome in made.outcomes] == [False, True, True, False, False, False]
    assert len(cluster.submitted) == 1


def test_a_job_that_a_launch_ended_is_followed_by_another(cluster: Cluster) -> None:
    cluster.fates = {"0002": BAD}
    cluster.over = {"0002": BAD[-1]}
    made, told = series(cluster)
    assert [bool(outcome.error) for outcome in made.outcomes] == [False, True, False, False, False, False]
    assert [len(order) for order in cluster.submitted] == [6, 4]
    assert "has ended (rank 1 in pod j-1 exited): a new one has the launches that are left" in told
    assert "the new job may get other nodes: the records do not name those of before" in told
    assert [turn for _, turn in cluster.followed] == ["0", "1", "0", "1", "2", "3"]


def test_a_job_that_was_deleted_ends_the_series(cluster: Cluster) -> None:
    gone = JobState(Phase.ENDED, why="it is no longer on the cluster")
    cluster.fates, cluster.over = {"0003": (gone,)}, {"0003": gone}
    made, told = series(cluster)
    assert len(made.outcomes) == 2
    assert made.stopped.endswith("which all launches run in, has ended: it is no longer on the cluster")
    assert cluster.said.count("close") == 1
    assert "error: " in told


def test_no_time_left_ends_the_series(cluster: Cluster) -> None:
    late = JobState(Phase.ENDED, why="DeadlineExceeded", code=1, out_of_time=True)
    cluster.fates, cluster.over = {"0001": (late,)}, {"0001": late}
    made, _ = series(cluster)
    assert made.outcomes == ()
    assert "DeadlineExceeded" in made.stopped


def test_a_job_that_is_refused_is_tried_again_as_any_launch(cluster: Cluster) -> None:
    cluster.refuses = 1
    made, _ = series(cluster)
    assert [outcome.error for outcome in made.outcomes] == ["no quota", *[""] * 5]
    assert [len(order) for order in cluster.submitted] == [5]


def test_a_job_that_does_not_start_is_removed(cluster: Cluster) -> None:
    never = JobState(Phase.PENDING, why="no such image", hopeless=True)
    gone = JobState(Phase.ENDED, why="it is no longer on the cluster")
    cluster.fates, cluster.over = {"0001": (never, gone)}, {"0001": gone}
    made, told = series(cluster)
    assert "cannot start: no such image" in made.outcomes[0].error
    assert [bool(outcome.error) for outcome in made.outcomes[1:]] == [False] * 5
    assert cluster.said[:3] == ["cancel", "close", cluster.said[2]]
    assert "has ended (it was cancelled): a new one" in told


def test_the_job_is_removed_whatever_happens(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> Iterator[Item]:
        raise KeyboardInterrupt
        yield None

    monkeypatch.setattr(FakeTurns, "follow_turn", interrupt)
    made, _ = series(cluster)
    assert made.stopped == "interrupted"
    assert cluster.said[0] == "close"
    assert cluster.said[1].startswith("clean ")


def test_what_cannot_start_is_refused_before_the_first_launch(cluster: Cluster) -> None:
    shared = Launching(
        ("all_reduce",), RunSettings(), LaunchSettings(on="kubernetes"), {}, None, (), io.StringIO()
    )
    with pytest.raises(UsageError, match="unsets X"):
        turn_starter(shared, [Setup("s", unset=("X",))], (2,))
