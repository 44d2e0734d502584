from __future__ import annotations

from pathlib import Path
from typing import Any

from busbw.errors import RankFailed
from busbw.model.event import Event
from busbw.model.plan import Plan
from busbw.model.record import RunStatus
from busbw.model.result import CaseResult, Status
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.rank import rank0
from busbw.rank.retain import NOTHING_KEPT
from busbw.record.folder import create
from busbw.record.read import read_record


def started(tmp_path: Path, events: list[Event]) -> tuple[rank0.Lead, Path, Plan]:
    plan = make_plan(("all_reduce",), RunSettings(minbytes=Size("8"), maxbytes=Size("16"), seed=1), "null", 2)
    folder = create(tmp_path, "id")
    return rank0.Lead(rank0.Request("id", str(folder)), plan, events.append), folder, plan


def test_progress_follows_every_case(tmp_path: Path, monkeypatch: Any) -> None:
    now_s = iter([100.0, 101.0, 104.0])
    monkeypatch.setattr(rank0.time, "monotonic", lambda: next(now_s))
    events: list[Event] = []
    leader, _, plan = started(tmp_path, events)
    assert len(plan.cases) == 4
    for case in range(2):
        leader.finished(CaseResult(case, Status.GOOD), NOTHING_KEPT)
    assert [item["event"] for item in events] == ["case", "progress"] * 2
    names = ("done", "total", "elapsed_s", "eta_s")
    assert [tuple(item[name] for name in names) for item in events[1::2]] == [
        (1, 4, 1.0, 3.0),
        (2, 4, 4.0, 4.0),
    ]


def test_the_time_left_follows_the_last_passes() -> None:
    pace = rank0._Pace(20, 0.0)
    for case in range(4):
        pace.after(CaseResult(case, Status.GOOD), float(case + 1), final=True)
    # Passes of a quarter of a case's work, 5 s each.
    for number in range(8):
        result = CaseResult(4 + number % 4, Status.GOOD, passes=4, pass_samples=(8,) * (1 + number // 4))
        found = pace.after(result, 4.0 + 5 * (number + 1), final=False)
    assert (found["done"], found["eta_s"]) == (4, 20.0 * (20 - 6))
    # The final results of cases whose passes are known take no time.
    assert pace.after(CaseResult(19, Status.NOT_RUN), 44.0, final=True)["done"] == 5


def test_a_run_that_ends_between_passes_keeps_them(tmp_path: Path) -> None:
    events: list[Event] = []
    leader, folder, _ = started(tmp_path, events)
    for result in (CaseResult(0, Status.GOOD, 1e3, passes=4, pass_samples=(8,)), CaseResult(1, Status.GOOD)):
        leader.passed(result)
    leader.passed(CaseResult(0, Status.GOOD, 2e3, passes=4, pass_samples=(8, 8)))
    killed = read_record(folder)  # as a kill leaves it
    leader.end(RunStatus.INTERRUPTED)
    for record in (killed, read_record(folder)):
        assert [result.time_ns for result in record.results[:2]] == [2e3, None]
        assert record.results[0].pass_samples == (8, 8)
    assert [item["event"] for item in events] == ["pass", "progress"] * 3 + ["case", "case", "end"]


def test_an_early_end_gives_every_case_a_status_and_is_final(tmp_path: Path) -> None:
    events: list[Event] = []
    leader, folder, _ = started(tmp_path, events)
    leader.finished(CaseResult(0, Status.GOOD), NOTHING_KEPT)
    leader.end(RunStatus.FAILED, RankFailed("rank 1 is gone"))
    leader.finished(CaseResult(1, Status.GOOD), NOTHING_KEPT)
    leader.end(RunStatus.COMPLETE)
    record = read_record(folder)
    assert [result.status.value for result in record.results] == ["good", *["not-run"] * 3]
    assert (record.status, record.error) == (RunStatus.FAILED, "rank 1 is gone")
    assert [item["event"] for item in events] == ["case", "progress", "error", "end"]


def test_memory_is_kept_and_told_where_there_is_any(tmp_path: Path) -> None:
    events: list[Event] = []
    leader, folder, _ = started(tmp_path, events)
    leader.used({})
    assert events == []
    leader.used({"buffers": 2**40})
    assert [(item["event"], item["most_bytes"]) for item in events] == [("memory", {"buffers": 2**40})]
    assert read_record(folder).memory_bytes == {"buffers": 2**40}
    leader.end(RunStatus.COMPLETE)
    leader.used({"buffers": 1})
    assert len(events) == 2
