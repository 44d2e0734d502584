"""Event stream to standard output, as it happens, in the chosen format; progress on a terminal's stderr."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from busbw.model.case import Case
from busbw.model.choice import Choice
from busbw.model.event import Emit, Event, EventKind, encode, error_words
from busbw.model.finding import Severity
from busbw.model.plan import Plan
from busbw.model.record import HostInfo, Method, RankInfo, WorldInfo
from busbw.model.result import (
    FIELD_WORDS,
    CaseResult,
    GroupResult,
    Status,
    StopReason,
    WrongData,
    not_run,
)
from busbw.reports import streams, table
from busbw.reports.findings import PreflightDisplay, finding_lines
from busbw.reports.hunt import HuntDisplay, HuntJsonDisplay, MatrixCsvDisplay

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from busbw.settings.run import RunSettings


FORMATS: Final = ("table", "csv", "json", "jsonl")
PREFLIGHT: Final = "preflight"  # the table of a run that measures nothing
HUNT: Final = "hunt-"  # before the format of a hunt


class Display(Protocol):
    """Takes events in order."""

    def handle(self, item: Event) -> None:
        """Show one event."""

    def close(self) -> None:
        """Nothing more will come."""


def create(format_name: str, out: TextIO, err: TextIO, *, live: bool = True) -> Display:
    """The display of a format in FORMATS, or PREFLIGHT; ``live`` shows progress on a terminal."""
    if format_name == "table":
        return TableDisplay(out, err, live=live)
    if format_name == PREFLIGHT:
        return PreflightDisplay(out, err)
    if format_name.startswith(HUNT):
        hunts = {"hunt-csv": MatrixCsvDisplay, "hunt-json": HuntJsonDisplay, "hunt-table": HuntDisplay}
        return hunts[format_name](out, err)
    kinds: dict[str, Callable[[TextIO, TextIO], Display]] = {
        "csv": CsvDisplay,
        "json": JsonDisplay,
        "jsonl": JsonLinesDisplay,
    }
    return kinds[format_name](out, err)


def unless_nobody_reads(show: Emit) -> Emit:
    """``show``, until the reader of our output has left: the ranks still finish, and the record with them."""

    def emit(item: Event) -> None:
        try:
            show(item)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return emit


def shown_as(settings: RunSettings) -> str:
    """The format that a run with these settings is shown in."""
    if settings.hunt and settings.format != "jsonl":
        return HUNT + settings.format
    return PREFLIGHT if settings.stop_after and settings.format == "table" else settings.format


def show_error(item: Event, err: TextIO) -> None:
    """One error on stderr: what, where, what to try."""
    print(f"error: {error_words(item)}", file=err)
    if item["hint"]:
        print(f"hint: {item['hint']}", file=err)


def show_state(item: Event, err: TextIO) -> None:
    """What an engine says of the job, on stderr."""
    why = f": {item['why']}" if item["why"] else ""
    print(f"job {item['job']}: {item['phase']}{why}", file=err, flush=True)


class _Run:
    """What the events have said so far."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.world: WorldInfo | None = None
        self.results: list[CaseResult] = []
        self.memory_bytes: dict[str, int] = {}

    def case(self, result: CaseResult) -> Case:
        assert self.plan is not None
        return self.plan.cases[result.case]


def read_header(item: Event) -> tuple[Plan, WorldInfo, Method]:
    """The values in a header event."""
    world = item["world"]
    ranks = tuple(RankInfo(**rank) for rank in world["ranks"])
    plan = Plan.from_json(json.dumps({"version": 1, **item["plan"]}))
    places = tuple(HostInfo(**place) for place in world.get("places", ()))
    return plan, WorldInfo(**{**world, "ranks": ranks, "places": places}), Method(**item["method"])


def read_result(item: Event) -> CaseResult:
    """The value in a case event."""
    fields: dict[str, Any] = dict(item["result"])
    fields["status"] = Status(fields["status"])
    fields["stop"] = StopReason(fields["stop"]) if fields["stop"] else None
    fields["marks"] = tuple(fields["marks"])
    fields["wrong_at"] = tuple(WrongData(**at) for at in fields["wrong_at"])
    fields["groups"] = tuple(GroupResult(**group) for group in fields.get("groups", ()))
    fields["choice"] = Choice.of(fields.get("choice"))
    return CaseResult(**fields)


