"""Events of a run to the output of nccl-tests, row by row as it goes, and to its exit status."""

from __future__ import annotations

import os
import socket
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, TextIO

import numpy as np
import numpy.typing as npt

from busbw.errors import ExitCode
from busbw.exporters.nccl_tests import LAYOUT, nccl_version_code
from busbw.exporters.options import bus_id, device_number
from busbw.frontdoors import nccl_tests_table as table
from busbw.frontdoors.nccl_tests_environment import Variables, color
from busbw.frontdoors.nccl_tests_figures import (
    Figures,
    Iterations,
    cpu_time_us,
    figures,
    iterations,
)
from busbw.frontdoors.nccl_tests_flags import ALL, FAILED, INTERNAL_ERROR, TIMED_OUT, TOO_LARGE, Line
from busbw.frontdoors.nccl_tests_json import JsonFile
from busbw.frontdoors.nccl_tests_settings import THEIR_FLAGS
from busbw.frontdoors.nccl_tests_summary import summary
from busbw.frontdoors.renamed import renamed_event
from busbw.model.case import Case
from busbw.model.collective import Role
from busbw.model.event import Event, EventKind
from busbw.model.mark import meaning
from busbw.model.plan import Plan
from busbw.model.record import RankInfo, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.model.sample import SAMPLE_DTYPE
from busbw.record.folder import SAMPLES_FILE
from busbw.reports.live import read_header, read_result, show_error

_JUDGED: Final = (ExitCode.OK, ExitCode.BAD_VERDICT)


