"""An allocation that is taken for many launches, and given back whatever becomes of them.

Its holder ends it by itself. A guard does where the holder is killed: it waits for the end of a pipe, which
comes with the end of the process that holds the other side.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from functools import partial
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
from busbw.record import folder as folders

_TICK_SECONDS: Final = 0.1
# How often a controller that does not answer is asked to end it, and for how long; the guard is more patient.
_AGAIN_SECONDS: Final = 2.0
_REFUSED_SECONDS: Final = 30.0
_GUARD: Final = 'cat; i=0; until scancel "$0" || [ $((i += 1)) -gt 300 ]; do sleep 2; done'


def refuse_over(job_id: str) -> None:
    """Raises AllocationOver for an allocation that has ended; not where there is none (empty), or nobody
    knows.
    """
    why = ""
    if job_id:
        with contextlib.suppress(SiteError):
            why = slurm_allocation.why_over(job_id)
    if why:
        raise AllocationOver(
            f"job {job_id}, the allocation of all launches, has ended: {why}",
            hint="give --time-limit for all launches together; several series of the same setups are one",
        )


@contextlib.contextmanager
def allocated(request: JobRequest, wait_seconds: float | None, err: TextIO) -> Iterator[str]:
    """The number of the job, once it runs. Raises SiteError where Slurm refuses it or it does not start, and
    KeyboardInterrupt where the user does not want it any more; SIGTERM and SIGHUP are as Ctrl-C within.
    """
    with as_ctrl_c():
        with Interrupt() as interrupt:  # a job whose number nobody heard would run on
            handle = _submit(request)
            guard = _guard(handle.id)
            stopped = interrupt.requested
        try:
            _say(f"submitted slurm job {handle.id}: {request.nodes} nodes, for all launches", err)
            if stopped:
                raise KeyboardInterrupt
            _await(handle, wait_seconds, err)
            yield handle.id
        finally:
            with Interrupt():  # a second Ctrl-C must not leave the job
                _give_back(handle.id, guard, err)


def _submit(request: JobRequest) -> Handle:
    try:
        return job_submit.hand_over(load(request.engine), request, folders.environ_home())
    except Unanswered as error:
        name = error.handle.name
        raise SiteError(
            f"{error.message}; whether Slurm has job {name} is not known",
            hint=f"once it answers, `scancel --name={name}` ends that job",
        ) from error


def _guard(job_id: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ("sh", "-c", _GUARD, job_id),
        env=commands.environ_outside_jobs(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _await(handle: Handle, wait_seconds: float | None, err: TextIO) -> None:
    """Until the job runs, telling its states."""
    look = Look(partial(_state, handle.id))
    since_s = time.monotonic()
    while True:
        if (changed := look.now()) is not None:
            why = f": {changed.why}" if changed.why else ""
            _say(f"job {handle.id}: {changed.phase.value}{why}", err)
        state = look.last
        if state is not None and state.phase is Phase.RUNNING:
            return
        if state is not None and state.phase is Phase.ENDED:
            why = state.why or "Slurm says no reason"
            raise SiteError(f"job {handle.id} ended before its first launch: {why}", hint=state.hint)
        waited_s = time.monotonic() - since_s
        if state is not None and (given_up := not_starting(handle.id, state, waited_s, wait_seconds)):
            raise given_up
        time.sleep(_TICK_SECONDS)


def _state(job_id: str) -> JobState:
    return job_state(commands.look(job_id))


def _give_back(job_id: str, guard: subprocess.Popen[bytes], err: TextIO) -> None:
    """End the job. Where Slurm does not take that, it is said, and the guard goes on trying."""
    give_up_s = time.monotonic() + _REFUSED_SECONDS
    told = False
    while True:
        try:
            commands.end(job_id)
        except SiteError as error:
            if time.monotonic() > give_up_s:
                _say(f"error: job {job_id} was not cancelled and may go on: {error.message}", err)
                _say(f"hint: cancel it once Slurm answers: scancel {job_id}", err)
                _close(guard)
                return
            if not told:
                _say(f"job {job_id} is not cancelled yet: {error.message}; asking again", err)
            told = True
            time.sleep(_AGAIN_SECONDS)
        else:
            guard.kill()
            _close(guard)
            guard.wait()
            _say(f"cancelled slurm job {job_id}, after all launches", err)
            return


def _close(guard: subprocess.Popen[bytes]) -> None:
    assert guard.stdin is not None
    guard.stdin.close()


def _say(text: str, err: TextIO) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(text, file=err, flush=True)
