"""A soak on the ranks: the cases of the plan, sweep after sweep, each visit a window, until the time is over.

A visit is that of any run: it checks the case at full width on new data, measures it, and checks it again.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from busbw.errors import ExitCode
from busbw.model.result import CaseResult, Status
from busbw.rank.cases import Session
from busbw.rank.soak_log import Soaked, SoakLog

if TYPE_CHECKING:
    from busbw.model.plan import Plan
    from busbw.model.record import RankInfo
    from busbw.rank.backends.base import Backend
    from busbw.rank.measure import Conditions
    from busbw.rank.process import Deadline
    from busbw.rank.retain import Kept
    from busbw.rank.world.base import World

# Sweeps whose wrong tensors are kept: those of the later ones would fill the disk.
_MOST_SAVED: Final = 4


class Soaker(Protocol):
    """Rank 0's ear for a soak."""

    def soaked(self, soaked: Soaked) -> None:
        """A window is over."""

    def saved(self, name: str, content: bytes) -> None:
        """A file of what a failed check found."""


def go_soaking(
    world: World,
    plan: Plan,
    backend: Backend,
    given: Conditions,
    deadline: Deadline,
    observer: Soaker | None,
    ranks: tuple[RankInfo, ...],
) -> ExitCode:
    """Window after window. Collective over the world; ``observer`` and ``ranks`` are rank 0's."""
    soak = plan.soak
    assert soak is not None, "made for a plan with a soak"
    began_s, wrong = time.monotonic(), 0
    ear = None if observer is None else _Ear(observer, SoakLog(plan, ranks, time.time()))
    for sweep in itertools.count():
        # Other data than in the sweeps before.
        seed = plan.seed + sweep * len(plan.cases) * max(1, plan.checks)
        own = replace(plan, seed=seed, save_wrong=wrong < _MOST_SAVED)
        measured = 0
        for result, kept in Session(own, backend, given, deadline, ear).results():
            measured += result.status is not Status.NOT_APPLICABLE
            wrong += result.status is Status.WRONG
            elapsed_s = float(world.max(np.array([time.monotonic() - began_s]))[0])
            is_over = soak.seconds is not None and elapsed_s >= soak.seconds
            is_over = is_over or (wrong > 0 and not soak.keep_going)
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

    def __init__(self, observer: Soaker, log: SoakLog) -> None:
        self._observer, self._log = observer, log
        self._files: dict[str, bytes] = {}

    def window(self, result: CaseResult, kept: Kept, elapsed_s: float, *, last: bool) -> ExitCode:
        """One window is over; what the soak comes to, where it is the last."""
        files, self._files = self._files, {}
        soaked = self._log.with_window(result, kept, files, elapsed_s, last=last)
        self._observer.soaked(soaked)
        return soaked.state.code if soaked.state is not None else ExitCode.OK

    def passed(self, result: CaseResult) -> None:
        """Never called."""

    def saved(self, name: str, content: bytes) -> None:
        """See Saves."""
        self._files[name] = content
        self._observer.saved(name, content)
