"""Event stream to standard output, as it happens, in the chosen format; progress on a terminal's stderr."""

from __future__ import annotations

import csv
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from busbw.errors import BusbwError
from busbw.model.case import Case
from busbw.model.event import Emit, Event, EventKind, encode
from busbw.model.finding import Severity
from busbw.model.mark import conditions_of
from busbw.model.plan import Plan
from busbw.model.record import Method, WorldInfo
from busbw.model.result import FIELD_WORDS, CaseResult, not_run
from busbw.model.soak import SOAK_CHECK
from busbw.report import header_footer, rows
from busbw.report.console import CleanConsole, columns, print_lines
from busbw.report.display import Display, who_lines
from busbw.report.events import SEVERITY_WORDS, finding_lines, read_result
from busbw.report.fields import UNBOUND
from busbw.report.soak import end_words, level_words, share_done, soak_lines
from busbw.units import counted, format_duration

if TYPE_CHECKING:
    from busbw.model.record import RunRecord
    from busbw.plan.flags.run import RunSettings


FORMATS: Final = ("table", "csv", "json", "jsonl")
_COLUMNS: Final = 100  # at most, of sentences


class Kind(StrEnum):
    """What a run does, which decides what it is shown as."""

    CASES = "cases"
    HUNT = "hunt"
    SOAK = "soak"
    PREFLIGHT = "preflight"  # it measures nothing


def create(
    format_name: str,
    out: TextIO,
    err: TextIO,
    *,
    kind: Kind = Kind.CASES,
    wide: bool = False,
    live: bool = True,
) -> Display:
    """The display of a format in FORMATS. ``wide``: everything, on a terminal too; ``live`` shows the
    progress of a run.
    """
    if format_name == "jsonl":
        return JsonLinesDisplay(out, err)
    if kind is Kind.HUNT:
        from busbw.report.hunt import HuntDisplay, HuntJsonDisplay, MatrixCsvDisplay

        hunts = {"csv": MatrixCsvDisplay, "json": HuntJsonDisplay, "table": HuntDisplay}
        return hunts[format_name](out, err, live=live, wide=wide)
    if format_name != "table":
        return CsvDisplay(out, err) if format_name == "csv" else JsonDisplay(out, err)
    if kind is Kind.PREFLIGHT:
        return PreflightDisplay(out, err)
    return (SoakDisplay if kind is Kind.SOAK else TableDisplay)(out, err, live=live, wide=wide)


def display_of(settings: RunSettings) -> Display:
    """What shows a run with these settings."""
    kind = Kind.PREFLIGHT if settings.stop_after else Kind.CASES
    if settings.repeats:
        kind = Kind.SOAK
    if settings.hunt:
        kind = Kind.HUNT
    return create(settings.format, sys.stdout, sys.stderr, kind=kind, wide=settings.wide)


def unless_nobody_reads(show: Emit) -> Emit:
    """``show``, until the reader of our output has left: the ranks still finish, and the record with them."""

    def emit(item: Event) -> None:
        try:
            show(item)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return emit


