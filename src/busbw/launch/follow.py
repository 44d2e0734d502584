"""A submitted job of an engine: follow it, judge how it ended, bring the record home, clean up.

The job outlives this process: ``request/job.json`` says what was submitted, and ``attach`` goes on from the
events that were heard before.
"""

from __future__ import annotations

import contextlib
import errno
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO, TypeVar

from busbw.errors import BusbwError, ExitCode, SiteError
from busbw.launch.engine import Handle, JobState, Output, Phase, load, optional
from busbw.launch.here import close_record, show_end
from busbw.launch.interrupt import Interrupt
from busbw.launch.observed import NOT_SHOWN, Listener, Story
from busbw.launch.submit import is_command, read_handle
from busbw.launch.verdict import Verdict, judge
from busbw.model.event import Emit, Event, EventKind, event, now_utc
from busbw.model.record import RunStatus
from busbw.model.result import Status
from busbw.record import close
from busbw.record import folder as folders
from busbw.record.arrive import Arrival, Heard
from busbw.record.owner import Owner, is_owned
from busbw.record.printed import Line, Reading, keeping
from busbw.record.read import read_record

# How often what another process hears is looked at.
_READ_SECONDS: Final = 0.1
# How long a cancelled job may take over its last words, and one that has gone wrong over its end.
_CANCEL_SECONDS: Final = 15.0
_WRONG_SECONDS: Final = 30.0
# A job that is ended with its output: how long it is silent once that was read, and how long it may take.
_SILENT_SECONDS: Final = 2.0
READ_FIRST_SECONDS: Final = 15.0
# How long the ranks of a job that runs are silent before that is said: modules and images take their time.
_SILENT_START_SECONDS: Final = 60.0
# How often an engine that does not answer is asked to end a job, and for how long.
_AGAIN_SECONDS: Final = 2.0
_REFUSED_SECONDS: Final = 30.0
_Shown = TypeVar("_Shown")


def bring(folder: Path, err: TextIO, *, ends: bool = False, now: bool = False) -> ExitCode:
    """Follow a job to its end without showing it, and bring its record home; ``ends`` it first, once what it
    printed was read, with time for its last words unless ``now``. Raises SiteError where the engine is lost.
    """
    handle = read_handle(folder)
    return Following(handle, folder, lambda _: None, err, cancels=False, ends=ends, now=now).follow()


def cancel(folder: Path, *, now: bool) -> Handle:
    """Ask the engine to end a run's job, so that whoever follows it knows that it was wanted. Raises
    SiteError where the engine does not answer.
    """
    handle = read_handle(folder)
    mark = folder / folders.CANCELLED_FILE
    is_new = not mark.exists()
    mark.touch()
    try:
        _cancel(handle, folder, now=now)
    except SiteError:
        if is_new:  # nobody cancelled anything
            mark.unlink(missing_ok=True)
        raise
    return handle


def _cancel(handle: Handle, folder: Path, *, now: bool) -> None:
    try:
        load(handle.engine).cancel(handle, now=now)
    except SiteError as error:
        raise _goes_on(handle, folder, error) from error


def not_starting(
    job_id: str, state: JobState, waited_s: float, patience_s: float | None
) -> BusbwError | None:
    """The error of a job that will not start, or has not in time; a ``patience_s`` of None is for ever."""
    if state.phase is not Phase.PENDING:
        return None
    if state.hopeless:
        return SiteError(f"job {job_id} cannot start: {state.why}", hint=state.hint)
    if patience_s is None or waited_s < patience_s:
        return None
    return SiteError(
        f"job {job_id} has not started within {patience_s:g} s" + (f": {state.why}" if state.why else ""),
        hint=state.hint or "give --wait more time, or ask for less",
    )


class Hearing(Listener):
    """What a job, or one launch of a series, prints: kept in its run folder, and judged at its end."""

    def __init__(self, folder: Path, show: Emit) -> None:
        self.arrival = Arrival(folder)
        self._folder, self._emit = folder, show
        super().__init__(self._keep, self.arrival.take)

    def _keep(self, line: str) -> None:
        with (self._folder / folders.LOG_FILE).open("a") as log:
            log.write(line)

    def replay(self, shown: int = 0) -> None:
        """Hear again what an earlier process heard; the first ``shown`` events were shown here."""
        for number, item in enumerate(self.arrival.replay()):
            self.hear(item)
            if number >= shown:
                self.show(item)

    def take_output(self, item: Output) -> Line | None:
        """Keep a line, and give it back where it is no event."""
        found = self.take(item.text, item.source)
        if isinstance(found, str):
            return Line(item.text, item.is_error)
        if found is not None:
            self.show(found)
        return None

    def show(self, item: Event) -> None:
        """What people see of an event while ranks run."""
        if item["event"] == EventKind.HEADER:
            self._emit({**item, "folder": str(self._folder)})
        elif item["event"] not in NOT_SHOWN:
            self._emit(item)

    def whole_story(self, job: str, state: JobState, *, interrupted: bool) -> Story:
        """What was heard of the job, and what its engine knows."""
        return replace(
            self.story,
            job=job,
            host=state.host,  # not this one: the front process has no rank to blame
            exits={} if state.code is None else {0: state.code},
            state=state,
            interrupted=interrupted,
        )

    def close(self, story: Story) -> Verdict:
        """Judge, and close the record."""
        verdict = judge(story)
        is_good = verdict.error is None and verdict.code is not ExitCode.INTERRUPTED
        if is_good and close.read_status(self._folder) is RunStatus.RUNNING:  # the ranks' own did not arrive
            close.close(self._folder, RunStatus.COMPLETE, now_utc())
        close_record(self._folder, verdict)
        return verdict


