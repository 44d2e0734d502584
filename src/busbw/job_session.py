"""A submitted job of an engine: follow it, judge how it ended, bring the record home, clean up.

The job outlives this process: ``request/job.json`` says what was submitted, and ``attach`` goes on from the
events that were heard before.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO, TypeVar

from busbw import session
from busbw.errors import BusbwError, ExitCode, SiteError
from busbw.job_judge import judge, with_remedy
from busbw.job_submit import read_handle
from busbw.launchers.base import LaunchRequest
from busbw.launchers.engine import Engine, Handle, JobState, Output, Phase, load
from busbw.launchers.interrupt import Interrupt
from busbw.model.event import Emit, Event, EventKind, decode, event
from busbw.model.record import RunStatus
from busbw.model.result import Status
from busbw.record import close
from busbw.record import folder as folders
from busbw.record.arrive import Arrival, Heard
from busbw.record.findings import merge
from busbw.record.owner import Owner, is_owned
from busbw.record.parquet import compact
from busbw.record.read import read_record
from busbw.units import parse_duration
from busbw.worker.lead import now_utc

# How long a cancelled job may take over its last words, and one that has gone wrong over its end.
CANCEL_SECONDS: Final = 15.0
WRONG_SECONDS: Final = 30.0
# A job that is ended with its output: how long it is silent once that was read, and how long it may take.
_SILENT_SECONDS: Final = 2.0
_READ_FIRST_SECONDS: Final = 15.0
# How often what another process hears is looked at.
_READ_SECONDS: Final = 0.1
# Events that are for the judge and the record.
_KEPT: Final = frozenset({EventKind.HELLO, EventKind.ERROR, EventKind.END, EventKind.RECORD})
_Shown = TypeVar("_Shown")


@dataclass
class Following:
    """One job being followed: who hears it, and what was heard."""

    engine: Engine
    handle: Handle
    folder: Path
    show: Emit
    err: TextIO
    arrival: Arrival
    story: session.Story
    wait_seconds: float | None
    cancels: bool = True  # Ctrl-C ends the job; else it only ends the following
    raw: Callable[[str], object] | None = None  # takes output lines that are no events (exec)
    state: JobState = field(default_factory=lambda: JobState(Phase.PENDING))
    given_up: BusbwError | None = None
    since_s: float = field(default_factory=time.monotonic)
    wrong_since_s: float | None = None
    cancelled_s: float | None = None
    stopped: bool = False  # the user asked for its end here
    left: bool = False  # the user left a job that goes on
    ends: bool = False  # end the job, once what it has printed so far was read
    ends_now: bool = False  # without time for last words
    looked: bool = False  # the engine has told a state
    heard_s: float = field(default_factory=time.monotonic)  # when the last line came, or the first state


def cancel(folder: Path, *, now: bool) -> Handle:
    """Ask the engine to end a run's job, so that whoever follows it knows that it was wanted. Raises
    SiteError where the engine does not answer.
    """
    handle = read_handle(folder)
    (folder / folders.CANCELLED_FILE).touch()
    load(handle.engine).cancel(handle, now=now)
    return handle


def bring(folder: Path, err: TextIO, *, ends: bool = False, now: bool = False) -> ExitCode:
    """Follow a job to its end without showing it, and bring its record home; ``ends`` it first, once what it
    printed was read, with time for its last words unless ``now``. Raises SiteError where the engine is lost.
    """
    following = start_following(read_handle(folder), folder, lambda _: None, err, cancels=False)
    following.ends, following.ends_now = ends, now
    return follow(following)


def is_home(folder: Path) -> bool:
    """Whether a run's record has its end, and nobody is still writing it."""
    return close.read_status(folder) not in (None, RunStatus.RUNNING) and not is_owned(folder)


