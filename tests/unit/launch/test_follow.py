"""When a job that is followed is reported on, or ended. The engine and the clock follow a script."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.errors import ExitCode, SiteError
from busbw.launch import follow
from busbw.launch.engine import Handle, Item, JobState, Output, Phase
from busbw.model.event import EventKind, encode, event
from busbw.record import folder as folders

RUNNING, QUEUED = JobState(Phase.RUNNING), JobState(Phase.PENDING, "queue")
HELLO = Output(encode(event(EventKind.HELLO, pid=100, rank=0, host="h1", seq=None)))
# What happens at each item: an item, seconds that pass, or a deed (a signal).
Step = Item | float | Callable[[], object]
Run = Callable[..., tuple[ExitCode, list[str], list[str]]]


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


@dataclass
class Cluster:
    """An engine whose job does what its script says, and goes on as the last step until it is ended."""

    script: tuple[Step, ...]
    refuses: int = 0  # so many times it does not answer
    heeds: bool = True  # the job ends when it is told to
    now_s: float = 0.0
    ends: list[bool] = field(default_factory=list)  # of each end that was asked for: whether at once
    WAIT_SECONDS: float | None = None

    def follow(self, handle: Handle, folder: Path) -> Iterator[Item]:
        for step in self.script:
            if callable(step):
                step()
            elif isinstance(step, float):
                self.now_s += step
            yield None if callable(step) or isinstance(step, float) else step
            if self.ends and self.heeds:
                break
        while not (self.ends and self.heeds):
            self.now_s += 1.0
            yield None
        yield JobState(Phase.ENDED, code=143)

    def cancel(self, handle: Handle, *, now: bool) -> None:
        if self.refuses:
            self.refuses -= 1
            raise SiteError("it does not answer")
        self.ends.append(now)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Follows a cluster's job to its end: the exit code, what was said, and the errors that were shown."""
    (tmp_path / "log").mkdir()
    (tmp_path / "request").mkdir()

    def follow_it(
        cluster: Cluster, *, is_command: bool = False, **how: Any
    ) -> tuple[ExitCode, list[str], list[str]]:
        body = {
            "run_id": "run",
            "folder": str(tmp_path),
            "argv": [],
            "settings": {"command": ["true"]} if is_command else {},
            "plan": {"version": 1, "cases": []},
        }
        (tmp_path / folders.REQUEST_FILE).write_text(json.dumps(body))
        clock = SimpleNamespace(monotonic=lambda: cluster.now_s, sleep=lambda _: None)
        monkeypatch.setattr(follow, "time", clock)
        monkeypatch.setattr(follow, "load", lambda _: cluster)
        monkeypatch.setattr(follow, "close_record", lambda *_: None)
        shown: list[str] = []

        def show(item: dict[str, Any]) -> None:
            if item["event"] == EventKind.ERROR:
                shown.append(item["message"])

        err = io.StringIO()
        code = follow.Following(Handle("x", "17", "run"), tmp_path, show, err, **how).follow()
        return code, err.getvalue().splitlines(), shown

    return follow_it


SILENT = "job 17 has run for 60 s, and no rank has reported; its launcher's output is in "


@pytest.mark.parametrize(
    ("script", "is_command", "is_said"),
    [
        ((RUNNING, 61.0, 61.0), False, True),  # once
        ((RUNNING, 59.0), False, False),
        ((RUNNING, HELLO, 61.0), False, False),
        ((RUNNING, 61.0), True, False),  # a command has no ranks
        ((QUEUED, 61.0), False, False),
    ],
)
def test_silent_ranks_are_reported(
    run: Run, script: tuple[Step, ...], is_command: bool, is_said: bool
) -> None:
    _, said, _ = run(Cluster((*script, ctrl_c)), is_command=is_command)
    assert [line.startswith(SILENT) for line in said].count(True) == int(is_said)


@pytest.mark.parametrize(
    ("times", "heeds", "ends", "took_s"),
    [(1, True, [False], 0), (1, False, [False, True], 16), (2, False, [False, True], 0)],
)
def test_ctrl_c_ends_the_job_with_time_for_last_words_and_a_second_one_at_once(
    run: Run, times: int, heeds: bool, ends: list[bool], took_s: float
) -> None:
    cluster = Cluster((RUNNING, *[ctrl_c] * times), heeds=heeds)
    code, said, _ = run(cluster)
    assert (code, said[0]) == (ExitCode.INTERRUPTED, "interrupted: cancelling the job")
    assert (cluster.ends, cluster.now_s) == (ends, took_s)


def test_ctrl_c_leaves_a_job_that_is_attached_to(run: Run) -> None:
    cluster = Cluster((RUNNING, ctrl_c))
    assert run(cluster, cancels=False)[0] is ExitCode.INTERRUPTED
    assert cluster.ends == []


def test_an_engine_that_does_not_answer_is_asked_again(run: Run) -> None:
    cluster = Cluster((RUNNING, ctrl_c), refuses=3)
    code, said, _ = run(cluster)
    assert (code, cluster.ends) == (ExitCode.INTERRUPTED, [False])
    assert said.count("not cancelled yet: it does not answer; asking again") == 1


def test_an_engine_that_does_not_answer_for_long_leaves_a_job_that_goes_on(run: Run) -> None:
    cluster = Cluster((RUNNING, ctrl_c), refuses=1000)
    with pytest.raises(SiteError, match="job 17 was not cancelled and may go on: it does not answer"):
        run(cluster)


@pytest.mark.parametrize(
    ("script", "how", "code", "error"),
    [
        ((RUNNING, 6.0), {"limit_seconds": 5.0}, 5, "the launch had not ended after 5 s: no rank had said"),
        (
            (QUEUED, 6.0),
            {"wait": 5.0},
            4,
            "job 17 has not started within 5 s: queue",
        ),
        ((JobState(Phase.PENDING, "quota", hopeless=True),), {}, 4, "job 17 cannot start: quota"),
    ],
)
def test_a_job_that_takes_too_long_is_ended(
    run: Run, script: tuple[Step, ...], how: dict[str, Any], code: int, error: str
) -> None:
    cluster = Cluster(script)
    found, _, shown = run(cluster, **how)
    assert (found, cluster.ends) == (code, [False])
    assert shown[0].startswith(error)


def test_a_job_that_hangs_over_an_error_is_ended(run: Run) -> None:
    failed = event(EventKind.ERROR, message="no device", hint="", rank=0, host="h1", exit_code=4)
    cluster = Cluster((RUNNING, Output(encode(failed))))
    code, _, shown = run(cluster)
    assert (code, shown, cluster.ends) == (ExitCode.ENVIRONMENT, ["no device"], [False])
    assert 30 < cluster.now_s < 40
