"""``busbw run --on ENGINE`` and ``busbw exec --on ENGINE``: the same command, somewhere else."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from busbw.cli.app import RunCommand, command_line, flag, positional, print_notes
from busbw.cli.run_answer import Ended, check_references, judged
from busbw.errors import BusbwError, ExitCode, SiteError, UsageError
from busbw.launch import follow, submit
from busbw.launch.engine import Handle, Job, JobRequest, Work, load, look_before
from busbw.launch.interrupt import Interrupt
from busbw.launch.settle import with_pbs_hosts
from busbw.launch.variables import library_folders, read_variables
from busbw.machine.environment import with_given
from busbw.model.arrival import TRACE
from busbw.model.event import Emit, EventKind, event
from busbw.model.finding import Finding
from busbw.plan.flags.engines import ENGINES
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.ranks import Asked
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.skew import COUNTS
from busbw.plan.flags.values import Between
from busbw.plan.json_file import INLINE, read_text
from busbw.plan.make import check_settings
from busbw.plan.request import rank_words
from busbw.plan.streams import FILES, with_files
from busbw.rank.preflight import refusal_of
from busbw.record import folder as folders
from busbw.record.findings import keep
from busbw.record.printed import Line
from busbw.redact import HIDDEN_NOTE
from busbw.report.display import Display
from busbw.report.live import create, display_of

# A word of a command line has 128 KiB at most on Linux, and engines quote it.
_MOST_FILE_CHARACTERS = 60_000
_DRY_FOLDER = "RUN_FOLDER"


def run_on(command: RunCommand) -> ExitCode:
    """Submit the run, a job for each number of nodes, and follow the jobs in turn. Raises BusbwError for
    everything that ends it before it starts.
    """
    check_settings(command.operations, command.settings)
    settings = _with_files(command.settings)
    check_references(settings)
    if settings.launches != 1:
        raise UsageError(
            "--launches cannot be combined with --on",
            hint="submit the run once for each launch, with one --tag, which `busbw compare` takes together",
        )
    operations, launch = command.operations, settled(command.launch)
    launches = [replace(launch, nodes=str(count)) for count in node_counts(launch.nodes)] or [launch]
    # Its ranks get the settings, and join whoever starts them.
    make = partial(_job, settings.label(operations), partial(_measuring, operations, settings))
    jobs = [
        replace(
            make(each, settings.ranks, dry=settings.dry_run), backend=settings.backend, world=settings.world
        )
        for each in launches
    ]
    complete = partial(_asking, operations, settings) if settings.preflight else None
    if settings.dry_run:
        _dry_run(jobs, complete, settings.format, show_secrets=settings.show_secrets)
        return ExitCode.OK
    requests = _requests(jobs, complete, dry=False)
    found = [
        (*command.before, *_look(job, request, settings)) for job, request in zip(jobs, requests, strict=True)
    ]
    started, interrupted = _submit_all(jobs, requests, command.argv, settings)
    for (folder, _), findings in zip(started, found, strict=False):
        with contextlib.suppress(OSError):  # a full disk: whoever follows says so
            keep(folder, findings)
    if len(started) > 1:
        numbers = ", ".join(handle.id for _, handle in started)
        print(f"{len(started)} jobs: {numbers}; `busbw jobs --format csv` lists them", file=sys.stderr)
    if launch.detach and not interrupted:
        return ExitCode.OK
    return _follow_all(started, found, settings, launch, command.hear, interrupted=interrupted)


def _look(job: Job, request: JobRequest, settings: RunSettings) -> tuple[Finding, ...]:
    """What is wrong with the engine for this job. Raises SiteError where it cannot go well."""
    findings = look_before(job, request, strict=settings.strict) if settings.preflight else ()
    bad = refusal_of(findings)
    if bad is not None:
        with contextlib.closing(display_of(settings)) as display:
            _show(findings, display)
        raise SiteError(bad.message, hint=bad.hint, host=bad.host)
    return findings


def _show(findings: tuple[Finding, ...], display: Display) -> None:
    for finding in findings:
        display.handle(event(EventKind.FINDING, finding=finding))


def _with_files(settings: RunSettings) -> RunSettings:
    """The files that settings name become part of them: the nodes may not have them. Raises UsageError where
    they are too large for a command line.
    """
    texts: dict[str, Any] = {}
    for name in (*FILES, "streams"):
        if path := getattr(settings, name):
            texts[name] = with_files(path) if name == "streams" else INLINE + read_text(path, f"--{name}")
    for name, word in (("skew", COUNTS), ("arrival", TRACE)):
        kind, _, path = str(getattr(settings, name) or "").partition(":")
        if kind == word:
            texts[name] = type(getattr(settings, name))(f"{word}:{INLINE}{read_text(path, f'--{name}')}")
    if sum(map(len, texts.values())) > _MOST_FILE_CHARACTERS:
        name = max(texts, key=lambda each: len(texts[each]))
        raise UsageError(
            f"--{name} {getattr(settings, name)} is too large to send ({len(texts[name])} characters)",
            hint=f"keep it under {_MOST_FILE_CHARACTERS}, or start busbw under the site's launcher",
        )
    return replace(settings, **texts)


def settled(launch: LaunchSettings) -> LaunchSettings:
    """The settings as the engine takes them; what was found out about them is told."""
    found, notes = with_pbs_hosts(launch, os.environ)
    print_notes(notes)
    return found


def node_counts(text: str) -> list[int]:
    """The numbers of --nodes, in their order. Raises UsageError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not word.isdecimal() or int(word) < 1:
            raise UsageError(
                f"--nodes {word} is not a number of nodes", hint="give 8, or 2,4,8 for one job each"
            )
    return [int(word) for word in words]