class TableDisplay:
    """Rows as soon as both placements of a size are done, under a progress line with the time left."""

    def __init__(self, out: TextIO, err: TextIO, *, live: bool) -> None:
        self._out, self._err = out, err
        self._run = _Run()
        self._collective = ""
        self._shown = 0  # results that are in a row already
        self._tables: dict[int, list[str]] = {}  # of streams: the first is shown at once, the others later
        self._progress = _ProgressLine(err) if live and err.isatty() else None

    def handle(self, item: Event) -> None:
        """See Display."""
        kind = item["event"]
        if kind == EventKind.HEADER:
            self._run.plan, self._run.world, method = read_header(item)
            version = str(item["busbw_version"])
            source = item.get("source")
            self._print(*table.header(self._run.world, method, self._run.plan, version, source))
            words = streams.stream_words(self._run.plan, self._run.world.size)
            self._print(*(f"# {line}" for line in words))
            if self._progress is not None:
                self._progress.start(len(self._run.plan.cases))
        elif kind == EventKind.CASE:
            self._result(read_result(item))
        elif kind == EventKind.MEMORY:
            self._run.memory_bytes = item["most_bytes"]
        elif kind == EventKind.FINDING and item["finding"]["severity"] != Severity.INFO:
            self._print(*finding_lines(item["finding"]))
        elif kind == EventKind.STATE:
            show_state(item, self._err)
        elif kind == EventKind.ERROR:
            self._stop_progress()
            show_error(item, self._err)
        elif kind == EventKind.END and self._run.plan is not None:
            self._stop_progress()
            self._row()
            for number in sorted(self._tables):
                self._print(*self._tables[number])
            folder = str(item["folder"])
            self._print(*table.footer(self._run.plan, self._run.results, folder, self._run.memory_bytes))

    def close(self) -> None:
        """See Display."""
        self._stop_progress()

    def _result(self, result: CaseResult) -> None:
        self._run.results.append(result)
        case = self._run.case(result)
        if self._progress is not None:
            self._progress.done(len(self._run.results), table.describe_case(case))
        if self._run.plan is not None and self._run.plan.streams:
            self._stream_row(self._run.plan, case, result)
        elif case.in_place or not self._is_followed_in_place(result):  # the second of the pair, or alone
            self._row()

    def _stream_row(self, plan: Plan, case: Case, result: CaseResult) -> None:
        """A row of the first stream's table now; those of the others when all are through."""
        self._shown += 1
        lines = self._tables.setdefault(case.stream, ["#", *streams.heading(plan, case)])
        lines += streams.rows(plan, case, result)
        if case.stream == 0:
            self._print(*lines)
            lines.clear()

    def _is_followed_in_place(self, result: CaseResult) -> bool:
        """Whether the same size comes again, in place: what nccom-test measures does not."""
        case, plan = self._run.case(result), self._run.plan
        following = plan.cases[result.case + 1 : result.case + 2] if plan is not None else ()
        return any(
            other.in_place and (other.collective, other.size_bytes) == (case.collective, case.size_bytes)
            for other in following
        )

    def _row(self) -> None:
        """The results since the last row; half a row where the run ended between two placements."""
        results, plan = self._run.results[self._shown :], self._run.plan
        if not results or plan is None:
            return
        self._shown += len(results)
        case = self._run.case(results[0])
        if case.collective != self._collective:
            self._collective = case.collective
            self._print("#", *table.heading(case.collective, plan.show, grouped=bool(plan.groups)))
        self._print(*table.rows(plan, case, results))

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
        if item["event"] == EventKind.STATE:
            show_state(item, self._err)
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
    "issue_ns",
    "skew_ns",
    "first_call_ns",
    "excluded",
    "finished",
    "marks",
    "error",
)


STREAM_FIELDS = ("stream", "beside", "overlap")


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
            self._write([*CASE_FIELDS, "ranks", *RESULT_FIELDS, *self._statistics(), *self._streams()])
        elif item["event"] == EventKind.CASE:
            self._result(read_result(item))
        elif item["event"] == EventKind.END and self._run.plan is not None:
            for result in not_run(len(self._run.plan.cases), len(self._run.results)):
                self._result(result)
        elif item["event"] == EventKind.FINDING and item["finding"]["severity"] != Severity.INFO:
            print(*finding_lines(item["finding"]), sep="\n", file=self._err)
        elif item["event"] == EventKind.ERROR:
            show_error(item, self._err)
        elif item["event"] == EventKind.STATE:
            show_state(item, self._err)

    def close(self) -> None:
        """See Display."""

    def _result(self, result: CaseResult) -> None:
        self._run.results.append(result)
        case = asdict(self._run.case(result))
        values = {**asdict(result), "marks": " ".join(result.marks)}
        beside = {**case, **values, "beside": "; ".join(case["beside"])}
        ranks = self._run.world.size if self._run.world is not None else ""
        stats = [result.stats.get(word) for word in self._statistics()]
        fields = [values[name] for name in RESULT_FIELDS]
        together = [beside[name] for name in self._streams()]
        self._write([*(case[name] for name in CASE_FIELDS), ranks, *fields, *stats, *together])

    def _streams(self) -> tuple[str, ...]:
        """What rows of operations at once have more."""
        return STREAM_FIELDS if self._run.plan is not None and self._run.plan.streams else ()

    def _statistics(self) -> list[str]:
        """Statistics that were asked for, as extra columns: times in ns, cv a ratio."""
        shown = self._run.plan.show if self._run.plan is not None else ()
        return [word for word in shown if word not in (*FIELD_WORDS, "timestamp", "memory")]

    def _write(self, values: list[Any]) -> None:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerow("" if value is None else value for value in values)
        self._out.write(buffer.getvalue())
        self._out.flush()
