"""``busbw jobs``, ``attach``, ``cancel``, ``clean``: runs on engines that go on without this process."""

from __future__ import annotations

import contextlib
import csv
import io
import sys
from pathlib import Path
from typing import Annotated, Literal

from busbw.cli.app import PRINTED, RunName, flag, positional, run_names
from busbw.cli.on import print_line
from busbw.cli.output import as_json, show
from busbw.cli.run_answer import Ended
from busbw.errors import BusbwError, ExitCode, NotHome, UsageError
from busbw.launch import follow, submit
from busbw.launch.engine import Handle, Phase, load
from busbw.launch.series_job import follow_series, is_series_job
from busbw.model.record import RunStatus
from busbw.plan.flags.engines import ENGINES
from busbw.plan.flags.ranks import FormatName
from busbw.record import close
from busbw.record import folder as folders
from busbw.record.owner import is_owned
from busbw.record.printed import Reading
from busbw.report.fields import aligned
from busbw.terminal import standard_error

_TITLES = ("run", "engine", "job", "state", "record")
# Title -> field.
_CSV_COLUMNS = {
    "JobID": "job",
    "Nodes": "nodes",
    "Operations": "operations",
    "SplitMask": "split",
    "Ranks": "ranks",
    "SubmissionTime": "submitted",
    "Engine": "engine",
    "Run": "run",
    "State": "state",
}


def jobs(
    *,
    format: Annotated[  # noqa: A002
        Literal["table", "json", "csv"], flag("How to print it; csv also has nodes, operations and ranks.")
    ] = "table",
    limit: Annotated[int, flag("Show no more than this many.")] = 20,
) -> ExitCode:
    """List the jobs that were submitted from here, newest first."""
    found = _jobs()[:limit]
    if not found and format == "table":
        print("no jobs; submit one: `busbw run all_reduce --on slurm -N 2`", file=sys.stderr)
        return ExitCode.OK
    told = list(map(_fields, found))
    lines = aligned([_TITLES, *([fields[name] for name in _TITLES] for fields in told)])
    show(format, lines, json=lambda: as_json(told), csv=lambda: _csv_text(found, told))
    return ExitCode.OK


def _csv_text(found: list[Path], told: list[dict[str, str]]) -> str:
    """The list that scripts for batches of jobs keep, under its columns' names, and what became of each."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_CSV_COLUMNS)
    for folder, own in zip(found, told, strict=True):
        fields = {**submit.read_submission(folder), **own}
        table.writerow([fields[name] for name in _CSV_COLUMNS.values()])
    return text.getvalue()


def _jobs() -> list[Path]:
    return list(filter(folders.is_job, folders.run_folders(folders.environ_home())))


def _is_closed(folder: Path) -> bool:
    if is_series_job(folder):
        return folders.read_ended(folder) is not None
    return close.read_status(folder) not in (None, RunStatus.RUNNING)


def _fields(folder: Path) -> dict[str, str]:
    """One job: its handle (empty where damaged), the engine's word on it, and where its record is."""
    handle, state, is_home = None, "unknown", _is_closed(folder)
    with contextlib.suppress(BusbwError):  # a file that a full disk or a hand damaged, an engine that is away
        handle = submit.read_handle(folder)
        if not is_home:  # what has ended here needs no question to the engine
            seen = load(handle.engine).state(handle)
            state = seen.phase.value + (f" ({seen.why})" if seen.why else "")
    record = "busbw attach fetches it" if handle is not None else f"{folders.JOB_FILE} cannot be read"
    if is_home:
        state, record = Phase.ENDED.value, str(getattr(close.read_status(folder), "value", ""))
        if is_series_job(folder):
            record = f"busbw compare {folder.name}"
    return {
        "run": folder.name,
        "engine": handle.engine if handle is not None else "",
        "job": handle.id if handle is not None else "",
        "state": state,
        "record": record,
    }


def attach(
    run: RunName = "last",
    /,
    *,
    format: Annotated[FormatName, PRINTED] = "table",  # noqa: A002
) -> int:
    """Show a job's table (or what a command printed) from its start, follow it to its end, and bring the
    record home. The exit code is the one that whoever stayed would have got.
    """
    from busbw.report.live import create

    folder = folders.find_run(run, folders.environ_home(), last=folders.is_job)
    if is_series_job(folder):
        from busbw.cli.compare_setups import followed
        from busbw.plan.flags.compare import CompareSettings

        name = "table" if format == "jsonl" else format
        return followed(folder, standard_error(), CompareSettings(), name, cancels=False)
    handle = submit.read_handle(folder)
    is_command = submit.is_command(folder)
    if follow.is_home(folder):
        return _show_ended(folder, handle, format, is_command=is_command)
    with contextlib.closing(create(format, sys.stdout, sys.stderr)) as display:
        following = follow.Following(
            handle,
            folder,
            Ended(display.handle),
            sys.stderr,
            cancels=False,
            raw=print_line if is_command else None,
        )
        code = following.follow()
    if following.left:
        print(f"detached; the job goes on\nhint: busbw attach {folder.name}", file=sys.stderr)
    return follow.shell_code(folder, code)


