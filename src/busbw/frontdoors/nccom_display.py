"""The events of a run as nccom-test shows them: its table on standard output as rows finish, all else on
standard error, and its JSON file at the end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from busbw.errors import ExitCode, UsageError
from busbw.exporters.nccom import count, type_word
from busbw.exporters.remarks import one_line
from busbw.frontdoors import nccom_table as table
from busbw.frontdoors.nccom_bandwidths import UNEQUAL, bandwidths
from busbw.frontdoors.nccom_samples import percentiles_ns
from busbw.frontdoors.nccom_settings import THEIR_FLAGS
from busbw.frontdoors.nccom_streams import stream_options
from busbw.frontdoors.renamed import renamed_event
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.event import Event, EventKind
from busbw.model.mark import meaning
from busbw.model.result import CaseResult, Status
from busbw.record.folder import LOG_FILE
from busbw.reports.live import read_header, read_result, show_error, show_state
from busbw.reports.streams import stream_words

if TYPE_CHECKING:
    from busbw.frontdoors.nccom_options import Options
    from busbw.model.plan import Plan

# What nccom-test says of a rank's end, so that scripts that look for "Failure" find it.
_NOT_REACHED: Final = "the run had ended before"
UNTOLD: Final = (
    "algorithm: - where the library did not tell it (MPI libraries do not; sends and receives have none)"
)
_OVER_RANKS: Final = {"avg": "mean over ranks", "max": "maximum over the ranks of all groups"}
_CLEAR: Final = "\r\x1b[K"


@dataclass
class _Heard:
    """What the events have said so far."""

    plan: Plan | None = None
    ranks: int = 0
    folder: Path = Path()
    time: str = ""
    tables: dict[int, list[table.Row]] = field(default_factory=dict)  # by stream
    overlaps: dict[int, list[float]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    marks: dict[str, int] = field(default_factory=dict)
    error: str = ""
    excluded: list[int] = field(default_factory=list)  # samples left out, of the rows that miss some
    singles: bool = False  # percentiles came from a pass of single calls
    several: int = 1  # calls in a sample whose percentiles are shown
    fewest: int | None = None  # samples behind a percentile that so few do not determine
    ended: bool = False
    log_read: int = 0

    @property
    def rows(self) -> list[table.Row]:
        """Of all tables, one after the other."""
        return [row for number in sorted(self.tables) for row in self.tables[number]]

    def cases(self) -> list[Case]:
        """The cases that have a row."""
        plan = self.plan
        return [] if plan is None else [case for case in plan.cases if _is_shown(case, plan)]


class NccomDisplay:
    """Takes the events of a run in order; ``live`` shows progress on a terminal."""

    def __init__(self, options: Options, out: TextIO, err: TextIO, *, live: bool) -> None:
        self._options, self._out, self._err = options, out, err
        # What is at the command line's operand, or what each stream's entry makes of it.
        self._of_streams = [stream.options for stream in stream_options(options)]
        self._columns = table.Columns(options.stats, options.show_input_output_size, options.show_algorithm)
        self._heard = _Heard()
        self._live = live and err.isatty()

    @property
    def failures(self) -> int:
        """Rows without numbers."""
        return sum(bool(row.failure) for row in self._heard.rows)

    def handle(self, item: Event) -> None:
        """See reports.live.Display."""
        kind = item["event"]
        if self._options.debug:
            self._show_log()
        if kind == EventKind.HEADER:
            self._begin(item)
        elif kind == EventKind.CASE:
            self._case(read_result(item))
        elif kind == EventKind.ERROR:
            item = renamed_event(item, THEIR_FLAGS)
            self._heard.error = str(item["message"])
            self._progress(None)
            show_error(item, self._err)
        elif kind == EventKind.STATE:
            show_state(item, self._err)
        elif kind == EventKind.END and self._heard.plan is not None:
            self._end(item)

    def close(self) -> None:
        """See reports.live.Display."""
        self._progress(None)

    def _begin(self, item: Event) -> None:
        plan, world, _ = read_header(item)
        heard = self._heard
        heard.plan, heard.ranks, heard.folder = plan, world.size, Path(str(item["folder"]))
        heard.time = f"mean over the measured calls of the {_OVER_RANKS[plan.timing.time]}"
        first = world.ranks[0]
        hosts = len(world.hosts)
        self._say(
            f"{_counted(world.size, 'rank')} on {_counted(hosts, 'host')},"
            f" one process each: backend {plan.backend}, {first.library} {first.library_version}".rstrip()
        )
        self._say(f"time:avg(us) is the {heard.time}; run {heard.folder.name}")
        if plan.groups:
            groups = _counted(len(plan.groups), "group")
            self._say(f"{groups} at once: a row is of the slowest, the run has all of them")
            if len({len(members) for members in plan.groups}) > 1:
                self._say(UNEQUAL)
        for words in stream_words(plan, world.size):
            self._say(words)
        if self._options.check or any(own.check for own in self._of_streams):
            golden = self._options.check == "all_ones"  # the same data whatever the seed
            self._say(
                f"check {self._options.check or 'of streams'}" + ("" if golden else f", seed {plan.seed}")
            )
        self._print(table.heading(self._columns))

    def _case(self, result: CaseResult) -> None:
        plan = self._heard.plan
        assert plan is not None
        case = plan.cases[result.case]
        self._heard.done.add(case.index)
        if not _is_shown(case, plan):
            return
        for mark in result.marks:
            self._heard.marks[mark] = self._heard.marks.get(mark, 0) + 1
        if result.excluded:
            self._heard.excluded.append(result.excluded)
        if result.overlap is not None:
            self._heard.overlaps.setdefault(case.stream, []).append(result.overlap)
        self._row(case, result)
        self._progress(f"{len(self._heard.done)} of {len(plan.cases)}")

    def _row_of(self, case: Case, result: CaseResult) -> table.Row:
        heard = self._heard
        assert heard.plan is not None
        row = table.Row(case.size_bytes, count(case), type_word(case.dtype), algorithm=result.algorithm)
        if result.status is not Status.GOOD or result.time_ns is None:
            return replace(row, failure=self._failure(case, result))
        times = self._times_ns(result)
        algbw, busbw = bandwidths(case, result, times[self._options.stats[0]])
        row = replace(row, times_ns=times, algbw_gb_per_s=algbw, busbw_gb_per_s=busbw)
        if not self._columns.sizes:
            return row
        put, got = _most_bytes(heard.plan, case, heard.ranks)
        return replace(row, input_bytes=put, output_bytes=got)

    def _times_ns(self, result: CaseResult) -> Mapping[str, float | None]:
        """The time columns. A percentile of few samples is printed too, as there; a note says how few."""
        times = {word: result.stats.get(word) for word in self._options.stats if word != "avg"}
        self._heard.singles |= bool(times) and "single_calls" in result.evidence
        missing = tuple(word for word, value in times.items() if value is None)
        if missing:
            found, samples = percentiles_ns(self._heard.folder, result.case, missing)
            times |= found
            if found:
                self._heard.fewest = min(samples, self._heard.fewest or samples)
                self._heard.several = max(
                    self._heard.several, result.calls_per_sample if self._of_streams else 1
                )
        return {"avg": result.mean_ns, **times}

    def _failure(self, case: Case, result: CaseResult) -> str:
        """What stands in a row instead of numbers: what is wrong, and where more is said of it."""
        what = self._operand(case.stream)
        if result.status is Status.WRONG:
            at = f", first on rank {result.wrong_at[0].rank}" if result.wrong_at else ""
            wrong = f"{_counted(result.wrong or 0, 'wrong element')}{at}"
            return f"Failure checking {what}: {wrong} - run folder {self._heard.folder}"
        why = one_line(result.error) or result.status.value
        return f"Failure running {what}: {why} - log file {self._heard.folder / LOG_FILE}"

    def _operand(self, stream: int) -> str:
        return self._of_streams[stream].operand if stream >= 0 else self._options.operand

    def _row(self, case: Case, result: CaseResult) -> None:
        """A row of the first table now; those of other streams when it has ended."""
        row = self._row_of(case, result)
        self._heard.tables.setdefault(case.stream, []).append(row)
        if case.stream <= 0:
            self._print(table.line(row, self._columns))

    def _end(self, item: Event) -> None:
        heard = self._heard
        plan = heard.plan
        if plan is None or heard.ended:
            return
        heard.ended = True
        if item["exit_code"] == ExitCode.INTERRUPTED:
            # An average of a part would look like that of the whole.
            self._say(f"interrupted after {_counted(len(heard.rows), 'size')}")
            return
        for case in heard.cases():
            if case.index not in heard.done:
                self._row(case, CaseResult(case.index, Status.NOT_RUN, error=heard.error or _NOT_REACHED))
        self._progress(None)
        for number, rows in sorted(heard.tables.items()):
            if number > 0:
                self._print(table.heading(self._columns))
                for row in rows:
                    self._print(table.line(row, self._columns))
            for text in table.footer(rows):
                self._print(text)
        self._notes(str(item["folder"]))
        if self._options.report_to_json_file:
            self._write_report()

    def _notes(self, folder: str) -> None:
        heard = self._heard
        for number, shares in sorted(heard.overlaps.items()):
            self._say(
                f"stream {number}: all streams were under way for {min(shares):.0%} to {max(shares):.0%} of"
                " its time, by row; give ops_per_iter so that they take equally long"
            )
        for mark, cases in heard.marks.items():
            self._say(f"marked {mark}, {cases} of {len(heard.rows)} rows: {meaning(mark)}")
        if heard.excluded:
            self._say(
                f"times are without {sum(heard.excluded)} samples of {len(heard.excluded)} rows, in which a"
                " rank had no core or a clock stepped; nccom-test would count them. Beyond 1 in 20 of a row"
                " all count"
            )
        if self._columns.algorithm and not all(row.algorithm for row in heard.rows):
            self._say(UNTOLD + _asked_for(os.environ))
        if heard.singles:
            self._say("percentiles are of a pass of single calls, the mean of back-to-back ones")
        if heard.several > 1:
            self._say(
                f"percentiles are of samples of up to {heard.several} calls each: single ones vary more"
            )
        if heard.fewest is not None:
            self._say(
                f"percentiles are of {heard.fewest} calls, few for a tail: p99 is known from 299 on (-n)"
            )
        rounded = [case for case in heard.cases() if case.size_bytes != case.requested_bytes]
        if rounded:
            self._say(
                f"{_counted(len(rounded), 'size')} {'was' if len(rounded) == 1 else 'were'} rounded to whole"
                " elements and equal shares, as"
                f" {rounded[0].requested_bytes} B to {rounded[0].size_bytes} B"
            )
        plan = heard.plan
        empty = {case.requested_bytes for case in plan.cases if is_empty(case)} if plan is not None else ()
        if empty:
            self._say(
                f"no rows for {_counted(len(empty), 'size')} up to {max(empty)} B: no rank would get a"
                " share, which is a multiple of 16 bytes"
            )
        self._say(f"`busbw show {Path(folder).name}` has intervals, ranks and samples")

    def _write_report(self) -> None:
        path = Path(self._options.report_to_json_file).expanduser()
        heard = self._heard
        body = {"config": config(self._options), "results": self.results(), "busbw": self._own()}
        try:
            path.write_text(json.dumps(body, indent=4) + "\n")
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}",
                hint=f"export it from the run: busbw export {heard.folder.name} --format nccom-json",
            ) from error

    def results(self) -> list[dict[str, Any]]:
        """The rows as entries of the JSON file; of streams also which one, and its operation."""
        return [
            {**self._stream_fields(number), **table.fields(row, self._columns)}
            for number, rows in sorted(self._heard.tables.items())
            for row in rows
        ]

    def _stream_fields(self, number: int) -> dict[str, Any]:
        plan = self._heard.plan
        if number < 0 or plan is None:
            return {}
        ranks = {len(members) for members in plan.streams[number].groups} or {self._heard.ranks}
        own = {"ranks": ranks.pop()} if len(ranks) == 1 else {}
        return {"stream": number, "operation": self._operand(number), **own}

    def _own(self) -> dict[str, Any]:
        """What `busbw import` needs to know beside the rows."""
        heard = self._heard
        assert heard.plan is not None
        return {
            "operation": "streams" if self._of_streams else self._options.operand,
            "nworkers": heard.ranks,
            **self._group_sizes(),
            "run_id": heard.folder.name,
            "time_is": f"{self._options.stats[0]}: {self._time_words()}; of one call",
            "bandwidth_is": f"GB/s = 10^9 bytes/s, from time:{self._options.stats[0]}(us)",
            "average_busbw_gb_per_s": [table.average(rows) for rows in heard.tables.values()]
            if self._of_streams
            else table.average(heard.rows),
            "errors": self.failures,
            "seed": heard.plan.seed,
        }

    def _group_sizes(self) -> dict[str, Any]:
        """Ranks of a group, by which bandwidths are; of each, where groups differ."""
        plan = self._heard.plan
        sizes = [len(members) for members in plan.groups] if plan is not None else []
        if not sizes or self._of_streams:
            return {}
        return {"group_ranks": sizes[0] if len(set(sizes)) == 1 else sizes}

    def _time_words(self) -> str:
        """What the first time column is."""
        first = self._options.stats[0]
        return self._heard.time.replace("mean", first if first != "avg" else "mean", 1)

    def _show_log(self) -> None:
        """With --debug, what the ranks printed since the last event."""
        path = self._heard.folder / LOG_FILE
        if self._heard.plan is None or not path.is_file():
            return
        with path.open(errors="replace") as log:
            log.seek(self._heard.log_read)
            text = log.read()
            self._heard.log_read = log.tell()
        self._err.write(text)
        self._err.flush()

    def _progress(self, text: str | None) -> None:
        if self._live:
            self._err.write(_CLEAR if text is None else f"{_CLEAR}{text}")
            self._err.flush()

    def _say(self, text: str) -> None:
        self._progress(None)
        print(f"busbw: {text}", file=self._err, flush=True)

    def _print(self, text: str) -> None:
        self._progress(None)
        self._out.write(text + "\n")
        self._out.flush()


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number != 1 else ''}"


def _asked_for(environ: Mapping[str, str]) -> str:
    """What was asked of NCCL, which is not what ran."""
    given = [f"{name}={environ[name]}" for name in ("NCCL_ALGO", "NCCL_PROTO") if environ.get(name)]
    return f"; {' '.join(given)} asks for it, and is no proof" if given else ""


def config(options: Options) -> dict[str, Any]:
    """The configuration of a report: every flag's value under its long name, and the operation."""
    fields = asdict(options)
    del fields["values"]
    operation = fields.pop("operand")
    return {"operation": operation, **fields}


def _is_shown(case: Case, plan: Plan) -> bool:
    """Out-of-place, the only form that nccom-test knows; in place where the operation has no other."""
    if is_empty(case):
        return False
    if plan.streams:
        return True
    if case.placement is Placement.OUT_OF_PLACE:
        return case.applicable or not any(
            other.applicable and other.requested_bytes == case.requested_bytes for other in plan.cases
        )
    return case.applicable and not any(
        other.applicable and other.placement is Placement.OUT_OF_PLACE for other in plan.cases
    )


def is_empty(case: Case) -> bool:
    """Whether so few bytes were asked for that no rank gets any: no size of that operation."""
    return case.row.sized and case.requested_bytes > 0 and case.size_bytes == 0


def _most_bytes(plan: Plan, case: Case, ranks: int) -> tuple[int, int]:
    """The most bytes that any rank puts in and gets out."""
    both = [plan.rank_bytes(case, rank, ranks) for rank in range(ranks)]
    return max(put for put, _ in both), max(got for _, got in both)


def create(options: Options, out: TextIO, err: TextIO) -> NccomDisplay:
    """The display of a command line; progress is shown on a terminal unless it is not wanted."""
    live = not (options.non_interactive or options.debug)
    return NccomDisplay(options, out, err, live=live)
