"""``busbw run``: measure, in one of four ways.

It starts ranks on this host, is rank 0 of another launcher, submits a job to an engine, or is rank 0 of such
a job (``run_delivered``, whose words are no flags).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from busbw.cli.app import RunCommand, command_line, flag, operations_in, positional, print_notes
from busbw.cli.preset_values import lines_for_joined
from busbw.cli.run_answer import Ended, check_references, judged, load_answer
from busbw.errors import BusbwError, ExitCode, LauncherMismatch, SiteError, UsageError
from busbw.launch.variables import lacking, read_here
from busbw.machine.backends import NCCL_VARIABLE, choose_backend
from busbw.machine.environment import given_here, with_given
from busbw.model.collective import COLLECTIVES
from busbw.model.event import Event, EventKind, event
from busbw.model.plan import Plan
from busbw.plan.flags.flag import flag_of
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.soak import SoakRanks, SoakSettings
from busbw.plan.make import check_settings, make_plan
from busbw.rank.profile import TOOL, profile_words, profiler_environ
from busbw.rank.world.identity import Identity, identify
from busbw.rank.world.watched import Watched
from busbw.record.folder import NSYS_FOLDER
from busbw.redact import HIDDEN_NOTE
from busbw.terminal import standard_error
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.launch.base import LaunchRequest
    from busbw.model.finding import Finding
    from busbw.rank.rank0 import Request
    from busbw.rank.world.select import WorldChoice
    from busbw.report.display import Display


# Settings of LaunchSettings that mean something on this host too.
_ANYWHERE = ("preset", "env", "env_file", "library_path")
# `busbw exec` names its hosts to the command by these variables, which are flags of `run` as well.
_SAID_BY_EXEC = {"hostfile": "BUSBW_HOSTFILE", "nodes": "BUSBW_NODES"}


def run_command(
    *operations: Annotated[
        str,
        positional(
            f"What to measure: {', '.join(row.name for row in COLLECTIVES)}.",
            completer=lambda context: [row.name for row in COLLECTIVES],
        ),
    ],
    settings: RunSettings = RunSettings(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """``busbw run``."""
    return run(RunCommand(operations_in(operations), settings, launch, command_line()))


def preflight(
    *operations: Annotated[str, positional("What the run would measure. [default: all_reduce]")],
    deep: Annotated[
        bool,
        flag(
            "Also copy between host and GPUs and between ranks, and run dcgmi, nvbandwidth and ib_write_bw"
            " where they are installed."
        ),
    ] = False,
    settings: RunSettings = RunSettings(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """``busbw preflight``: start (or join) the ranks that a run would have, and let them check.

    The exit code is ENVIRONMENT where there is an error.
    """
    # The sizes decide whether memory is enough; the operation does not matter.
    names = operations_in(operations) or ("all_reduce",)
    checked = replace(settings, stop_after="deep" if deep else "only")
    return run(RunCommand(names, checked, launch, command_line()))


def soak(
    *operations: Annotated[str, positional("What to repeat; several in turn. [default: all_reduce]")],
    own: SoakSettings = SoakSettings(),
    ranks: SoakRanks = SoakRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """``busbw soak``: a run that repeats its cases."""
    settings = RunSettings(soak=own, **vars(ranks))
    return run(RunCommand(operations_in(operations or ("all_reduce",)), settings, launch, command_line()))


def run(command: RunCommand) -> ExitCode:
    """Measure. Raises BusbwError for everything that ends the run before it starts."""
    identity = identify(os.environ)
    if command.launch.on is None:
        if identity is not None and not command.settings.dry_run:
            return _run_under_launcher(command, identity)
        return _run_here(command, identity)
    from busbw.cli.on import run_on

    if identity is not None and identity.size != 1 and not command.settings.dry_run:
        raise UsageError(  # every rank of the launcher would submit a job
            f"--on {command.launch.on}, but {identity.launcher} already started these ranks",
            hint=f"leave --on out, or start busbw without {identity.launcher}",
        )
    print_notes(command.settings.overridden)
    return run_on(command)


def starts_ranks(launch: LaunchSettings) -> bool:
    """Whether ranks are started from here, and can be once more: by an engine, or since nobody has started
    this process as one. Raises LauncherMismatch.
    """
    return launch.on is not None or identify(os.environ) is None


# ---- here ---------------------------------------------------------------------------------------------


def _run_here(command: RunCommand, identity: Identity | None) -> ExitCode:
    """Start ranks on this host. A dry run under a launcher shows as many as that started."""
    from busbw.launch.local import local_request, rank_count

    settings = command.settings
    print_notes(settings.overridden)
    refuse_without_engine(command.launch, os.environ)
    own = read_here(command.launch, os.environ)
    check_settings(command.operations, settings)
    check_references(settings)
    backend = choose_backend(settings.backend, settings.nccl or own.get(NCCL_VARIABLE))
    ranks = (identity.size if identity is not None else None) or rank_count(settings.ranks, backend)
    plan = make_plan(command.operations, settings, backend, ranks)
    environ = {
        **with_given(own, also=given_here(os.environ)),
        **profiler_environ(plan.profile, settings.profile_args),
    }

    def request_for(request_file: str) -> LaunchRequest:
        """With the measured processes' variables, under those by which they find each other."""
        made = local_request(backend, settings.world, ranks, request_file)
        commands = (replace(each, environ={**environ, **each.environ}) for each in made.commands)
        return replace(made, commands=tuple(commands))

    if settings.dry_run:
        _print_dry_run(plan, request_for("REQUEST"), settings)
        return ExitCode.OK
    return _start_here(plan, command, request_for)


