"""The process that measures a line of nccl-tests: it starts the ranks, or is rank 0 of somebody's launch. It
loads what no other rank needs.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from busbw.foreign.door import in_words_of
from busbw.foreign.nccl_tests.display import NcclTestsDisplay
from busbw.foreign.nccl_tests.flags import Line, Variables
from busbw.foreign.nccl_tests.processes import Processes, of_several, processes_words
from busbw.foreign.nccl_tests.settings import (
    THEIR_FLAGS,
    backend_wanted,
    has_matrix,
    largest_size,
    lowered,
    operation,
    remarks,
    run_settings,
)
from busbw.launch import here
from busbw.launch.joined import report
from busbw.launch.local import local_request, rank_count
from busbw.machine.backends import choose_backend
from busbw.model.plan import Plan
from busbw.plan.flags.run import RunSettings
from busbw.plan.make import make_plan
from busbw.rank import progress
from busbw.rank.entry import Director, live, world_choice
from busbw.rank.rank0 import Request
from busbw.rank.watcher import begin
from busbw.rank.world.identity import Identity
from busbw.record import folder as folders
from busbw.report.live import unless_nobody_reads


@dataclass(frozen=True)
class Door:
    """A line to be measured: as read, as words from the program's name on, and as busbw was called."""

    line: Line
    variables: Variables
    words: Sequence[str]
    argv: tuple[str, ...]

    def display(self) -> NcclTestsDisplay:
        """What shows its run."""
        return NcclTestsDisplay(self.line, self.variables, self.words, sys.stdout, sys.stderr)

    def with_split(self, split: str) -> Door:
        """With another NCCL_TESTS_SPLIT."""
        return replace(self, variables=replace(self.variables, split=split))


def start(door: Door) -> int:
    """Start the ranks on this host, and follow them; gives the exit status."""
    line, split = door.line, door.variables.split
    door = door.with_split("")
    with contextlib.closing(door.display()) as display, in_words_of(THEIR_FLAGS):
        backend = choose_backend(*backend_wanted())
        ranks = rank_count(line.options.ranks_per_process, backend)
        notes = [f"ranks {ranks} = {processes_words(Processes('', 1, ranks), line)}"]
        if split:
            notes.append(
                f"split {split} has no effect, as in nccl-tests: it splits processes, and there is one here;"
                " start a process for each rank, or use `busbw run --split`"
            )
        settings, plan = _planned(door, backend, ranks, ranks, display, notes)
        request_for = partial(local_request, backend, world_choice([line.program]), ranks)
        code = here.measure(plan, settings, door.argv, request_for, display.handle, sys.stderr)
    return display.status(code)


def join(door: Door, identity: Identity) -> int:
    """Be rank 0 of somebody's launch; the other ranks live in ``command.follow``. Gives the exit status."""
    line = door.line
    identity, processes = of_several(identity, line)
    door = door.with_split(processes.split(door.variables.split))
    stall_s = progress.stall_seconds(os.environ.get(progress.VARIABLE, ""))
    begin(identity, stall_s, report)
    chosen: list[RunSettings] = []

    def plan(ranks: int) -> Plan:
        backend = choose_backend(*backend_wanted())
        shares = processes_words(replace(processes, count=ranks // processes.each), line)
        notes = [f"ranks {ranks} = {shares}"]
        settings, made = _planned(door, backend, ranks, identity.local_size, display, notes)
        chosen.append(settings)
        return made

    def request() -> Request:
        """Asked for after the plan."""
        run_id = folders.new_run_id(operation(line.program))
        folder = folders.create(folders.environ_home(), run_id)
        return Request(run_id, str(folder), door.argv, chosen[0].written())

    with contextlib.closing(door.display()) as display:
        show = unless_nobody_reads(display.handle)
        code = live(identity, world_choice([line.program]), Director(request, plan), show)
    return display.status(code)


def _planned(
    door: Door,
    backend: str,
    ranks: int,
    ranks_here: int | None,
    display: NcclTestsDisplay,
    notes: Sequence[str],
) -> tuple[RunSettings, Plan]:
    """The settings and the plan of a line, with sizes that memory holds. The display shows what was lowered,
    and standard error ``notes`` and what else differs from nccl-tests. Raises UsageError.
    """
    line, variables, said = door.line, door.variables, list(notes)
    if not has_matrix(line, variables):  # which fits, or is refused
        fitting = lowered(line, largest_size(backend, line.options.check, ranks_here))
        asked, given = line.options.maxbytes, fitting.options.maxbytes
        if given != asked:
            said.append(f"-e {asked} lowered to {given}, the largest that memory holds on this host")
        line = fitting
    with in_words_of(THEIR_FLAGS):
        settings = run_settings(line, variables, backend, backend_wanted()[1])
        plan = make_plan((operation(line.program),), settings, backend, ranks)
    display.begin(line, [*said, *remarks(line, variables, backend)])
    return settings, plan