def ended_code(folder: Path) -> ExitCode:
    """The exit code of a run whose record is closed, as following it to its end would have given it."""
    if (ended := folders.read_ended(folder)) is not None:
        return ExitCode(ended[0])
    record = read_record(folder)
    if record.status is RunStatus.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if record.status is not RunStatus.COMPLETE:
        return ExitCode.RANK_FAILED if folders.is_started(folder) else ExitCode.ENVIRONMENT
    if record.hunt:
        return ExitCode(record.hunt["exit_code"])
    is_wrong = any(result.status is Status.WRONG for result in record.results)
    return ExitCode.BAD_VERDICT if is_wrong else ExitCode.OK


def wait_seconds(text: str, engine: Engine) -> float | None:
    """How long a job may take to start: --wait, else the engine's own."""
    return parse_duration(text) if text else engine.WAIT_SECONDS


def follow(following: Following) -> ExitCode:
    """Show a job until it has ended (or we are told to leave), then collect, judge, close and clean.

    One process at a time writes the run folder. Where another one does, this one shows what that one hears,
    and goes on in its place should it go before the job does. The exit code of a run is what its ranks found;
    leaving an attached job gives INTERRUPTED.
    """
    try:
        with Interrupt() as interrupt, Owner(following.folder) as owner:
            return _follow_in_turn(following, owner, interrupt)
    except BrokenPipeError:
        raise
    except OSError as error:
        folder, was = following.folder, following.state.phase
        raise SiteError(
            f"cannot write {error.filename or folder}: {error.strerror};"
            f" job {following.handle.id} {'has ended' if was is Phase.ENDED else 'was left as it is'}",
            hint=f"free space in {folder.parent}, then take it up again: busbw attach {folder.name}",
        ) from error


def _follow_in_turn(following: Following, owner: Owner, interrupt: Interrupt) -> ExitCode:
    heard = Heard(following.folder)
    if not owner.take() and not _read_along(following, owner, heard, interrupt):
        return ExitCode.INTERRUPTED
    if folders.read_ended(following.folder) is not None:
        return _tell_end(following, heard)
    for number, item in enumerate(following.arrival.replay()):
        _hear(item, following, is_shown=number < heard.count)
    try:
        left = _follow(following, interrupt)
    except BrokenPipeError:
        following.engine.cancel(following.handle, now=True)
        raise
    if left:
        following.left = True
        return ExitCode.INTERRUPTED
    return _finish(following)


def _read_along(following: Following, owner: Owner, heard: Heard, interrupt: Interrupt) -> bool:
    """Show what another process hears, until the run folder is free. False where the user left before."""
    _say(f"{owner.who()} follows this run: showing what it hears", following)
    while not owner.take():
        for item in heard.new():
            _show(item, following)
        if interrupt.requested and not following.cancels:
            following.left = True
            return False
        if interrupt.requested and not following.stopped:
            following.stopped = True
            cancel(following.folder, now=False)  # the other one sees it, and closes the record
            _say("interrupted: cancelling the job", following)
        if interrupt.insisted:
            following.engine.cancel(following.handle, now=True)
            return False
        time.sleep(_READ_SECONDS)
    if folders.read_ended(following.folder) is None:
        _say("it is gone: following in its place", following)
    return True


def _tell_end(following: Following, heard: Heard) -> ExitCode:
    """The end of a run that another process followed to it."""
    for item in heard.new():
        _show(item, following)
    code, error = folders.read_ended(following.folder) or (ExitCode.RANK_FAILED, None)
    if error is not None:
        following.show(error)
    if folders.is_started(following.folder):
        following.show(event(EventKind.END, exit_code=int(code), folder=str(following.folder)))
    return ExitCode(code)


def _follow(following: Following, interrupt: Interrupt) -> bool:
    """Take the job's items. True where the user left a job that goes on."""
    engine, handle = following.engine, following.handle
    with (following.folder / folders.LOG_FILE).open("a") as log:
        for item in engine.follow(handle, following.folder):
            if isinstance(item, Output):
                _take_line(item, following, log)
            elif isinstance(item, JobState):
                _take_state(item, following)
            if interrupt.requested and not following.cancels:
                return True
            if _is_over(following, interrupt):
                break
    return False


