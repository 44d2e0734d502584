"""Events of a run to the output of nccl-tests, row by row as it goes, and to its exit status."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TextIO

import numpy as np
import numpy.typing as npt

from busbw.errors import ExitCode
from busbw.foreign.door import renamed_event, result_notes
from busbw.foreign.nccl_tests import write, write_json
from busbw.foreign.nccl_tests.environment import Variables
from busbw.foreign.nccl_tests.figures import Figures, Iterations, alltoallv_summary, figures, iterations
from busbw.foreign.nccl_tests.flags import ALL, FAILED, TIMED_OUT, Line
from busbw.foreign.nccl_tests.settings import THEIR_FLAGS
from busbw.model.case import Case
from busbw.model.collective import Role
from busbw.model.event import Event, EventKind
from busbw.model.plan import Plan
from busbw.model.record import WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.model.sample import SAMPLE_DTYPE
from busbw.plan.pattern import split_colours
from busbw.record.folder import SAMPLES_FILE
from busbw.report.events import read_header, read_result, show_error

_JUDGED: Final = (ExitCode.OK, ExitCode.BAD_VERDICT)


@dataclass(frozen=True)
class _Run:
    """What the header says; ``first`` is the part of rank 0 in its group."""

    plan: Plan
    world: WorldInfo
    first: Role


class NcclTestsDisplay:
    """A display of events (``report.live.Display``). ``status`` is what the process leaves with."""

    def __init__(
        self, line: Line, variables: Variables, words: Sequence[str], out: TextIO, err: TextIO
    ) -> None:
        self._line, self._variables = line, variables
        self._out, self._err = out, err
        self._json: Path | None = None
        self._document = write_json.begun(words, os.environ)
        self._maxbytes = line.options.maxbytes
        self._run: _Run | None = None
        self._samples: _Samples | None = None
        self._results: list[CaseResult] = []
        self._out_of_place = Figures()  # of the size whose in-place result is still to come
        self._sides: list[Figures] = []  # of all rows
        self._skipped = ""
        self._memory: dict[str, int] = {}
        self._errors: list[str] = []
        self._status: int | None = None

    def begin(self, fitting: Line) -> None:
        """Before the run starts: what is measured, where the line's -e does not fit; the table says both.
        And -J's file is made.
        """
        self._maxbytes = fitting.options.maxbytes
        if self._line.options.output_file:
            self._json, said = write_json.new_file(self._line.options.output_file)
            self._print(*said)

    def handle(self, item: Event) -> None:
        """See Display."""
        kind, run = item["event"], self._run
        if kind == EventKind.HEADER:
            self._start(item)
        elif run is not None and kind == (EventKind.CASE if run.plan.soak is None else EventKind.WINDOW):
            self._result(run, read_result(item))
        elif kind == EventKind.MEMORY:
            self._memory = item["most_bytes"]
        elif kind == EventKind.ERROR:
            item = renamed_event(item, THEIR_FLAGS)
            show_error(item, self._err)
            self._errors.append(str(item["message"]))
        elif kind == EventKind.END and run is not None:
            if not self._errors and ExitCode(int(item["exit_code"])) in _JUDGED:
                self._end()
            self._say_notes(run, str(item["folder"]))

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

    def _start(self, item: Event) -> None:
        plan, world, method = read_header(item)
        self._run = _Run(plan, world, plan.group_of(0, world.size) or Role(0, world.size))
        options = self._line.options
        if options.per_iter_timing:
            self._samples = _Samples(Path(str(item["folder"])) / SAMPLES_FILE)
        split = self._variables.split
        colours = split_colours(split, world.size) if split else [0] * world.size
        devices = [
            write.device(rank, colours[rank.rank], rank.host.partition(".")[0], "cpu") for rank in world.ranks
        ]
        version = write.nccl_version_code(world.ranks[0]) or 0
        # nccl-tests prints the mean over samples, where busbw's headline is their median.
        time = method.time.replace("median over samples", "mean over samples", 1)
        print(f"busbw: recorded as {item['run_id']}", file=self._err)
        self._print(
            f"# busbw: measured by busbw {item['busbw_version']}, written in the layout of {write.LAYOUT}",
            f"# busbw: time = {time}; of one call, in us",
            f"# {write.LAYOUT.replace(' ', ' version ')} nccl-headers={version} nccl-library={version}",
            *write.header(self._line.program, options, devices),
        )
        if self._maxbytes != options.maxbytes:
            self._print("#", f"# Reducing maxBytes to {self._maxbytes} due to memory limitation")
        self._print(*write.heading(options))
        self._document |= {
            "nccl_version": version,
            "config": write_json.config(options, devices),
            "results": [],
        }

    def _result(self, run: _Run, result: CaseResult) -> None:
        case = run.plan.cases[result.case]
        if refused := case.row.refuses(run.first.ranks):
            self._skip(case, run.first.ranks, refused)
            return
        soak = run.plan.soak
        if soak is not None and soak.cycles is None and result.case == 0:
            # -N 0: the footer is of the last sweep
            self._results, self._sides = [], []
        self._results.append(result)
        if result.status is Status.FAILED:
            self._errors.append(result.error)
        single = self._iterations(run, result)
        found = figures(case, result, run.first, self._line.options.average, single)
        if case.in_place:  # the second of the pair
            self._row(run, case, (self._out_of_place, found))
        else:
            self._out_of_place = found

    def _skip(self, case: Case, ranks: int, why: str) -> None:
        """A collective that does not exist on so many ranks, once."""
        if why != self._skipped:
            self._skipped = why
            is_hypercube = case.collective == "hypercube"
            self._print(f"nRanks {ranks} is not a power of 2, skipping" if is_hypercube else f"# {why}")

    def _iterations(self, run: _Run, result: CaseResult) -> Iterations | None:
        if self._samples is None or result.time_ns is None:
            return None
        samples = self._samples.of(result.case)
        return iterations(samples, run.world.size, self._line.options.per_iter_skip)

    def _row(self, run: _Run, case: Case, sides: tuple[Figures, Figures]) -> None:
        self._sides += sides
        options, redop, count = self._line.options, self._redop(case), self._count(run, case)
        for side in sides:
            if self._variables.print_summary and side.time_us is not None:
                self._print(*alltoallv_summary(run.plan, case, run.first, self._variables, side.time_us))
        stamp = datetime.now().astimezone().strftime(write.STAMP_FORMAT)
        self._print(write.row(case, redop, count, sides, options, stamp))
        if self._json is not None:  # of -I it has every iteration
            self._document["results"].append(write_json.row(case, redop, count, sides, options.iters))

    def _count(self, run: _Run, case: Case) -> int:
        """The count of the call; alltoallv shows that of an even exchange, and 0 with a matrix."""
        if case.collective != "alltoallv":
            return case.count
        return 0 if self._variables.matrix else case.shape(run.first.ranks).call_count

    def _redop(self, case: Case) -> str:
        """The word that nccl-tests prints: its sendrecv shows -o, its hypercube nothing."""
        if case.collective == "sendrecv":
            return "sum" if self._line.options.op == ALL else self._line.options.op
        return case.op or ("" if case.collective == "hypercube" else write.NO_OPERATION)

    def _end(self) -> None:
        wrong = sum(side.wrong_ranks for side in self._sides)
        bandwidths = [side.busbw_gb_per_s for side in self._sides if side.busbw_gb_per_s is not None]
        average = sum(bandwidths) / len(bandwidths) if bandwidths else None
        minimum = self._variables.min_bandwidth
        is_below = minimum is not None and write.is_below(average, minimum)
        self._status = FAILED if wrong or is_below else 0
        lines = write.footer(self._line.program, wrong, average, minimum)
        if self._line.options.memory:
            lines.append(write.memory_line(self._memory))
        self._print(*lines, "#", "")
        if self._status:
            host = socket.gethostname().partition(".")[0]
            self._print(f" .. {host} pid {os.getpid()}: Test failure busbw:{self._status}")
        self._document |= write_json.summary(wrong, average, minimum)

    def _say_notes(self, run: _Run, folder: str) -> None:
        """What the table has no place for."""
        for text in (*result_notes(run.plan, self._results, "nccl-tests"), f"record {folder}"):
            print(f"busbw: {text}", file=self._err)

    def _print(self, *lines: str) -> None:
        self._out.writelines(f"{line}\n" for line in lines)
        self._out.flush()


class _Samples:
    """Samples of the run under way: rank 0 appends those of a case before it sends the result."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def of(self, case: int) -> npt.NDArray[np.void]:
        """Those of one case; asked for once, in the order of the cases."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = len(data) // SAMPLE_DTYPE.itemsize * SAMPLE_DTYPE.itemsize
        rows = np.frombuffer(data[:whole], SAMPLE_DTYPE)
        later = np.flatnonzero(rows["case"] > case)
        here = rows[: later[0]] if len(later) else rows
        self._read += here.nbytes
        found: npt.NDArray[np.void] = here[here["case"] == case]
        return found