class TableDisplay(Display):
    """Rows as soon as both placements of a size are done, under a progress line with the time left. On a
    terminal the table fits its width unless ``wide``, and rows appear after the first pass and change until
    they are final.
    """

    def __init__(self, out: TextIO, err: TextIO, *, live: bool, wide: bool = False) -> None:
        super().__init__(out, err, progress=live)
        self._wide = wide
        self._screen = CleanConsole(out) if out.isatty() else None
        self._layouts: dict[tuple[object, ...], rows.Layout] = {}
        self._results: list[CaseResult] = []
        self._memory_bytes: dict[str, int] = {}
        self._heads: dict[int, list[str]] = {}  # of the table under way, by stream
        self._shown = 0  # results that are in a row already
        self._said: set[str] = set()  # conditions
        self._later: dict[int, list[str]] = defaultdict(list)  # lines of all streams but the first
        self._passed: dict[int, CaseResult] = {}  # cases that are not final

    def _begin(self, header: Event, plan: Plan, world: WorldInfo, method: Method) -> None:
        self._print(
            header_footer.header(world, method, plan, str(header["busbw_version"]), header.get("source"))
        )
        self._print(f"# {line}" for line in header_footer.stream_words(plan, world.size))
        self._start(plan)

    def _start(self, plan: Plan) -> None:
        """Progress."""
        if self._progress is not None:
            self._progress.start(len(plan.cases), self._under_way(plan, 0))

    def _take(self, item: Event) -> None:
        kind = item["event"]
        if kind == EventKind.MEMORY:
            self._memory_bytes = item["most_bytes"]
        elif kind == EventKind.FINDING and item["finding"]["severity"] != Severity.INFO:
            self._print(finding_lines(item["finding"], self._screen.width if self._screen else None))
        elif self._plan is None:
            return
        elif kind in (EventKind.PASS, EventKind.CASE):
            self._result(self._plan, read_result(item), final=kind == EventKind.CASE)
        elif kind == EventKind.END:
            self._end(item, self._plan)

    def _end(self, item: Event, plan: Plan) -> None:
        self._stop_progress()
        for result in list(self._passed.values()):  # of a run that was ended: the record has them as they are
            self._result(plan, result, final=True)
        self._row(plan)
        for number in sorted(self._later):
            self._print(self._later[number])
        folder, most = str(item["folder"]), self._memory_bytes
        if self._screen is not None:
            self._print(_scatter_lines(folder, plan, self._results))
        all_columns = self._screen is None or self._wide or rows.shows_statistics(plan)
        self._print(header_footer.footer(plan, self._results, folder, most, statistics=all_columns))
        if any(case.even for case in plan.cases):
            from busbw.report import uneven  # ranks have no part that judges

            self._print(uneven.lines(plan, self._results))
        if plan.beside:
            from busbw.report import beside  # ranks have no part that judges

            self._print(beside.lines(plan, self._results))
        if answer := item.get("answer"):
            from busbw.report.answer import answer_lines  # ranks have no part that judges

            self._print(answer_lines(answer, columns(_COLUMNS, self._out)))

    def _result(self, plan: Plan, result: CaseResult, *, final: bool) -> None:
        """What a pass or all passes of a case came to."""
        if not final:
            self._passed[result.case] = result
        else:
            self._passed.pop(result.case, None)
            self._results.append(result)
            if self._progress is not None:
                self._progress.step(len(self._results), self._under_way(plan, len(self._results)))
            if plan.streams or self._ends_row(plan, result):
                self._row(plan)
        if self._progress is not None and self._passed:
            done = sum(len(each.pass_samples) / each.passes for each in self._passed.values())
            words = f"{header_footer.describe_case(plan.cases[result.case])}, pass {len(result.pass_samples)}"
            changing = self._rows_so_far(plan) if self._out.isatty() else []
            self._progress.step(len(self._results) + done, words, rows=changing)

    def _rows_so_far(self, plan: Plan) -> list[str]:
        """Of the window whose results are not final."""
        lines: list[str] = []
        pair = self._results[self._shown :]
        for result in self._passed.values():
            pair = [*pair, result]
            if self._ends_row(plan, result):
                case = plan.cases[result.case]
                lines += rows.rows(self._layout(plan, case), plan, case, pair)
                pair = []
        return lines

    def _under_way(self, plan: Plan, done: int) -> str:
        return (
            header_footer.describe_case(plan.cases[done]) if done < len(plan.cases) else "closing the record"
        )

    def _ends_row(self, plan: Plan, result: CaseResult) -> bool:
        """Whether it is the second of a pair, or alone: what nccom-test measures does not come in place."""
        case = plan.cases[result.case]
        return case.in_place or not any(
            other.in_place and (other.collective, other.size_bytes) == (case.collective, case.size_bytes)
            for other in plan.cases[result.case + 1 : result.case + 2]
        )

    def _row(self, plan: Plan) -> None:
        """The results since the last row; half a row where the run ended between two placements. Rows of the
        first stream are shown now, those of the others when all are through.
        """
        results = self._results[self._shown :]
        if not results:
            return
        self._shown += len(results)
        case = plan.cases[results[0].case]
        found = conditions_of((plan.cases[result.case], result) for result in results)
        new = [line for line in found if line not in self._said]
        self._said.update(new)
        self._print(f"# note     {line}" for line in new)
        layout = self._layout(plan, case)
        heading, lines = rows.heading(layout), rows.rows(layout, plan, case, results)
        if heading != self._heads.get(case.stream):
            self._heads[case.stream] = heading
            lines = ["#", *heading, *lines]
        if case.stream > 0:
            self._later[case.stream] += lines
        else:
            self._print(lines)

    def _layout(self, plan: Plan, case: Case) -> rows.Layout:
        """Of the case's table: on a terminal it fits, unless all columns are shown."""
        name = rows.table_of(case)
        if name not in self._layouts:
            self._layouts[name] = (
                rows.all_columns(plan, case)
                if self._screen is None or self._wide
                else rows.fitted(plan, case, self._screen.width)
            )
        return self._layouts[name]

    def _print(self, lines: Iterable[str]) -> None:
        print_lines(lines, self._out, whole=self._wide)


