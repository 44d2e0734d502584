"""``busbw run``: measure. Joins the ranks of a launcher that started us, else starts ranks on this host."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli.judged import Ended, check_references, judged
from busbw.cli.preset_joined import lines_for_joined
from busbw.errors import BusbwError, ExitCode, SiteError, UsageError
from busbw.launchers.variables import lacking, read_here
from busbw.model.event import Emit, Event
from busbw.planning.make import check_words, make_plan
from busbw.probes.backends import choose_backend
from busbw.probes.environment import given_here, with_given
from busbw.record.folder import NSYS_FOLDER
from busbw.settings.flag import flag_of
from busbw.worker.profile import TOOL, profile_words, profiler_environ
from busbw.world.identity import identify
from busbw.world.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from busbw.launchers.base import LaunchRequest
    from busbw.model.finding import Finding
    from busbw.model.plan import Plan
    from busbw.record.deliver import Delivery
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings
    from busbw.worker.lead import Request
    from busbw.world.identity import Identity
    from busbw.world.select import WorldChoice


# Settings of LaunchSettings that mean something on this host too.
_ANYWHERE = ("preset", "env", "env_file", "library_path")
# `busbw exec` names its hosts to the command by these variables, which are flags of `run` as well.
_TOLD_BY_EXEC = {"hostfile": "BUSBW_HOSTFILE", "nodes": "BUSBW_NODES"}


def run(
    operations: tuple[str, ...],
    settings: RunSettings,
    launch: LaunchSettings,
    argv: tuple[str, ...],
    *,
    hear: Emit = lambda item: None,
    before: tuple[Finding, ...] = (),
) -> ExitCode:
    """Measure ``operations``. Where this process starts the ranks, here or on an engine, ``hear`` gets every
    event that is shown, and ``before`` was found earlier and belongs into the record. Raises BusbwError for
    everything that ends the run before it starts.
    """
    from busbw.launchers.choose import local_request, rank_count
    from busbw.reports.live import create, shown_as

    identity = identify(os.environ)
    if identity is not None and launch.on is None and not (settings.deliver or settings.dry_run):
        settings = replace(settings, overridden=lines_for_joined(launch, os.environ, identity.launcher))
    for line in settings.overridden if not settings.deliver else ():
        print(f"note: {line}", file=sys.stderr)
    if launch.on is not None and not settings.deliver:
        if identity is not None and identity.size != 1 and not settings.dry_run:
            raise UsageError(
                f"--on {launch.on}, but {identity.launcher} has started these ranks already",
                hint="leave --on out, or start busbw once",
            )
        from busbw.cli.on import run_on

        return run_on(operations, settings, launch, argv, hear=hear, before=before)
    if not settings.deliver:
        _refuse_without_engine(launch, os.environ)
    if identity is not None and not settings.dry_run:
        _refuse_own_profiler(identity, settings)
        if not settings.deliver:  # under a front process it is told by that
            given = read_here(launch, os.environ).keys() - lacking(launch, os.environ).keys()
            os.environ.update(with_given({}, also=(*given_here(os.environ), *sorted(given))))
        return _join(identity, operations, settings, argv)
    own = {} if settings.deliver else read_here(launch, os.environ)
    check_words(operations, settings, _least_ranks(settings))
    check_references(settings)
    backend = choose_backend(settings.backend, settings.nccl or None)
    ranks = (identity.size if identity is not None else None) or rank_count(settings.ranks, backend)
    plan = make_plan(operations, settings, backend, ranks)
    environ = {
        **with_given(own, also=given_here(os.environ)),
        **profiler_environ(plan.profile, settings.profile_args),
    }
    request_for = partial(_with_environ, environ, partial(local_request, backend, settings.world, ranks))
    if settings.dry_run:
        _print_dry_run(plan, request_for("REQUEST"), settings)
        return ExitCode.OK
    from busbw import launch_series, session

    measure = partial(session.measure, before=before) if settings.launches == 1 else launch_series.measure
    with contextlib.closing(create(shown_as(settings), sys.stdout, sys.stderr)) as display:

        def tell(item: Event) -> None:
            hear(item)
            display.handle(item)

        show = Ended(tell)
        code = measure(plan, settings, argv, request_for, show, sys.stderr)
    return judged(code, show.folder, settings)


def _with_environ(
    environ: Mapping[str, str], request_for: Callable[[str], LaunchRequest], request_file: str
) -> LaunchRequest:
    """The request with the measured processes' variables, under those by which they find each other."""
    launch = request_for(request_file)
    commands = (replace(command, environ={**environ, **command.environ}) for command in launch.commands)
    return replace(launch, commands=tuple(commands))


