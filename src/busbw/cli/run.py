"""``busbw run``: measure. Joins the ranks of a launcher that started us, else starts ranks on this host."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.model.event import Emit, Event
from busbw.planning.make import make_plan
from busbw.probes.backends import choose_backend
from busbw.world.identity import identify

if TYPE_CHECKING:
    from busbw.launchers.base import LaunchRequest
    from busbw.model.plan import Plan
    from busbw.settings.run import RunSettings
    from busbw.worker.lead import Request
    from busbw.world.identity import Identity
    from busbw.world.select import WorldChoice


def run(operations: tuple[str, ...], settings: RunSettings, argv: tuple[str, ...]) -> ExitCode:
    """Measure ``operations``. Raises BusbwError for everything that ends the run before it starts."""
    from busbw.launchers.choose import local_request, rank_count
    from busbw.reports.live import create

    identity = identify(os.environ)
    if identity is not None and not settings.dry_run:
        return _join(identity, operations, settings, argv)
    # Everything about the words first: a typo must not wait for, or hide behind, the machine.
    make_plan(operations, settings, "mpi", max(settings.ranks or 1, settings.root + 1))
    backend = choose_backend(settings.backend, settings.nccl or None)
    ranks = (identity.size if identity is not None else None) or rank_count(settings.ranks, backend)
    plan = make_plan(operations, settings, backend, ranks)
    request_for = partial(local_request, backend, settings.world, ranks)
    if settings.dry_run:
        _print_dry_run(plan, request_for("REQUEST"), settings.format)
        return ExitCode.OK
    from busbw import session

    with contextlib.closing(create(settings.format, sys.stdout, sys.stderr)) as display:
        return session.measure(plan, settings, argv, request_for, display.handle, sys.stderr)


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
    from busbw.reports.live import create
    from busbw.worker.entry import Director, live
    from busbw.worker.guard import Guard
    from busbw.worker.lead import Request

    def request() -> Request:
        run_id = folders.new_run_id("+".join(operations))
        folder = folders.create(folders.environ_home(), run_id)
        return Request(run_id, str(folder), argv, asdict(settings))

    def plan(ranks: int) -> Plan:
        if settings.ranks not in (None, ranks):
            raise UsageError(
                f"--ranks {settings.ranks}, but {identity.launcher} started {ranks}",
                hint="leave --ranks out: the launcher decides; BUSBW_LAUNCHER=none starts them on this host",
            )
        backend = choose_backend(settings.backend, settings.nccl or None)
        if backend == "nccl" and ranks == 1:
            _warn_of_idle_gpus(identity.launcher)
        return make_plan(operations, settings, backend, ranks)

    with contextlib.closing(create(settings.format, sys.stdout, sys.stderr)) as display:
        show = _unless_nobody_reads(display.handle)
        return live(identity, settings.world, Director(request, plan, show, Guard()), show)


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


def _unless_nobody_reads(show: Emit) -> Emit:
    """Where the reader of our output has left, the ranks still finish, and the record with them."""

    def emit(item: Event) -> None:
        try:
            show(item)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return emit


def _print_dry_run(plan: Plan, launch: LaunchRequest, format_name: str) -> None:
    if format_name in ("json", "jsonl"):
        commands = [str(command) for command in launch.commands]
        print(json.dumps({"plan": json.loads(plan.to_json()), "ranks": launch.ranks, "commands": commands}))
        return
    print(f"# {launch.ranks} ranks, world {launch.world}, backend {plan.backend}, {len(plan.cases)} cases")
    print(launch)
    for case in plan.cases:
        if case.applicable:
            what = f"{case.collective} {case.dtype} {case.op or 'none'}"
            print(f"{what} {case.size_bytes} B ({case.count} elements) {case.placement}")