_STEPS: Final = 1000  # of a soak's progress


class SoakDisplay(TableDisplay):
    """What windows show goes to ``err`` as it comes; the table is of what all of them came to, as the record
    has it, also where it was ended early.
    """

    def __init__(self, out: TextIO, err: TextIO, *, live: bool, wide: bool = False) -> None:
        super().__init__(out, err, live=live, wide=wide)
        self._windows = 0

    def _start(self, plan: Plan) -> None:
        self._print([f"# soak     {end_words(plan)}"])
        if self._progress is not None:
            self._progress.start(_STEPS, "window 1")

    def _take(self, item: Event) -> None:
        kind, plan = item["event"], self._plan
        if kind == EventKind.WINDOW and plan is not None:
            self._window(item, plan)
        elif kind == EventKind.END and plan is not None:
            self._stop_progress()
            record = _record_of(str(item["folder"]))
            for result in record.finished:
                self._result(plan, result, final=True)
            super()._take(item)
            self._print(soak_lines(record, columns(UNBOUND, self._out)))
        elif kind == EventKind.FINDING and item["finding"]["check"] == SOAK_CHECK:
            pass  # below the table, with all that was found
        elif kind != EventKind.CASE:
            super()._take(item)

    def _window(self, item: Event, plan: Plan) -> None:
        self._windows += 1
        for note in item["notes"]:
            print(f"busbw: {note}", file=self._err, flush=True)
        if self._progress is None:
            return
        result, elapsed_s = read_result(item), float(item["elapsed_s"])
        words = level_words(plan.cases[result.case], result)
        done = share_done(plan, elapsed_s, self._windows)
        if done is None:
            self._progress.step(0, f"{format_duration(elapsed_s)}, {words}, until Ctrl-C")
        else:
            self._progress.step(round(_STEPS * done), words, elapsed_s * (1 - done) / done)


def _record_of(folder: str) -> RunRecord:
    """Read once a run has ended: it takes numpy, which would keep the first row waiting."""
    from busbw.record.read import read_record

    return read_record(Path(folder))


def _scatter_lines(folder: str, plan: Plan, results: Sequence[CaseResult]) -> list[str]:
    """What saved runs say of other launches of this kind; nothing where the record is not here."""
    from busbw.judge.kept import launches_of_machine
    from busbw.judge.launch_history import prior_of

    try:
        record = _record_of(folder)
    except (OSError, BusbwError):
        return []
    return rows.scatter_line(prior_of(launches_of_machine(record), record), plan, results)


class JsonLinesDisplay(Display):
    """The event stream itself."""

    def handle(self, item: Event) -> None:
        """See Display."""
        self._out.write(encode(item) + "\n")
        self._out.flush()
        if item["event"] == EventKind.ERROR:
            super().handle(item)


class JsonDisplay(Display):
    """The whole record, once, at the end."""

    def _take(self, item: Event) -> None:
        from busbw.record.folder import RUN_FILE

        if item["event"] == EventKind.END:
            self._out.write((Path(str(item["folder"])) / RUN_FILE).read_text())
            self._out.flush()


_MENDED: Final = "follow the hints, then repeat the command"
_MEASURE: Final = "measure: `busbw run` takes the same flags"