class Following:
    """One job, from its submission or an attach to its closed record.

    One that runs for longer than ``limit_seconds`` is ended and has failed, whatever its engine's limit.
    Ctrl-C ends the job, or only the following unless ``cancels``. ``raw`` takes output lines that are no
    events. ``ends``: the job is ended once what it has printed so far was read; ``now`` leaves it no time for
    last words.

    For others to read: ``state`` (the engine's last word), ``given_up`` (the error of a job that did not
    start), ``stopped`` (the user asked here for its end), ``left`` (the user left a job that goes on),
    ``wants_end`` (somebody here wants it to end).
    """

    def __init__(
        self,
        handle: Handle,
        folder: Path,
        show: Emit,
        err: TextIO,
        *,
        wait: float | None = None,
        limit_seconds: float | None = None,
        cancels: bool = True,
        raw: Callable[[Line], object] | None = None,
        ends: bool = False,
        now: bool = False,
    ) -> None:
        self.state = JobState(Phase.PENDING)
        self.given_up: BusbwError | None = None
        self.stopped = self.left = self.wants_end = False
        self._engine, self._handle, self._folder, self._err = load(handle.engine), handle, folder, err
        self._emit = _heard_by_some(show)
        self._raw = _heard_by_some(raw) if raw is not None else None
        self._is_command = is_command(folder)
        self._hearing = Hearing(folder, self._emit)
        self._printed = Reading(folder)  # what a command printed, where another process hears it
        self._wait_s = self._engine.WAIT_SECONDS if wait is None else wait
        self._limit_s, self._cancels = math.inf if limit_seconds is None else limit_seconds, cancels
        self._ends, self._ends_now = ends, now
        self._interrupted = False  # the engine took a wish for its end
        self._reported_silence = False
        self._looked = False  # the engine has given a state
        self._since_s = self._heard_s = time.monotonic()  # the last line came, or the first state
        # When it was first seen to run, and to have gone wrong; an engine took its end, or first refused it.
        self._running_since_s = self._wrong_since_s = math.inf
        self._taken_s = self._refused_since_s = math.inf
        self._again_s = 0.0  # when an engine that refused it is asked again

    def follow(self) -> ExitCode:
        """Show the job until it has ended (or we are told to leave), then collect, judge, close and clean.

        One process at a time writes the run folder. Where another one does, this one shows what that one
        hears, and goes on in its place should it go before the job does. The exit code of a run is what its
        ranks found; leaving an attached job gives INTERRUPTED. Raises NotHome where it has ended and what it
        printed cannot be read now: the record stays open, and nothing is cleaned.
        """
        try:
            with Interrupt() as interrupt, Owner(self._folder) as owner:
                return self._follow_in_turn(owner, interrupt)
        except BrokenPipeError:
            raise
        except OSError as error:
            folder = self._folder
            fate = "has ended" if self.state.phase is Phase.ENDED else "was left as it is"
            raise SiteError(
                f"cannot write {error.filename or folder}: {error.strerror}; job {self._handle.id} {fate}",
                hint=f"free space in {folder.parent}, then run: busbw attach {folder.name}",
            ) from error

    def _follow_in_turn(self, owner: Owner, interrupt: Interrupt) -> ExitCode:
        heard = Heard(self._folder)
        if not owner.take() and not self._read_along(owner, heard, interrupt):
            return ExitCode.INTERRUPTED
        if (ended := folders.read_ended(self._folder)) is not None:  # another process followed it to its end
            self._show_heard(heard)
            show_end(self._folder, Verdict(ExitCode(ended.exit_code), ended.error), self._emit)
            return ExitCode(ended.exit_code)
        self._hearing.replay(heard.count)
        try:
            self._take_items(interrupt)
        except BrokenPipeError:  # the reader of our output has left (`| head`), as one who presses Ctrl-C
            if self._cancels:
                cancel(self._folder, now=True)
            raise
        return ExitCode.INTERRUPTED if self.left else self._finish()

    # ---- beside another process that follows the job -------------------------------------------------------

    def _read_along(self, owner: Owner, heard: Heard, interrupt: Interrupt) -> bool:
        """Show what another process hears, until the run folder is free. False where the user left before."""
        self._say(f"{owner.who()} follows this run; showing its events")
        while not owner.take():
            self._show_heard(heard)
            if interrupt.requested and not self._cancels:
                self.left = True
                return False
            if interrupt.requested and not self.stopped:
                self.stopped = True
                cancel(self._folder, now=False)  # the other one sees it, and closes the record
                self._say("interrupted: cancelling the job")
            if interrupt.insisted:
                self._engine.cancel(self._handle, now=True)
                return False
            time.sleep(_READ_SECONDS)
        if folders.read_ended(self._folder) is None:
            self._say("that process ended; following in its place")
        return True

    def _show_heard(self, heard: Heard) -> None:
        """What the other process has heard since: events, and what a command printed."""
        for item in heard.new():
            self._hearing.show(item)
        if self._raw is not None:
            for line in self._printed.new():
                self._raw(line)

    # ---- what the job prints, and its engine says ----------------------------------------------------------

    def _take_items(self, interrupt: Interrupt) -> None:
        """Until the job has ended, or the user left it."""
        printed = keeping(self._folder) if self._is_command else contextlib.nullcontext()
        (self._folder / folders.LOG_FILE).touch()
        with printed as keep:
            for item in self._engine.follow(self._handle, self._folder):
                if isinstance(item, Output):
                    self._take_line(item, keep)
                elif isinstance(item, JobState):
                    self._take_state(item)
                if interrupt.requested and not self._cancels:
                    self.left = True
                    return
                self._heed(interrupt)
                is_ended = self.state.phase is Phase.ENDED
                had_time = time.monotonic() - self._taken_s > _CANCEL_SECONDS
                if interrupt.insisted or (had_time and not is_ended):
                    _cancel(self._handle, self._folder, now=True)
                    self._interrupted = self._interrupted or self.wants_end
                    return
                if is_ended:
                    return

    def _take_line(self, item: Output, keep: Callable[[Line], None] | None) -> None:
        self._heard_s = time.monotonic()
        line = self._hearing.take_output(item)
        if line is None:
            return
        if keep is not None:
            keep(line)
        if self._raw is not None and self._printed.is_new(line):
            self._raw(line)

    def _take_state(self, state: JobState) -> None:
        if not self._looked:
            self._looked, self._heard_s = True, time.monotonic()
        if state != self.state and state.phase is not Phase.ENDED:
            self._emit(event(EventKind.STATE, job=self._handle.id, phase=state.phase.value, why=state.why))
        self.state = state
        if state.phase is Phase.RUNNING:
            self._running_since_s = min(self._running_since_s, time.monotonic())

    def _say(self, text: str) -> None:
        """Print for the user, where there still is one: a terminal that was closed is why we are to end."""
        with contextlib.suppress(OSError):
            print(text, file=self._err, flush=True)

    # ---- whether it is to end ------------------------------------------------------------------------------

    def _heed(self, interrupt: Interrupt) -> None:
        """Note why the job is to end, and ask the engine for it. Raises SiteError where the engine does not
        end it.
        """
        now_s = time.monotonic()
        if interrupt.requested and not self.stopped:
            self.stopped = self.wants_end = True
            self._say("interrupted: cancelling the job")
        if interrupt.insisted or self.state.phase is Phase.ENDED:
            return
        self._report_silence(now_s)
        if self._taken_s == math.inf and (self._folder / folders.CANCELLED_FILE).is_file():
            self._taken_s = now_s  # somebody else has cancelled it, and it gets the same time
        if self._taken_s == math.inf and self._is_to_end(now_s) and now_s >= self._again_s:
            self._ask_for_end(now_s)

    def _is_to_end(self, now_s: float) -> bool:
        """Whether the job is to end. The first reason is the one that is reported."""
        hearing = self._hearing
        # It has not started, or nothing came for a while.
        is_silent = self.state.phase is Phase.PENDING or now_s - self._heard_s > _SILENT_SECONDS
        has_read = now_s - self._since_s > READ_FIRST_SECONDS or (self._looked and is_silent)
        self.wants_end = self.wants_end or (self._ends and has_read)
        if not self.wants_end and self.given_up is None:
            waited_s = now_s - self._since_s
            self.given_up = not_starting(self._handle.id, self.state, waited_s, self._wait_s)
        is_late = now_s - self._running_since_s > self._limit_s
        if is_late and not self.wants_end and hearing.story.out_of_time_s is None:
            hearing.run_out_of_time(self._limit_s)
            self._say(f"not ended after {self._limit_s:g} s: cancelling the job")
        if hearing.story.is_wrong:
            self._wrong_since_s = min(self._wrong_since_s, now_s)
        is_hung = hearing.story.all_still or now_s - self._wrong_since_s > _WRONG_SECONDS
        is_late = hearing.story.out_of_time_s is not None
        return self.wants_end or self.given_up is not None or is_hung or is_late

    def _ask_for_end(self, now_s: float) -> None:
        """An engine that does not answer has not cancelled anything, so it is asked again, and what goes on
        is said to go on. Raises SiteError after long without an answer.
        """
        self._refused_since_s = min(self._refused_since_s, now_s)
        now = self._ends_now or self._hearing.story.all_still  # who stands still has no last words
        try:
            self._engine.cancel(self._handle, now=now)
        except SiteError as error:
            if time.monotonic() - self._refused_since_s > _REFUSED_SECONDS:
                raise _goes_on(self._handle, self._folder, error) from error
            if not self._again_s:
                self._say(f"not cancelled yet: {error.message}; asking again")
            self._again_s = time.monotonic() + _AGAIN_SECONDS
            return
        self._taken_s = time.monotonic()
        self._interrupted = self.wants_end
        if self._ends:
            (self._folder / folders.CANCELLED_FILE).touch()

    def _report_silence(self, now_s: float) -> None:
        """Say once that no rank has said a word: they may hang, which nobody else can know."""
        if self._reported_silence or self._hearing.story.hello or self._is_command:
            return
        if now_s - self._running_since_s > _SILENT_START_SECONDS:
            self._reported_silence = True
            self._say(
                f"job {self._handle.id} has run for {_SILENT_START_SECONDS:g} s, and no rank has"
                f" reported; its launcher's output is in {self._folder / folders.LOG_FILE}"
            )

    # ---- the end -------------------------------------------------------------------------------------------

    def _finish(self) -> ExitCode:
        """Everything after the last item. What a node or pod printed beside the events is brought before the
        engine forgets it, or left there.
        """
        handle, folder = self._handle, self._folder
        is_collected = self._quietly(lambda: optional(self._engine, "collect")(handle, folder))
        end = self._hearing.story.end
        is_through = end is not None and end.get("status") == RunStatus.COMPLETE
        was_cancelled = (folder / folders.CANCELLED_FILE).is_file() and not is_through
        is_interrupted = self._interrupted or was_cancelled
        story = self._hearing.whole_story(handle.id, self.state, interrupted=is_interrupted)
        verdict = self._hearing.close(replace(story, is_command=self._is_command, given_up=self.given_up))
        if verdict.code is ExitCode.INTERRUPTED and not self.stopped:
            if not self._hearing.story.connected and not self._is_command:  # a command has no ranks
                self._say(f"job {handle.id} was cancelled before its ranks were connected")
            elif self.state.cancelled:
                self._say(f"job {handle.id} was cancelled")
        if is_collected:
            self._quietly(lambda: optional(self._engine, "clean")(handle))
        else:
            self._say(
                f"note: job {handle.id} was left on its engine; `busbw clean {folder.name}` tries again"
            )
        for name in self._hearing.arrival.left_out:
            self._say(f"note: {name} was too large to send; it stayed with the job")
        show_end(folder, verdict, self._emit)
        own_code = self.state.code if self._is_command else None
        folders.write_ended(folder, int(verdict.code), verdict.error, own_code)
        return verdict.code

    def _quietly(self, act: Callable[[], None]) -> bool:
        """Do what comes after the result, and say whether it was done; a failure does not cost the result."""
        try:
            act()
        except BusbwError as error:
            self._say(f"warning: {error.message}" + (f"; hint: {error.hint}" if error.hint else ""))
            return False
        return True


def _goes_on(handle: Handle, folder: Path, error: SiteError) -> SiteError:
    """The error of a job whose end was wanted, and whose engine did not take that."""
    name = folder.name
    return SiteError(
        f"job {handle.id} was not cancelled and may go on: {error.message}",
        hint=f"cancel it once the engine answers: busbw cancel {name}; busbw attach {name} brings its record",
    )


def _heard_by_some(show: Callable[[_Shown], object]) -> Callable[[_Shown], None]:
    """Show, as long as there is a terminal; its end (SIGHUP) is dealt with as any other interruption."""

    def shown(item: _Shown) -> None:
        try:
            show(item)
        except OSError as error:
            if error.errno != errno.EIO:
                raise

    return shown


# ---- jobs that have ended ------------------------------------------------------------------------------


def clean(handle: Handle, folder: Path) -> None:
    """Remove what an ended job, whose record is home, left on its engine; what its nodes or pods printed is
    brought before. Raises SiteError.
    """
    engine = load(handle.engine)
    optional(engine, "collect")(handle, folder)
    optional(engine, "clean")(handle)


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
