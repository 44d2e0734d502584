from __future__ import annotations

from pathlib import Path
from typing import Any

from busbw.errors import RankFailed
from busbw.model.event import Event
from busbw.model.plan import Plan
from busbw.model.record import RunStatus
from busbw.model.result import CaseResult, Status
from busbw.planning.make import make_plan
from busbw.record.folder import create
from busbw.record.read import read_record
from busbw.settings.run import RunSettings
from busbw.worker import lead
from busbw.worker.retain import NOTHING_KEPT


def started(tmp_path: Path, events: list[Event]) -> tuple[lead.Lead, Path, Plan]:
    plan = make_plan(("all_reduce",), RunSettings(minbytes="8", maxbytes="16", seed=1), "null", 2)
    folder = create(tmp_path, "id")
    return lead.Lead(lead.Request("id", str(folder)), plan, events.append), folder, plan


def test_progress_follows_every_case(tmp_path: Path, monkeypatch: Any) -> None:
    now_s = iter([100.0, 101.0, 104.0])
    monkeypatch.setattr(lead.time, "monotonic", lambda: next(now_s))
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


def test_the_time_left_follows_the_last_cases() -> None:
    pace = lead._Pace(20, 0.0)
    for second in range(1, 5):
        pace.after_case(float(second))
    left = [pace.after_case(4.0 + 10 * case)["eta_s"] for case in range(1, 9)]
    assert left[-1] == 10.0 * (20 - 12)


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


def test_a_result_says_when_it_was_finished(tmp_path: Path) -> None:
    events: list[Event] = []
    leader, folder, _ = started(tmp_path, events)
    before = lead.now_utc()
    leader.finished(CaseResult(0, Status.GOOD), NOTHING_KEPT)
    told = events[0]["result"]["finished"]
    assert before <= told <= lead.now_utc()
    assert read_record(folder).results[0].finished == told


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