def _is_over(following: Following, interrupt: Interrupt) -> bool:
    """Whether to stop following: the end came, or will not come by itself in the time that it has."""
    now_s = time.monotonic()
    if interrupt.requested and following.cancelled_s is None:
        following.stopped = following.story.interrupted = True
        _cancel(following)
        _say("interrupted: cancelling the job", following)
    if interrupt.insisted:
        following.engine.cancel(following.handle, now=True)
        return True
    if following.cancelled_s is None and (following.folder / folders.CANCELLED_FILE).is_file():
        following.cancelled_s = now_s  # by somebody else, with the same patience
    if following.ends and following.cancelled_s is None and _has_read(following, now_s):
        (following.folder / folders.CANCELLED_FILE).touch()
        following.story.interrupted = True
        _cancel(following)
    if following.given_up is None and following.cancelled_s is None:
        following.given_up = _hopeless(following, now_s)
        if following.given_up is not None:
            _cancel(following)
    if following.cancelled_s is None and following.story.has_gone_wrong:
        following.wrong_since_s = following.wrong_since_s or now_s
        if now_s - following.wrong_since_s > WRONG_SECONDS:
            _cancel(following)
    if following.cancelled_s is not None and now_s - following.cancelled_s > CANCEL_SECONDS:
        following.engine.cancel(following.handle, now=True)
        return True
    return following.state.phase is Phase.ENDED


def _cancel(following: Following) -> None:
    following.cancelled_s = time.monotonic()
    following.engine.cancel(following.handle, now=following.ends_now)


def _say(text: str, following: Following) -> None:
    """Tell the user, where there still is one: a terminal that was closed is why we are told to end."""
    with contextlib.suppress(OSError):
        print(text, file=following.err, flush=True)


def _heard_by_some(show: Callable[[_Shown], object]) -> Callable[[_Shown], None]:
    """Show, as long as there is a terminal; its end (SIGHUP) is dealt with as any other interruption."""

    def shown(item: _Shown) -> None:
        try:
            show(item)
        except OSError as error:
            if error.errno != errno.EIO:
                raise

    return shown


def _has_read(following: Following, now_s: float) -> bool:
    """Whether what the job has printed so far was read: it has not started, or nothing came for a while."""
    if now_s - following.since_s > _READ_FIRST_SECONDS:
        return True
    is_pending = following.state.phase is Phase.PENDING
    return following.looked and (is_pending or now_s - following.heard_s > _SILENT_SECONDS)


def _hopeless(following: Following, now_s: float) -> BusbwError | None:
    """The error of a job that will not start, or has not started in time."""
    state = following.state
    if state.phase is not Phase.PENDING:
        return None
    if state.hopeless:
        return SiteError(f"job {following.handle.id} cannot start: {state.why}", hint=state.hint)
    waited_s = now_s - following.since_s
    if following.wait_seconds is None or waited_s < following.wait_seconds:
        return None
    return SiteError(
        f"job {following.handle.id} has not started within {following.wait_seconds:g} s"
        + (f": {state.why}" if state.why else ""),
        hint=state.hint or "give --wait more time, or ask for less",
    )


def _take_line(item: Output, following: Following, log: TextIO) -> None:
    following.heard_s = time.monotonic()
    heard = decode(item.text)
    if heard is not None:
        whole = following.story.joiner.take(heard)
        if whole is not None and following.arrival.take(whole):
            _hear(whole, following)
        return
    log.write(f"{item.source}: {item.text}\n" if item.source else item.text + "\n")
    log.flush()
    following.story.output.append(item.text)
    if following.raw is not None:
        following.raw(item.text)


def _hear(item: Event, following: Following, *, is_shown: bool = False) -> None:
    """An event of the ranks: what the run's end is judged by is kept, the rest is shown, once."""
    story, kind = following.story, item["event"]
    if kind == EventKind.HELLO:
        pid, place = int(item["pid"]), (int(item["rank"]), str(item["host"]))
        # Several hosts may have a process of this number, and launchers name no more than that.
        if story.hello.setdefault(pid, place) != place:
            del story.hello[pid]
    elif kind == EventKind.ERROR:
        story.errors.append(item)
    elif kind == EventKind.END:
        story.end = item
    elif kind == EventKind.HEADER:
        story.connected = True
    if not is_shown:
        _show(item, following)


