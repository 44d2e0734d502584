"""``busbw nccom-test``: a command line of nccom-test, measured by busbw or by the vendor's own tool.

On a Neuron device the vendor's tool runs (``frontdoors.neuron``). Elsewhere busbw measures: on this host, or
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
from typing import TYPE_CHECKING, Final, TextIO

from busbw.errors import ExitCode, UsageError
from busbw.frontdoors import neuron
from busbw.frontdoors.nccom_flags import HELP_FLAGS, help_text
from busbw.frontdoors.nccom_launch import where
from busbw.frontdoors.nccom_options import Options, parse
from busbw.frontdoors.nccom_settings import in_their_words, one_placement, operations_of, run_settings
from busbw.planning.streams import with_files
from busbw.world.identity import identify

if TYPE_CHECKING:
    from busbw.frontdoors.nccom_display import NccomDisplay
    from busbw.model.plan import Plan
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

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
    place = where(options, os.environ, Path.home())
    settings = run_settings(options, os.environ)
    _refuse_report(options)
    _refuse_logs(options)
    for note in (*place.notes, *_notes(options)):
        print(f"busbw: {note}", file=err)
    from busbw.frontdoors.nccom_display import create

    with contextlib.closing(create(options, out, err)) as display, in_their_words():
        if place.launch is None:
            code, folder = _here(options, settings, argv, display, err)
        else:
            code, folder = _elsewhere(options, settings, place.launch, argv, display, err)
    if options.mpi_log_dir:
        _copy_logs(folder, Path(options.mpi_log_dir).expanduser(), err)
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


def _refuse_report(options: Options) -> None:
    """A file that cannot be written is known before an hour of measuring, not after it."""
    path = Path(options.report_to_json_file).expanduser()
    if options.report_to_json_file and (path.is_dir() or not os.access(path.parent, os.W_OK)):
        raise UsageError(f"cannot write {path}", hint="name a file in a folder that you can write")


def _refuse_logs(options: Options) -> None:
    """So is a folder for logs that cannot be made."""
    if not options.mpi_log_dir:
        return
    target = Path(options.mpi_log_dir).expanduser()
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write logs into {target}: {error.strerror}", hint="name a folder that you can write"
        ) from error
    if not os.access(target, os.W_OK):
        raise UsageError(f"cannot write logs into {target}", hint="name a folder that you can write")


def _refuse_empty(plan: Plan) -> None:
    """Sizes of which no rank would get a byte."""
    from busbw.frontdoors.nccom_display import is_empty

    for number in sorted({case.stream for case in plan.cases if case.row.sized}):
        sized = [case for case in plan.cases if case.row.sized and case.stream == number]
        if not all(map(is_empty, sized)):
            continue
        most = max(case.requested_bytes for case in sized)
        of_stream = f"stream {number}: " if number >= 0 else ""
        raise UsageError(
            f"{of_stream}{most} B cannot be shared equally by the ranks: a share is a multiple of 16 bytes",
            hint="give a larger -b and -e: at least 16 bytes for each rank",
        )


def _notes(options: Options) -> list[str]:
    notes = []
    if options.stepfactor is not None and "stepbytes" in (options.values or {}):
        notes.append("-f and -i were both given: sizes grow by the factor")
    if options.stepfactor == 1 and options.minbytes < options.maxbytes:
        notes.append(f"-f 1 never leaves the first size: only {options.minbytes} B is measured")
    return notes


def _here(
    options: Options, settings: RunSettings, argv: tuple[str, ...], display: NccomDisplay, err: TextIO
) -> tuple[ExitCode, Path]:
    """Measure on this host: one rank a GPU, else CPU ranks."""
    from busbw import session
    from busbw.launchers.choose import local_request, rank_count
    from busbw.planning.make import make_plan
    from busbw.probes.backends import choose_backend
    from busbw.record import folder as folders

    operations = operations_of(options)
    # A typo must not hide behind the machine.
    _refuse_empty(make_plan(operations, settings, "null", options.nworkers))
    backend = choose_backend(settings.backend, settings.nccl or None)
    ranks = rank_count(settings.ranks, backend)
    plan = one_placement(make_plan(operations, settings, backend, ranks))
    if backend == "mpi":
        print("busbw: no Neuron device and no GPU here: CPU ranks over MPI", file=err)
    request_for = partial(local_request, backend, settings.world, ranks)
    if options.debug:
        print(f"busbw: {request_for('REQUEST')}", file=err)
    folder = folders.create(folders.environ_home(), session.new_run_id(plan))
    code = session.measure(plan, settings, argv, request_for, display.handle, err, folder=folder)
    return code, folder


def _elsewhere(
    options: Options,
    settings: RunSettings,
    launch: LaunchSettings,
    argv: tuple[str, ...],
    display: NccomDisplay,
    err: TextIO,
) -> tuple[ExitCode, Path]:
    """Submit the run to the hosts or to Slurm, and follow it."""
    from busbw import job_session, job_submit
    from busbw.launchers.engine import Job, Work, load
    from busbw.planning.make import make_plan
    from busbw.record import folder as folders
    from busbw.settings.words import to_words

    operations = operations_of(options)
    _refuse_empty(make_plan(operations, settings, "null", options.nworkers))
    run_id = folders.new_run_id("+".join(operations) or "streams")
    folder = folders.create(folders.environ_home(), run_id).absolute()
    words = to_words(_with_absolute_paths(settings), ("ranks", "format", "deliver", "dry_run"))
    job = Job(
        run_id=folder.name,
        folder=str(folder),
        work=Work(("run", *operations, *words, "--format=jsonl", f"--deliver={folder}")),
        launch=launch,
        backend=settings.backend,
        world=settings.world,
        ranks=options.nworkers,
    )
    engine = load(str(launch.on))
    request = engine.request(job, engine.inquire(launch))
    if options.debug:
        print(f"busbw: {request}", file=err)
    handle = job_submit.submit(job, request, argv, settings)
    following = job_session.start_following(handle, folder, display.handle, err)
    return job_session.follow(following), folder


def _with_absolute_paths(settings: RunSettings) -> RunSettings:
    paths: Mapping[str, str] = {
        name: str(Path(getattr(settings, name)).absolute()) for name in _FILES if getattr(settings, name)
    }
    if settings.streams:
        paths = {**paths, "streams": with_files(settings.streams)}
    return replace(settings, **paths)  # type: ignore[arg-type]  # all of them are texts


def _copy_logs(folder: Path, target: Path, err: TextIO) -> None:
    """--mpi-log-dir: what the ranks printed, under names of this run. A copy that fails changes no result."""
    try:
        for log in sorted((folder / "log").iterdir()):
            shutil.copyfile(log, target / f"{folder.name}-{log.name}")
    except OSError as error:
        print(
            f"busbw: cannot write logs into {target}: {error.strerror}; they are in {folder / 'log'}",
            file=err,
        )