def _start_here(plan: Plan, command: RunCommand, request_for: Callable[[str], LaunchRequest]) -> ExitCode:
    settings = command.settings
    with contextlib.closing(_LateDisplay(settings)) as display:
        show = Ended(command.hear, display.handle)
        measure = _measure(settings, command.before, display, show)
        code = measure(plan, settings, command.argv, request_for, show, standard_error())
    return judged(code, show.folder, settings)


def _measure(
    settings: RunSettings, before: tuple[Finding, ...], display: _LateDisplay, show: Ended
) -> Callable[..., ExitCode]:
    from busbw.launch import here

    if settings.launches == 1:
        meanwhile = (display.load, load_answer)
        return partial(here.measure, before=before, meanwhile=meanwhile, at_end=show.prepare)
    from busbw.launch import repeated

    return repeated.measure


class _LateDisplay:
    """The display of a run, loaded while the ranks start, or at the first event."""

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._display: Display | None = None
        self._loading = threading.Lock()

    def load(self) -> Display:
        """Its libraries take a tenth of a second."""
        with self._loading:
            if self._display is None:
                from busbw.report.live import display_of

                self._display = display_of(self._settings)
            return self._display

    def handle(self, item: Event) -> None:
        """Show an event."""
        self.load().handle(item)

    def close(self) -> None:
        """End what is shown."""
        if self._display is not None:
            self._display.close()


def refuse_without_engine(launch: LaunchSettings, environ: Mapping[str, str]) -> None:
    """An engine's flag without the engine would be dropped without a word."""
    given = [name for name in launch.given() if name not in _ANYWHERE]
    if "BUSBW_NODE_RANK" in environ:
        given = [name for name in given if _SAID_BY_EXEC.get(name, "") not in environ]
    if given and not launch.preset:  # a preset says more than one host needs
        flag = flag_of(given[0])
        engines = "hosts" if given[0] in ("hosts", "hostfile") else "hosts, slurm, kubernetes or pbs"
        raise UsageError(f"{flag} needs an engine", hint=f"give --on {engines}")


def _print_dry_run(plan: Plan, launch: LaunchRequest, settings: RunSettings) -> None:
    shown = launch.whole if settings.show_secrets else str(launch)
    is_hidden = not settings.show_secrets and any(command.hides for command in launch.commands)
    if settings.format in ("json", "jsonl"):
        commands = [command.whole if settings.show_secrets else str(command) for command in launch.commands]
        note = {"note": HIDDEN_NOTE} if is_hidden else {}
        fields = {"plan": json.loads(plan.to_json()), "ranks": launch.ranks, "commands": commands}
        print(json.dumps({**fields, **note}))
        return
    if is_hidden:
        print(f"# {HIDDEN_NOTE}")
    cases = counted(len(plan.cases), "case")
    print(f"# {launch.ranks} ranks, world {launch.world}, backend {plan.backend}, {cases}")
    print(shown)
    for each in plan.beside:
        print(f"# each case alone and beside {each.text}")
    if plan.profile:
        # What a rank becomes, without what only its host knows.
        output, rank = str(NSYS_FOLDER / "rank-RANK-HOST"), ("python", "-m", "busbw.rank")
        print(f"# each rank: {' '.join(profile_words(TOOL, output, rank, settings.profile_args))}")
    for case in plan.cases:
        if case.applicable:
            what = f"{case.collective} {case.dtype} {case.op or 'none'}"
            print(f"{what} {case.size_bytes} B ({case.count} elements) {case.placement}")


# ---- under somebody's launcher ------------------------------------------------------------------------


def _run_under_launcher(command: RunCommand, identity: Identity) -> ExitCode:
    """Be rank 0 of somebody else's launch (the other ranks never come here: see ``__main__``)."""
    from busbw.launch.joined import report
    from busbw.rank.entry import Director, live
    from busbw.rank.rank0 import Request
    from busbw.rank.watcher import begin
    from busbw.record import folder as folders
    from busbw.report.live import display_of, unless_nobody_reads

    launch = command.launch
    begin(identity, command.settings.stall, report)
    overridden = lines_for_joined(launch, os.environ, identity.launcher)
    settings = replace(command.settings, overridden=overridden)
    print_notes(settings.overridden)
    refuse_without_engine(launch, os.environ)
    if settings.profile != "none":  # ranks of a launcher know of no run folder in common before they have met
        raise UsageError(
            f"--profile {settings.profile} cannot wrap the ranks that {identity.launcher} started",
            hint="start `nsys profile --export sqlite --output rank%q{VARIABLE} busbw run` there,"
            " then `busbw diagnose RUN --nsys FILE...`",
        )
    given = read_here(launch, os.environ).keys() - lacking(launch, os.environ).keys()
    os.environ.update(with_given({}, also=(*given_here(os.environ), *sorted(given))))

    def request() -> Request:
        run_id = folders.new_run_id(settings.label(command.operations))
        folder = folders.create(folders.environ_home(), run_id)
        return Request(run_id, str(folder), command.argv, settings.written())

    def plan(ranks: int) -> Plan:
        check_references(settings)
        return _plan_of_launcher(command.operations, settings, identity, ranks)

    with contextlib.closing(display_of(settings)) as display:
        show = Ended(command.hear, unless_nobody_reads(display.handle))
        code = live(identity, settings.world, Director(request, plan), show)
    return judged(code, show.folder, settings)


