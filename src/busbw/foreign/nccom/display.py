"""The events of a run as nccom-test shows them: its table on standard output as rows finish, all else on
standard error, and its JSON file at the end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import numpy as np

from busbw.errors import ExitCode, UsageError
from busbw.files import store
from busbw.foreign.door import DoorDisplay, result_notes
from busbw.foreign.forms.remarks import one_line
from busbw.foreign.nccom import columns
from busbw.foreign.nccom.columns import Row
from busbw.foreign.nccom.settings import THEIR_FLAGS, is_empty, one_placement
from busbw.foreign.nccom.streams import stream_options
from busbw.judge.samples import case_times
from busbw.model.event import Event, EventKind
from busbw.model.result import CaseResult, Status
from busbw.record.folder import LOG_FILE
from busbw.record.read import read_samples
from busbw.report.events import read_result
from busbw.report.header_footer import stream_words
from busbw.stats.percentile import nearest_rank
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.foreign.nccom.options import Options
    from busbw.model.case import Case
    from busbw.model.plan import Plan
    from busbw.model.record import Method, WorldInfo

_NOT_REACHED: Final = "the run had ended before"
_UNKNOWN_ALGORITHM: Final = (
    "algorithm: - means not reported (MPI libraries do not report it; sends and receives have none)"
)
_OVER_RANKS: Final = {"avg": "mean over ranks", "max": "maximum over the ranks of all groups"}


class NccomDisplay(DoorDisplay):
    """Takes the events of a run in order. Its rows are the progress that it shows."""

    def __init__(self, options: Options, out: TextIO, err: TextIO) -> None:
        super().__init__(THEIR_FLAGS, out, err)
        self.options = options
        # What is at the command line's operand, or what each stream's entry makes of it.
        self._of_streams = [stream.options for stream in stream_options(options)]
        self._columns = columns.titles(
            options.stats, sizes=options.show_input_output_size, algorithm=options.show_algorithm
        )
        # Once the ranks have met: their number, what time:avg(us) is, and the cases that have a row.
        self._folder, self._ranks, self._time = Path(), 0, ""
        self._cases: dict[int, Case] = {}
        self._results: list[CaseResult] = []  # of the rows
        self._rows: dict[int, list[Row]] = {}  # by stream, -1 without streams
        self._few_samples: list[int] = []  # of percentiles of too few to be known
        self._has_ended = False
        self._log_read = 0

    @property
    def failures(self) -> int:
        """Rows without numbers."""
        return sum(map(_failures, self._rows.values()))

    def handle(self, item: Event) -> None:
        """See Display."""
        if self._plan is not None and self.options.debug:
            self._show_log()
        super().handle(item)

    # ---- events -------------------------------------------------------------------------------------

    def _begin(self, header: Event, plan: Plan, world: WorldInfo, method: Method) -> None:
        self._folder, self._ranks = Path(str(header["folder"])), world.size
        self._time = f"mean over the measured calls of the {_OVER_RANKS[plan.timing.time]}"
        cases = (case for case in one_placement(plan).cases if case.applicable and not is_empty(case))
        self._cases = {case.index: case for case in cases}
        first = world.ranks[0]
        self.say(
            f"{counted(world.size, 'rank')} on {counted(len(world.hosts), 'host')},"
            f" one process each: backend {plan.backend}, {first.library} {first.library_version}".rstrip(),
            f"time:avg(us) is the {self._time}; run {self._folder.name}",
        )
        if plan.groups:
            groups = counted(len(plan.groups), "group")
            self.say(f"{groups} at once: a row is of the slowest, the run has all of them")
        self.say(*stream_words(plan, world.size))
        if self.options.check or any(own.check for own in self._of_streams):
            is_golden = self.options.check == "all_ones"  # the same data whatever the seed
            seed = "" if is_golden else f", seed {plan.seed}"
            self.say(f"check {self.options.check or 'of streams'}{seed}")
        self._print([columns.heading(self._columns)])

    def _take(self, item: Event) -> None:
        if item["event"] == EventKind.CASE:
            self._row(read_result(item))
        elif item["event"] == EventKind.END and self._plan is not None and not self._has_ended:
            self._has_ended = True
            self._end(self._plan, interrupted=item["exit_code"] == ExitCode.INTERRUPTED)

    def _row(self, result: CaseResult) -> None:
        """A row of the first table now; those of other streams when it has ended."""
        case = self._cases.get(result.case)
        if case is None:
            return
        if result.status is not Status.GOOD or result.time_ns is None:
            row = columns.failed(case, self._failure(case, result))
        else:
            row = columns.measured(case, result, self._times_ns(result))
        self._results.append(result)
        self._rows.setdefault(case.stream, []).append(row)
        if case.stream <= 0:
            self._print([columns.line(row, self._columns)])

    def _times_ns(self, result: CaseResult) -> dict[str, float | None]:
        found = {**result.stats, "avg": result.mean_ns}
        unknown = [word for word in self.options.stats if word != "avg" and found.get(word) is None]
        if unknown:  # a percentile of few samples is printed too, as there; a note says how few
            found |= self._percentiles_ns(result.case, unknown)
        return {word: found.get(word) for word in self.options.stats}

    def _percentiles_ns(self, case: int, words: Sequence[str]) -> dict[str, float]:
        """Percentiles (pNN) of the times of one call, by nearest rank; of single calls where the run timed
        them. Nothing where the record has no samples here (yet).
        """
        assert self._plan is not None
        parts = case_times(case, self._plan.timing.time, read_samples(self._folder))
        if not parts:
            return {}
        times = np.sort(parts[-1].kept_ns if len(parts[-1].kept_ns) else parts[-1].call_ns)
        self._few_samples.append(len(times))
        return {word: nearest_rank(times, float(word[1:])) for word in words}

    def _failure(self, case: Case, result: CaseResult) -> str:
        """What stands in a row instead of numbers: what is wrong, and where more is said of it. Scripts look
        for "Failure".
        """
        what = self._operand(case.stream)
        if result.status is Status.WRONG:
            at = f", first on rank {result.wrong_at[0].rank}" if result.wrong_at else ""
            wrong = f"{counted(result.wrong or 0, 'wrong element')}{at}"
            return f"Failure checking {what}: {wrong} - run folder {self._folder}"
        why = one_line(result.error) or result.status.value
        return f"Failure running {what}: {why} - log file {self._folder / LOG_FILE}"

    def _operand(self, stream: int) -> str:
        return self._of_streams[stream].operand if stream >= 0 else self.options.operand

    def _end(self, plan: Plan, *, interrupted: bool) -> None:
        if interrupted:  # an average of a part would look like that of the whole
            self.say(f"interrupted after {counted(len(self._results), 'size')}")
            return
        error = self._errors[-1] if self._errors else _NOT_REACHED
        done = {result.case for result in self._results}
        for index in [index for index in self._cases if index not in done]:
            self._row(CaseResult(index, Status.NOT_RUN, error=error))
        for number, rows in sorted(self._rows.items()):
            if number > 0:
                self._print([columns.heading(self._columns)])
                self._print(columns.line(row, self._columns) for row in rows)
            values = [row[columns.BUSBW] for row in rows if row.get(columns.BUSBW) is not None]
            average = fsum(values) / len(values) if values else None
            self._print(columns.footer(average, _failures(rows)))
        self.say(*self._notes(plan))
        self.say(f"`busbw show {self._folder.name}` has intervals, ranks and samples")
        if self.options.report_to_json_file:
            self._write_report(plan)

    # ---- what else is to be said --------------------------------------------------------------------

    def _notes(self, plan: Plan) -> list[str]:
        notes = result_notes(plan, self._results, "nccom-test")
        if self.options.show_algorithm and not all(result.algorithm for result in self._results):
            notes.append(_UNKNOWN_ALGORITHM)
        has_percentiles = any(word != "avg" for word in self.options.stats)
        if has_percentiles and any("single_calls" in result.evidence for result in self._results):
            notes.append("percentiles come from a pass of single calls, the mean from back-to-back calls")
        if self._few_samples:
            few = min(self._few_samples)
            notes.append(f"percentiles come from {few} samples; p99 needs 299 (-n) to be known")
        rounded = [case for case in self._cases.values() if case.size_bytes != case.requested_bytes]
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

    def _write_report(self, plan: Plan) -> None:
        path = Path(self.options.report_to_json_file).expanduser()
        config = asdict(self.options)
        config = {"operation": config.pop("operand"), **config}
        body = {"config": config, "results": self.results(), "busbw": self._own(plan)}
        try:
            store(path, f"{json.dumps(body, indent=4)}\n".encode())
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}",
                hint=f"export it from the run: busbw export {self._folder.name} --format nccom-json",
            ) from error

    def results(self) -> list[dict[str, Any]]:
        """The rows as entries of the JSON file; of streams also which one, and its operation."""
        return [
            {**self._stream_fields(number), **columns.entry(row, self._columns)}
            for number, rows in sorted(self._rows.items())
            for row in rows
        ]

    def _stream_fields(self, number: int) -> dict[str, Any]:
        if number < 0 or self._plan is None:
            return {}
        ranks = {len(members) for members in self._plan.streams[number].groups} or {self._ranks}
        own = {"ranks": ranks.pop()} if len(ranks) == 1 else {}
        return {"stream": number, "operation": self._operand(number), **own}

    def _own(self, plan: Plan) -> dict[str, Any]:
        """What `busbw import` needs to know beside the rows."""
        first = self.options.stats[0]
        # Ranks of a group, by which bandwidths are.
        sizes = {len(members) for members in plan.groups} if not self._of_streams else set()
        return {
            "operation": "streams" if self._of_streams else self.options.operand,
            "nworkers": self._ranks,
            **({"group_ranks": sizes.pop()} if len(sizes) == 1 else {}),
            "run_id": self._folder.name,
            "time_is": f"{first}: {self._time if first == 'avg' else self._time.replace('mean', first, 1)}"
            "; of one call",
            "seed": plan.seed,
        }

    def _show_log(self) -> None:
        """With --debug, what the ranks printed since the last event."""
        path = self._folder / LOG_FILE
        if path.is_file():
            with path.open(errors="replace") as log:
                log.seek(self._log_read)
                self._err.write(log.read())
                self._log_read = log.tell()
            self._err.flush()


def _failures(rows: Sequence[Row]) -> int:
    return sum(columns.ERROR in row for row in rows)
