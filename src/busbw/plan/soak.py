"""A plan that is repeated: ``busbw soak``, ``--cycles 0``, and nccl-tests' ``-N 0``."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.model.soak import Soak
from busbw.plan.flags.run import RunSettings

# So many windows make a level known (``stats.levels``) while a short soak lasts. Where there are several
# cases, each waits for the windows of the others.
_WINDOW_S: Final = 10.0
_SHORTEST_S: Final = 0.25
_OF_SEVERAL_S: Final = 1.0
_LEAST_WINDOWS: Final = 120


def check_soak(settings: RunSettings) -> None:
    """Raises UsageError for what cannot be repeated without an end."""
    if not _is_soak(settings):
        return
    for flag, given in (
        ("--launches", settings.launches > 1),
        ("--profile", settings.profile != "none"),
        ("--outer-iters", settings.outer_iters is not None),
        ("-n 0", settings.iters == 0),
    ):
        if given:
            raise UsageError(f"{flag} cannot be combined with a soak", hint=f"leave {flag} out")


def with_soak(plan: Plan, settings: RunSettings) -> Plan:
    """The plan, repeated where that is asked for. Raises UsageError where no case is left."""
    if not _is_soak(settings):
        return plan
    own = settings.soak
    seconds = plan.limits.budget_seconds
    if own is not None:
        seconds = None if own.time is None else float(own.time)
    cases = plan.cases if own is None or plan.streams else _one_each(plan.cases)
    if not any(case.applicable for case in cases):
        raise UsageError(plan.cases[0].reason, hint="choose another operation, type or number of ranks")
    limits = replace(plan.limits, case_seconds=_window_s(seconds, len(cases)), budget_seconds=None)
    return replace(
        plan,
        cases=cases,
        limits=limits,
        raw_ranks=0,  # of rank 0 and the slowest: enough to see which call was slow
        soak=Soak(seconds, own is not None and own.keep_going),
    )


def _is_soak(settings: RunSettings) -> bool:
    return settings.soak is not None or settings.cycles == 0


def _one_each(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """Of an operation and size the first placement that there is."""
    found: dict[tuple[object, ...], Case] = {}
    for case in cases:
        if case.applicable:
            found.setdefault((case.collective, case.dtype, case.op, case.root, case.requested_bytes), case)
    return tuple(replace(case, index=index) for index, case in enumerate(found.values()))


def _window_s(seconds: float | None, cases: int) -> float:
    usual = _WINDOW_S if cases == 1 else _OF_SEVERAL_S
    return usual if seconds is None else min(usual, max(_SHORTEST_S, seconds / _LEAST_WINDOWS / cases))
