"""A job is submitted: its run folder with the request, and the handle by which it is found again."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw.errors import BusbwError, SiteError, UsageError
from busbw.files import store_private
from busbw.launch import here
from busbw.launch.engine import Handle, Job, JobRequest, load
from busbw.model.event import now_utc
from busbw.model.plain import from_plain
from busbw.model.plan import Limits, Plan
from busbw.model.record import RunStatus
from busbw.plan.flags.values import as_written
from busbw.record import close
from busbw.record import folder as folders

if TYPE_CHECKING:
    from busbw.plan.flags.run import RunSettings


def submit(
    job: Job, request: JobRequest, argv: tuple[str, ...], settings: RunSettings | None = None
) -> Handle:
    """Make the run folder, write the request into it, submit it, and keep its handle there.

    Raises SiteError with the engine's own words; the folder then has a run that never started.
    """
    folder = folders.create(Path(job.folder).parent, job.run_id)
    with _writing(folder):
        write_request(folder, job, request, argv, settings)
    return submit_files(request, folder)


def submit_files(request: JobRequest, folder: Path) -> Handle:
    """As submit, of a job whose folder is there."""
    with _writing(folder):
        for name, text in request.files.items():
            store_private(folder / "request" / name, text)  # a job's script has the values of its variables
        (folder / folders.TICKET_FILE).write_text(folder.name + "\n")
    size = {"ranks": request.ranks, "nodes": request.nodes, "submitted": now_utc()}
    try:
        handle = load(request.engine).submit(request, folder)
    except BusbwError as error:
        with contextlib.suppress(OSError):  # the refusal matters more
            close.close(folder, RunStatus.FAILED, now_utc(), error=error.message, hint=error.hint)
        raise
    with _writing(folder, handle):
        folders.replace_text(folder / folders.JOB_FILE, (json.dumps({**asdict(handle), **size}), "\n"))
    return handle


@contextlib.contextmanager
def _writing(folder: Path, submitted: Handle | None = None) -> Iterator[None]:
    """What cannot be written is no job: one that was submitted is ended, and what became of it is said."""
    try:
        yield
    except OSError as error:
        fate = "so nothing was submitted"
        if submitted is not None:
            job = f"{submitted.engine} job {submitted.id}"
            fate = f"so {job} was cancelled"
            try:
                load(submitted.engine).cancel(submitted, now=True)
            except BusbwError as refusal:
                fate = f"and {job} runs on: it could not be cancelled ({refusal.message})"
        raise SiteError(
            f"cannot write {error.filename or folder}: {error.strerror}, {fate}",
            hint=f"free space in {folder.parent}, or set BUSBW_HOME to a folder elsewhere",
        ) from error


def write_request(
    folder: Path, job: Job, request: JobRequest, argv: tuple[str, ...], settings: RunSettings | None
) -> None:
    """The request of a job's run; the cases are known once the ranks are."""
    plan = Plan(backend=job.backend, cases=(), buffer_bytes=0, limits=Limits(), checks=0, seed=0)
    given = as_written(job.launch)
    launch = {name: given[name] for name in ("on", *job.launch.given())}
    own: dict[str, object] = {"launch": json.loads(json.dumps(launch, default=str))}
    if request.rank_order is not None:
        own["rank_order"] = request.rank_order.to_fields()
    here.write_request(folder, plan, settings, argv, **own, command=list(job.work.words))


def read_handle(folder: Path) -> Handle:
    """The submitted job of a run. Raises UsageError where the run is no job."""
    try:
        return from_plain(Handle, json.loads((folder / folders.JOB_FILE).read_text()))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise UsageError(
            f"{folder.name} was not submitted to an engine", hint="`busbw jobs` lists those that are"
        ) from error


def is_command(folder: Path) -> bool:
    """Whether a job is a command of the user's (``busbw exec``): its request has no settings of a run."""
    settings = _fields(folder / folders.REQUEST_FILE).get("settings")
    return isinstance(settings, dict) and "command" in settings and "deliver" not in settings


def _fields(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_submission(folder: Path) -> dict[str, str]:
    """What was submitted, for a table: nodes, operations (or command), split, ranks, submission time (UTC);
    empty where it was not said, or by an earlier version, or cannot be read.
    """
    job, request = (_fields(folder / name) for name in (folders.JOB_FILE, folders.REQUEST_FILE))
    settings = request.get("settings") or {}
    words = settings.get("command", [])
    is_run = words[:1] == ["run"] and not is_command(folder)
    operations = itertools.takewhile(lambda word: not word.startswith("-"), words[1:])
    return {
        "nodes": str(job.get("nodes") or ""),
        "operations": ",".join(operations) if is_run else shlex.join(words),
        "split": str(settings.get("split") or ""),
        "ranks": str(job.get("ranks") or ""),
        "submitted": str(job.get("submitted") or ""),
    }