def _show(item: Event, following: Following) -> None:
    """What people see of an event while the job runs; how it ended is told when it is judged."""
    if item["event"] == EventKind.HEADER:
        following.show({**item, "folder": str(following.folder)})
    elif item["event"] not in _KEPT:
        following.show(item)


def _take_state(state: JobState, following: Following) -> None:
    if not following.looked:
        following.looked, following.heard_s = True, time.monotonic()
    if state != following.state and state.phase is not Phase.ENDED:
        following.show(
            event(EventKind.STATE, job=following.handle.id, phase=state.phase.value, why=state.why)
        )
    following.state = state
    if state.phase is Phase.ENDED and state.code is not None:
        following.story.exits[0] = state.code


def _finish(following: Following) -> ExitCode:
    """Everything after the last item."""
    engine, handle, folder = following.engine, following.handle, following.folder
    _quietly(lambda: engine.collect(handle, folder), following)
    if _was_cancelled(folder, following.story.end):
        following.story.interrupted = True  # launchers tell of ranks that died of it, each in its way
    code, error = judge(following)
    if error is not None and not following.story.connected:
        error = with_remedy(error, following.story.output)
    if code is ExitCode.INTERRUPTED and not following.story.connected and not following.stopped:
        _say(f"job {handle.id} was cancelled before its ranks were connected", following)
    _close(folder, code, error)
    _quietly(lambda: engine.clean(handle), following)
    if error is not None:
        following.show(error)
    for name in following.arrival.left_out:
        print(f"note: {name} was too large to send; it stayed with the job", file=following.err)
    if folders.is_started(folder):
        following.show(event(EventKind.END, exit_code=int(code), folder=str(folder)))
    folders.write_ended(folder, int(code), error)
    return code


def _was_cancelled(folder: Path, end: Event | None) -> bool:
    """Whether somebody asked for the job's end, and its ranks were not through before."""
    is_complete = end is not None and end.get("status") == RunStatus.COMPLETE
    return (folder / folders.CANCELLED_FILE).is_file() and not is_complete


def _quietly(act: Callable[[], None], following: Following) -> None:
    """Do what comes after the result: a failure is told, and does not cost the result."""
    try:
        act()
    except BusbwError as error:
        print(
            f"warning: {error.message}" + (f"; hint: {error.hint}" if error.hint else ""), file=following.err
        )


def _close(folder: Path, code: ExitCode, error: Event | None) -> None:
    """Give the record the end that was judged, where the ranks could not write it or knew less."""
    status = close.read_status(folder)
    if code is ExitCode.INTERRUPTED:
        if status is not RunStatus.COMPLETE:
            close.close(folder, RunStatus.INTERRUPTED, now_utc())
    elif error is not None:
        close.close(folder, RunStatus.FAILED, now_utc(), error=str(error["message"]), hint=str(error["hint"]))
    elif status is RunStatus.RUNNING:  # the ranks' own record did not arrive: what was heard is the record
        close.close(folder, RunStatus.COMPLETE, now_utc())
    compact(folder)
    merge(folder)


def start_following(
    handle: Handle,
    folder: Path,
    show: Emit,
    err: TextIO,
    *,
    wait: str = "",
    cancels: bool = True,
    raw: Callable[[str], object] | None = None,
) -> Following:
    """A job that was just submitted, or is attached to."""
    engine = load(handle.engine)
    return Following(
        engine=engine,
        handle=handle,
        folder=folder,
        show=_heard_by_some(show),
        err=err,
        arrival=Arrival(folder),
        story=session.Story(LaunchRequest(handle.engine, "mpi", 0, ())),
        wait_seconds=wait_seconds(wait, engine),
        cancels=cancels,
        raw=_heard_by_some(raw) if raw is not None else None,
    )
