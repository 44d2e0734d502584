"""What sweep_split.py starts: busbw's own front process and ranks, with the time of their steps noted.

    python sweep_rank.py front run all_reduce ...     # starts `python sweep_rank.py` as its ranks

Every step counts its own time, without that of the steps within it; noting one takes about 1 us. Rank 0
writes seconds and numbers of calls, and when it came to its first case, to its last one and to what follows,
to the file that SWEEP_SPLIT names.
"""

# ruff: noqa: PLC0415 (what a rank imports, and when, is part of what is measured)

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

BEGAN_S: Final = time.time()
# Steps that calls belong to.
_OF_CALLS: Final = ("warm-up", "single calls", "samples", "checks", "first calls")


class Steps:
    """The time of each step, and the steps under way."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._under_way = ["beside"]
        self._since_s = time.perf_counter()

    def begin(self, step: str) -> None:
        self._count()
        self.calls[step] += 1
        self._under_way.append(step)

    def end(self) -> None:
        self._count()
        self._under_way.pop()

    def _count(self) -> None:
        now_s = time.perf_counter()
        self.spent[self._name()] += now_s - self._since_s
        self._since_s = now_s

    def _name(self) -> str:
        if self._under_way[-1] != "calls":
            return self._under_way[-1]
        return "calls: " + next((step for step in _OF_CALLS if step in self._under_way), "others")

    def note(self, owner: Any, step: str, *names: str) -> None:  # noqa: ANN401 (a module or a class)
        """From now on these functions of ``owner`` are the step."""
        for name in names:
            setattr(owner, name, self._noted(getattr(owner, name), step))

    def _noted(self, inner: Callable[..., Any], step: str) -> Callable[..., Any]:
        @functools.wraps(inner)
        def noted(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            self.begin(step)
            try:
                return inner(*arguments, **named)
            finally:
                self.end()

        return noted


def rank() -> int:
    from busbw.rank import __main__ as program

    steps, enter = Steps(), program._live

    def live(*arguments: Any) -> int:  # noqa: ANN401
        note_all(steps)
        return enter(*arguments)

    program._live = live
    return program.main()


def note_all(steps: Steps) -> None:
    """Called where a rank imports what measures, after its first words."""
    from busbw.machine.native import core
    from busbw.rank import cases, main, measure, verify
    from busbw.rank.rank0 import Lead
    from busbw.rank.world.mpi import MpiWorld
    from busbw.rank.world.nccl import NcclWorld

    steps.note(core.Call, "calls", *(name for name in vars(core.Call) if name.startswith("time_")), "issue")
    steps.note(core, "calls", "stream_wait")
    steps.note(cases, "first calls", "first_call")
    steps.note(measure, "warm-up", "warm_up")
    steps.note(measure, "single calls", "_with_singles")
    steps.note(measure.Sampling, "samples", "add")
    steps.note(cases, "decisions", "measure", "measure_again")
    steps.note(verify.Checks, "checks", "before", "after")
    steps.note(cases, "checks", "_guard")
    steps.note(cases, "result", "summarize", "retain")
    steps.note(Lead, "record, events", "passed", "finished")
    steps.note(cases.Session, "visits", "_checked_and_measured", "_measured_again")
    for kind in (MpiWorld, NcclWorld):
        steps.note(kind, "agreements", "barrier", "broadcast", "max", "sum", "gather")
    create, results = main.create, cases.Session.results
    told: dict[str, Any] = {"rank_began": BEGAN_S}

    def created(*arguments: Any) -> Any:  # noqa: ANN401
        backend = create(*arguments)
        steps.note(type(backend), "buffers", "prepare")
        steps.note(type(backend), "device state", "device_state")
        return backend

    def counted(session: cases.Session) -> Iterator[cases.Done]:
        told["began"] = time.time()
        steps.__init__()  # type: ignore[misc] (what came before is not of the sweep)
        yield from results(session)
        steps.begin("beside")
        told.update(ended=time.time(), spent=dict(steps.spent), calls=dict(steps.calls))

    main.create = created
    cases.Session.results = counted  # type: ignore[method-assign]
    mark(told, Lead, "end", "recorded")
    mark(told, main, "_close", "closed")
    for kind in (MpiWorld, NcclWorld):
        mark(told, kind, "close", "left")


def mark(told: dict[str, Any], owner: type | ModuleType, name: str, when: str) -> None:
    """Note when this function of ``owner`` has returned; on rank 0, which closes a record, keep it all."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def marked(*arguments: Any, **named: Any) -> None:  # noqa: ANN401
        inner(*arguments, **named)
        told[when] = time.time()
        if "recorded" in told:
            Path(os.environ["SWEEP_SPLIT"]).write_text(json.dumps(told))

    setattr(owner, name, marked)


def front() -> int:
    from busbw.launch import ahead

    ahead.RANK_COMMAND = (sys.executable, __file__)
    from busbw.__main__ import main

    sys.argv = ["busbw", *sys.argv[2:]]
    return main()


if __name__ == "__main__":
    sys.exit(front() if sys.argv[1:2] == ["front"] else rank())
