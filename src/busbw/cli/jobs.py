"""``busbw jobs``, ``attach``, ``cancel``, ``clean``: runs on engines that go on without this process."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw import job_end, job_session, job_submit
from busbw.cli.followers import print_line
from busbw.errors import BusbwError, ExitCode, NotHome, SiteError, UsageError
from busbw.launchers.engine import Handle, JobState, Phase, load
from busbw.model.record import RunStatus
from busbw.record import close
from busbw.record import folder as folders
from busbw.record.owner import is_owned
from busbw.record.printed import Reading
from busbw.settings.engines import ENGINES

if TYPE_CHECKING:
    from pathlib import Path

_UNFOLDED_COLUMNS = 10_000
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


@dataclass(frozen=True)
class _Row:
    """One job: its run, its handle (None where its file was damaged), the engine's word on it, whether its
    record is home, and whether its engine has not said that it has it.
    """

    folder: Path
    handle: Handle | None
    state: JobState | None
    is_home: bool
    is_uncertain: bool = False


def jobs(format_name: str, limit: int) -> ExitCode:
    """List the jobs that were submitted from here, newest first."""
    rows = [_row(folder) for folder in _jobs()[:limit]]
    if format_name == "json":
        print(json.dumps([_fields(row) for row in rows], indent=1))
        return ExitCode.OK
    if format_name == "csv":
        _print_csv(rows)
        return ExitCode.OK
    if not rows:
        print("no jobs; `busbw run OPERATION --on ENGINE` submits one", file=sys.stderr)
        return ExitCode.OK
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("run", "engine", "job", "state", "record"):
        table.add_column(title, overflow="fold")
    for row in rows:
        fields = _fields(row)
        table.add_row(*(str(fields[name]) for name in ("run", "engine", "job", "state", "record")))
    # A script reads a line a job: nothing is folded where nobody looks at a screen.
    Console(width=None if sys.stdout.isatty() else _UNFOLDED_COLUMNS).print(table)
    return ExitCode.OK


def _print_csv(rows: list[_Row]) -> None:
    """The list that scripts for batches of jobs keep, under its columns' names, and what became of each."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(_CSV_COLUMNS)
    for row in rows:
        fields = {**job_submit.read_submission(row.folder), **_fields(row)}
        table.writerow([fields[name] for name in _CSV_COLUMNS.values()])


def _jobs() -> list[Path]:
    return [
        folder
        for folder in folders.run_folders(folders.environ_home())
        if (folder / folders.JOB_FILE).is_file()
    ]


def _row(folder: Path) -> _Row:
    state = None
    try:
        handle = job_submit.read_handle(folder)
    except UsageError:  # a full disk, a hand: the others are listed all the same
        return _Row(folder, None, None, _is_closed(folder))
    except SiteError:
        return _Row(folder, job_submit.kept_handle(folder), None, is_home=False, is_uncertain=True)
    is_home = _is_closed(folder)
    if not is_home:  # what has ended here needs no question to the engine
        with contextlib.suppress(BusbwError):
            state = load(handle.engine).state(handle)
    return _Row(folder, handle, state, is_home)


def _is_closed(folder: Path) -> bool:
    return close.read_status(folder) not in (None, RunStatus.RUNNING)


def _fields(row: _Row) -> dict[str, str]:
    if row.is_home:
        state, record = Phase.ENDED.value, str(getattr(close.read_status(row.folder), "value", ""))
    elif row.is_uncertain:
        state, record = "uncertain", f"its submission was not answered; busbw cancel {row.folder.name}"
    else:
        state = "unknown" if row.state is None else row.state.phase.value
        record = "busbw attach brings it" if row.handle is not None else f"{folders.JOB_FILE} cannot be read"
        if row.state is not None and row.state.why:
            state += f" ({row.state.why})"
    return {
        "run": row.folder.name,
        "engine": row.handle.engine if row.handle is not None else "",
        "job": row.handle.id if row.handle is not None else "",
        "state": state,
        "record": record,
    }


