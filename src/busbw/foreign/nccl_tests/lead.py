"""The process that measures a line of nccl-tests: it starts the ranks, or is rank 0 of somebody's launch. It
loads what no other rank needs.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
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


def start(line: Line, variables: Variables, words: Sequence[str], argv: tuple[str, ...]) -> int:
    """Start the ranks on this host, and follow them; gives the exit status. ``words`` are those from the
    program's name on, ``argv`` how busbw was called.
    """
    alone = replace(variables, split="")
    with (
        contextlib.closing(NcclTestsDisplay(line, alone, words, sys.stdout, sys.stderr)) as display,
        in_words_of(THEIR_FLAGS),
    ):
        backend = choose_backend(*backend_wanted())
        ranks = rank_count(line.options.ranks_per_process, backend)
        notes = [f"ranks {ranks} = {processes_words(Processes('', 1, ranks), line)}"]
        if variables.split:
            notes.append(
                f"split {variables.split} has no effect, as in nccl-tests: it splits processes, and there is"
                " one here; start a process for each rank, or use `busbw run --split`"
            )
        settings, plan = _planned(display, backend, ranks, ranks, notes)
        request_for = partial(local_request, backend, world_choice([line.program]), ranks)
        code = here.measure(plan, settings, argv, request_for, display.handle, sys.stderr)
    return display.status(code)


def join(
    identity: Identity, line: Line, variables: Variables, words: Sequence[str], argv: tuple[str, ...]
) -> int:
    """Be rank 0 of somebody's launch; the other ranks live in ``command.follow``. Gives the exit status."""
    identity, processes = of_several(identity, line)
    variables = replace(variables, split=processes.split(variables.split))
    begin(identity, progress.stall_seconds(os.environ.get(progress.VARIABLE, "")), report)
    chosen: list[RunSettings] = []

    def plan(ranks: int) -> Plan:
        backend = choose_backend(*backend_wanted())
        shares = processes_words(replace(processes, count=ranks // processes.each), line)
        settings, made = _planned(display, backend, ranks, identity.local_size, [f"ranks {ranks} = {shares}"])
        chosen.append(settings)
        return made

    def request() -> Request:
        """Asked for after the plan."""
        run_id = folders.new_run_id(operation(line.program))
        folder = folders.create(folders.environ_home(), run_id)
        return Request(run_id, str(folder), argv, chosen[0].written())

    with contextlib.closing(NcclTestsDisplay(line, variables, words, sys.stdout, sys.stderr)) as display:
        show = unless_nobody_reads(display.handle)
        code = live(identity, world_choice([line.program]), Director(request, plan), show)
    return display.status(code)


def _planned(
    display: NcclTestsDisplay, backend: str, ranks: int, ranks_here: int | None, notes: Sequence[str]
) -> tuple[RunSettings, Plan]:
    """The settings and the plan of a line, with sizes that memory holds. The display shows what was lowered,
    ``notes`` and what else differs from nccl-tests. Raises UsageError.
    """
    line, variables, said = display.line, display.variables, list(notes)
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