def _refuse_own_profiler(identity: Identity, settings: RunSettings) -> None:
    """Ranks of somebody's launcher know of no run folder in common before they have met."""
    if settings.profile != "none" and not settings.deliver:
        raise UsageError(
            f"--profile {settings.profile} cannot wrap the ranks that {identity.launcher} started",
            hint="start `nsys profile --export sqlite --output rank%q{VARIABLE} busbw run` there: ranges and"
            " marks come by themselves; then `busbw diagnose RUN --nsys FILE...`",
        )


def _refuse_without_engine(launch: LaunchSettings, environ: Mapping[str, str]) -> None:
    """An engine's flag without the engine would be dropped without a word."""
    given = [name for name in launch.given() if name not in _ANYWHERE]
    if "BUSBW_NODE_RANK" in environ:
        told = {name for name, variable in _TOLD_BY_EXEC.items() if variable in environ}
        given = [name for name in given if name not in told]
    if given and not launch.preset:  # a preset says more than one host needs
        flag = flag_of(given[0])
        raise UsageError(f"{flag} needs an engine", hint="give --on hosts, slurm, kubernetes, pbs or batch")


def _least_ranks(settings: RunSettings) -> int:
    """Ranks that a command line needs at least, before anybody knows how many there are."""
    roots = [int(word) for word in settings.root.split(",") if word.strip().isdecimal()]
    return max(settings.ranks or 1, 1, *(root + 1 for root in roots))


def refuse(error: BusbwError, world: WorldChoice) -> ExitCode:
    """End a run whose command line is wrong. Where a launcher started us, the other ranks are waiting to
    be told by rank 0, so it joins them to say no. Raises ``error`` where there is nobody to tell.
    """
    from busbw.worker.entry import Director, live

    try:
        identity = identify(os.environ)
    except BusbwError:
        identity = None  # the other ranks do not know who they are either, and leave
    if identity is None or identity.size == 1:
        raise error

    def plan(ranks: int) -> Plan:  # noqa: ARG001 (as a Director calls it)
        raise error

    def request() -> Request:
        raise AssertionError("no plan, no request")

    from busbw.reports.live import create

    display = create("table", sys.stdout, sys.stderr)
    return live(identity, world, Director(request, plan, display.handle), display.handle)


