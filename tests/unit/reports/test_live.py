from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from busbw.model.event import Event, EventKind, decode, event
from busbw.model.plan import Plan
from busbw.model.result import CaseResult
from busbw.reports import live, table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(format_name: str, events: list[Event]) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    display = live.create(format_name, out, err)
    for item in events:
        display.handle(item)
    display.close()
    return out.getvalue(), err.getvalue()


ERROR = event(
    EventKind.ERROR, message="was killed", hint="look at the log", rank=3, host="node3", exit_code=5
)


def test_events_give_back_the_values_they_were_made_from(
    events: list[Event], plan: Plan, world: object, results: list[CaseResult]
) -> None:
    got_plan, got_world, method = live.read_header(events[0])
    assert (got_plan, got_world, method.buffers) == (plan, world, "rotating through the largest size")
    assert [live.read_result(item) for item in events[1:-1]] == results


def test_the_table_has_a_row_a_size_and_a_heading_a_collective(events: list[Event]) -> None:
    out, err = shown("table", events)
    lines = out.splitlines()
    rows = [line for line in lines if not line.startswith("#")]
    assert [line.split()[0] for line in rows] == ["1024", "2048", "1024"]
    assert [line for line in lines if line.startswith(("# all_reduce", "# sendrecv"))] == [
        table.heading("all_reduce")[0],
        table.heading("sendrecv")[0],
    ]
    assert lines[-1] == "# record   /runs/id"
    assert err == ""


def test_a_row_appears_as_soon_as_both_placements_are_done(events: list[Event]) -> None:
    out = io.StringIO()
    display = live.create("table", out, io.StringIO())
    for item in events[:2]:
        display.handle(item)
    assert not [line for line in out.getvalue().splitlines() if not line.startswith("#")]
    display.handle(events[2])
    assert out.getvalue().splitlines()[-1].split()[0] == "1024"


def test_a_run_that_ends_between_two_placements_shows_the_one_it_has(events: list[Event]) -> None:
    rows = [line for line in shown("table", events)[0].splitlines() if not line.startswith("#")]
    assert rows[-1].split() == ["1024", "256", "float", "none", "-1", "100000", "1.0%", "0.00", "0.00", "0"]


def test_a_header_that_never_came_is_no_reason_to_fail() -> None:
    assert shown("table", [event(EventKind.END, folder="/r")]) == ("", "")


@pytest.mark.parametrize("format_name", live.FORMATS)
def test_errors_go_to_stderr_with_place_and_hint(format_name: str, events: list[Event]) -> None:
    out, err = shown(format_name, [events[0], ERROR])
    assert err == "error: rank 3 on node3: was killed\nhint: look at the log\n"
    assert "was killed" not in out or format_name == "jsonl"


def test_an_error_that_names_its_rank_itself_is_not_prefixed() -> None:
    item = {**ERROR, "message": "rank 3 on node3 was killed", "hint": ""}
    assert shown("table", [item])[1] == "error: rank 3 on node3 was killed\n"


def test_csv_has_a_line_a_case_with_the_names_of_the_model(
    events: list[Event], plan: Plan, results: list[CaseResult]
) -> None:
    rows = list(csv.DictReader(io.StringIO(shown("csv", events)[0])))
    assert [row["status"] for row in rows[len(results) :]] == ["not-run"] * (len(plan.cases) - len(results))
    assert [row["size_bytes"] for row in rows] == [str(case.size_bytes) for case in plan.cases]
    for row, case, result in zip(rows, plan.cases, results, strict=False):
        values = {**asdict(case), **asdict(result), "ranks": 2}
        for name, text in row.items():
            assert text == ("" if values[name] is None else str(values[name]))
    assert (rows[3]["status"], rows[3]["busbw_gb_per_s"], rows[3]["wrong"]) == ("wrong", "", "17")


def test_a_run_that_goes_on_has_no_case_that_was_not_run(events: list[Event]) -> None:
    assert "not-run" not in shown("csv", events[:-1])[0]


@pytest.mark.parametrize("format_name", ["table", "csv", "json"])
def test_progress_is_for_those_who_follow_the_stream(format_name: str, events: list[Event]) -> None:
    progress = event(EventKind.PROGRESS, done=1, total=8, elapsed_s=0.1, eta_s=0.7)
    assert shown(format_name, [*events[:2], progress]) == shown(format_name, events[:2])


def test_json_lines_are_the_stream(events: list[Event]) -> None:
    out, _ = shown("jsonl", events)
    assert [decode(line) for line in out.splitlines()] == events


def test_json_is_the_record(events: list[Event], tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema": 1}\n')
    out, _ = shown("json", [*events[:-1], event(EventKind.END, folder=str(tmp_path))])
    assert json.loads(out) == {"schema": 1}


def test_progress_goes_to_a_terminal_on_stderr_only(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out, err = io.StringIO(), Terminal()
    display = live.create("table", out, err)
    for item in events:
        display.handle(item)
    display.close()
    assert "4/8" in err.getvalue() or "5/8" in err.getvalue()
    assert out.getvalue() == shown("table", events)[0]


def test_a_row_on_a_terminal_is_not_cut_or_wrapped(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    display = live.create("table", terminal, terminal)
    for item in events:
        display.handle(item)
    display.close()
    case, result = live.read_header(events[0])[0].cases[2], [live.read_result(item) for item in events[3:5]]
    assert table.row(case, result) in terminal.getvalue()