class PreflightDisplay(Display):
    """What was checked and found, once all is known."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        super().__init__(out, err)
        self._who: list[str] = []  # the ranks that were connected; nobody where an error came first
        self._failed = False

    def handle(self, item: Event) -> None:
        """See Display."""
        self._failed |= item["event"] == EventKind.ERROR
        super().handle(item)

    def _begin(self, header: Event, plan: Plan, world: WorldInfo, method: Method) -> None:
        self._who = who_lines("preflight", plan, world, str(header["busbw_version"]))

    def _take(self, item: Event) -> None:
        if item["event"] == EventKind.FINDING:
            self._findings.append(item["finding"])
        elif item["event"] == EventKind.END:
            self._report(str(item["folder"]))

    def close(self) -> None:
        """See Display. Where nothing was started, there is no END to wait for."""
        if self._findings:
            self._report("")

    def _report(self, folder: str) -> None:
        counts = Counter(SEVERITY_WORDS[Severity(each["severity"])] for each in self._findings)
        said = ", ".join(counted(counts[word], word) for word in SEVERITY_WORDS.values() if counts[word])
        if self._failed and not said:  # silence is no verdict
            said = f"nothing was checked: {'it ended early' if self._who else 'no rank has answered'}"
        lines = [*self._who, f"# result   {said or 'nothing found'}"]
        for finding in self._findings:
            lines += finding_lines(finding, columns(UNBOUND, self._out))
        is_bad = any(finding["severity"] != Severity.INFO for finding in self._findings)
        if is_bad or not self._failed:
            lines.append(f"# next     {_MENDED if is_bad else _MEASURE}")
        lines += [f"# record   {folder}"] if folder else []
        self._findings = []
        self._print(lines)


CASE_FIELDS = ("collective", "dtype", "op", "root", "requested_bytes", "size_bytes", "count", "placement")
RESULT_FIELDS = (
    *("status", "time_ns", "low_ns", "high_ns", "mean_ns", "algbw_gb_per_s", "busbw_gb_per_s", "samples"),
    *("calls_per_sample", "warmup_calls", "stop", "wrong", "issue_ns", "skew_ns", "first_call_ns"),
    *("excluded", "finished", "marks", "error", "conditions"),
)
STREAM_FIELDS = ("stream", "beside", "overlap")


class CsvDisplay(Display):
    """One line a case, as it finishes; at the end those that were not run. Empty fields are unknown or not
    applicable.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        super().__init__(out, err)
        self._ranks = self._written = 0

    def _begin(self, header: Event, plan: Plan, world: WorldInfo, method: Method) -> None:
        self._ranks = world.size
        # Statistics that were asked for: times in ns, cv a ratio.
        asked = (word for word in plan.show if word not in (*FIELD_WORDS, "timestamp", "memory"))
        more = (*(STREAM_FIELDS if plan.streams else ()), *["even"] * any(case.even for case in plan.cases))
        beside = (f"beside {each.text}" for each in plan.beside)
        names = (*CASE_FIELDS, "ranks", *RESULT_FIELDS, *asked, *more, *beside)
        self._rows = csv.DictWriter(self._out, names, extrasaction="ignore", lineterminator="\n")
        self._rows.writeheader()
        self._out.flush()

    def _take(self, item: Event) -> None:
        if item["event"] == EventKind.FINDING and item["finding"]["severity"] != Severity.INFO:
            print(*finding_lines(item["finding"]), sep="\n", file=self._err)
        elif self._plan is not None and item["event"] == EventKind.CASE:
            self._result(self._plan, read_result(item))
        elif self._plan is not None and item["event"] == EventKind.END:
            if self._plan.soak is not None and not self._written:  # ended early: the record has its results
                for result in _record_of(str(item["folder"])).finished:
                    self._result(self._plan, result)
            for result in not_run(len(self._plan.cases), self._written):
                self._result(self._plan, result)

    def _result(self, plan: Plan, result: CaseResult) -> None:
        self._written += 1
        case = plan.cases[result.case]
        lists = {
            "marks": " ".join(result.marks),
            "conditions": " ".join(result.conditions),
            "beside": "; ".join(case.beside),
        }
        # How many times as long a call takes beside each neighbour.
        longer = {f"beside {each.what}": each.mean.value for each in result.neighbours}
        values = {**asdict(case), **asdict(result), "ranks": self._ranks, **lists, **result.stats, **longer}
        self._rows.writerow(values)
        self._out.flush()
