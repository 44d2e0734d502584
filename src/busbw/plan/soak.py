"""A plan that is repeated: ``busbw soak``, ``--cycles``, and nccl-tests' ``-N``."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from busbw.errors import UsageError
from busbw.model.plan import Plan
from busbw.model.soak import Soak
from busbw.plan.flags.run import RunSettings
from busbw.plan.swept import in_one_placement

# So many windows make a level known (``stats.levels``) while a short soak lasts. Where there are several
# cases, each waits for the windows of the others.
_WINDOW_S: Final = 10.0
_SHORTEST_S: Final = 0.25
_OF_SEVERAL_S: Final = 1.0
_LEAST_WINDOWS: Final = 120


def check_soak(settings: RunSettings) -> None:
    """Raises UsageError for what a soak does not do."""
    if not settings.repeats:
        return
    for flag, given in (
        ("--launches", settings.launches > 1),
        ("--profile", settings.profile != "none"),
        ("--outer-iters", settings.outer_iters is not None),
        ("-n 0", settings.iters == 0),
    ):
        if given:
            what = "a soak" if settings.soak is not None else "--cycles"
            raise UsageError(f"{flag} cannot be combined with {what}", hint=f"leave {flag} out")


def with_soak(plan: Plan, settings: RunSettings) -> Plan:
    """The plan, repeated where that is asked for. Raises UsageError where no case is left."""
    if not settings.repeats:
        return plan
    own, cases = settings.soak, plan.cases
    if own is None:
        seconds, window_s = plan.limits.budget_seconds, plan.limits.case_seconds
    else:
        seconds = None if own.time is None else float(own.time)
        cases = in_one_placement(case for case in cases if case.applicable)
        window_s = _WINDOW_S if len(cases) == 1 else _OF_SEVERAL_S
    if not any(case.applicable for case in cases):
        raise UsageError(plan.cases[0].reason, hint="choose another operation, type or number of ranks")
    if seconds is not None:
        window_s = min(window_s, max(_SHORTEST_S, seconds / _LEAST_WINDOWS / len(cases)))
    limits = replace(plan.limits, case_seconds=window_s, budget_seconds=None)
    return replace(
        plan,
        cases=cases,
        limits=limits,
        raw_ranks=0,  # of rank 0 and the slowest: enough to see which call was slow
        soak=Soak(seconds, None if own else settings.cycles or None, settings.keep_going),
    )