def _show_ended(folder: Path, handle: Handle, format_name: FormatName, *, is_command: bool) -> int:
    """A job that was followed to its end before; rank 0 may have closed its record where nobody followed."""
    from busbw.cli.show import show
    from busbw.report.events import show_error

    with contextlib.suppress(BusbwError):  # an engine that cannot be asked is no reason to fail
        if load(handle.engine).state(handle).phase is Phase.ENDED:
            follow.clean(handle, folder)
    if is_command:
        for line in Reading(folder).new():
            print_line(line)
        if (ended := folders.read_ended(folder)) is not None and ended.error is not None:
            show_error(ended.error, sys.stderr)
    else:
        show(folder.name, format=format_name)
    code = follow.ended_code(folder)
    if code == ExitCode.INTERRUPTED:
        print(f"{handle.engine} job {handle.id} was cancelled", file=sys.stderr)
    return code


def cancel(
    run: RunName = "",
    /,
    *,
    now: Annotated[bool, flag("Kill immediately; do not wait for final output.")] = False,
) -> ExitCode:
    """End a job. Its record is closed by who follows it, else by the next attach, or here where its engine
    needs somebody to see to its end. Raises UsageError, with the jobs that have not ended, without a name.
    """
    if not run:
        going = [
            folder.name for folder in _jobs() if folders.read_ended(folder) is None and not _is_closed(folder)
        ]
        hint = f"name one: {', '.join(going)}" if going else "no job is running; `busbw jobs` lists all"
        raise UsageError("cancel needs the name of a job", hint=hint)
    folder = folders.find_run(run, folders.environ_home(), last=folders.is_job)
    handle = submit.read_handle(folder)
    is_ended = folders.read_ended(folder) is not None  # seen here; its engine may have forgotten it
    if is_ended or load(handle.engine).state(handle).phase is Phase.ENDED:
        print(f"{handle.engine} job {handle.id} has ended already", file=sys.stderr)
        return ExitCode.OK
    engine, is_followed = ENGINES[handle.engine], is_owned(folder)
    if engine.forgets and not is_followed:
        _bring(folder, ends=True, now=now)
    else:
        follow.cancel(folder, now=now)
        if engine.asks and not (now or is_followed):  # follow it: that kills it where it does not end
            try:
                _bring(folder)
                if not _is_home(folder):
                    print("stopped waiting before the job ended; --now does not wait", file=sys.stderr)
                    return ExitCode.INTERRUPTED
            except NotHome as error:  # it has ended, and attach can bring what it printed
                print(f"note: {error.message}\nhint: {error.hint}", file=sys.stderr)
    print(f"cancelled {handle.engine} job {handle.id}", file=sys.stderr)
    return ExitCode.OK


def _bring(folder: Path, *, ends: bool = False, now: bool = False) -> None:
    """Follow a run, or a series, to its end without showing it; see ``follow.bring``."""
    if is_series_job(folder):
        follow_series(folder, standard_error(), cancels=False, ends=ends)
    else:
        follow.bring(folder, sys.stderr, ends=ends, now=now)


def _is_home(folder: Path) -> bool:
    if is_series_job(folder):
        return folders.read_ended(folder) is not None
    return follow.is_home(folder)


def clean(
    run: Annotated[str, positional("One job. [default: all of them]", completer=run_names)] = "", /
) -> ExitCode:
    """Remove what ended jobs left on their engines, with the records of those that nobody followed brought
    home before.
    """
    home = folders.environ_home()
    chosen = (
        [folders.find_run(run, home, last=folders.is_job)]
        if run
        else [job for job in _jobs() if not (job / folders.CLEANED_FILE).exists()]
    )
    worst = ExitCode.OK
    for folder in chosen:
        try:
            said, code = _clean(folder)
        except BusbwError as error:
            said, code = error.message + (f"\nhint: {error.hint}" if error.hint else ""), error.exit_code
        print(f"{folder.name}: {said}", file=sys.stderr)
        if code is ExitCode.INTERRUPTED:
            return code
        worst = max(worst, code)
    return worst


def _clean(folder: Path) -> tuple[str, ExitCode]:
    """What became of one job. Raises BusbwError where something of it had to be left."""
    handle = submit.read_handle(folder)
    if load(handle.engine).state(handle).phase is not Phase.ENDED:
        return f"not ended; `busbw cancel {folder.name}` ends it", ExitCode.OK
    if is_owned(folder):
        return "another busbw follows it and will clean up", ExitCode.OK
    if not _is_home(folder):  # what is on the engine may be all there is of the result
        _bring(folder)
        if not _is_home(folder):  # interrupted
            return "its record is not fetched yet; nothing was removed", ExitCode.INTERRUPTED
        print(f"{folder.name}: fetched its record ({close.read_status(folder)})", file=sys.stderr)
    follow.clean(handle, folder)
    (folder / folders.CLEANED_FILE).touch()
    return "clean", ExitCode.OK
