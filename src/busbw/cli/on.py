"""``busbw run --on ENGINE`` and ``busbw exec --on ENGINE``: the same command, somewhere else."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw import job_end, job_session, job_submit
from busbw.cli.followers import leave_follower, print_line
from busbw.cli.judged import check_references, judged
from busbw.errors import BusbwError, ExitCode, SiteError, UsageError
from busbw.launchers.before import look_before
from busbw.launchers.engine import ASKS_FOLLOWER, Job, JobRequest, Work, load
from busbw.launchers.interrupt import Interrupt
from busbw.launchers.settle import settle
from busbw.launchers.variables import library_folders, read_variables
from busbw.model.event import Emit, Event, EventKind, event
from busbw.planning.json_file import INLINE, read_text
from busbw.planning.make import check_words
from busbw.planning.preflight import asked_words
from busbw.planning.streams import FILES, with_files
from busbw.preflight.exchange import refusal_of
from busbw.probes.environment import with_given
from busbw.record import folder as folders
from busbw.record.findings import keep
from busbw.reports.live import shown_as
from busbw.settings.engines import ENGINES
from busbw.settings.words import to_words
from busbw.units import parse_duration

if TYPE_CHECKING:
    from busbw.launchers.engine import Handle
    from busbw.model.finding import Finding
    from busbw.reports.live import Display
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

# What the front process does itself.
_OWN: tuple[str, ...] = (
    *("format", "dry_run", "launches", "ranks", "deliver", "expect"),
    *("presets_used", "overridden"),
)
# A word of a command line has 128 KiB at most on Linux, and engines quote it.
_MOST_FILE_CHARACTERS = 60_000
_DRY_FOLDER = "RUN_FOLDER"


def run_on(
    operations: tuple[str, ...],
    settings: RunSettings,
    launch: LaunchSettings,
    argv: tuple[str, ...],
    *,
    hear: Emit = lambda item: None,
    before: tuple[Finding, ...] = (),
) -> ExitCode:
    """Submit the run, a job for each number of nodes, and follow the jobs in turn. ``hear`` gets every event
    that is shown; ``before`` was found earlier and belongs into the record. Raises BusbwError for everything
    that ends it before it starts.
    """
    check_words(operations, settings, 1)
    settings = _with_files(settings)
    check_references(settings)
    if settings.launches != 1:
        raise UsageError("--launches and --on exclude each other", hint="submit the run several times")
    launch = settled(launch)
    launches = [replace(launch, nodes=count) for count in _node_counts(launch.nodes)]
    jobs = [_measuring(operations, settings, each) for each in launches]
    requests = _requests(jobs, telling=settings.preflight)
    if settings.dry_run:
        _print_dry_run(requests, settings.format)
        return ExitCode.OK
    found = [(*before, *_look(job, request, settings)) for job, request in zip(jobs, requests, strict=True)]
    started, interrupted = _submit_all(jobs, requests, argv, settings)
    for (folder, _), findings in zip(started, found, strict=False):
        with contextlib.suppress(OSError):  # a full disk: whoever follows says so
            keep(folder, findings)
    _leave_followers(started if launch.detach else started[1:])
    if len(started) > 1:
        numbers = ", ".join(handle.id for _, handle in started)
        print(f"{len(started)} jobs: {numbers}; `busbw jobs --format csv` lists them", file=sys.stderr)
    if launch.detach and not interrupted:
        return ExitCode.OK
    return _follow_all(started, found, settings, launch, hear, interrupted=interrupted)


def _look(job: Job, request: JobRequest, settings: RunSettings) -> tuple[Finding, ...]:
    """What is wrong with the engine for this job. Raises SiteError where it cannot go well."""
    findings = look_before(job, request, strict=settings.strict) if settings.preflight else ()
    bad = refusal_of(findings)
    if bad is not None:
        with contextlib.closing(_display(shown_as(settings))) as display:
            _show(findings, display)
        raise SiteError(bad.message, hint=bad.hint, host=bad.host)
    return findings


def _show(findings: tuple[Finding, ...], display: Display) -> None:
    for finding in findings:
        display.handle(event(EventKind.FINDING, finding=finding))


def _with_files(settings: RunSettings) -> RunSettings:
    """The files that settings name become part of them: the nodes may not have them."""
    texts: dict[str, Any] = {}
    for name in (*FILES, "streams"):
        if path := getattr(settings, name):
            text = with_files(path) if name == "streams" else INLINE + read_text(path, f"--{name}")
            if len(text) > _MOST_FILE_CHARACTERS:
                raise UsageError(
                    f"--{name} {path} is too large to send ({len(text)} characters)",
                    hint=f"{_MOST_FILE_CHARACTERS} at most; start busbw under the site's launcher instead",
                )
            texts[name] = text
    return replace(settings, **texts)


def settled(launch: LaunchSettings) -> LaunchSettings:
    """The settings as the engine takes them; what was found out about them is told."""
    found, notes = settle(launch, os.environ)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    if found.wait:
        parse_duration(found.wait, "--wait")  # a typo must not be found when the job is there
    return found


def _node_counts(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not word.isdecimal() or int(word) < 1:
            raise UsageError(f"--nodes {word} is no number of nodes", hint="give 8, or 2,4,8 for a job each")
    counts = [int(word) for word in words]
    if twice := next((count for count in counts if counts.count(count) > 1), None):
        raise UsageError(
            f"--nodes {text} names {twice} twice: both jobs would measure the same",
            hint="name each number once, and submit the run again for another launch",
        )
    return words or [""]


def _measuring(operations: tuple[str, ...], settings: RunSettings, launch: LaunchSettings) -> Job:
    """The job of one run. Its ranks get the settings as words, and join whoever starts them."""
    folder = _folder("+".join(operations[:4]) or "streams", dry=settings.dry_run)
    words = ("run", *operations, *to_words(settings, _OWN), "--format=jsonl", f"--deliver={folder}")
    environ = read_variables(launch.env, launch.env_file)
    prepend = library_folders(launch.library_path, environ)
    return Job(
        run_id=folder.name,
        folder=str(folder),
        work=Work(words),
        launch=launch,
        environ=with_given(environ, also=prepend),
        prepend=prepend,
        backend=settings.backend,
        world=settings.world,
        ranks=settings.ranks,
    )


def _folder(name: str, *, dry: bool) -> Path:
    run_id = folders.new_run_id(name)
    # A dry run prints the same text each time. The folder is made when all is known to be well.
    return Path(_DRY_FOLDER) if dry else (folders.environ_home() / run_id).absolute()


def _requests(jobs: list[Job], *, telling: bool = False) -> list[JobRequest]:
    """What will be submitted; ``telling`` the ranks how many of them there are to be."""
    engine = load(str(jobs[0].launch.on))
    work = jobs[0].work
    largest = max(jobs, key=lambda job: int(job.launch.nodes or 0))  # its nodes are those of all
    facts = engine.inquire(largest.launch, () if work.is_busbw else work.words)
    if telling:
        jobs = [_telling(job, engine.request(job, facts)) for job in jobs]
    requests = [engine.request(job, facts) for job in jobs]
    for note in dict.fromkeys(note for request in requests for note in _notes(request)):
        print(f"note: {note}", file=sys.stderr)
    return requests


def _notes(request: JobRequest) -> tuple[str, ...]:
    return (*request.notes, *(request.rank_order.notes if request.rank_order is not None else ()))


def _telling(job: Job, request: JobRequest) -> Job:
    asked = asked_words(request.ranks, request.nodes, shared=ENGINES[request.engine].shares)
    return replace(job, work=Work((*job.work.words, f"--asked={asked}")))


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
                started.append(_submit(job, request, argv, settings))
            except BusbwError as error:
                raise _with_fates(error, started) from error
        return started, interrupt.requested


def _leave_followers(unwatched: list[tuple[Path, Handle]]) -> None:
    """Processes in the background for those of the jobs that ask for something when they start."""
    for folder, handle in unwatched:
        if handle.details.get(ASKS_FOLLOWER):
            pid = leave_follower(folder)
            print(
                f"note: process {pid} stays here to send busbw to job {handle.id} when it starts, and to"
                " bring its record home",
                file=sys.stderr,
            )


def _with_fates(error: BusbwError, started: list[tuple[Path, Handle]]) -> BusbwError:
    """The refusal of a job, and what became of those before it: nobody would follow them: they end."""
    fates = []
    for folder, handle in started:
        try:
            job_session.bring(folder, sys.stderr, ends=True)
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
        code, stopped = _follow(folder, handle, settings, launch, hear, findings)
        worst, interrupted = max(worst, code), interrupted or stopped
    return worst


def _cancel(folder: Path, handle: Handle) -> None:
    job_session.cancel(folder, now=False)
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"interrupted: cancelled {handle.engine} job {handle.id}", file=sys.stderr)


def _submit(
    job: Job, request: JobRequest, argv: tuple[str, ...], settings: RunSettings | None
) -> tuple[Path, Handle]:
    handle = job_submit.submit(job, request, argv, settings)
    print(f"submitted {handle.engine} job {handle.id} as run {job.run_id}", file=sys.stderr)
    if job.launch.detach:
        print(f"hint: busbw attach {job.run_id}", file=sys.stderr)
    return Path(job.folder), handle


def _follow(
    folder: Path,
    handle: Handle,
    settings: RunSettings,
    launch: LaunchSettings,
    hear: Emit,
    findings: tuple[Finding, ...] = (),
) -> tuple[ExitCode, bool]:
    """The job's exit code, and whether the user stopped it here."""
    with contextlib.closing(_display(shown_as(settings))) as display:
        _show(findings, display)

        def show(item: Event) -> None:
            hear(item)
            display.handle(item)

        following = job_session.start_following(handle, folder, show, sys.stderr, wait=launch.wait)
        code = job_session.follow(following)
    return judged(code, folder, settings), following.stopped


