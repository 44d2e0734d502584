"""When to stop following a job, and its end where somebody wants it: an engine that does not answer has not
cancelled anything, so it is asked again, and what goes on is said to go on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from busbw.errors import BusbwError, SiteError
from busbw.launchers.engine import Phase
from busbw.record import folder as folders

if TYPE_CHECKING:
    from pathlib import Path

    from busbw.job_session import Following
    from busbw.launchers.engine import Handle, JobState
    from busbw.launchers.interrupt import Interrupt

# How long a cancelled job may take over its last words, and one that has gone wrong over its end.
CANCEL_SECONDS: Final = 15.0
WRONG_SECONDS: Final = 30.0
# A job that is ended with its output: how long it is silent once that was read, and how long it may take.
_SILENT_SECONDS: Final = 2.0
_READ_FIRST_SECONDS: Final = 15.0
# How long the ranks of a job that runs are silent before that is said: modules and images take their time.
_SILENT_START_SECONDS: Final = 60.0
# How often an engine that does not answer is asked to end a job, and for how long.
_AGAIN_SECONDS: Final = 2.0
_REFUSED_SECONDS: Final = 30.0


def is_over(following: Following, interrupt: Interrupt) -> bool:
    """Whether to stop following: the end came, or will not come by itself in the time that it has. Raises
    SiteError where the job should end and the engine does not end it.
    """
    now_s = time.monotonic()
    if interrupt.requested and not following.stopped:
        following.stopped = following.wants_end = True
        following.say("interrupted: cancelling the job")
    if interrupt.insisted:
        _kill(following)
        return True
    if following.state.phase is Phase.ENDED:
        return True
    if following.cancelled_s is None and (following.folder / folders.CANCELLED_FILE).is_file():
        following.cancelled_s = now_s  # by somebody else, with the same patience
    if following.ends and following.cancelled_s is None:
        following.wants_end = following.wants_end or _has_read(following, now_s)
    if following.given_up is None and following.cancelled_s is None and not following.wants_end:
        following.given_up = _hopeless(following, now_s)
    if following.story.has_gone_wrong:
        following.wrong_since_s = following.wrong_since_s or now_s
    _watch_limit(following, now_s)
    _tell_silence(following, now_s)
    is_hung = following.wrong_since_s is not None and now_s - following.wrong_since_s > WRONG_SECONDS
    is_late = following.story.out_of_time_s is not None
    if following.wants_end or following.given_up is not None or is_hung or is_late:
        _cancel(following, now_s)
    if following.cancelled_s is not None and now_s - following.cancelled_s > CANCEL_SECONDS:
        _kill(following)
        return True
    return False


def _watch_limit(following: Following, now_s: float) -> None:
    """Note that a job has run for longer than it may; one that somebody ends anyway ends for that."""
    limit_s, since_s = following.limit_seconds, following.running_since_s
    if limit_s is None or since_s is None or following.story.out_of_time_s is not None:
        return
    if now_s - since_s > limit_s and not following.wants_end and following.cancelled_s is None:
        following.story.run_out_of_time(limit_s)
        following.say(f"not ended after {limit_s:g} s: cancelling the job")


def _tell_silence(following: Following, now_s: float) -> None:
    """Say once that ranks have not come to their first word: they may hang, which nobody else can know."""
    since_s = following.running_since_s
    if following.told_silence or since_s is None or following.story.hello or following.is_command:
        return
    if now_s - since_s > _SILENT_START_SECONDS:
        following.told_silence = True
        log = following.folder / folders.LOG_FILE
        following.say(
            f"job {following.handle.id} has run for {_SILENT_START_SECONDS:g} s, and no rank has said"
            f" anything yet; what its launcher says is in {log}"
        )


def _cancel(following: Following, now_s: float) -> None:
    """Ask the engine once it is time, until it has taken it."""
    if following.cancelled_s is not None or now_s < following.ask_again_s:
        return
    if following.refused_since_s is None:
        following.refused_since_s = now_s
    try:
        following.engine.cancel(following.handle, now=following.ends_now)
    except SiteError as error:
        if time.monotonic() - following.refused_since_s > _REFUSED_SECONDS:
            raise goes_on(following.handle, following.folder, error) from error
        if not following.ask_again_s:
            following.say(f"not cancelled yet: {error.message}; asking again")
        following.ask_again_s = time.monotonic() + _AGAIN_SECONDS
        return
    following.cancelled_s = time.monotonic()
    if following.wants_end:
        following.story.interrupted = True
    if following.ends:
        (following.folder / folders.CANCELLED_FILE).touch()


def _kill(following: Following) -> None:
    """End the job without time for last words."""
    try:
        following.engine.cancel(following.handle, now=True)
    except SiteError as error:
        raise goes_on(following.handle, following.folder, error) from error
    following.story.interrupted = following.story.interrupted or following.wants_end


def goes_on(handle: Handle, folder: Path, error: SiteError) -> SiteError:
    """The error of a job whose end was wanted, and whose engine did not take that."""
    name = folder.name
    return SiteError(
        f"job {handle.id} was not cancelled and may go on: {error.message}",
        hint=f"cancel it once the engine answers: busbw cancel {name}; busbw attach {name} brings its record",
    )


def _has_read(following: Following, now_s: float) -> bool:
    """Whether what the job has printed so far was read: it has not started, or nothing came for a while."""
    if now_s - following.since_s > _READ_FIRST_SECONDS:
        return True
    is_pending = following.state.phase is Phase.PENDING
    return following.looked and (is_pending or now_s - following.heard_s > _SILENT_SECONDS)


def _hopeless(following: Following, now_s: float) -> BusbwError | None:
    """The error of a job that will not start, or has not started in time."""
    waited_s = now_s - following.since_s
    return not_starting(following.handle.id, following.state, waited_s, following.wait_seconds)


def not_starting(
    job_id: str, state: JobState, waited_s: float, patience_s: float | None
) -> BusbwError | None:
    """As _hopeless, of any job; a ``patience_s`` of None is for ever."""
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