def _measuring(operations: tuple[str, ...], settings: RunSettings, folder: object) -> Work:
    return Work(rank_words(operations, settings, folder))


def _job(
    name: str, work: Callable[[Path], Work], launch: LaunchSettings, ranks: int | None, *, dry: bool
) -> Job:
    # A dry run prints the same text each time. The folder is made when all is known to be well.
    folder = Path(_DRY_FOLDER) if dry else (folders.environ_home() / folders.new_run_id(name)).absolute()
    environ = read_variables(launch.env, launch.env_file)
    prepend = library_folders(launch.library_path, environ)
    return Job(
        run_id=folder.name,
        folder=str(folder),
        work=work(folder),
        launch=launch,
        environ=with_given(environ, also=prepend),
        prepend=prepend,
        ranks=ranks,
    )


def _requests(
    jobs: list[Job], complete: Callable[[Job, JobRequest], Job] | None = None, *, dry: bool
) -> list[JobRequest]:
    """What will be submitted; ``complete`` adds to a job what only its request says."""
    engine = load(str(jobs[0].launch.on))
    work = jobs[0].work
    largest = max(jobs, key=lambda job: int(job.launch.nodes or 0))  # its nodes are those of all
    facts = engine.inquire(largest.launch, () if work.is_busbw else work.words, dry=dry)
    if complete is not None:
        jobs = [complete(job, engine.request(job, facts)) for job in jobs]
    requests = [engine.request(job, facts) for job in jobs]
    notes = (
        (*each.notes, *(each.rank_order.notes if each.rank_order is not None else ())) for each in requests
    )
    print_notes(dict.fromkeys(chain.from_iterable(notes)))
    return requests


def _asking(operations: tuple[str, ...], settings: RunSettings, job: Job, request: JobRequest) -> Job:
    """The job, its ranks knowing how many of them and of their nodes are asked for."""
    asked = Asked(request.ranks or 0, request.nodes or 0, shared=ENGINES[request.engine].shares)
    return replace(job, work=_measuring(operations, replace(settings, asked=asked), job.folder))


def _submit_all(
    jobs: list[Job], requests: list[JobRequest], argv: tuple[str, ...], settings: RunSettings | None
) -> tuple[list[tuple[Path, Handle]], bool]:
    """What was submitted, and whether Ctrl-C came meanwhile: a job whose number nobody heard would run on."""
    started: list[tuple[Path, Handle]] = []
    with Interrupt() as interrupt:
        for job, request in zip(jobs, requests, strict=True):
            if interrupt.requested:
                break
            try:
                handle = submit.submit(job, request, argv, settings)
            except BusbwError as error:
                raise _with_fates(error, started) from error
            print(f"submitted {handle.engine} job {handle.id} as run {job.run_id}", file=sys.stderr)
            if job.launch.detach:
                print(f"hint: busbw attach {job.run_id}", file=sys.stderr)
            started.append((Path(job.folder), handle))
        return started, interrupt.requested


def _with_fates(error: BusbwError, started: list[tuple[Path, Handle]]) -> BusbwError:
    """The refusal of a job, and what became of those before it: nobody would follow them: they end."""
    fates = []
    for folder, handle in started:
        try:
            follow.bring(folder, sys.stderr, ends=True)
            fates.append(f"cancelled job {handle.id}, submitted before")
        except BusbwError as lost:
            fates.append(f"could not cancel job {handle.id} (run {folder.name}): {lost.message}")
    return type(error)("; ".join((error.message, *fates)), hint=error.hint, rank=error.rank, host=error.host)