class NcclTestsDisplay:
    """A display of events (``reports.live.Display``). ``status`` is what the process leaves with."""

    def __init__(
        self, line: Line, variables: Variables, out: TextIO, err: TextIO, json_file: JsonFile | None = None
    ) -> None:
        self._line, self._variables = line, variables
        self._out, self._err, self._json = out, err, json_file
        self._plan: Plan | None = None
        self._world: WorldInfo | None = None
        self._samples: _Samples | None = None
        self._pair: list[tuple[Case, Figures]] = []
        self._bandwidths: list[float] = []
        self._wrong = 0
        self._said_lost_ranks = False
        self._skipping = ""
        self._memory: dict[str, int] = {}
        self._errors: list[str] = []
        self._excluded: list[int] = []  # samples left out of a mean, of the cases that miss some
        self._marks = Counter[str]()
        self._cases = 0
        self._status: int | None = None
        self._maxbytes = line.options.maxbytes

    def handle(self, item: Event) -> None:
        """See Display."""
        kind = item["event"]
        if kind == EventKind.HEADER:
            self._start(item)
        elif kind == EventKind.CASE:
            self._result(read_result(item))
        elif kind == EventKind.MEMORY:
            self._memory = item["most_bytes"]
        elif kind == EventKind.ERROR:
            item = renamed_event(item, THEIR_FLAGS)
            show_error(item, self._err)
            self._errors.append(str(item["message"]))
        elif kind == EventKind.END and self._plan is not None:
            self._end(ExitCode(int(item["exit_code"])), str(item["folder"]))

    def lower(self, fitting: Line) -> None:
        """Before the run starts: what is measured, where the line's -e does not fit. The table says both."""
        self._maxbytes = fitting.options.maxbytes

    def close(self) -> None:
        """See Display."""
        if self._json is not None:
            self._json.close(self._errors)
            self._json = None

    def status(self, code: ExitCode) -> int:
        """nccl-tests' status where it has one for the end that busbw judged, else busbw's."""
        if any("(-T)" in text for text in self._errors):
            return TIMED_OUT
        if any(text.startswith(TOO_LARGE) for text in self._errors):
            return INTERNAL_ERROR
        return self._status if self._status is not None and code in _JUDGED else int(code)

    # ---- events -------------------------------------------------------------------------------------

    def _start(self, item: Event) -> None:
        self._plan, self._world, method = read_header(item)
        if self._line.options.per_iter_timing or self._line.options.report_cputime:
            self._samples = _Samples(Path(str(item["folder"])) / SAMPLES_FILE)
        devices = [self._device(rank) for rank in self._world.ranks]
        version = nccl_version_code(self._world.ranks[0]) or 0
        print(f"busbw: recorded as {item['run_id']}", file=self._err)
        self._print(
            f"# busbw: measured by busbw {item['busbw_version']}, written in the layout of {LAYOUT}",
            f"# busbw: time = {_time_words(method.time)}; of one call, in us",
            *table.header(self._line, version),
            *map(table.device_line, devices),
            *(() if self._maxbytes == self._line.options.maxbytes else table.lowered(self._maxbytes)),
            *table.heading(self._line.options),
        )
        if self._json is not None:
            self._json.start(version, devices)

    def _device(self, rank: RankInfo) -> dict[str, object]:
        return {
            "rank": rank.rank,
            "group": color(self._variables.split, rank.rank),
            "pid": rank.pid,
            "hostname": rank.host.partition(".")[0],
            "device": device_number(rank),
            "device_hex": bus_id(rank) or "cpu",
            "device_info": rank.device,
        }

    def _result(self, result: CaseResult) -> None:
        assert self._plan is not None
        assert self._world is not None
        case = self._plan.cases[result.case]
        if refused := case.row.refuses(self._first().ranks):
            self._skip(case, refused)
            return
        found = figures(case, result, self._first(), self._line.options.average)
        self._pair.append((case, self._with_iterations(found, case, result)))
        self._cases += 1
        self._marks.update(result.marks)
        if result.excluded:
            self._excluded.append(result.excluded)
        if result.status is Status.FAILED:
            self._errors.append(result.error)
        if case.in_place:  # the second of the pair
            self._row()

    def _first(self) -> Role:
        """The part that rank 0 plays in its group."""
        assert self._plan is not None
        assert self._world is not None
        return self._plan.group_of(0, self._world.size) or Role(0, self._world.size)

    def _skip(self, case: Case, why: str) -> None:
        """A collective that does not exist on so many ranks, once."""
        if why == self._skipping:
            return
        self._skipping = why
        is_hypercube = case.collective == "hypercube"
        self._print(
            f"nRanks {self._first().ranks} is not a power of 2, skipping" if is_hypercube else f"# {why}"
        )

    def _with_iterations(self, found: Figures, case: Case, result: CaseResult) -> Figures:
        if self._samples is None or result.time_ns is None or self._world is None:
            return found
        options, rows = self._line.options, self._samples.of(case.index)
        per_iteration = (
            iterations(rows, self._world.size, options.per_iter_skip) if options.per_iter_timing else None
        )
        if self._json is not None and per_iteration is not None and self._world.size > 1:
            self._say_lost_ranks(per_iteration)
        cpu_time = cpu_time_us(rows) if options.report_cputime else None
        if cpu_time is not None and self._plan is not None and self._plan.backend == "mpi":
            cpu_time = found.time_us  # MPI calls block
        return replace(found, iterations=per_iteration, cpu_time_us=cpu_time)

    def _say_lost_ranks(self, found: Iterations) -> None:
        """That the file has no times by process, once."""
        if found.by_rank_us or self._said_lost_ranks:
            return
        assert self._world is not None
        self._said_lost_ranks = True
        print(
            f"busbw: -J: no per_process_max_times_us, for {self._world.size} ranks have more samples of -n"
            f" {self._line.options.iters} than are kept; lower -n",
            file=self._err,
        )

    def _row(self) -> None:
        assert self._plan is not None
        assert self._world is not None
        (case, out_of_place), (_, in_place) = self._pair
        self._pair = []
        sides, redop = (out_of_place, in_place), self._redop(case)
        for side in sides:
            if side.busbw_gb_per_s is not None:
                self._bandwidths.append(side.busbw_gb_per_s)
            self._wrong += side.wrong_ranks
            if self._variables.print_summary and side.time_us is not None:
                self._print(*summary(self._plan, case, self._first(), self._variables, side.time_us))
        count = self._count(case)
        stamp = datetime.now().astimezone().strftime(table.STAMP_FORMAT)
        self._print(table.row(case, redop, sides, self._line.options, stamp, count))
        if self._json is not None:
            self._json.row(case, redop, sides, count)

    def _count(self, case: Case) -> int:
        """The count of the call; alltoallv shows that of an even exchange, and 0 with a matrix."""
        if case.collective != "alltoallv":
            return case.count
        return 0 if self._variables.matrix else case.shape(self._first().ranks).call_count

    def _redop(self, case: Case) -> str:
        """The word that nccl-tests prints: its sendrecv shows -o, its hypercube nothing."""
        if case.collective == "sendrecv":
            return "sum" if self._line.options.op == ALL else self._line.options.op
        return case.op or ("" if case.collective == "hypercube" else "none")

    def _end(self, code: ExitCode, folder: str) -> None:
        if self._errors or code not in _JUDGED:
            self._say_notes(folder)
            return
        average = sum(self._bandwidths) / len(self._bandwidths) if self._bandwidths else None
        minimum = self._variables.min_bandwidth
        below = minimum is not None and table.is_below(average, minimum)
        self._status = FAILED if self._wrong or below else 0
        lines = table.footer(self._line.program, self._wrong, average, minimum)
        lines += [table.memory_line(self._memory)] if self._line.options.memory else []
        self._print(*lines, "#", "")
        if self._status:
            host = socket.gethostname().partition(".")[0]
            self._print(f" .. {host} pid {os.getpid()}: Test failure busbw:{self._status}")
        if self._json is not None:
            self._json.end(self._wrong, average, minimum)
        self._say_notes(folder)

    def _say_notes(self, folder: str) -> None:
        for mark, count in self._marks.items():
            print(f"busbw: marked {mark}, {count} of {self._cases} cases: {meaning(mark)}", file=self._err)
        if self._excluded:
            print(
                f"busbw: times are without {sum(self._excluded)} samples of {len(self._excluded)} cases, in"
                " which a rank had no core or a clock stepped; nccl-tests would count them. Beyond 1 in 20 of"
                " a case all count",
                file=self._err,
            )
        print(f"busbw: record {folder}", file=self._err)

    def _print(self, *lines: str) -> None:
        self._out.writelines(f"{line}\n" for line in lines)
        self._out.flush()


class _Samples:
    """Samples of the run under way: rank 0 appends those of a case before it tells the result."""

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


def _time_words(words: str) -> str:
    """What nccl-tests prints is the mean over samples, where busbw's headline is their median."""
    return words.replace("median over samples", "mean over samples", 1)
