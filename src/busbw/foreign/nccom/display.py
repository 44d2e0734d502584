"""The events of a run as nccom-test shows them: its table on standard output as rows finish, all else on
standard error, and its JSON file at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import numpy as np

from busbw.errors import ExitCode, UsageError
from busbw.files import store
from busbw.foreign.door import renamed_event, result_notes
from busbw.foreign.forms.remarks import one_line
from busbw.foreign.nccom import columns
from busbw.foreign.nccom.columns import Columns, Row
from busbw.foreign.nccom.settings import THEIR_FLAGS, is_empty
from busbw.foreign.nccom.streams import stream_options
from busbw.model.case import Case
from busbw.model.event import Event, EventKind
from busbw.model.result import CaseResult, Status
from busbw.model.sample import EXCLUDING, HEADLINE, MAX_OVER_RANKS, SampleFlag
from busbw.record.folder import LOG_FILE
from busbw.record.read import read_samples
from busbw.report.events import read_header, read_result, show_error, show_state
from busbw.report.table import stream_words
from busbw.stats.outliers import exclude
from busbw.stats.percentile import nearest_rank
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.foreign.nccom.options import Options
    from busbw.model.plan import Plan

_NOT_REACHED: Final = "the run had ended before"
_UNKNOWN_ALGORITHM: Final = (
    "algorithm: - means not reported (MPI libraries do not report it; sends and receives have none)"
)
_OVER_RANKS: Final = {"avg": "mean over ranks", "max": "maximum over the ranks of all groups"}


@dataclass(frozen=True)
class _Run:
    """What the header says; ``time`` is what time:avg(us) is."""

    plan: Plan
    ranks: int
    folder: Path
    time: str


@dataclass(frozen=True)
class _Shown:
    """A row and the result that it is of. ``samples``: of how many its percentiles are, where they are too
    few to be known; 0 where none is.
    """

    case: Case
    result: CaseResult
    row: Row
    samples: int = 0


class NccomDisplay:
    """Takes the events of a run in order. Its rows are the progress that it shows."""

    def __init__(self, options: Options, out: TextIO, err: TextIO) -> None:
        self._options, self._out, self._err = options, out, err
        # What is at the command line's operand, or what each stream's entry makes of it.
        self._of_streams = [stream.options for stream in stream_options(options)]
        self._columns = Columns(options.stats, options.show_input_output_size, options.show_algorithm)
        self._run: _Run | None = None
        self._shown: list[_Shown] = []
        self._done: set[int] = set()
        self._error = ""
        self._has_ended = False
        self._log_read = 0

    @property
    def failures(self) -> int:
        """Rows without numbers."""
        return _failures(shown.row for shown in self._shown)

    def handle(self, item: Event) -> None:
        """See report.live.Display."""
        kind, run = item["event"], self._run
        if run is not None and self._options.debug:
            self._show_log(run)
        if kind == EventKind.HEADER:
            self._begin(item)
        elif kind == EventKind.CASE and run is not None:
            self._case(run, read_result(item))
        elif kind == EventKind.ERROR:
            item = renamed_event(item, THEIR_FLAGS)
            self._error = str(item["message"])
            show_error(item, self._err)
        elif kind == EventKind.STATE:
            show_state(item, self._err)
        elif kind == EventKind.END and run is not None and not self._has_ended:
            self._has_ended = True
            self._end(run, item)

    # ---- events -------------------------------------------------------------------------------------

    def _begin(self, item: Event) -> None:
        plan, world, _ = read_header(item)
        folder = Path(str(item["folder"]))
        time = f"mean over the measured calls of the {_OVER_RANKS[plan.timing.time]}"
        self._run = _Run(plan, world.size, folder, time)
        first = world.ranks[0]
        self._say(
            f"{counted(world.size, 'rank')} on {counted(len(world.hosts), 'host')},"
            f" one process each: backend {plan.backend}, {first.library} {first.library_version}".rstrip()
        )
        self._say(f"time:avg(us) is the {time}; run {folder.name}")
        if plan.groups:
            groups = counted(len(plan.groups), "group")
            self._say(f"{groups} at once: a row is of the slowest, the run has all of them")
        for words in stream_words(plan, world.size):
            self._say(words)
        if self._options.check or any(own.check for own in self._of_streams):
            is_golden = self._options.check == "all_ones"  # the same data whatever the seed
            seed = "" if is_golden else f", seed {plan.seed}"
            self._say(f"check {self._options.check or 'of streams'}{seed}")
        self._print(columns.heading(self._columns))

    def _case(self, run: _Run, result: CaseResult) -> None:
        case = run.plan.cases[result.case]
        self._done.add(case.index)
        if _is_shown(case, run.plan):
            self._row(run, case, result)

    def _row(self, run: _Run, case: Case, result: CaseResult) -> None:
        """A row of the first table now; those of other streams when it has ended."""
        shown = self._shown_of(run, case, result)
        self._shown.append(shown)
        if case.stream <= 0:
            self._print(columns.line(shown.row, self._columns))

    def _shown_of(self, run: _Run, case: Case, result: CaseResult) -> _Shown:
        if result.status is not Status.GOOD or result.time_ns is None:
            failure = self._failure(run, case, result)
            return _Shown(case, result, columns.row_of(case, algorithm=result.algorithm, failure=failure))
        words = [word for word in self._options.stats if word != "avg"]
        unknown = [word for word in words if result.stats.get(word) is None]
        # A percentile of few samples is printed too, as there; a note says how few.
        found, samples = percentiles_ns(run.folder, result.case, unknown) if unknown else ({}, 0)
        times = {"avg": result.mean_ns, **{word: result.stats.get(word) for word in words}, **found}
        return _Shown(case, result, columns.measured(case, result, times, self._options.stats[0]), samples)

    def _failure(self, run: _Run, case: Case, result: CaseResult) -> str:
        """What stands in a row instead of numbers: what is wrong, and where more is said of it. Scripts look
        for "Failure".
        """
        what = self._operand(case.stream)
        if result.status is Status.WRONG:
            at = f", first on rank {result.wrong_at[0].rank}" if result.wrong_at else ""
            wrong = f"{counted(result.wrong or 0, 'wrong element')}{at}"
            return f"Failure checking {what}: {wrong} - run folder {run.folder}"
        why = one_line(result.error) or result.status.value
        return f"Failure running {what}: {why} - log file {run.folder / LOG_FILE}"

    def _operand(self, stream: int) -> str:
        return self._of_streams[stream].operand if stream >= 0 else self._options.operand

    def _end(self, run: _Run, item: Event) -> None:
        if item["exit_code"] == ExitCode.INTERRUPTED:
            # An average of a part would look like that of the whole.
            self._say(f"interrupted after {counted(len(self._shown), 'size')}")
            return
        for case in run.plan.cases:
            if case.index not in self._done and _is_shown(case, run.plan):
                error = self._error or _NOT_REACHED
                self._row(run, case, CaseResult(case.index, Status.NOT_RUN, error=error))
        for number, rows in self._tables():
            if number > 0:
                self._print(columns.heading(self._columns))
                self._print(*(columns.line(row, self._columns) for row in rows))
            self._print(*columns.footer(_average(rows), _failures(rows)))
        for note in self._notes(run):
            self._say(note)
        self._say(f"`busbw show {Path(str(item['folder'])).name}` has intervals, ranks and samples")
        if self._options.report_to_json_file:
            self._write_report(run)

    def _tables(self) -> list[tuple[int, list[Row]]]:
        """The rows of each stream by its number, -1 without streams."""
        tables: dict[int, list[Row]] = {}
        for shown in self._shown:
            tables.setdefault(shown.case.stream, []).append(shown.row)
        return sorted(tables.items())

    # ---- what else is to be said --------------------------------------------------------------------

    def _notes(self, run: _Run) -> list[str]:
        results = [shown.result for shown in self._shown]
        notes = result_notes(run.plan, results, "nccom-test")
        if self._columns.algorithm and not all(shown.row.algorithm for shown in self._shown):
            notes.append(_UNKNOWN_ALGORITHM)
        has_percentiles = any(word != "avg" for word in self._options.stats)
        if has_percentiles and any("single_calls" in result.evidence for result in results):
            notes.append("percentiles come from a pass of single calls, the mean from back-to-back calls")
        few = min((shown.samples for shown in self._shown if shown.samples), default=0)
        if few:
            notes.append(f"percentiles come from {few} samples; p99 needs 299 (-n) to be known")
        return [*notes, *_size_notes(run.plan)]

    def _write_report(self, run: _Run) -> None:
        path = Path(self._options.report_to_json_file).expanduser()
        config = asdict(self._options)
        config = {"operation": config.pop("operand"), **config}
        body = {"config": config, "results": self.results(), "busbw": self._own(run)}
        try:
            store(path, f"{json.dumps(body, indent=4)}\n".encode())
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}",
                hint=f"export it from the run: busbw export {run.folder.name} --format nccom-json",
            ) from error

    def results(self) -> list[dict[str, Any]]:
        """The rows as entries of the JSON file; of streams also which one, and its operation."""
        return [
            {**self._stream_fields(number), **columns.fields(row, self._columns)}
            for number, rows in self._tables()
            for row in rows
        ]

    def _stream_fields(self, number: int) -> dict[str, Any]:
        run = self._run
        if number < 0 or run is None:
            return {}
        ranks = {len(members) for members in run.plan.streams[number].groups} or {run.ranks}
        own = {"ranks": ranks.pop()} if len(ranks) == 1 else {}
        return {"stream": number, "operation": self._operand(number), **own}

    def _own(self, run: _Run) -> dict[str, Any]:
        """What `busbw import` needs to know beside the rows."""
        first = self._options.stats[0]
        time = run.time if first == "avg" else run.time.replace("mean", first, 1)
        # Ranks of a group, by which bandwidths are.
        sizes = {len(members) for members in run.plan.groups} if not self._of_streams else set()
        return {
            "operation": "streams" if self._of_streams else self._options.operand,
            "nworkers": run.ranks,
            **({"group_ranks": sizes.pop()} if len(sizes) == 1 else {}),
            "run_id": run.folder.name,
            "time_is": f"{first}: {time}; of one call",
            "seed": run.plan.seed,
        }

    # ---- where it goes ------------------------------------------------------------------------------

    def _show_log(self, run: _Run) -> None:
        """With --debug, what the ranks printed since the last event."""
        path = run.folder / LOG_FILE
        if path.is_file():
            with path.open(errors="replace") as log:
                log.seek(self._log_read)
                self._err.write(log.read())
                self._log_read = log.tell()
            self._err.flush()

    def _say(self, text: str) -> None:
        print(f"busbw: {text}", file=self._err, flush=True)

    def _print(self, *lines: str) -> None:
        self._out.writelines(f"{line}\n" for line in lines)
        self._out.flush()


# ---- numbers ------------------------------------------------------------------------------------------


def percentiles_ns(folder: Path, case: int, words: Sequence[str]) -> tuple[dict[str, float], int]:
    """Percentiles (pNN) of the times of one call in ns, by nearest rank, and of how many samples; of single
    calls where the run timed them, and without those that the mean is without. Of as few samples as there
    are: nccom-test prints p99 of 20 calls.

    Nothing where the record has no samples here (yet).
    """
    rows = read_samples(folder)
    rows = rows[rows["case"] == case]
    of_headline = rows[rows["rank"] == HEADLINE]
    rows = of_headline if len(of_headline) else rows[rows["rank"] == MAX_OVER_RANKS]
    singles = rows[rows["flags"] & int(SampleFlag.SINGLE_CALL) != 0]
    rows = singles if len(singles) else rows
    if not len(rows):
        return {}, 0
    left = exclude(rows["flags"], EXCLUDING)
    rows = rows[left.kept] if left.valid else rows
    ordered = np.sort(rows["elapsed_ns"] / rows["k"])
    return {word: nearest_rank(ordered, float(word[1:])) for word in words}, len(rows)


def _average(rows: Sequence[Row]) -> float | None:
    """The mean of the busbw column; None where no row has one."""
    values = [row.busbw_gb_per_s for row in rows if row.busbw_gb_per_s is not None]
    return fsum(values) / len(values) if values else None


def _failures(rows: Iterable[Row]) -> int:
    return sum(bool(row.failure) for row in rows)


# ---- words --------------------------------------------------------------------------------------------


def _size_notes(plan: Plan) -> list[str]:
    notes = []
    rounded = [
        case for case in plan.cases if _is_shown(case, plan) and case.size_bytes != case.requested_bytes
    ]
    if rounded:
        notes.append(
            f"{counted(len(rounded), 'size')} {'was' if len(rounded) == 1 else 'were'} rounded to whole"
            f" elements and equal shares, as {rounded[0].requested_bytes} B to {rounded[0].size_bytes} B"
        )
    empty = {case.requested_bytes for case in plan.cases if is_empty(case)}
    if empty:
        notes.append(
            f"no rows for {counted(len(empty), 'size')} up to {max(empty)} B: no rank would get a"
            " share, which is a multiple of 16 bytes"
        )
    return notes


def _is_shown(case: Case, plan: Plan) -> bool:
    """Whether a case has a row: nccom-test measures out-of-place, where the operation has that."""
    if not case.applicable or is_empty(case):
        return False
    is_only = not any(other.applicable and not other.in_place for other in plan.cases)
    return bool(plan.streams) or not case.in_place or is_only
