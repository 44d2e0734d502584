"""``busbw run``: measure. Joins the ranks of a launcher that started us, else starts ranks on this host."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import ExitCode, SiteError, UsageError
from busbw.model.event import Event, EventKind
from busbw.model.plan import Plan
from busbw.model.record import RunStatus
from busbw.planning.make import make_plan
from busbw.record import folder as folders
from busbw.settings.run import RunSettings

if TYPE_CHECKING:
    from busbw.launchers.base import LaunchRequest
    from busbw.reports.live import Display
    from busbw.world.identity import Identity

MOST_DEFAULT_RANKS = 8


def run(operations: tuple[str, ...], settings: RunSettings, argv: tuple[str, ...]) -> ExitCode:
    """Measure ``operations``. Raises BusbwError for everything that ends the run before it starts."""
    from busbw.reports.live import create
    from busbw.world.identity import identify

    identity = identify(os.environ, os.environ.get("BUSBW_LAUNCHER"))
    if identity is not None and not settings.dry_run:
        return join(identity, operations, settings, argv, create(settings.format, sys.stdout, sys.stderr))
    plan, request_for = _prepare(operations, settings)
    if settings.dry_run:
        _print_dry_run(plan, request_for("REQUEST"), settings)
        return ExitCode.OK
    display = create(settings.format, sys.stdout, sys.stderr)
    try:
        return _start(operations, settings, argv, plan, request_for, display)
    finally:
        display.close()


def join(
    identity: Identity,
    operations: tuple[str, ...],
    settings: RunSettings,
    argv: tuple[str, ...],
    display: Display,
) -> ExitCode:
    """Be rank 0 of somebody else's launch (the other ranks never come here: see ``__main__``)."""
    from busbw.worker.entry import Director, live
    from busbw.worker.lead import Request

    def request() -> Request:
        run_id = folders.new_run_id("+".join(operations))
        folder = folders.create(folders.environ_home(), run_id)
        return Request(run_id, str(folder), argv, asdict(settings))

    def plan(ranks: int) -> Plan:
        from busbw.probes.backends import choose_backend

        if settings.ranks not in (None, ranks):
            raise UsageError(
                f"--ranks {settings.ranks}, but {identity.launcher} started {ranks}",
                hint="leave --ranks out under a launcher; it decides",
            )
        backend = choose_backend(settings.backend, settings.nccl or None)
        return make_plan(operations, settings, backend, ranks)

    code = live(identity, settings.world, Director(request, plan, display.handle), display.handle)
    display.close()
    return code


def _prepare(operations: tuple[str, ...], settings: RunSettings) -> tuple[Plan, _RequestFor]:
    from busbw.probes.backends import choose_backend

    # Everything about the words first: a typo must not wait for, or hide behind, the machine.
    make_plan(operations, settings, "mpi", max(settings.ranks or 1, settings.root + 1))
    backend = choose_backend(settings.backend, settings.nccl or None)
    ranks = _rank_count(settings, backend)
    return make_plan(operations, settings, backend, ranks), _RequestFor(backend, settings, ranks)


def _rank_count(settings: RunSettings, backend: str) -> int:
    from busbw.probes.gpus import gpu_presence
    from busbw.probes.host import read_processors

    if settings.ranks is not None and settings.ranks < 1:
        raise UsageError(f"--ranks {settings.ranks} is too small", hint="give 1 or more")
    if backend == "nccl":
        visible = gpu_presence().count
        if settings.ranks is not None and settings.ranks > visible:
            raise SiteError(
                f"{settings.ranks} ranks but {visible} visible GPUs on {socket.gethostname()}",
                hint=f"give --ranks {visible} or fewer, or start one rank per GPU over several hosts",
            )
        return settings.ranks or visible
    return settings.ranks or max(2, min(read_processors().usable_cores, MOST_DEFAULT_RANKS))


class _RequestFor:
    """Makes the launch request once the request file's place is known."""

    def __init__(self, backend: str, settings: RunSettings, ranks: int) -> None:
        self._backend = backend
        self._world = settings.world
        self._ranks = ranks

    def __call__(self, request_file: str) -> LaunchRequest:
        from busbw.launchers import local
        from busbw.probes.host import read_processors
        from busbw.probes.mpi import find_mpi

        world = self._world
        if world == "auto":
            world = "nccl" if self._backend == "nccl" else "mpi"
        if world == "nccl" or (world == "solo" and self._ranks == 1):
            return local.without_mpi(self._ranks, secrets.token_hex(16), _free_port(), request_file)
        if world == "solo":
            raise UsageError(f"--world solo has one rank, not {self._ranks}", hint="give --ranks 1")
        library = find_mpi(os.environ).library
        mpi = local.LocalMpi(library.mpiexec if library else "", library.family if library else "")
        return local.over_mpi(mpi, self._ranks, read_processors().usable_cores, request_file)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(
    operations: tuple[str, ...],
    settings: RunSettings,
    argv: tuple[str, ...],
    plan: Plan,
    request_for: _RequestFor,
    display: Display,
) -> ExitCode:
    from busbw import session

    run_id = folders.new_run_id("+".join(operations))
    folder = folders.create(folders.environ_home(), run_id)
    request_file = folder / folders.REQUEST_FILE
    body = {
        "run_id": run_id,
        "folder": str(folder),
        "argv": argv,
        "settings": asdict(settings),
        "plan": plan.to_json(),
    }
    request_file.write_text(json.dumps(body) + "\n")
    launch = request_for(str(request_file))
    (request_file.parent / "commands.txt").write_text(f"{launch}\n")
    story, interrupted = session.follow(launch, folder, display.handle, sys.stderr, time.monotonic)
    code, error = session.judge(story, interrupted, socket.gethostname())
    _finish(folder, code, error, display)
    return code


def _finish(folder: Path, code: ExitCode, error: Event | None, display: Display) -> None:
    from busbw import session
    from busbw.model.event import event
    from busbw.record.parquet import compact
    from busbw.worker.lead import now_utc

    if error is not None:
        display.handle(error)
    if (folder / folders.RUN_FILE).is_file():
        from busbw.record.read import read_record

        record = read_record(folder)
        if record.status is RunStatus.RUNNING:
            status = RunStatus.INTERRUPTED if code is ExitCode.INTERRUPTED else RunStatus.FAILED
            session.close_record(folder, record, status, now_utc(), error)
        compact(folder)
        display.handle(event(EventKind.END, exit_code=int(code), folder=str(folder)))


def _print_dry_run(plan: Plan, launch: LaunchRequest, settings: RunSettings) -> None:
    if settings.format in ("json", "jsonl"):
        commands = [str(command) for command in launch.commands]
        print(json.dumps({"plan": json.loads(plan.to_json()), "ranks": launch.ranks, "commands": commands}))
        return
    print(f"# {launch.ranks} ranks, world {launch.world}, backend {plan.backend}, {len(plan.cases)} cases")
    print(launch)
    for case in plan.cases:
        if case.applicable:
            op = case.op or "none"
            print(
                f"{case.collective} {case.dtype} {op} {case.size_bytes} B ({case.count} elements) {case.placement}"
            )
