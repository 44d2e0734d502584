"""An allocation that is taken for many launches, and given back whatever becomes of them.

Its holder ends it by itself. Where the holder is killed a guard does, where the engine has one: it waits for
the end of a pipe, which comes with the end of the process that holds the other side.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from busbw import job_submit
from busbw.errors import AllocationOver, SiteError
from busbw.job_stop import not_starting
from busbw.launchers import slurm_allocation
from busbw.launchers import slurm_commands as commands
from busbw.launchers.engine import Handle, JobRequest, JobState, Phase, Unanswered, load
from busbw.launchers.interrupt import Interrupt, as_ctrl_c
from busbw.launchers.slurm_follow import Look
from busbw.launchers.slurm_state import job_state

_TICK_SECONDS: Final = 0.1
# How often an engine that does not answer is asked to end it, and for how long; a guard is more patient.
_AGAIN_SECONDS: Final = 2.0
_REFUSED_SECONDS: Final = 30.0
_GUARD: Final = 'cat; i=0; until scancel "$0" || [ $((i += 1)) -gt 300 ]; do sleep 2; done'


@dataclass(frozen=True)
class Ways:
    """How an engine's allocation is seen and ended. ``by_hand`` is the command that ends one, of a job's
    number or, where nobody heard that, its name. ``guard`` starts what ends it where we cannot.
    """

    look: Callable[[Handle], JobState]
    end: Callable[[Handle], None]
    by_hand: Callable[[Handle], str]
    guard: Callable[[Handle], subprocess.Popen[bytes] | None] = lambda _: None


def refuse_over(job_id: str) -> None:
    """Raises AllocationOver for an allocation of Slurm that has ended; not where there is none (empty), or
    nobody knows.
    """
    why = ""
    if job_id:
        with contextlib.suppress(SiteError):
            why = slurm_allocation.why_over(job_id)
    if why:
        raise over(job_id, why)


def over(job_id: str, why: str) -> AllocationOver:
    """The end of a series whose allocation has ended."""
    return AllocationOver(
        f"job {job_id}, the allocation of all launches, has ended: {why}",
        hint="give --time-limit for all launches together; several series of the same setups are one",
    )


@contextlib.contextmanager
def allocated(
    request: JobRequest,
    ways: Ways,
    wait_seconds: float | None,
    err: TextIO,
    folder: Path | None = None,
) -> Iterator[Handle]:
    """The job, once it runs. ``folder`` is one of its own that has what it needs.

    Raises SiteError where the engine refuses it or it does not start, and KeyboardInterrupt where the user
    does not want it any more; SIGTERM and SIGHUP are as Ctrl-C within.
    """
    with as_ctrl_c():
        with Interrupt() as interrupt:  # a job whose number nobody heard would run on
            handle = _submit(request, ways, folder)
            guard = ways.guard(handle)
            stopped = interrupt.requested
        try:
            nodes = "1 node" if request.nodes == 1 else f"{request.nodes} nodes"
            _say(f"submitted {request.engine} job {handle.id}: {nodes}, for all launches", err)
            if stopped:
                raise KeyboardInterrupt
            _await(handle, ways, wait_seconds, err)
            yield handle
        finally:
            with Interrupt():  # a second Ctrl-C must not leave the job
                _give_back(handle, ways, guard, err)


def _submit(request: JobRequest, ways: Ways, folder: Path | None) -> Handle:
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="busbw-")))
            (folder / "request").mkdir()
            for name, text in request.files.items():
                (folder / "request" / name).write_text(text)
        try:
            return job_submit.hand_over(load(request.engine), request, folder)
        except Unanswered as error:
            raise SiteError(
                f"{error.message}; whether {error.handle.engine} has job {error.handle.name} is not known",
                hint=f"once it answers, `{ways.by_hand(error.handle)}` ends that job",
            ) from error


def _await(handle: Handle, ways: Ways, wait_seconds: float | None, err: TextIO) -> None:
    """Until the job runs, telling its states."""
    look = Look(partial(ways.look, handle))
    since_s = time.monotonic()
    while True:
        if (changed := look.now()) is not None:
            why = f": {changed.why}" if changed.why else ""
            _say(f"job {handle.id}: {changed.phase.value}{why}", err)
        state = look.last
        if state is not None and state.phase is Phase.RUNNING:
            return
        if state is not None and state.phase is Phase.ENDED:
            why = state.why or f"{handle.engine} says no reason"
            raise SiteError(f"job {handle.id} ended before its first launch: {why}", hint=state.hint)
        waited_s = time.monotonic() - since_s
        if state is not None and (given_up := not_starting(handle.id, state, waited_s, wait_seconds)):
            raise given_up
        time.sleep(_TICK_SECONDS)


def _give_back(handle: Handle, ways: Ways, guard: subprocess.Popen[bytes] | None, err: TextIO) -> None:
    """End the job. Where the engine does not take that, it is said, and a guard goes on trying."""
    give_up_s = time.monotonic() + _REFUSED_SECONDS
    told = False
    while True:
        try:
            ways.end(handle)
        except SiteError as error:
            if time.monotonic() > give_up_s:
                _say(f"error: job {handle.id} was not cancelled and may go on: {error.message}", err)
                _say(f"hint: cancel it once {handle.engine} answers: {ways.by_hand(handle)}", err)
                if guard is not None:
                    _close(guard)
                return
            if not told:
                _say(f"job {handle.id} is not cancelled yet: {error.message}; asking again", err)
            told = True
            time.sleep(_AGAIN_SECONDS)
        else:
            if guard is not None:
                guard.kill()
                _close(guard)
                guard.wait()
            _say(f"cancelled {handle.engine} job {handle.id}", err)
            return


def _slurm_guard(handle: Handle) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ("sh", "-c", _GUARD, handle.id),
        env=commands.environ_outside_jobs(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _close(guard: subprocess.Popen[bytes]) -> None:
    assert guard.stdin is not None
    guard.stdin.close()


def _say(text: str, err: TextIO) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(text, file=err, flush=True)


SLURM: Final = Ways(
    look=lambda handle: job_state(commands.look(handle.id)),
    end=lambda handle: commands.end(handle.id),
    by_hand=lambda handle: f"scancel {handle.id if handle.id.isdecimal() else f'--name={handle.name}'}",
    guard=_slurm_guard,
)
