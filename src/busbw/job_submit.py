"""A job is submitted: its run folder with the request, and the handle by which it is found again."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import BusbwError, ExitCode, SiteError, UsageError
from busbw.launchers.engine import Engine, Handle, Job, JobRequest, Unanswered, load
from busbw.model.plan import Limits, Plan
from busbw.model.record import RunStatus
from busbw.probes.redact import redact_all
from busbw.record import close
from busbw.record import folder as folders
from busbw.worker.lead import error_event, now_utc

if TYPE_CHECKING:
    from busbw.settings.run import RunSettings

# The handle's file before there is a handle; large enough for a rank order's.
_RESERVED: Final = folders.JOB_FILE.with_suffix(".new")
_RESERVED_BYTES: Final = 1 << 16
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
        _write_request(folder, job, request, argv, settings)
        for name, text in request.files.items():
            path = folder / "request" / name
            path.touch(0o600)  # a job's script has the values of its variables
            path.write_text(text)
        (folder / folders.TICKET_FILE).write_text(job.run_id + "\n")
        _reserve(folder)
    except OSError as error:
        raise _no_room(folder, "so nothing was submitted", error) from error
    size = {"ranks": request.ranks, "nodes": request.nodes, "submitted": now_utc()}
    try:
        handle = hand_over(load(request.engine), request, folder)
    except Unanswered as error:
        unnumbered = error.handle.to_fields()
        unnumbered["details"][_UNANSWERED] = "yes"
        _keep(folder, json.dumps({**unnumbered, **size}) + "\n")
        raise _may_exist(error.handle, folder, error.message) from error
    except BusbwError as error:
        (folder / _RESERVED).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the refusal matters more
            close.close(folder, RunStatus.FAILED, now_utc(), error=error.message, hint=error.hint)
        raise
    try:
        _keep(folder, json.dumps({**handle.to_fields(), **size}) + "\n")
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


def _reserve(folder: Path) -> None:
    """Take the room of the handle before there is a job: a full disk must not make it a job nobody knows."""
    with (folder / _RESERVED).open("wb") as file:
        file.write(b" " * _RESERVED_BYTES)
        file.flush()
        os.fsync(file.fileno())  # where room is only found then (NFS)


def _keep(folder: Path, text: str) -> None:
    with (folder / _RESERVED).open("r+b") as file:
        file.write(text.encode())
        file.truncate()
    (folder / _RESERVED).replace(folder / folders.JOB_FILE)


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


def _write_request(
    folder: Path, job: Job, request: JobRequest, argv: tuple[str, ...], settings: RunSettings | None
) -> None:
    """The request as ``record.request`` reads it; the cases are known once the ranks are."""
    plan = Plan(backend=job.backend, cases=(), buffer_bytes=0, limits=Limits(), checks=0, seed=0)
    body = {
        "run_id": job.run_id,
        "folder": job.folder,
        "argv": argv,
        "settings": redact_all(asdict(settings) if settings is not None else {})
        | _plain(job)
        | _order(request),
        "plan": plan.to_json(),
    }
    (folder / folders.REQUEST_FILE).write_text(json.dumps(body) + "\n")


def _order(request: JobRequest) -> dict[str, object]:
    return {} if request.rank_order is None else {"rank_order": request.rank_order.to_fields()}


def _plain(job: Job) -> dict[str, object]:
    launch = {name: getattr(job.launch, name) for name in ("on", *job.launch.given())}
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
    _reserve(folder)
    _keep(folder, json.dumps(_fields(folder / folders.JOB_FILE) | (found or handle).to_fields()) + "\n")
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
