"""A soak on the ranks: the cases of the plan, sweep after sweep, each visit a window, until its end.

A visit is that of any run: it checks the case at full width on new data, measures it, and checks it again.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from busbw.errors import ExitCode
from busbw.model.result import CaseResult, Status, StopReason
from busbw.model.sample import DIGEST_DTYPE
from busbw.rank.cases import Looked, Session, Task
from busbw.rank.measure import Samples
from busbw.rank.retain import Kept, shared_rows
from busbw.rank.soak_log import SoakLog, State
from busbw.rank.summarize import summarize

if TYPE_CHECKING:
    from busbw.model.plan import Plan
    from busbw.model.record import RankInfo
    from busbw.model.soak import Soak
    from busbw.rank.rank0 import Lead

# Sweeps whose wrong tensors are kept: those of the later ones would fill the disk.
_MOST_SAVED: Final = 4
_STATE_S: Final = 1.0


def go_soaking(task: Task, soak: Soak, ranks: tuple[RankInfo, ...]) -> ExitCode:
    """Window after window. Collective over the world; ``ranks`` are rank 0's."""
    plan, observer, world = task.plan, task.observer, task.given.world
    began_s, wrong = time.monotonic(), 0
    ear = None if observer is None else _Ear(observer, plan, SoakLog(plan, ranks, time.time()), began_s)
    looked = None if ear is None else ear.looked
    for sweep in itertools.count():
        # Other data than in the sweeps before.
        seed = plan.seed + sweep * len(plan.cases) * max(1, plan.checks)
        own = replace(plan, seed=seed, save_wrong=wrong < _MOST_SAVED)
        measured = 0
        for result, kept in Session(replace(task, plan=own, observer=None), ear, looked).results():
            measured += result.status is not Status.NOT_APPLICABLE
            wrong += result.status is Status.WRONG
            elapsed_s = float(world.max(np.array([time.monotonic() - began_s]))[0])
            through = sweep + (result.case == len(plan.cases) - 1)  # whole sweeps
            is_late = soak.seconds is not None and elapsed_s >= soak.seconds
            is_through = soak.cycles is not None and through >= soak.cycles
            is_over = is_late or is_through or (wrong > 0 and not soak.keep_going)
            code = ExitCode.OK
            if ear is not None:
                code = ear.window(result, kept, elapsed_s, last=is_over)
            if is_over:
                return ExitCode(int(world.max(np.array([int(code)]))[0]))
        if not measured:
            break  # no rank's library has any of the cases
    return ExitCode.OK


class _Ear:
    """What a Session tells on rank 0: a window has one pass, and its files are read beside it."""

    def __init__(self, observer: Lead, plan: Plan, log: SoakLog, began_s: float) -> None:
        self._observer, self._plan, self._log, self._began_s = observer, plan, log, began_s
        self._files: dict[str, bytes] = {}
        self._open: tuple[Looked, float, float] | None = None  # with both clocks after the look
        self._stated_s = 0.0
        self._lock = threading.Lock()
        observer.soaking(self._cut_short)

    def window(self, result: CaseResult, kept: Kept, elapsed_s: float, *, last: bool) -> ExitCode:
        """One window is over; what the soak comes to, where it is the last."""
        with self._lock:
            files, self._files, self._open = self._files, {}, None
            notes, state = self._log.take(result, kept, files, elapsed_s, self._plan.checks + 1), None
            if last or elapsed_s - self._stated_s >= _STATE_S:
                self._stated_s, state = elapsed_s, self._log.state()
        self._observer.soaked(result, notes, elapsed_s, state)
        return state.code if state is not None else ExitCode.OK

    def looked(self, looked: Looked) -> None:
        """What a look at the open window has shown."""
        self._open = looked, time.monotonic() - self._began_s, time.time()

    def saved(self, name: str, content: bytes) -> None:
        """See Saves."""
        self._files[name] = content
        self._observer.saved(name, content)

    def _cut_short(self) -> State:
        """With what the looks at the open window have shown, which no check follows."""
        with self._lock:
            if self._open is not None:
                (looked, elapsed_s, ended_s), self._open = self._open, None
                taken, case = looked.taken, looked.case
                samples = Samples.of_pass(taken, 0, StopReason.CASE_TIME)
                checked, conditions = looked.verdict
                result = summarize(
                    case, samples, checked, looked.given, show=self._plan.show, conditions=conditions
                )
                rows = np.concatenate(shared_rows(case.index, samples))
                kept = Kept(rows, np.empty(0, DIGEST_DTYPE), ended_s)
                self._log.take(result, kept, self._files, elapsed_s, self._plan.checks)
            return self._log.state()
