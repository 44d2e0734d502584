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
from busbw.job_end import finish
from busbw.job_stop import goes_on, is_over
from busbw.job_submit import is_command, read_handle
from busbw.launchers.base import LaunchRequest
from busbw.launchers.engine import Engine, Handle, JobState, Output, Phase, load
from busbw.launchers.interrupt import Interrupt
from busbw.model.event import Emit, Event, EventKind, decode, event
from busbw.record import folder as folders
from busbw.record.arrive import Arrival, Heard
from busbw.record.owner import Owner
from busbw.record.printed import Keeping, Line, Reading
from busbw.units import parse_duration

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
    limit_seconds: float | None = None  # how long the job may run, by us, whatever its engine's limit
    running_since_s: float | None = None
    told_silence: bool = False  # that no rank has said anything
    cancels: bool = True  # Ctrl-C ends the job; else it only ends the following
    is_command: bool = False  # of the user's (exec): what it prints is all that it says
    raw: Callable[[Line], object] | None = None  # takes output lines that are no events
    state: JobState = field(default_factory=lambda: JobState(Phase.PENDING))
    given_up: BusbwError | None = None
    since_s: float = field(default_factory=time.monotonic)
    wrong_since_s: float | None = None
    wants_end: bool = False  # somebody here wants the job to end
    cancelled_s: float | None = None  # when the engine took that
    refused_since_s: float | None = None  # when it was asked first
    ask_again_s: float = 0.0
    stopped: bool = False  # the user asked for its end here
    left: bool = False  # the user left a job that goes on
    ends: bool = False  # end the job, once what it has printed so far was read
    ends_now: bool = False  # without time for last words
    looked: bool = False  # the engine has told a state
    heard_s: float = field(default_factory=time.monotonic)  # when the last line came, or the first state

    printed: Reading = field(init=False)  # what a command printed, where another process hears it

    def __post_init__(self) -> None:
        self.printed = Reading(self.folder)

    def say(self, text: str) -> None:
        """Tell the user, where there still is one: a terminal that was closed is why we are told to end."""
        with contextlib.suppress(OSError):
            print(text, file=self.err, flush=True)

    @property
    def own_code(self) -> int | None:
        """What the user's command ended with, where it is one and the engine knows that."""
        return self.state.code if self.is_command else None


def cancel(folder: Path, *, now: bool) -> Handle:
    """Ask the engine to end a run's job, so that whoever follows it knows that it was wanted. Raises
    SiteError where the engine does not answer.
    """
    handle = read_handle(folder)
    mark = folder / folders.CANCELLED_FILE
    is_new = not mark.exists()
    mark.touch()
    try:
        load(handle.engine).cancel(handle, now=now)
    except SiteError as error:
        if is_new:  # nobody cancelled anything
            mark.unlink(missing_ok=True)
        raise goes_on(handle, folder, error) from error
    return handle


def bring(folder: Path, err: TextIO, *, ends: bool = False, now: bool = False) -> ExitCode:
    """Follow a job to its end without showing it, and bring its record home; ``ends`` it first, once what it
    printed was read, with time for its last words unless ``now``. Raises SiteError where the engine is lost.
    """
    following = start_following(read_handle(folder), folder, lambda _: None, err, cancels=False)
    following.ends, following.ends_now = ends, now
    return follow(following)


def wait_seconds(text: str, engine: Engine) -> float | None:
    """How long a job may take to start: --wait, else the engine's own."""
    return parse_duration(text, "--wait") if text else engine.WAIT_SECONDS


