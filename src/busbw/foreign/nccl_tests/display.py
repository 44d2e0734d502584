"""Events of a run to the output of nccl-tests, row by row as it goes, and to its exit status."""

from __future__ import annotations

import os
import socket
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, TextIO

import numpy as np

from busbw.errors import ExitCode
from busbw.foreign.door import DoorDisplay, result_notes
from busbw.foreign.nccl_tests import write, write_json
from busbw.foreign.nccl_tests.figures import Figures, Iterations, alltoallv_summary, figures, iterations
from busbw.foreign.nccl_tests.flags import ALL, FAILED, TIMED_OUT, Line, Variables
from busbw.foreign.nccl_tests.settings import THEIR_FLAGS
from busbw.model.case import Case
from busbw.model.collective import Role
from busbw.model.event import Event, EventKind
from busbw.model.plan import Plan
from busbw.model.record import Method, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.model.sample import SAMPLE_DTYPE
from busbw.plan.pattern import split_colours
from busbw.record.folder import SAMPLES_FILE
from busbw.report.events import read_result

_JUDGED: Final = (ExitCode.OK, ExitCode.BAD_VERDICT)


class NcclTestsDisplay(DoorDisplay):
    """A display of a line's events (``report.display``). ``status`` is what the process leaves with."""

    def __init__(
        self, line: Line, variables: Variables, words: Sequence[str], out: TextIO, err: TextIO
    ) -> None:
        super().__init__(THEIR_FLAGS, out, err)
        self.line, self.variables = line, variables
        self._json: Path | None = None
        self._document = write_json.begun(words, os.environ)
        self._maxbytes = line.options.maxbytes
        # Once the ranks have met: their number, where their samples are, and rank 0's part in its group.
        self._ranks, self._samples, self._first = 0, Path(), Role(0, 1)
        self._read = 0  # bytes of the samples
        self._results: list[CaseResult] = []
        self._out_of_place = Figures()  # of the size whose in-place result is still to come
        self._sides: list[Figures] = []  # of all rows
        self._skipped = ""
        self._memory: dict[str, int] = {}
        self._status: int | None = None

    def begin(self, fitting: Line, notes: Sequence[str] = ()) -> None:
        """Before the run starts: what is measured, where the line's -e does not fit; the table says both.
        And -J's file is made, and ``notes`` are said.
        """
        self._maxbytes = fitting.options.maxbytes
        if self.line.options.output_file:
            self._json, said = write_json.new_file(self.line.options.output_file)
            self._print(said)
        self.say(*notes)

    def close(self) -> None:
        """See Display."""
        if self._json is not None:
            write_json.close(self._json, self._document, self._errors)
            self._json = None

    def status(self, code: ExitCode) -> int:
        """nccl-tests' status where it has one for the end that busbw judged, else busbw's."""
        if any("(-T)" in text for text in self._errors):
            return TIMED_OUT
        return self._status if self._status is not None and code in _JUDGED else int(code)

    # ---- events -------------------------------------------------------------------------------------

    def _begin(self, header: Event, plan: Plan, world: WorldInfo, method: Method) -> None:
        self._ranks, self._samples = world.size, Path(str(header["folder"])) / SAMPLES_FILE
        self._first = plan.group_of(0, world.size) or Role(0, world.size)
        options, split = self.line.options, self.variables.split
        colours = split_colours(split, world.size) if split else [0] * world.size
        devices = [
            write.device(rank, colours[rank.rank], rank.host.partition(".")[0], "cpu") for rank in world.ranks
        ]
        version = write.nccl_version_code(world.ranks[0]) or 0
        # nccl-tests prints the mean over samples, where busbw's headline is their median.
        time = method.time.replace("median over samples", "mean over samples", 1)
        busbw = f"busbw {header['busbw_version']}"
        self.say(f"recorded as {header['run_id']}")
        reduced = f"# Reducing maxBytes to {self._maxbytes} due to memory limitation"
        self._print(
            [
                f"# busbw: measured by {busbw}, written in the layout of {write.LAYOUT}",
                f"# busbw: time = {time}; of one call, in us",
                f"# {write.LAYOUT.replace(' ', ' version ')} nccl-headers={version} nccl-library={version}",
                *write.header(self.line.program, options, devices),
                *(("#", reduced) if self._maxbytes != options.maxbytes else ()),
                *write.heading(options),
            ]
        )
        config = write_json.config(options, devices)
        self._document |= {"nccl_version": version, "config": config, "results": []}

    def _take(self, item: Event) -> None:
        kind, plan = item["event"], self._plan
        if kind == EventKind.MEMORY:
            self._memory = item["most_bytes"]
        if plan is None:
            return
        if kind == (EventKind.CASE if plan.soak is None else EventKind.WINDOW):
            self._result(plan, read_result(item))
        elif kind == EventKind.END:
            if not self._errors and ExitCode(int(item["exit_code"])) in _JUDGED:
                self._end()
            self.say(*result_notes(plan, self._results, "nccl-tests"), f"record {item['folder']}")

    def _result(self, plan: Plan, result: CaseResult) -> None:
        case = plan.cases[result.case]
        if refused := case.row.refuses(self._first.ranks):  # no such collective on so many ranks: said once
            not_power = f"nRanks {self._first.ranks} is not a power of 2, skipping"
            words = not_power if case.collective == "hypercube" else f"# {refused}"
            if words != self._skipped:
                self._skipped = words
                self._print([words])
            return
        if plan.soak is not None and plan.soak.cycles is None and result.case == 0:
            # -N 0: the footer is of the last sweep
            self._results, self._sides = [], []
        self._results.append(result)
        if result.status is Status.FAILED:
            self._errors.append(result.error)
        found = figures(case, result, self._first, self.line.options.average, self._iterations(result))
        if case.in_place:  # the second of the pair
            self._row(plan, case, (self._out_of_place, found))
        else:
            self._out_of_place = found

    def _iterations(self, result: CaseResult) -> Iterations | None:
        """Rank 0 appends the samples of a case before it sends its result, and maybe those of later ones."""
        if not self.line.options.per_iter_timing or result.time_ns is None:
            return None
        rows = np.fromfile(self._samples, SAMPLE_DTYPE, offset=self._read)
        cases = rows["case"]  # in their order
        own = rows[bisect_left(cases, result.case) : bisect_right(cases, result.case)]
        self._read += bisect_right(cases, result.case) * SAMPLE_DTYPE.itemsize
        return iterations(own, self._ranks, self.line.options.per_iter_skip)

    def _row(self, plan: Plan, case: Case, sides: tuple[Figures, Figures]) -> None:
        self._sides += sides
        options, redop, count = self.line.options, self._redop(case), case.count
        if case.collective == "alltoallv":  # the count of an even exchange, and 0 with a matrix
            count = 0 if self.variables.matrix else case.shape(self._first.ranks).call_count
        for side in sides:
            if self.variables.print_summary and side.time_us is not None:
                self._print(alltoallv_summary(plan, case, self._first, self.variables, side.time_us))
        stamp = datetime.now().astimezone().strftime(write.STAMP_FORMAT)
        self._print([write.row(case, redop, count, sides, options, stamp)])
        if self._json is not None:  # of -I it has every iteration
            self._document["results"].append(write_json.row(case, redop, count, sides, options.iters))

    def _redop(self, case: Case) -> str:
        """The word that nccl-tests prints: its sendrecv shows -o, its hypercube nothing."""
        if case.collective == "sendrecv":
            return "sum" if self.line.options.op == ALL else self.line.options.op
        return case.op or ("" if case.collective == "hypercube" else write.NO_OPERATION)

    def _end(self) -> None:
        wrong = sum(side.wrong_ranks for side in self._sides)
        bandwidths = [side.busbw_gb_per_s for side in self._sides if side.busbw_gb_per_s is not None]
        average = sum(bandwidths) / len(bandwidths) if bandwidths else None
        minimum = self.variables.min_bandwidth
        is_below = minimum is not None and write.is_below(average, minimum)
        self._status = FAILED if wrong or is_below else 0
        lines = write.footer(self.line.program, wrong, average, minimum)
        if self.line.options.memory:
            lines.append(write.memory_line(self._memory))
        self._print([*lines, "#", ""])
        if self._status:
            host = socket.gethostname().partition(".")[0]
            self._print([f" .. {host} pid {os.getpid()}: Test failure busbw:{self._status}"])
        self._document |= write_json.summary(wrong, average, minimum)
