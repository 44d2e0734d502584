from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from busbw.model.event import Event, EventKind, decode, encode, event
from busbw.model.hunt import Hunt
from busbw.model.mark import meaning
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status, StopReason
from busbw.report import live


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


def rows_of(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines() if not line.startswith("#")]


def test_the_table_has_a_row_a_size_and_a_heading_a_collective(events: list[Event]) -> None:
    out, err = shown("table", events)
    lines, rows = out.splitlines(), rows_of(out)
    assert [row[0] for row in rows] == ["1024", "2048", "1024"]
    heads = [line.split()[1:] for line in lines if line.startswith(("# all_reduce", "# sendrecv"))]
    assert heads == [[name, "out-of-place", "in-place"] for name in ("all_reduce", "sendrecv")]
    assert (lines[-1], err) == ("# record   /runs/id", "")
    # It ended between two placements, and shows the one that it has.
    case = ["1024", "256", "float", "none", "-1"]
    assert rows[-1] == [*case, "100000", "1.0%", "n/a", "8", "0.00", "0.00", "0"]


@pytest.mark.parametrize("in_place", [True, False])
def test_a_row_appears_as_soon_as_all_its_placements_are_done(
    in_place: bool, events: list[Event], plan: Plan
) -> None:
    """Logs of nccom-test have one placement only: a row a size, not one row for all."""
    cases = [case for case in plan.cases if in_place or not case.in_place]
    cases = [replace(case, index=index) for index, case in enumerate(cases)]
    results = [replace(FULL, case=case.index) for case in cases]
    header, *items, _ = with_results(events, replace(plan, cases=tuple(cases)), *results)
    out = io.StringIO()
    display = live.create("table", out, io.StringIO())
    display.handle(header)
    for count, item in enumerate(items, 1):
        display.handle(item)
        shown_by_now = ["1024", "2048", "1024", "2048"][: count // 2 if in_place else count]
        assert [row[0] for row in rows_of(out.getvalue())] == shown_by_now


@pytest.mark.parametrize("format_name", live.FORMATS)
def test_errors_go_to_stderr_with_place_and_hint(format_name: str, events: list[Event]) -> None:
    out, err = shown(format_name, [events[0], ERROR])
    assert err == "error: rank 3 on node3: was killed\nhint: look at the log\n"
    assert "was killed" not in out or format_name == "jsonl"


def test_csv_has_a_line_a_case_with_the_names_of_the_model(
    events: list[Event], plan: Plan, results: list[CaseResult]
) -> None:
    rows = list(csv.DictReader(io.StringIO(shown("csv", events)[0])))
    assert [row["status"] for row in rows[len(results) :]] == ["not-run"] * (len(plan.cases) - len(results))
    assert [row["size_bytes"] for row in rows] == [str(case.size_bytes) for case in plan.cases]
    for row, case, result in zip(rows, plan.cases, results, strict=False):
        values = {**asdict(case), **asdict(result), "ranks": 2, "marks": " ".join(result.marks)}
        values["conditions"] = " ".join(result.conditions)
        values |= {word: result.stats.get(word) for word in ("p99", "imbalance")}
        for name, text in row.items():
            assert text == ("" if values[name] is None else str(values[name]))
    assert (rows[3]["status"], rows[3]["busbw_gb_per_s"], rows[3]["wrong"]) == ("wrong", "", "17")


@pytest.mark.parametrize("format_name", ["table", "csv", "json"])
def test_progress_is_for_those_who_follow_the_stream(format_name: str, events: list[Event]) -> None:
    progress = event(EventKind.PROGRESS, done=1, total=8, elapsed_s=0.1, eta_s=0.7)
    assert shown(format_name, [*events[:2], progress]) == shown(format_name, events[:2])


def test_json_lines_are_the_stream_and_json_is_the_record(events: list[Event], tmp_path: Path) -> None:
    assert [decode(line) for line in shown("jsonl", events)[0].splitlines()] == events
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


def test_rows_on_a_terminal_appear_after_the_first_pass_and_then_are_final(
    events: list[Event], results: list[CaseResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal()
    display = live.TableDisplay(out, Terminal(), live=True)
    display.handle(events[0])
    for result in results[:2]:
        display.handle(event(EventKind.PASS, result=replace(result, passes=4, pass_samples=(8,))))
    assert display._progress is not None
    rows = display._progress._progress
    assert [row.split()[:3] for row in rows.rows] == [["1", "KiB", "out"], ["1", "KiB", "in"]]
    assert "1 KiB" not in out.getvalue()
    for result in results[:2]:
        display.handle(event(EventKind.CASE, result=result))
    assert not rows.rows
    display.close()


def test_a_run_that_was_ended_shows_the_passes_that_it_has(
    events: list[Event], results: list[CaseResult]
) -> None:
    passes = [replace(result, passes=4, pass_samples=(8,)) for result in results[:2]]
    out = shown("table", [events[0], *(event(EventKind.PASS, result=each) for each in passes), events[-1]])[0]
    assert [row[0] for row in rows_of(out)] == ["1024"]
    assert "6 of 8 cases were not" in out


FULL = CaseResult(
    0, Status.GOOD, 1000.0, 990.0, 1010.0, 1001.0, samples=299, stop=StopReason.BUDGET, excluded=3, tau=1.25,
    marks=("stopped", "throttled"), finished="2026-01-02T03:04:05.678+00:00", issue_ns=12.5, skew_ns=40.0,
    first_call_ns=7e6, stats={"p99": 1500.0, "imbalance": 20.0, "cv": None},
)  # fmt: skip


def with_results(events: list[Event], plan: Plan, *results: CaseResult) -> list[Event]:
    """The run with these results, as its lines arrive."""
    header = {**events[0], "plan": json.loads(plan.to_json())}
    del header["plan"]["version"]
    items = [header, *(event(EventKind.CASE, result=result) for result in results), events[-1]]
    return [item for item in (decode(encode(item)) for item in items) if item is not None]


def test_csv_has_marks_and_the_statistics_that_were_asked_for(events: list[Event], plan: Plan) -> None:
    asked = replace(plan, show=("cv", "p99", "n", "timestamp", "memory", "imbalance", "first"))
    none = CaseResult(1, Status.NOT_APPLICABLE, error="no such form, on mpi")
    out = shown("csv", with_results(events, asked, FULL, none))[0]
    # The words of fields are columns already; those of lines below a table are none.
    assert out.splitlines()[0].split(",")[-3:] == ["cv", "p99", "imbalance"]
    first, second = list(csv.DictReader(io.StringIO(out)))[:2]
    got = [first[name] for name in ("marks", "excluded", "first_call_ns", "stop", "cv", "p99", "imbalance")]
    assert got == ["stopped throttled", "3", "7000000.0", "budget", "", "1500.0", "20.0"]
    got = [first[name] for name in ("issue_ns", "skew_ns", "finished")]
    assert got == ["12.5", "40.0", "2026-01-02T03:04:05.678+00:00"]
    assert (second["error"], second["p99"], second["marks"]) == ("no such form, on mpi", "", "")


def test_conditions_are_said_once_above_the_rows_that_have_them(events: list[Event], plan: Plan) -> None:
    results = [replace(FULL, case=at, marks=(), conditions=("contended",)) for at in range(8)]
    results[3] = replace(results[3], conditions=("contended", "unheard-of"))
    lines = shown("table", with_results(events, plan, *results))[0].splitlines()
    notes = [at for at, line in enumerate(lines) if line.startswith("# note")]
    rows = [at for at, line in enumerate(lines) if not line.startswith("#")]
    assert [lines[at] for at in notes] == [
        f"# note     contended: {meaning('contended')}",
        "# note     unheard-of: a word of another version",
    ]
    assert notes[0] < rows[0] < notes[1] < rows[1]
    assert not any("contended" in lines[at] for at in rows)


def test_the_header_of_csv_is_for_scripts_and_only_grows(events: list[Event], plan: Plan) -> None:
    names = shown("csv", with_results(events, replace(plan, show=()), FULL))[0].splitlines()[0].split(",")
    assert names == [*live.CASE_FIELDS, "ranks", *live.RESULT_FIELDS]
    first_release = (
        "collective dtype op root requested_bytes size_bytes count placement ranks status time_ns low_ns"
        " high_ns mean_ns algbw_gb_per_s busbw_gb_per_s samples calls_per_sample warmup_calls stop wrong"
    )
    assert " ".join(names).startswith(first_release)


def test_a_hunt_that_has_ended_has_no_time_left(pairs_events: list[Event]) -> None:
    said = {}
    for is_live in (True, False):
        err = io.StringIO()
        display = live.create("table", io.StringIO(), err, kind=live.Kind.HUNT, live=is_live)
        for item in pairs_events:
            display.handle(item)
        said[is_live] = err.getvalue()
    assert " left" in said[True]
    assert " left" not in said[False]
    assert said[False].startswith("round 1, matrix: 1 pairs of ranks, 0.50 s")


@pytest.fixture
def pairs_events(events: list[Event]) -> list[Event]:
    """The header of a hunt of all pairs of four ranks, and its first round."""
    header = {**events[0], "plan": {**events[0]["plan"], "cases": [], "hunt": asdict(Hunt("pairs", 1024))}}
    tested = {
        "kind": "rank",
        "names": ["rank 0", "rank 1", "rank 2", "rank 3"],
        "round": {"number": 0, "stage": "matrix"},
        "tests": [{"one": 0, "other": 1}],
        "seconds": 0.5,
    }
    return [decode(encode(header)) or {}, event(EventKind.ROUND, tested=tested)]