def _join(
    identity: Identity, operations: tuple[str, ...], settings: RunSettings, argv: tuple[str, ...]
) -> ExitCode:
    """Be rank 0 of somebody else's launch (the other ranks never come here: see ``__main__``)."""
    from busbw.record import folder as folders
    from busbw.reports.live import create, shown_as, unless_nobody_reads
    from busbw.worker.entry import Director, live
    from busbw.worker.guard import Guard
    from busbw.worker.lead import Request

    def request() -> Request:
        if delivery is not None:
            words, asked = delivery.asked() or (argv, asdict(settings))
            return Request(delivery.run_id, str(delivery.folder), words, asked)
        run_id = folders.new_run_id("+".join(operations) or "streams")
        folder = folders.create(folders.environ_home(), run_id)
        return Request(run_id, str(folder), argv, asdict(settings))

    def plan(ranks: int) -> Plan:
        if settings.ranks not in (None, ranks):
            raise UsageError(
                f"--ranks {settings.ranks}, but {identity.launcher} started {ranks}",
                hint="leave --ranks out: the launcher decides; BUSBW_LAUNCHER=none starts them on this host",
            )
        if settings.launches > 1:
            raise UsageError(
                f"--launches {settings.launches}, but {identity.launcher} started these ranks once",
                hint="repeat the launch there, or let busbw start the ranks",
            )
        check_references(settings)
        backend = choose_backend(settings.backend, settings.nccl or None)
        if backend == "nccl" and ranks == 1:
            _warn_of_idle_gpus(identity.launcher)
        _refuse_without_mpi(identity, settings, backend)
        return make_plan(operations, settings, backend, ranks)

    watched = Watched(identity.rank, os.environ) if settings.deliver else None
    delivery = _delivery(identity, settings)
    guard = Guard(delivery.last_words if delivery is not None else None)
    with contextlib.closing(create(shown_as(settings), sys.stdout, sys.stderr)) as display:
        show = Ended(unless_nobody_reads(display.handle if delivery is None else delivery.emit))
        code = live(identity, settings.world, Director(request, plan, show, guard), show, watched)
    code = judged(code, show.folder, settings)
    # A front process judges what was delivered; no engine is to start these ranks again for it.
    is_judged = code in (ExitCode.BAD_VERDICT, ExitCode.UNDECIDED)
    return ExitCode.OK if delivery is not None and is_judged else code


def _refuse_without_mpi(identity: Identity, settings: RunSettings, backend: str) -> None:
    """Under --on the ranks have no MPI as was asked for, or since their engine knows none: no mpirun of the
    user's starts them.
    """
    kind = identity.world if settings.world == "auto" else settings.world
    if settings.deliver and backend == "mpi" and kind != "mpi":
        raise SiteError(
            f"CPU ranks communicate over MPI, but this world is {kind!r} (launcher: {identity.launcher})",
            hint="leave --mpi none and --world nccl out (on Kubernetes --set kind=job or jobset too); AWS"
            " Batch measures GPUs, with --backend nccl",
        )


def _delivery(identity: Identity, settings: RunSettings) -> Delivery | None:
    """Where a front process, maybe on another machine, waits for the record."""
    if not settings.deliver:
        return None
    from busbw.model.event import EventKind, event
    from busbw.record.deliver import Delivery
    from busbw.worker.emit import emit

    delivery = Delivery(Path(settings.deliver), emit)
    delivery.emit(event(EventKind.HELLO, rank=identity.rank, pid=os.getpid(), host=socket.gethostname()))
    return delivery


def _warn_of_idle_gpus(launcher: str) -> None:
    """An interactive shell is a launcher's one task too, and its user may have meant the whole host."""
    from busbw.probes.gpus import gpu_presence

    visible = gpu_presence().count
    if visible > 1:
        print(
            f"warning: measuring 1 of {visible} visible GPUs, since {launcher} started one rank;"
            " hint: BUSBW_LAUNCHER=none starts one per GPU",
            file=sys.stderr,
        )


def _profiled_words(settings: RunSettings) -> str:
    """What a rank becomes, without what only its host knows."""
    output = str(NSYS_FOLDER / "rank-RANK-HOST")
    return " ".join(profile_words(TOOL, output, ("python", "-m", "busbw.worker"), settings.profile_args))


def _print_dry_run(plan: Plan, launch: LaunchRequest, settings: RunSettings) -> None:
    if settings.format in ("json", "jsonl"):
        commands = [str(command) for command in launch.commands]
        print(json.dumps({"plan": json.loads(plan.to_json()), "ranks": launch.ranks, "commands": commands}))
        return
    print(f"# {launch.ranks} ranks, world {launch.world}, backend {plan.backend}, {len(plan.cases)} cases")
    print(launch)
    if plan.profile:
        print(f"# each rank: {_profiled_words(settings)}")
    for case in plan.cases:
        if case.applicable:
            what = f"{case.collective} {case.dtype} {case.op or 'none'}"
            print(f"{what} {case.size_bytes} B ({case.count} elements) {case.placement}")
