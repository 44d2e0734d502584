"""A job is submitted: its run folder with the request, and the handle by which it is found again."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import BusbwError, ExitCode, SiteError, UsageError
from busbw.files import store_private
from busbw.launch.engine import Engine, Handle, Job, JobRequest, Unanswered, load
from busbw.model.event import error_event, now_utc
from busbw.model.plan import Limits, Plan
from busbw.model.record import RunStatus
from busbw.plan.flags.values import as_written
from busbw.record import close
from busbw.record import folder as folders
from busbw.redact import redact_all, redact_words

if TYPE_CHECKING:
    from busbw.plan.flags.run import RunSettings

# The detail of a handle whose engine has not said whether it has the job: nobody knows its number.
_UNANSWERED: Final = "unanswered"
# How long an engine is asked for a job whose submission it did not answer. It may take up what it was sent
# a little after it has answered a later question.
_SEEK_SECONDS: Final = 60.0
_LATE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.5


def submit(
    job: Job, request: JobRequest, argv: tuple[str, ...], settings: RunSettings | None = None
) -> Handle:
    """Make the run folder, write the request into it, submit it, and keep its handle there.

    Raises SiteError with the engine's own words; the folder then tells of a run that never started. Where the
    engine does not say whether it has the job, the folder keeps the job's name, for ``read_handle``.
    """
    folder = folders.create(Path(job.folder).parent, job.run_id)
    try:
        write_request(folder, job, request, argv, settings)
    except OSError as error:
        raise _no_room(folder, "so nothing was submitted", error) from error
    return submit_files(request, folder)


def submit_files(request: JobRequest, folder: Path) -> Handle:
    """As submit, of a job whose folder is there."""
    try:
        for name, text in request.files.items():
            store_private(folder / "request" / name, text)  # a job's script has the values of its variables
        (folder / folders.TICKET_FILE).write_text(folder.name + "\n")
    except OSError as error:
        raise _no_room(folder, "so nothing was submitted", error) from error
    size = {"ranks": request.ranks, "nodes": request.nodes, "submitted": now_utc()}
    try:
        handle = hand_over(load(request.engine), request, folder)
    except Unanswered as error:
        unnumbered = error.handle.to_fields()
        unnumbered["details"][_UNANSWERED] = "yes"
        _keep(folder, {**unnumbered, **size})
        raise _may_exist(error.handle, folder, error.message) from error
    except BusbwError as error:
        with contextlib.suppress(OSError):  # the refusal matters more
            close.close(folder, RunStatus.FAILED, now_utc(), error=error.message, hint=error.hint)
        raise
    try:
        _keep(folder, {**handle.to_fields(), **size})
    except OSError as error:
        raise _no_room(folder, _end_unknown(handle), error) from error
    return handle


def hand_over(engine: Engine, request: JobRequest, folder: Path) -> Handle:
    """Submit. Where no answer comes, the job is looked for, so that none runs that nobody knows. Raises
    Unanswered where the engine does not tell that either.
    """
    try:
        return engine.submit(request, folder)
    except Unanswered as error:
        found = _seek(engine, error, _SEEK_SECONDS)
        if found is not None:
            return found
        with contextlib.suppress(BusbwError):
            engine.clean(error.handle)
        raise SiteError(error.message, hint=error.hint) from error


def _seek(engine: Engine, unanswered: Unanswered, patience_s: float) -> Handle | None:
    """The job that an engine may have; None where it has none. Raises Unanswered where it does not say."""
    give_up_s = time.monotonic() + patience_s
    certain_s = None
    while True:
        try:
            found = engine.find(unanswered.handle)
        except SiteError:
            certain_s = None
            if time.monotonic() > give_up_s:
                raise unanswered from None
        else:
            certain_s = certain_s or time.monotonic() + _LATE_SECONDS
            if found is not None or time.monotonic() > certain_s:
                return found
        time.sleep(_AGAIN_SECONDS)


def _may_exist(handle: Handle, folder: Path, message: str) -> SiteError:
    run = folder.name
    return SiteError(
        f"{message}; whether {handle.engine} has job {handle.name} is not known",
        hint=f"once it answers, `busbw cancel {run}` ends that job, and `busbw attach {run}` follows it",
    )


def _keep(folder: Path, job: Mapping[str, Any]) -> None:
    partial = (folder / folders.JOB_FILE).with_suffix(".new")
    partial.write_text(json.dumps(job) + "\n")
    partial.replace(folder / folders.JOB_FILE)


def _end_unknown(handle: Handle) -> str:
    """End a job that cannot be kept, and say what became of it."""
    job = f"{handle.engine} job {handle.id}"
    try:
        load(handle.engine).cancel(handle, now=True)
    except BusbwError as error:
        return f"and {job} runs on: it could not be cancelled ({error.message})"
    return f"so {job} was cancelled"


def _no_room(folder: Path, fate: str, error: OSError) -> SiteError:
    return SiteError(
        f"cannot write {error.filename or folder}: {error.strerror}, {fate}",
        hint=f"free space in {folder.parent}, or set BUSBW_HOME to a folder elsewhere",
    )


def write_request(
    folder: Path, job: Job, request: JobRequest, argv: tuple[str, ...], settings: RunSettings | None
) -> None:
    """The request of a run as ``record.request`` reads it; the cases are known once the ranks are."""
    plan = Plan(backend=job.backend, cases=(), buffer_bytes=0, limits=Limits(), checks=0, seed=0)
    body = {
        "run_id": job.run_id,
        "folder": job.folder,
        "argv": redact_words(argv),
        "settings": redact_all(settings.written() if settings is not None else {})
        | _plain(job)
        | _order(request),
        "plan": plan.to_json(),
    }
    (folder / folders.REQUEST_FILE).write_text(json.dumps(body) + "\n")


def _order(request: JobRequest) -> dict[str, object]:
    return {} if request.rank_order is None else {"rank_order": request.rank_order.to_fields()}


def _plain(job: Job) -> dict[str, object]:
    given = as_written(job.launch)
    launch = {name: given[name] for name in ("on", *job.launch.given())}
    plain = {"launch": json.loads(json.dumps(launch, default=str)), "command": list(job.work.words)}
    return {name: redact_all(value) for name, value in plain.items()}


def read_handle(folder: Path) -> Handle:
    """The submitted job of a run. Raises UsageError where the run is no job, SiteError where its engine does
    not say whether it has it.
    """
    handle = kept_handle(folder)
    return _settled(handle, folder) if _UNANSWERED in handle.details else handle


def _settled(kept: Handle, folder: Path) -> Handle:
    """The handle of a job whose submission was not answered, once the engine tells. Where it has none, the
    run has ended.
    """
    details = {name: value for name, value in kept.details.items() if name != _UNANSWERED}
    handle = replace(kept, details=details)
    engine = load(handle.engine)
    try:
        found = _seek(engine, Unanswered(SiteError("it does not answer"), handle), 0)
    except Unanswered as error:
        raise _may_exist(handle, folder, f"{handle.engine} does not answer") from error
    if found is None:
        with contextlib.suppress(BusbwError):
            engine.clean(handle)
        never = SiteError(f"{handle.engine} has no job {handle.name}: nothing ran", hint="submit it again")
        close.close(folder, RunStatus.FAILED, now_utc(), error=never.message, hint=never.hint)
        folders.write_ended(folder, int(ExitCode.ENVIRONMENT), error_event(never))
    _keep(folder, _fields(folder / folders.JOB_FILE) | (found or handle).to_fields())
    return found or handle


def kept_handle(folder: Path) -> Handle:
    """As read_handle, as it was kept. Raises UsageError."""
    try:
        return Handle.from_fields(json.loads((folder / folders.JOB_FILE).read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder.name} is not a job on an engine", hint="`busbw jobs` lists those that are"
        ) from error


def is_command(folder: Path) -> bool:
    """Whether a job is a command of the user's (``busbw exec``): its request has no settings of a run."""
    try:
        settings = json.loads((folder / folders.REQUEST_FILE).read_text())["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return "command" in settings and "deliver" not in settings


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
    settings = request.get("settings", {})
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
