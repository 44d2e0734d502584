"""What follows the last item of a job: its judgement, the end of its record, what is left on its engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import BusbwError, ExitCode
from busbw.job_judge import judge, with_remedy
from busbw.launchers.engine import Handle, load
from busbw.model.event import Event, EventKind, error_words, event
from busbw.model.record import RunStatus
from busbw.model.result import Status
from busbw.record import close
from busbw.record import folder as folders
from busbw.record.findings import merge
from busbw.record.owner import is_owned
from busbw.record.parquet import compact
from busbw.record.read import read_record
from busbw.worker.lead import now_utc

if TYPE_CHECKING:
    from busbw.job_session import Following


def finish(following: Following) -> ExitCode:
    """Everything after the last item. What a node or pod printed beside the events is brought before the
    engine forgets it, or left there.
    """
    handle, folder = following.handle, following.folder
    is_collected = _quietly(lambda: following.engine.collect(handle, folder), following)
    if _was_cancelled(folder, following.story.end):
        following.story.interrupted = True  # launchers tell of ranks that died of it, each in its way
    code, error = judge(following)
    if error is not None and not following.story.connected:
        error = with_remedy(error, following.story.output)
    never_met = not following.story.connected and not following.is_command  # a command has no ranks
    if code is ExitCode.INTERRUPTED and not following.stopped:
        if never_met:
            following.say(f"job {handle.id} was cancelled before its ranks were connected")
        elif following.state.cancelled:
            following.say(f"job {handle.id} was cancelled")
    _close(folder, code, error)
    if is_collected:
        _quietly(lambda: following.engine.clean(handle), following)
    else:
        following.say(
            f"note: job {handle.id} was left on its engine; `busbw clean {folder.name}` tries again"
        )
    if error is not None:
        following.show(error)
    for name in following.arrival.left_out:
        following.say(f"note: {name} was too large to send; it stayed with the job")
    if folders.is_started(folder):
        following.show(event(EventKind.END, exit_code=int(code), folder=str(folder)))
    folders.write_ended(folder, int(code), error, following.own_code)
    return code


def _was_cancelled(folder: Path, end: Event | None) -> bool:
    """Whether somebody asked for the job's end, and its ranks were not through before."""
    is_complete = end is not None and end.get("status") == RunStatus.COMPLETE
    return (folder / folders.CANCELLED_FILE).is_file() and not is_complete


def _quietly(act: Callable[[], None], following: Following) -> bool:
    """Do what comes after the result, and say whether it was done; a failure does not cost the result."""
    try:
        act()
    except BusbwError as error:
        following.say(f"warning: {error.message}" + (f"; hint: {error.hint}" if error.hint else ""))
        return False
    return True


def _close(folder: Path, code: ExitCode, error: Event | None) -> None:
    """Give the record the end that was judged, where the ranks could not write it or knew less."""
    status = close.read_status(folder)
    if code is ExitCode.INTERRUPTED:
        if status is not RunStatus.COMPLETE:
            close.close(folder, RunStatus.INTERRUPTED, now_utc())
    elif error is not None:
        close.close(folder, RunStatus.FAILED, now_utc(), error=error_words(error), hint=str(error["hint"]))
    elif status is RunStatus.RUNNING:  # the ranks' own record did not arrive: what was heard is the record
        close.close(folder, RunStatus.COMPLETE, now_utc())
    compact(folder)
    merge(folder)


def clean(handle: Handle, folder: Path) -> None:
    """Remove what an ended job, whose record is home, left on its engine; what its nodes or pods printed is
    brought before. Raises SiteError.
    """
    engine = load(handle.engine)
    engine.collect(handle, folder)
    engine.clean(handle)


def is_home(folder: Path) -> bool:
    """Whether a run's record has its end, and nobody is still writing it. Ranks that were ended by a cancel
    close a record in a shared folder as one of ranks that died: that is still to be judged.
    """
    status = close.read_status(folder)
    is_cancelled = (folder / folders.CANCELLED_FILE).is_file() and folders.read_ended(folder) is None
    if status in (None, RunStatus.RUNNING) or (status is RunStatus.FAILED and is_cancelled):
        return False
    return not is_owned(folder)


def shell_code(folder: Path, code: ExitCode) -> int:
    """What a shell sees of a command of the user's that was followed, to its end or not."""
    ended = folders.read_ended(folder)
    return code if ended is None else ended.shell_code


def ended_code(folder: Path) -> int:
    """The exit code of a run whose record is closed, as following it to its end would have given it."""
    if (ended := folders.read_ended(folder)) is not None:
        return ended.shell_code
    record = read_record(folder)
    if record.status is RunStatus.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if record.status is not RunStatus.COMPLETE:
        return ExitCode.RANK_FAILED if folders.is_started(folder) else ExitCode.ENVIRONMENT
    if record.hunt:
        return int(record.hunt["exit_code"])
    is_wrong = any(result.status is Status.WRONG for result in record.results)
    return ExitCode.BAD_VERDICT if is_wrong else ExitCode.OK