def _follow_all(
    started: list[tuple[Path, Handle]],
    found: list[tuple[Finding, ...]],
    settings: RunSettings,
    launch: LaunchSettings,
    hear: Emit,
    *,
    interrupted: bool,
) -> ExitCode:
    """Follow jobs in turn. Ctrl-C ends those that are still to come as well; each record is closed."""
    worst = ExitCode.INTERRUPTED if interrupted else ExitCode.OK
    for (folder, handle), findings in zip(started, found, strict=False):
        if interrupted:
            _cancel(folder, handle)
        with contextlib.closing(display_of(settings)) as display:
            _show(findings, display)
            show = Ended(hear, display.handle)
            following = follow.Following(handle, folder, show, sys.stderr, wait=launch.wait)
            code = judged(following.follow(), folder, settings)
        worst, interrupted = max(worst, code), interrupted or following.stopped
    return worst


def _cancel(folder: Path, handle: Handle) -> None:
    follow.cancel(folder, now=False)
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"interrupted: cancelled {handle.engine} job {handle.id}", file=sys.stderr)


def _dry_run(
    jobs: list[Job],
    complete: Callable[[Job, JobRequest], Job] | None,
    format_name: str,
    *,
    show_secrets: bool,
) -> None:
    """Print what would be submitted. Secrets of variables are replaced before there is any text of them."""
    shown = jobs if show_secrets else [job.without_secrets() for job in jobs]
    whole = _requests(shown, complete, dry=True)
    requests = whole if show_secrets else [request.without_secrets() for request in whole]
    is_hidden = not show_secrets and (
        shown != jobs
        or any(each.files != other.files for each, other in zip(requests, whole, strict=True))
        or any(command.hides for request in whole for command in request.commands)
    )
    _print_dry_run(requests, format_name, is_hidden=is_hidden)


def _print_dry_run(requests: list[JobRequest], format_name: str, *, is_hidden: bool) -> None:
    if format_name in ("json", "jsonl"):
        for request in requests:
            commands = [command.whole for command in request.commands]
            fields = {"engine": request.engine, "files": dict(request.files), "commands": commands}
            print(json.dumps({**fields, **({"note": HIDDEN_NOTE} if is_hidden else {})}))
        return
    if is_hidden:
        print(f"# {HIDDEN_NOTE}")
    between = "---\n" if requests[0].engine == "kubernetes" else "\n"  # documents of one YAML stream
    print(between.join(map(str, requests)))


def print_line(line: Line) -> None:
    """A line of a user's command, on the stream that it came by."""
    print(line.text, file=sys.stderr if line.is_error else sys.stdout, flush=True)


def execute(
    *command: Annotated[str, positional("The command and its words, after --.", allow_leading_hyphen=True)],
    launch: LaunchSettings = LaunchSettings(),
    ranks: Annotated[int | None, flag("How many times to start it, on all nodes together.")] = None,
    dry_run: Annotated[bool, flag("Print what would be submitted.")] = False,
    show_secrets: Annotated[bool, flag("Do not hide secrets in a dry run.")] = False,
    overridden: Annotated[tuple[str, ...], positional("Written by busbw, as in `run`.", show=False)] = (),
) -> int:
    """Any command with the environment, container and host file that a run would get; its output as it comes.

    Its exit code as the engine tells it, 5 where the engine does not, 130 if interrupted.
    """
    print_notes(overridden)
    if ranks is not None:
        Between(1).check("--ranks", ranks)
    if not command:
        raise UsageError(
            "no command given", hint="write it after --, as in `busbw exec --on slurm -N 2 -- hostname`"
        )
    if launch.on is None:
        raise UsageError("exec needs an engine", hint="give --on hosts, slurm, kubernetes or pbs")
    launch = settled(launch)
    if len(node_counts(launch.nodes)) > 1:
        raise UsageError(
            "exec takes a single number of nodes", hint="give one -N, and run exec again for another"
        )
    job = _job("exec", lambda folder: Work(command, is_busbw=False), launch, ranks, dry=dry_run)
    if dry_run:
        _dry_run([job], None, "table", show_secrets=show_secrets)
        return ExitCode.OK
    (request,) = _requests([job], dry=False)
    ((folder, handle),), interrupted = _submit_all([job], [request], command_line(), None)
    if interrupted:
        _cancel(folder, handle)
    elif launch.detach:
        return ExitCode.OK
    with contextlib.closing(create("table", sys.stdout, sys.stderr)) as display:
        show = display.handle
        following = follow.Following(handle, folder, show, sys.stderr, wait=launch.wait, raw=print_line)
        code = following.follow()
    return follow.shell_code(folder, code)
