"""``busbw nccl-tests PROGRAM FLAGS``: a line of nccl-tests, measured by busbw.

nccl-tests drives processes x threads x GPUs ranks; here each rank is a process of its own. Started alone,
this process starts threads x GPUs ranks on its host; under a launcher it joins, as one rank, or starts its
ranks beside itself where they are several (``nccl_tests_processes``).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.frontdoors.nccl_tests_environment import Variables, prepare, read_variables
from busbw.frontdoors.nccl_tests_flags import FAILED, INTERNAL_ERROR, TOO_LARGE, Line, find_program, read
from busbw.frontdoors.nccl_tests_processes import (
    failed_alone,
    of_several,
    processes_words,
    start_ranks,
    starts_ranks,
)
from busbw.reports.live import unless_nobody_reads
from busbw.world.identity import identify

if TYPE_CHECKING:
    from busbw.frontdoors.nccl_tests_display import NcclTestsDisplay
    from busbw.model.plan import Plan
    from busbw.worker.lead import Request
    from busbw.world.identity import Identity


def nccl_tests(words: Sequence[str], argv: tuple[str, ...]) -> int:
    """Run a line, ``words`` from the program's name on; gives the exit status: nccl-tests' own where it has
    one, else busbw's exit code.

    Raises BusbwError for everything that ends it before it starts.
    """
    line = read(find_program(words[0]), words[1:])
    identity = identify(os.environ) if line.status is None else None
    if identity is not None and starts_ranks(identity, line):
        return start_ranks(identity, line, words)  # rank 0 says what the line gives to say
    sys.stdout.writelines(f"{text}\n" for text in line.out)
    sys.stdout.flush()
    sys.stderr.writelines(f"{text}\n" for text in line.err)
    if line.status is not None:
        return line.status
    _refuse_no_rank(line)
    variables = prepared(line, identity)
    if has_sweep_of_matrix(line, variables):
        print(
            "-b and -e options must be set to the same value (e.g., -b 32M -e 32M)"
            " when using alltoallv traffic matrix mode."
        )
        return INTERNAL_ERROR
    if identity is None:
        return _start(line, replace(variables, split=""), words, argv, _without_split(line, variables))
    return _join(identity, line, variables, words, argv)


def prepared(line: Line, identity: Identity | None) -> Variables:
    """The variables, after what they and the flags mean for NCCL and CUDA was set. Every rank of a launcher
    comes here, and decides alike: under one, a rank is a process.
    """
    prepare(os.environ, line.options, line.options.ranks_per_process if identity is None else 1)
    return read_variables(os.environ)


def _refuse_no_rank(line: Line) -> None:
    if line.options.ranks_per_process < 1:
        raise UsageError(
            f"-t {line.options.nthreads} -g {line.options.ngpus} is no rank", hint="give 1 or more"
        )


def _without_split(line: Line, variables: Variables) -> list[str]:
    """nccl-tests splits processes, and alone it is one, with all its ranks in one group."""
    if not variables.split:
        return []
    o = line.options
    processes = f"it splits processes, and -t {o.nthreads} -g {o.ngpus} is one"
    instead = f"mpirun -np {o.ranks_per_process} busbw nccl-tests ... -g 1 splits ranks, or busbw run --split"
    return [f"split {variables.split}: no effect, as in nccl-tests: {processes}; {instead}"]


def _that_fits(
    line: Line, variables: Variables, backend: str, ranks_here: int | None
) -> tuple[Line, list[str]]:
    """The line with sizes that memory holds, and what to say of it. A matrix has its own: it fits, or is
    refused.
    """
    from busbw.frontdoors.nccl_tests_memory import largest_size, lowered

    if has_matrix(line, variables):
        return line, []
    fitting = lowered(line, largest_size(backend, line.options.check, ranks_here))
    asked, given = line.options.maxbytes, fitting.options.maxbytes
    if given == asked:
        return line, []
    return fitting, [f"-e {asked} lowered to {given}, the largest that memory holds on this host"]


def has_matrix(line: Line, variables: Variables) -> bool:
    """Whether bytes come from a traffic matrix. What is wrong with it ends with nccl-tests' status, on every
    rank: launchers combine those of their processes (hydra by OR).
    """
    return line.program == "alltoallv_perf" and bool(variables.matrix)


def has_sweep_of_matrix(line: Line, variables: Variables) -> bool:
    """A matrix has one size, its own, and nccl-tests insists that -b and -e say so."""
    return has_matrix(line, variables) and line.options.minbytes != line.options.maxbytes


def _refuse_larger_matrix(line: Line, variables: Variables, plan: Plan) -> None:
    """nccl-tests wants -e to hold what any rank of a matrix sends or gets. Raises UsageError."""
    largest = max((case.size_bytes for case in plan.cases), default=0)
    if has_matrix(line, variables) and largest > line.options.maxbytes:
        raise UsageError(
            f"{TOO_LARGE} {largest} bytes as required by traffic matrix file {variables.matrix}"
            f" (got {line.options.maxbytes}). Increase -e.",
            hint=f"give -b {largest} -e {largest}",
        )


# ---- ranks of our own ---------------------------------------------------------------------------------


def _start(
    line: Line, variables: Variables, words: Sequence[str], argv: tuple[str, ...], notes: Sequence[str]
) -> int:
    """Start the ranks on this host, and follow them."""
    from busbw import session
    from busbw.frontdoors.nccl_tests_settings import (
        THEIR_FLAGS,
        backend_wanted,
        operation,
        remarks,
        run_settings,
    )
    from busbw.frontdoors.renamed import in_words_of
    from busbw.launchers.choose import local_request, rank_count
    from busbw.planning.make import make_plan
    from busbw.probes.backends import choose_backend
    from busbw.worker.follower import world_choice

    o = line.options
    with in_words_of(THEIR_FLAGS):
        backend = choose_backend(*backend_wanted())
        ranks = rank_count(o.ranks_per_process, backend)
    shares = f"processes 1 x threads {o.nthreads} x GPUs {o.ngpus}"
    fitting, said = _that_fits(line, variables, backend, ranks)
    notes = [f"ranks {ranks} = {shares}; each rank is a process of its own here", *notes, *said]
    settings = run_settings(fitting, variables, backend, backend_wanted()[1])
    try:
        with in_words_of(THEIR_FLAGS):
            plan = make_plan((operation(line.program),), settings, backend, ranks)
        _refuse_larger_matrix(line, variables, plan)
    except UsageError as error:
        if not has_matrix(line, variables):
            raise
        _tell_of_matrix(error)
        return INTERNAL_ERROR
    request_for = partial(local_request, backend, world_choice([line.program]), ranks)
    with _display(line, variables, words) as display:
        display.lower(fitting)
        _say([*notes, *remarks(line, variables, backend)])
        with in_words_of(THEIR_FLAGS):
            code = session.measure(plan, settings, argv, request_for, display.handle, sys.stderr)
    return display.status(code)


def _tell_of_matrix(error: UsageError) -> None:
    """nccl-tests says on standard output that -e is too small; it has no word for what else can be wrong."""
    if error.message.startswith(TOO_LARGE):
        print(error.message)
        return
    print(f"error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)


def _say(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"busbw: {note}", file=sys.stderr)


@contextlib.contextmanager
def _display(line: Line, variables: Variables, words: Sequence[str]) -> Iterator[NcclTestsDisplay]:
    from busbw.frontdoors.nccl_tests_display import NcclTestsDisplay
    from busbw.frontdoors.nccl_tests_json import open_new

    json_file, said = open_new(line, words, os.environ) if line.options.output_file else (None, ())
    for text in said:
        print(text, flush=True)
    with contextlib.closing(NcclTestsDisplay(line, variables, sys.stdout, sys.stderr, json_file)) as display:
        yield display


# ---- a launcher's ranks -------------------------------------------------------------------------------


def _join(
    identity: Identity, line: Line, variables: Variables, words: Sequence[str], argv: tuple[str, ...]
) -> int:
    """Be rank 0 of somebody's launch; the other ranks live in ``follow``."""
    from busbw.frontdoors.nccl_tests_settings import backend_wanted, operation, remarks, run_settings
    from busbw.planning.make import make_plan
    from busbw.probes.backends import choose_backend
    from busbw.record import folder as folders
    from busbw.worker.entry import Director, live
    from busbw.worker.follower import world_choice
    from busbw.worker.guard import Guard
    from busbw.worker.lead import Request

    settings: dict[str, object] = {}
    identity, processes = of_several(identity, line)
    variables = replace(variables, split=processes.split(variables.split))

    def request() -> Request:
        run_id = folders.new_run_id(operation(line.program))
        folder = folders.create(folders.environ_home(), run_id)
        return Request(run_id, str(folder), argv, settings)

    def plan(ranks: int) -> Plan:
        wanted, nccl = backend_wanted()
        backend = choose_backend(wanted, nccl)
        fitting, said = _that_fits(line, variables, backend, identity.local_size)
        display.lower(fitting)
        chosen = run_settings(fitting, variables, backend, nccl)
        settings.update(asdict(chosen))  # the request is asked for after the plan
        shares = processes_words(replace(processes, count=ranks // processes.each), line)
        _say([f"ranks {ranks} = {shares}", *said, *remarks(line, variables, backend)])
        made = make_plan((operation(line.program),), chosen, backend, ranks)
        _refuse_larger_matrix(line, variables, made)
        return made

    with _display(line, variables, words) as display:
        show = unless_nobody_reads(display.handle)
        director = Director(request, plan, show, Guard())
        code = live(identity, world_choice([line.program]), director, show)
    if code is ExitCode.USAGE and has_matrix(line, variables):
        return INTERNAL_ERROR
    return display.status(code)


def follow(identity: Identity, words: Sequence[str]) -> int:
    """Be a rank other than 0. It reads the line as rank 0 does, so that all of them leave where it cannot be
    run, and one of them says why.
    """
    from busbw.worker.follower import follow as live

    line = read(find_program(words[0]), words[1:])
    if line.status is not None:
        return line.status
    if starts_ranks(identity, line):
        try:
            return start_ranks(identity, line, words)
        except BusbwError as error:
            return failed_alone(identity, error)
    try:
        _refuse_no_rank(line)
        variables = prepared(line, identity)
    except BusbwError as error:
        return int(error.exit_code)
    if has_sweep_of_matrix(line, variables):
        return INTERNAL_ERROR
    code = live(of_several(identity, line)[0], [line.program])
    if code == ExitCode.USAGE and has_matrix(line, variables):
        return INTERNAL_ERROR  # the one refusal that comes after the ranks have met
    return FAILED if code == ExitCode.BAD_VERDICT else code
