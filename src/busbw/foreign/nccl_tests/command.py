"""``busbw nccl-tests PROGRAM FLAGS``: a line of nccl-tests, measured by busbw.

nccl-tests drives processes x threads x GPUs ranks; here each rank is a process of its own. Started alone,
this process starts threads x GPUs ranks on its host; under a launcher it joins, as one rank, or starts its
ranks beside itself where they are several (``processes``).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from busbw.errors import BusbwError, ExitCode, UnknownWord, UsageError
from busbw.foreign.nccl_tests.environment import Variables, read_variables
from busbw.foreign.nccl_tests.flags import FAILED, PROGRAMS, Line, find_program, read, usage
from busbw.foreign.nccl_tests.processes import (
    failed_alone,
    of_several,
    processes_words,
    start_ranks,
    starts_ranks,
)
from busbw.rank.world.identity import identify
from busbw.report.live import unless_nobody_reads

if TYPE_CHECKING:
    from busbw.foreign.nccl_tests.display import NcclTestsDisplay
    from busbw.model.event import Emit
    from busbw.model.plan import Plan
    from busbw.plan.flags.run import RunSettings
    from busbw.rank.rank0 import Request
    from busbw.rank.world.identity import Identity


@dataclass(frozen=True)
class _Door:
    """A line to be measured: as read, as words from the program's name on, and as busbw was called."""

    line: Line
    variables: Variables
    words: Sequence[str]
    argv: tuple[str, ...]


def nccl_tests(words: Sequence[str], argv: tuple[str, ...]) -> int:
    """Run a line, ``words`` from the program's name on; gives the exit status: nccl-tests' own where it has
    one, else busbw's exit code.

    Raises BusbwError for everything that ends it before it starts.
    """
    line = _read(words)
    if line.wants_help:
        print(usage(line.program))
        return ExitCode.OK
    identity = identify(os.environ)
    if identity is not None and starts_ranks(identity, line):
        return start_ranks(identity, line, words)
    door = _Door(line, read_variables(os.environ), words, argv)
    status = _start(door) if identity is None else _join(door, identity)
    from busbw.judge.kept import fill  # it needs numpy, and no rank waits for that

    fill()
    return status


def _read(words: Sequence[str]) -> Line:
    """Raises UsageError where the first word names no test."""
    program = find_program(words[0]) if words else ""
    if not words:
        raise UsageError("no test given", hint=f"name one of: {', '.join(PROGRAMS)}")
    if not program:
        raise UnknownWord(f"nccl-tests has no test {words[0]!r}", words[0], PROGRAMS)
    return read(program, words[1:])


def _start(door: _Door) -> int:
    """Start the ranks on this host, and follow them."""
    from busbw.foreign.door import in_words_of
    from busbw.foreign.nccl_tests.settings import THEIR_FLAGS, backend_wanted
    from busbw.launch import here
    from busbw.launch.local import local_request, rank_count
    from busbw.machine.backends import choose_backend
    from busbw.rank.entry import world_choice

    options = door.line.options
    split = door.variables.split
    door = replace(door, variables=replace(door.variables, split=""))
    with contextlib.closing(_display(door)) as display, in_words_of(THEIR_FLAGS):
        backend = choose_backend(*backend_wanted())
        ranks = rank_count(options.ranks_per_process, backend)
        shares = f"processes 1 x threads {options.nthreads} x GPUs {options.ngpus}"
        notes = [f"ranks {ranks} = {shares}; each rank is a process of its own here"]
        if split:
            notes.append(
                f"split {split} has no effect, as in nccl-tests: it splits processes, and there is one here;"
                " start a process for each rank, or use `busbw run --split`"
            )
        settings, plan = _planned(door, backend, ranks, ranks, display, notes)
        request_for = partial(local_request, backend, world_choice([door.line.program]), ranks)
        code = here.measure(plan, settings, door.argv, request_for, display.handle, sys.stderr)
    return display.status(code)


def _join(door: _Door, identity: Identity) -> int:
    """Be rank 0 of somebody's launch; the other ranks live in ``follow``."""
    from busbw.foreign.nccl_tests.settings import backend_wanted, operation
    from busbw.launch.joined import report
    from busbw.machine.backends import choose_backend
    from busbw.rank import progress
    from busbw.rank.entry import Director, live, world_choice
    from busbw.rank.rank0 import Request
    from busbw.rank.watcher import begin
    from busbw.record import folder as folders

    line = door.line
    identity, processes = of_several(identity, line)
    door = replace(door, variables=replace(door.variables, split=processes.split(door.variables.split)))
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

    with contextlib.closing(_display(door)) as display:
        show = unless_nobody_reads(display.handle)
        code = live(identity, world_choice([line.program]), Director(request, plan), show)
    return display.status(code)


def follow(identity: Identity, words: Sequence[str], report: Emit) -> int:
    """Be a rank other than 0. It reads the line as rank 0 does, so that all of them leave where it cannot be
    run, and one of them says why.
    """
    from busbw.rank.entry import follow as live

    try:
        line = _read(words)
        if line.wants_help:
            return ExitCode.OK
        if starts_ranks(identity, line):
            return _start_beside(identity, line, words)
        read_variables(os.environ)
    except BusbwError as error:
        return int(error.exit_code)
    code = live(of_several(identity, line)[0], [line.program], report)
    return FAILED if code == ExitCode.BAD_VERDICT else code


def _start_beside(identity: Identity, line: Line, words: Sequence[str]) -> int:
    try:
        return start_ranks(identity, line, words)
    except BusbwError as error:
        return failed_alone(identity, error)


# ---- what both do -------------------------------------------------------------------------------------


def _display(door: _Door) -> NcclTestsDisplay:
    from busbw.foreign.nccl_tests.display import NcclTestsDisplay

    return NcclTestsDisplay(door.line, door.variables, door.words, sys.stdout, sys.stderr)


def _planned(
    door: _Door,
    backend: str,
    ranks: int,
    ranks_here: int | None,
    display: NcclTestsDisplay,
    notes: Sequence[str],
) -> tuple[RunSettings, Plan]:
    """The settings and the plan of a line, with sizes that memory holds. The display shows what was lowered,
    and standard error ``notes`` and what else differs from nccl-tests. Raises UsageError.
    """
    from busbw.foreign.door import in_words_of
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
    from busbw.plan.make import make_plan

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
    display.begin(line)
    for note in (*said, *remarks(line, variables, backend)):
        print(f"busbw: {note}", file=sys.stderr)
    return settings, plan
