"""Event stream to standard output, as it happens, in the chosen format; progress on a terminal's stderr."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from busbw.model.case import Case
from busbw.model.event import Event, EventKind, encode
from busbw.model.plan import Plan
from busbw.model.record import Method, RankInfo, WorldInfo
from busbw.model.result import CaseResult, Status, StopReason, WrongData, not_run
from busbw.reports import table

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


FORMATS: Final = ("table", "csv", "json", "jsonl")


class Display(Protocol):
    """Takes events in order."""

    def handle(self, item: Event) -> None:
        """Show one event."""

    def close(self) -> None:
        """Nothing more will come."""


def create(format_name: str, out: TextIO, err: TextIO, *, live: bool = True) -> Display:
    """The display of a format in FORMATS; ``live`` shows progress on a terminal."""
    if format_name == "table":
        return TableDisplay(out, err, live=live)
    kinds: dict[str, Callable[[TextIO, TextIO], Display]] = {
        "csv": CsvDisplay,
        "json": JsonDisplay,
        "jsonl": JsonLinesDisplay,
    }
    return kinds[format_name](out, err)


def show_error(item: Event, err: TextIO) -> None:
    """One error on stderr: what, where, what to try."""
    place = ""
    if item["rank"] is not None and not str(item["message"]).startswith("rank "):
        place = f"rank {item['rank']}" + (f" on {item['host']}" if item["host"] else "") + ": "
    print(f"error: {place}{item['message']}", file=err)
    if item["hint"]:
        print(f"hint: {item['hint']}", file=err)


class _Run:
    """What the events have said so far."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.world: WorldInfo | None = None
        self.results: list[CaseResult] = []

    def case(self, result: CaseResult) -> Case:
        assert self.plan is not None
        return self.plan.cases[result.case]


def read_header(item: Event) -> tuple[Plan, WorldInfo, Method]:
    """The values in a header event."""
    world = item["world"]
    ranks = tuple(RankInfo(**rank) for rank in world["ranks"])
    plan = Plan.from_json(json.dumps({"version": 1, **item["plan"]}))
    return plan, WorldInfo(**{**world, "ranks": ranks}), Method(**item["method"])


def read_result(item: Event) -> CaseResult:
    """The value in a case event."""
    fields: dict[str, Any] = dict(item["result"])
    fields["status"] = Status(fields["status"])
    fields["stop"] = StopReason(fields["stop"]) if fields["stop"] else None
    fields["wrong_at"] = tuple(WrongData(**at) for at in fields["wrong_at"])
    return CaseResult(**fields)


class TableDisplay:
    """Rows as soon as both placements of a size are done, under a progress line with the time left."""

    def __init__(self, out: TextIO, err: TextIO, *, live: bool) -> None:
        self._out, self._err = out, err
        self._run = _Run()
        self._collective = ""
        self._shown = 0  # results that are in a row already
        self._progress = _ProgressLine(err) if live and err.isatty() else None

    def handle(self, item: Event) -> None:
        """See Display."""
        kind = item["event"]
        if kind == EventKind.HEADER:
            self._run.plan, self._run.world, method = read_header(item)
            version = str(item["busbw_version"])
            self._print(*table.header(self._run.world, method, self._run.plan, version))
            if self._progress is not None:
                self._progress.start(len(self._run.plan.cases))
        elif kind == EventKind.CASE:
            self._result(read_result(item))
        elif kind == EventKind.ERROR:
            self._stop_progress()
            show_error(item, self._err)
        elif kind == EventKind.END and self._run.plan is not None:
            self._stop_progress()
            self._row()
            self._print(*table.footer(self._run.plan, self._run.results, str(item["folder"])))

    def close(self) -> None:
        """See Display."""
        self._stop_progress()

    def _result(self, result: CaseResult) -> None:
        self._run.results.append(result)
        case = self._run.case(result)
        if self._progress is not None:
            self._progress.done(len(self._run.results), table.describe_case(case))
        if case.in_place:  # the second of the pair
            self._row()

    def _row(self) -> None:
        """The results since the last row; half a row where the run ended between two placements."""
        results = self._run.results[self._shown :]
        if not results:
            return
        self._shown += len(results)
        case = self._run.case(results[0])
        if case.collective != self._collective:
            self._collective = case.collective
            self._print("#", *table.heading(case.collective))
        self._print(table.row(case, results))

    def _print(self, *lines: str) -> None:
        if self._progress is not None and self._out.isatty():
            self._progress.print_above(lines)
            return
        for line in lines:
            self._out.write(line + "\n")
        self._out.flush()

    def _stop_progress(self) -> None:
        if self._progress is not None:
            self._progress.stop()


class _ProgressLine:
    """Cases done, the case under way and the time left, on a terminal."""

    def __init__(self, err: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = Console(file=err)
        self._progress: Progress = Progress(
            BarColumn(24),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task: TaskID | None = None

    def start(self, cases: int) -> None:
        self._task = self._progress.add_task("connecting", total=cases)
        self._progress.start()

    def done(self, cases: int, last: str) -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=cases, description=last)

    def print_above(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        self._progress.stop()


class JsonLinesDisplay:
    """The event stream itself."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err

    def handle(self, item: Event) -> None:
        """See Display."""
        self._out.write(encode(item) + "\n")
        self._out.flush()
        if item["event"] == EventKind.ERROR:
            show_error(item, self._err)

    def close(self) -> None:
        """See Display."""


class JsonDisplay:
    """The whole record, once, at the end."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err

    def handle(self, item: Event) -> None:
        """See Display."""
        from pathlib import Path

        from busbw.record.folder import RUN_FILE

        if item["event"] == EventKind.ERROR:
            show_error(item, self._err)
        if item["event"] == EventKind.END:
            self._out.write((Path(str(item["folder"])) / RUN_FILE).read_text())
            self._out.flush()

    def close(self) -> None:
        """See Display."""


CASE_FIELDS = ("collective", "dtype", "op", "root", "requested_bytes", "size_bytes", "count", "placement")
RESULT_FIELDS = (
    "status",
    "time_ns",
    "low_ns",
    "high_ns",
    "mean_ns",
    "algbw_gb_per_s",
    "busbw_gb_per_s",
    "samples",
    "calls_per_sample",
    "warmup_calls",
    "stop",
    "wrong",
)


class CsvDisplay:
    """One line a case, as it finishes; at the end those that were not run. Empty fields are unknown or not
    applicable.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err
        self._run = _Run()

    def handle(self, item: Event) -> None:
        """See Display."""
        if item["event"] == EventKind.HEADER:
            self._run.plan, self._run.world, _ = read_header(item)
            self._write([*CASE_FIELDS, "ranks", *RESULT_FIELDS])
        elif item["event"] == EventKind.CASE:
            self._result(read_result(item))
        elif item["event"] == EventKind.END and self._run.plan is not None:
            for result in not_run(len(self._run.plan.cases), len(self._run.results)):
                self._result(result)
        elif item["event"] == EventKind.ERROR:
            show_error(item, self._err)

    def close(self) -> None:
        """See Display."""

    def _result(self, result: CaseResult) -> None:
        self._run.results.append(result)
        case, values = asdict(self._run.case(result)), asdict(result)
        ranks = self._run.world.size if self._run.world is not None else ""
        self._write([*(case[name] for name in CASE_FIELDS), ranks, *(values[name] for name in RESULT_FIELDS)])

    def _write(self, values: list[Any]) -> None:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerow("" if value is None else value for value in values)
        self._out.write(buffer.getvalue())
        self._out.flush()