def follow(following: Following) -> ExitCode:
    """Show a job until it has ended (or we are told to leave), then collect, judge, close and clean.

    One process at a time writes the run folder. Where another one does, this one shows what that one hears,
    and goes on in its place should it go before the job does. The exit code of a run is what its ranks found;
    leaving an attached job gives INTERRUPTED. Raises NotHome where it has ended and what it printed cannot be
    read now: the record stays open, and nothing is cleaned.
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
    except BrokenPipeError:  # the reader of our output has left (`| head`), as one who presses Ctrl-C
        if following.cancels:
            cancel(following.folder, now=True)
        raise
    if left:
        following.left = True
        return ExitCode.INTERRUPTED
    return finish(following)


def _read_along(following: Following, owner: Owner, heard: Heard, interrupt: Interrupt) -> bool:
    """Show what another process hears, until the run folder is free. False where the user left before."""
    following.say(f"{owner.who()} follows this run: showing what it hears")
    while not owner.take():
        _show_heard(heard, following)
        if interrupt.requested and not following.cancels:
            following.left = True
            return False
        if interrupt.requested and not following.stopped:
            following.stopped = True
            cancel(following.folder, now=False)  # the other one sees it, and closes the record
            following.say("interrupted: cancelling the job")
        if interrupt.insisted:
            following.engine.cancel(following.handle, now=True)
            return False
        time.sleep(_READ_SECONDS)
    if folders.read_ended(following.folder) is None:
        following.say("it is gone: following in its place")
    return True


def _show_heard(heard: Heard, following: Following) -> None:
    """What the process that follows the job has heard since: events, and what a command printed."""
    for item in heard.new():
        _show(item, following)
    if following.raw is not None:
        for line in following.printed.new():
            following.raw(line)


def _tell_end(following: Following, heard: Heard) -> ExitCode:
    """The end of a run that another process followed to it."""
    _show_heard(heard, following)
    ended = folders.read_ended(following.folder) or folders.Ended(ExitCode.RANK_FAILED, None)
    if ended.error is not None:
        following.show(ended.error)
    if folders.is_started(following.folder):
        following.show(event(EventKind.END, exit_code=ended.exit_code, folder=str(following.folder)))
    return ExitCode(ended.exit_code)


def _follow(following: Following, interrupt: Interrupt) -> bool:
    """Take the job's items. True where the user left a job that goes on."""
    engine, handle = following.engine, following.handle
    printed = Keeping(following.folder) if following.is_command else contextlib.nullcontext()
    with (following.folder / folders.LOG_FILE).open("a") as log, printed as keeping:
        for item in engine.follow(handle, following.folder):
            if isinstance(item, Output):
                _take_line(item, following, log, keeping)
            elif isinstance(item, JobState):
                _take_state(item, following)
            if interrupt.requested and not following.cancels:
                return True
            if is_over(following, interrupt):
                break
    return False


def _heard_by_some(show: Callable[[_Shown], object]) -> Callable[[_Shown], None]:
    """Show, as long as there is a terminal; its end (SIGHUP) is dealt with as any other interruption."""

    def shown(item: _Shown) -> None:
        try:
            show(item)
        except OSError as error:
            if error.errno != errno.EIO:
                raise

    return shown


def _take_line(item: Output, following: Following, log: TextIO, keeping: Keeping | None) -> None:
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
    line = Line(item.text, item.is_error)
    if keeping is not None:
        keeping.keep(line)
    if following.raw is not None and following.printed.is_new(line):
        following.raw(line)


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
        story.connect(item)
    elif kind == EventKind.CASE:
        story.finished += 1
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
    if state.phase is Phase.RUNNING and following.running_since_s is None:
        following.running_since_s = time.monotonic()
    if state.phase is Phase.ENDED and state.code is not None:
        following.story.exits[0] = state.code


def start_following(
    handle: Handle,
    folder: Path,
    show: Emit,
    err: TextIO,
    *,
    wait: str = "",
    limit_seconds: float | None = None,
    cancels: bool = True,
    raw: Callable[[Line], object] | None = None,
) -> Following:
    """A job that was just submitted, or is attached to. One that runs for longer than ``limit_seconds`` is
    cancelled and has failed.
    """
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
        limit_seconds=limit_seconds,
        cancels=cancels,
        is_command=is_command(folder),
        raw=_heard_by_some(raw) if raw is not None else None,
    )
