"""``busbw nccom-test``: a command line of nccom-test, measured by busbw or by the vendor's own tool.

On a Neuron device the vendor's tool runs (``neuron``). Elsewhere busbw measures: on this host, or
on the hosts or the Slurm allocation that the command line names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from busbw.errors import ExitCode, UsageError
from busbw.foreign.door import in_words_of
from busbw.foreign.nccom import neuron
from busbw.foreign.nccom.display import NccomDisplay
from busbw.foreign.nccom.options import HELP_FLAGS, Options, help_text, parse
from busbw.foreign.nccom.settings import (
    THEIR_FLAGS,
    is_empty,
    notes,
    one_placement,
    operations_of,
    run_settings,
    where,
)
from busbw.launch import follow, here, submit
from busbw.launch.engine import Job, Work, load
from busbw.launch.local import local_request, rank_count
from busbw.machine.backends import choose_backend
from busbw.model.plan import Plan
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.make import make_plan
from busbw.plan.request import rank_words
from busbw.plan.streams import with_files
from busbw.rank.world.identity import identify
from busbw.record import folder as folders

# Settings that name a file: ranks elsewhere have another working folder.
_FILES: Final = ("groups", "counts", "pairs")


def nccom_test(words: Sequence[str], argv: tuple[str, ...], out: TextIO, err: TextIO) -> ExitCode:
    """Run a command line of nccom-test, ``words`` without the program's name. Results go to ``out``, all else
    to ``err``.

    Raises BusbwError for everything that ends it before it starts.
    """
    if any(word in HELP_FLAGS for word in words):
        print(help_text(), file=out)
        return ExitCode.OK
    _refuse_launcher()
    tool = neuron.find_tool(os.environ)
    if tool is not None:
        return neuron.run(tool, tuple(words), argv, out, err)
    options = parse(words)
    launch = where(options, os.environ, Path.home())
    with in_words_of(THEIR_FLAGS):
        settings = run_settings(options, os.environ)
        _refuse_files(options)
        display = NccomDisplay(options, out, err)
        display.say(*notes(options, os.environ))
        if launch is None:
            code, folder = _here(settings, argv, display, err)
        else:
            code, folder = _elsewhere(settings, launch, argv, display, err)
    if options.mpi_log_dir:
        _copy_logs(folder, Path(options.mpi_log_dir).expanduser(), display)
    return ExitCode.BAD_VERDICT if code is ExitCode.OK and display.failures else code


def _refuse_launcher() -> None:
    """nccom-test starts its ranks itself; under mpirun every rank would start them all."""
    identity = identify(os.environ)
    if identity is None or identity.size in (None, 1):
        return
    if identity.rank:  # rank 0 says it for all
        raise SystemExit(ExitCode.USAGE)
    raise UsageError(
        f"nccom-test starts its own ranks, and {identity.launcher} has started it {identity.size} times",
        hint="start it once; or use `busbw run`, which joins the ranks of a launcher",
    )


def _refuse_files(options: Options) -> None:
    """A place that cannot be written is known before an hour of measuring, not after it."""
    report = Path(options.report_to_json_file).expanduser()
    if options.report_to_json_file and (report.is_dir() or not os.access(report.parent, os.W_OK)):
        raise UsageError(f"cannot write {report}", hint="name a file in a folder that you can write")
    if options.mpi_log_dir:
        logs = Path(options.mpi_log_dir).expanduser()
        with contextlib.suppress(OSError):
            logs.mkdir(parents=True, exist_ok=True)
        if not os.access(logs, os.W_OK):
            raise UsageError(f"cannot write logs into {logs}", hint="name a folder that you can write")


def _planned(options: Options, settings: RunSettings, backend: str, ranks: int) -> Plan:
    """Raises UsageError also where no rank would get a byte of any size."""
    plan = one_placement(make_plan(operations_of(options), settings, backend, ranks))
    if all(map(is_empty, plan.cases)):
        raise UsageError(
            f"{options.maxbytes} B cannot be shared equally by the ranks: a share is a multiple of 16 bytes",
            hint="give a larger -b and -e: at least 16 bytes for each rank",
        )
    return plan


def _here(
    settings: RunSettings, argv: tuple[str, ...], display: NccomDisplay, err: TextIO
) -> tuple[ExitCode, Path]:
    """Measure on this host: one rank a GPU, else CPU ranks."""
    backend = choose_backend(settings.backend, settings.nccl or None)
    ranks = rank_count(settings.ranks, backend)
    plan = _planned(display.options, settings, backend, ranks)
    if backend == "mpi":
        display.say("no Neuron device and no GPU here: CPU ranks over MPI")
    request_for = partial(local_request, backend, settings.world, ranks)
    if display.options.debug:
        display.say(str(request_for("REQUEST")))
    folder = here.new_folder(plan, settings)
    code = here.measure(plan, settings, argv, request_for, display.handle, err, folder=folder)
    return code, folder


def _elsewhere(
    settings: RunSettings, launch: LaunchSettings, argv: tuple[str, ...], display: NccomDisplay, err: TextIO
) -> tuple[ExitCode, Path]:
    """Submit the run to the hosts or to Slurm, and follow it."""
    options = display.options
    operations = operations_of(options)
    _planned(options, settings, "null", options.nworkers)  # refuses what no job is needed for
    run_id = folders.new_run_id(settings.label(operations))
    folder = folders.create(folders.environ_home(), run_id).absolute()
    words = rank_words(operations, _with_absolute_paths(settings), folder)
    job = Job(
        run_id=folder.name,
        folder=str(folder),
        work=Work(words),
        launch=launch,
        backend=settings.backend,
        world=settings.world,
        ranks=options.nworkers,
    )
    engine = load(str(launch.on))
    request = engine.request(job, engine.inquire(launch))
    if options.debug:
        display.say(str(request))
    handle = submit.submit(job, request, argv, settings)
    return follow.Following(handle, folder, display.handle, err).follow(), folder


def _with_absolute_paths(settings: RunSettings) -> RunSettings:
    paths: Mapping[str, str] = {
        name: str(Path(getattr(settings, name)).absolute()) for name in _FILES if getattr(settings, name)
    }
    if settings.streams:
        paths = {**paths, "streams": with_files(settings.streams)}
    return replace(settings, **paths)  # type: ignore[arg-type]  # all of them are texts


def _copy_logs(folder: Path, target: Path, display: NccomDisplay) -> None:
    """--mpi-log-dir: what the ranks printed, under names of this run. A copy that fails changes no result."""
    logs = folder / "log"
    try:
        for log in sorted(logs.iterdir()):
            shutil.copyfile(log, target / f"{folder.name}-{log.name}")
    except OSError as error:
        display.say(f"cannot write logs into {target}: {error.strerror}; they are in {logs}")