def attach(run: str, format_name: str) -> int:
    """Show a job's table (or what a command printed) from its start, follow it to its end, and bring the
    record home. The exit code is the one that whoever stayed would have got.
    """
    from busbw.reports.live import create

    folder = folders.find_run(run, folders.environ_home())
    handle = job_submit.read_handle(folder)
    is_command = job_submit.is_command(folder)
    if job_end.is_home(folder):
        return _show_ended(folder, handle, format_name, is_command=is_command)
    with contextlib.closing(create(format_name, sys.stdout, sys.stderr)) as display:
        following = job_session.start_following(
            handle,
            folder,
            display.handle,
            sys.stderr,
            cancels=False,
            raw=print_line if is_command else None,
        )
        code = job_session.follow(following)
    if following.left:
        print(f"detached; the job goes on\nhint: busbw attach {folder.name}", file=sys.stderr)
    return job_end.shell_code(folder, code)


def _show_ended(folder: Path, handle: Handle, format_name: str, *, is_command: bool) -> int:
    """A job that was followed to its end before; rank 0 may have closed its record where nobody followed."""
    from busbw.cli.show import show
    from busbw.reports.live import show_error

    if _has_ended(handle):
        with contextlib.suppress(BusbwError):
            job_end.clean(handle, folder)
    if is_command:
        for line in Reading(folder).new():
            print_line(line)
        if (ended := folders.read_ended(folder)) is not None and ended.error is not None:
            show_error(ended.error, sys.stderr)
    else:
        show(folder.name, format_name)
    code = job_end.ended_code(folder)
    if code == ExitCode.INTERRUPTED:
        print(f"{handle.engine} job {handle.id} was cancelled", file=sys.stderr)
    return code


def _has_ended(handle: Handle) -> bool:
    """Whether the engine says so. One that cannot be asked is no reason to fail."""
    with contextlib.suppress(BusbwError):
        return load(handle.engine).state(handle).phase is Phase.ENDED
    return False


def cancel(run: str, *, now: bool) -> ExitCode:
    """End a job. Its record is closed by who follows it, else by the next attach, or here where its engine
    needs somebody to see to its end.
    """
    folder = folders.find_run(run, folders.environ_home())
    handle = job_submit.read_handle(folder)
    is_ended = folders.read_ended(folder) is not None  # seen here; its engine may have forgotten it
    if is_ended or load(handle.engine).state(handle).phase is Phase.ENDED:
        print(f"{handle.engine} job {handle.id} has ended already", file=sys.stderr)
        return ExitCode.OK
    engine, is_followed = ENGINES[handle.engine], is_owned(folder)
    if engine.forgets and not is_followed:
        job_session.bring(folder, sys.stderr, ends=True, now=now)
    else:
        job_session.cancel(folder, now=now)
        if engine.asks and not (now or is_followed) and not _see_end(folder):
            print("left before its end was seen; --now does not wait", file=sys.stderr)
            return ExitCode.INTERRUPTED
    print(f"cancelled {handle.engine} job {handle.id}", file=sys.stderr)
    return ExitCode.OK


def _see_end(folder: Path) -> bool:
    """Follow a job that was asked to end, which kills it where it does not. False where the user left."""
    try:
        job_session.bring(folder, sys.stderr)
    except NotHome as error:  # it has ended, and attach can bring what it printed
        print(f"note: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return True
    return job_end.is_home(folder)


def _not_cleaned() -> list[Path]:
    return [folder for folder in _jobs() if not (folder / folders.CLEANED_FILE).exists()]


def clean(run: str) -> ExitCode:
    """Remove what ended jobs left on their engines, with the records of those that nobody followed brought
    home before; ``run`` empty means all of them.
    """
    home = folders.environ_home()
    chosen = [folders.find_run(run, home)] if run else _not_cleaned()
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
    handle = job_submit.read_handle(folder)
    if load(handle.engine).state(handle).phase is not Phase.ENDED:
        return f"still there; `busbw cancel {folder.name}` ends it", ExitCode.OK
    if is_owned(folder):
        return "still followed; who follows it cleans up", ExitCode.OK
    if not job_end.is_home(folder):  # what is on the engine may be all there is of the result
        job_session.bring(folder, sys.stderr)
        if not job_end.is_home(folder):  # interrupted
            return "not home yet, left as it is", ExitCode.INTERRUPTED
        print(f"{folder.name}: brought its record home ({close.read_status(folder)})", file=sys.stderr)
    job_end.clean(handle, folder)
    (folder / folders.CLEANED_FILE).touch()
    return "clean", ExitCode.OK