def _plan_of_launcher(
    operations: tuple[str, ...], settings: RunSettings, identity: Identity, ranks: int
) -> Plan:
    """The plan of so many ranks, which a launcher has started. Raises UsageError."""
    from busbw.machine.gpus import gpu_presence

    if settings.ranks not in (None, ranks):
        raise UsageError(
            f"--ranks {settings.ranks}, but {identity.launcher} started {ranks}",
            hint="leave --ranks out, or set BUSBW_LAUNCHER=none to ignore the launcher",
        )
    if settings.launches > 1:
        raise UsageError(
            f"--launches {settings.launches}, but {identity.launcher} started these ranks once",
            hint="repeat the launch there, or let busbw start the ranks",
        )
    backend = choose_backend(settings.backend, settings.nccl or None)
    if backend == "nccl" and ranks == 1 and (visible := gpu_presence().count) > 1:
        # An interactive shell is a launcher's one task too, and its user may have meant the whole host.
        print(
            f"warning: measuring 1 of {visible} visible GPUs, since {identity.launcher} started one rank;"
            " hint: BUSBW_LAUNCHER=none starts one per GPU",
            file=sys.stderr,
        )
    return make_plan(operations, settings, backend, ranks)


def refuse(error: BusbwError, world: WorldChoice) -> ExitCode:
    """End a run whose command line is wrong. Where a launcher started us, the other ranks are waiting to
    be told by rank 0, so it joins them to say no. Raises ``error`` where there is nobody to tell.
    """
    from busbw.rank.entry import Director, live

    try:
        identity = identify(os.environ)
    except BusbwError:
        identity = None  # the other ranks do not know who they are either, and leave
    if identity is None or identity.size == 1:
        raise error

    def plan(ranks: int) -> Plan:  # noqa: ARG001 (as a Director calls it)
        raise error

    def request() -> Request:
        raise AssertionError("a rank got neither a plan nor a request")

    from busbw.report.live import create

    display = create("table", sys.stdout, sys.stderr)
    return live(identity, world, Director(request, plan), display.handle)


# ---- as rank 0 of a job of ours -----------------------------------------------------------------------


def run_delivered(
    operations: tuple[str, ...], settings: RunSettings, argv: tuple[str, ...], world: WorldChoice
) -> ExitCode:
    """Be rank 0 of a job for whose record a front process waits, maybe on another machine. That judges: no
    engine is to start these ranks again for a verdict. Raises BusbwError as ``run``.
    """
    from busbw.rank.entry import Director, live
    from busbw.rank.process import emit
    from busbw.rank.rank0 import Request
    from busbw.rank.watcher import begin
    from busbw.record.arrive import Delivery
    from busbw.report.live import unless_nobody_reads

    identity = identify(os.environ)
    if identity is None:
        raise LauncherMismatch(
            "this process belongs to a job, but its rank number is not set",
            hint="submit the job again; do not start its ranks by hand",
        )
    begin(identity, settings.stall, emit)
    watched = Watched(identity.rank, os.environ)
    delivery = Delivery(Path(settings.deliver), emit)
    delivery.emit(event(EventKind.HELLO, rank=identity.rank, pid=os.getpid(), host=socket.gethostname()))

    def request() -> Request:
        words, written = delivery.asked() or (argv, settings.written())
        return Request(delivery.run_id, str(delivery.folder), words, written)

    def plan(ranks: int) -> Plan:
        backend = choose_backend(settings.backend, settings.nccl or None)
        kind = identity.world if world == "auto" else world
        if backend == "mpi" and kind != "mpi":
            # As was asked for, or since their engine knows no MPI: no mpirun of a user's starts them.
            raise SiteError(
                f"CPU ranks communicate over MPI, but this world is {kind!r} (launcher: {identity.launcher})",
                hint="leave --mpi none and --world nccl out (on Kubernetes --set kind=job or jobset too)",
            )
        return make_plan(operations, settings, backend, ranks)

    show = unless_nobody_reads(delivery.emit)
    code = live(identity, world, Director(request, plan), show, watched)
    is_verdict = code in (ExitCode.BAD_VERDICT, ExitCode.UNDECIDED)
    return ExitCode.OK if is_verdict else code