def _display(format_name: str) -> Display:
    from busbw.reports.live import create

    return create(format_name, sys.stdout, sys.stderr)


def _print_dry_run(requests: list[JobRequest], format_name: str) -> None:
    if format_name in ("json", "jsonl"):
        for request in requests:
            commands = [str(command) for command in request.commands]
            print(json.dumps({"engine": request.engine, "files": dict(request.files), "commands": commands}))
        return
    between = "---\n" if requests[0].engine == "kubernetes" else "\n"  # documents of one YAML stream
    print(between.join(str(request) for request in requests))


def execute(
    command: tuple[str, ...],
    launch: LaunchSettings,
    argv: tuple[str, ...],
    *,
    ranks: int | None = None,
    dry_run: bool,
) -> int:
    """Any command with the environment, container and host file that a run would get; its output as it comes.

    Its exit code as the engine tells it, 5 where the engine does not, 130 if interrupted.
    """
    if not command:
        raise UsageError(
            "no command given", hint="write it after --, as in: busbw exec --on slurm -N 2 -- hostname"
        )
    if launch.on is None:
        raise UsageError("no engine given", hint="give --on hosts, slurm, kubernetes, pbs or batch")
    launch = settled(launch)
    if len(_node_counts(launch.nodes)) > 1:
        raise UsageError("exec takes one number of nodes", hint="give -N once for each command")
    folder = _folder("exec", dry=dry_run)
    environ = read_variables(launch.env, launch.env_file)
    prepend = library_folders(launch.library_path, environ)
    job = Job(
        run_id=folder.name,
        folder=str(folder),
        work=Work(command, is_busbw=False),
        launch=launch,
        environ=with_given(environ, also=prepend),
        prepend=prepend,
        ranks=ranks,
    )
    (request,) = _requests([job])
    if dry_run:
        _print_dry_run([request], "table")
        return ExitCode.OK
    ((folder, handle),), interrupted = _submit_all([job], [request], argv, None)
    if interrupted:
        _cancel(folder, handle)
    elif launch.detach:
        _leave_followers([(folder, handle)])
        return ExitCode.OK
    with contextlib.closing(_display("table")) as display:
        following = job_session.start_following(
            handle,
            folder,
            display.handle,
            sys.stderr,
            wait=launch.wait,
            raw=print_line,
        )
        code = job_session.follow(following)
    return job_end.shell_code(folder, code)
