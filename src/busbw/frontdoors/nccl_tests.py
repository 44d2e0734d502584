"""``busbw nccl-tests PROGRAM FLAGS``: a line of nccl-tests, measured by busbw.

nccl-tests drives processes x threads x GPUs ranks; here each rank is a process of its own. Started alone,
this process starts threads x GPUs ranks on its host; under a launcher it joins, as one rank.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.frontdoors.nccl_tests_environment import Variables, prepare, read_variables
from busbw.frontdoors.nccl_tests_flags import FAILED, INTERNAL_ERROR, TOO_LARGE, Line, find_program, read
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
    sys.stdout.writelines(f"{text}\n" for text in line.out)
    sys.stdout.flush()
    sys.stderr.writelines(f"{text}\n" for text in line.err)
    if line.status is not None:
        return line.status
    identity = identify(os.environ)
    variables = prepared(line, identity)
    if has_sweep_of_matrix(line, variables):
        print(
            "-b and -e options must be set to the same value (e.g., -b 32M -e 32M)"
            " when using alltoallv traffic matrix mode."
        )
        return INTERNAL_ERROR
    if identity is None:
        return _start(line, variables, words, argv)
    return _join(identity, line, variables, words, argv)


def prepared(line: Line, identity: Identity | None) -> Variables:
    """The variables, after what they and the flags mean for NCCL and CUDA was set. Every rank of a launcher
    comes here, and decides alike. Raises UsageError where one process would have to be several ranks.
    """
    per_process = line.options.ranks_per_process
    if per_process < 1:
        raise UsageError(
            f"-t {line.options.nthreads} -g {line.options.ngpus} is no rank", hint="give 1 or more"
        )
    if identity is not None and per_process > 1:
        count = "" if identity.size is None else f" {identity.size}"
        raise UsageError(
            f"-t {line.options.nthreads} -g {line.options.ngpus} is {per_process} ranks a process, and"
            f" {identity.launcher} started{count} processes: each is one rank here",
            hint=f"start {per_process} times as many processes, each with -t 1 -g 1",
        )
    prepare(os.environ, line.options, per_process)
    return read_variables(os.environ)


def has_sweep_of_matrix(line: Line, variables: Variables) -> bool:
    """A matrix has one size, its own, and nccl-tests insists that -b and -e say so."""
    is_matrix = line.program == "alltoallv_perf" and bool(variables.matrix)
    return is_matrix and line.options.minbytes != line.options.maxbytes


def _refuse_larger_matrix(line: Line, variables: Variables, plan: Plan) -> None:
    """nccl-tests wants -e to hold what any rank of a matrix sends or gets. Raises UsageError."""
    largest = max((case.size_bytes for case in plan.cases), default=0)
    if line.program == "alltoallv_perf" and variables.matrix and largest > line.options.maxbytes:
        raise UsageError(
            f"{TOO_LARGE} {largest} bytes as required by traffic matrix file {variables.matrix}"
            f" (got {line.options.maxbytes}). Increase -e.",
            hint=f"give -b {largest} -e {largest}",
        )


# ---- ranks of our own ---------------------------------------------------------------------------------


def _start(line: Line, variables: Variables, words: Sequence[str], argv: tuple[str, ...]) -> int:
    """Start the ranks on this host, and follow them."""
    from busbw import session
    from busbw.frontdoors.nccl_tests_settings import operation, remarks, run_settings
    from busbw.launchers.choose import local_request, rank_count
    from busbw.planning.make import make_plan
    from busbw.probes.backends import choose_backend
    from busbw.worker.follower import world_choice

    backend = choose_backend(*_backend_wanted())
    o = line.options
    ranks = rank_count(o.ranks_per_process, backend)
    shares = f"processes 1 x threads {o.nthreads} x GPUs {o.ngpus}"
    notes = [f"ranks {ranks} = {shares}; each rank is a process of its own here"]
    settings = run_settings(line, variables, backend, _backend_wanted()[1])
    plan = make_plan((operation(line.program),), settings, backend, ranks)
    try:
        _refuse_larger_matrix(line, variables, plan)
    except UsageError as error:
        print(error.message)
        return INTERNAL_ERROR
    request_for = partial(local_request, backend, world_choice([line.program]), ranks)
    with _display(line, variables, words) as display:
        _say([*notes, *remarks(line, variables, backend)])
        code = session.measure(plan, settings, argv, request_for, display.handle, sys.stderr)
    return display.status(code)


def _backend_wanted() -> tuple[str, str]:
    """What ``busbw run`` takes from these variables too: there is no flag for them here, nor for the world,
    which ``world_choice`` reads.
    """
    return os.environ.get("BUSBW_BACKEND", "auto"), os.environ.get("BUSBW_NCCL", "")


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
    from busbw.frontdoors.nccl_tests_settings import operation, remarks, run_settings
    from busbw.planning.make import make_plan
    from busbw.probes.backends import choose_backend
    from busbw.record import folder as folders
    from busbw.worker.entry import Director, live
    from busbw.worker.follower import world_choice
    from busbw.worker.guard import Guard
    from busbw.worker.lead import Request

    settings: dict[str, object] = {}

    def request() -> Request:
        run_id = folders.new_run_id(operation(line.program))
        folder = folders.create(folders.environ_home(), run_id)
        return Request(run_id, str(folder), argv, settings)

    def plan(ranks: int) -> Plan:
        wanted, nccl = _backend_wanted()
        backend = choose_backend(wanted, nccl)
        chosen = run_settings(line, variables, backend, nccl)
        settings.update(asdict(chosen))  # the request is asked for after the plan
        shares = f"processes {ranks} (started by {identity.launcher}) x threads 1 x GPUs 1"
        _say([f"ranks {ranks} = {shares}", *remarks(line, variables, backend)])
        made = make_plan((operation(line.program),), chosen, backend, ranks)
        _refuse_larger_matrix(line, variables, made)
        return made

    with _display(line, variables, words) as display:
        show = unless_nobody_reads(display.handle)
        director = Director(request, plan, show, Guard())
        return display.status(live(identity, world_choice([line.program]), director, show))


def follow(identity: Identity, words: Sequence[str]) -> int:
    """Be a rank other than 0. It reads the line as rank 0 does, so that all of them leave where it cannot be
    run, and one of them says why.
    """
    from busbw.worker.follower import follow as live

    line = read(find_program(words[0]), words[1:])
    if line.status is not None:
        return line.status
    try:
        variables = prepared(line, identity)
    except BusbwError as error:
        return int(error.exit_code)
    if has_sweep_of_matrix(line, variables):
        return INTERNAL_ERROR
    code = live(identity, [line.program])
    # Launchers combine the statuses of their processes (hydra by OR), so all ranks should leave with one.
    if code == ExitCode.USAGE and line.program == "alltoallv_perf" and variables.matrix:
        return INTERNAL_ERROR  # the one refusal that comes after the ranks have met
    return FAILED if code == ExitCode.BAD_VERDICT else code
