"""A soak as text: what is repeated until when, and from the record how much was done, what was found, and
which loss would have been seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult
from busbw.model.soak import SOAK_CHECK
from busbw.report.events import finding_lines
from busbw.units import counted, format_duration, format_gb_per_s, format_share, format_time

_PROBABILITY: Final = 0.95  # of wrong data, as of a loss


def end_words(plan: Plan) -> str:
    """How long it goes on."""
    assert plan.soak is not None
    ends = [] if plan.soak.cycles is None else [counted(plan.soak.cycles, "cycle")]
    ends += [] if plan.soak.seconds is None else [format_duration(plan.soak.seconds)]
    long = f"for {' or '.join(ends)}" if ends else "until Ctrl-C"
    wrong = "" if plan.soak.keep_going or not plan.checks else ", or until data are wrong"
    return f"{long}{wrong}"


def share_done(plan: Plan, elapsed_s: float, windows: int) -> float | None:
    """Of what it does in all; None where only the user knows."""
    assert plan.soak is not None
    shares = [] if plan.soak.seconds is None else [elapsed_s / plan.soak.seconds]
    shares += [] if plan.soak.cycles is None else [windows / (plan.soak.cycles * len(plan.cases))]
    return min(1.0, max(shares)) if shares else None


def level_words(case: Case, result: CaseResult) -> str:
    """Of one window."""
    if result.busbw_gb_per_s is not None:
        return f"{case.short} {format_gb_per_s(result.busbw_gb_per_s)} GB/s"
    return f"{case.short} {format_time(result.time_ns) if result.time_ns else ''}".rstrip()


def soak_lines(record: RunRecord, width: int) -> Iterator[str]:
    """How much was done, what was found, and what would have been seen."""
    if not record.soak:
        return
    yield f"# calls    {call_words(record.soak)}"
    for finding in record.findings:
        if finding.check == SOAK_CHECK:
            yield from finding_lines(asdict(finding), width)
    yield from (f"# {line}" for line in power_lines(record.soak, record.plan.cases))


def call_words(soak: Mapping[str, Any]) -> str:
    """How much was timed and checked."""
    checks, calls, wrong = int(soak["checks"]), int(soak["calls"]), int(soak["wrong_windows"])
    long = format_duration(float(soak["seconds"]))
    if not checks:
        return f"{calls} calls timed in {long}, none checked"
    said = f"wrong in {wrong} of {counted(int(soak['windows']), 'window')}" if wrong else "0 wrong"
    return f"{calls} calls timed in {long}, {checks} more checked: {said}"


def least_often(checks: int) -> int:
    """Data that are wrong in one of so many calls are found with _PROBABILITY by so many ``checks``, each of
    another call: (1 - 1/n)^checks <= 1 - _PROBABILITY.
    """
    return max(1, math.floor(1 / -math.expm1(math.log(1 - _PROBABILITY) / checks)))


def power_lines(soak: Mapping[str, Any], cases: Sequence[Case]) -> Iterator[str]:
    """What would have been seen: wrong data, and as the last line a loss."""
    checks = int(soak["checks"])
    if checks and least_often(checks) > 1:
        seen = f"would have been seen (probability {_PROBABILITY})"
        yield f"wrong data in 1 of {least_often(checks)} calls {seen}"
    powers = soak["power"]
    if not powers:
        yield "no window ended, so no loss would have been seen"
        return
    # Of several cases, in the one where the least would have been seen.
    worst = next((each for each in powers if each["loss"] is None), None)
    worst = worst or max(powers, key=lambda each: (each["loss"], each["seconds"]))
    of = "" if len(powers) == 1 else f" in {cases[worst['case']].short}"
    if worst["loss"] is None:
        yield f"no loss{of} would have been seen for certain: too few windows, or too much scatter"
        return
    loss = format_share(worst["loss"], decimals=0)
    lasting, blind = _at_least(worst["seconds"]), _at_least(worst["blind_s"])
    seen = f"would have been seen after the first {blind} (probability {worst['probability']:g})"
    yield f"a loss of {loss}{of} that lasts {lasting} {seen}"


def _at_least(seconds: float) -> str:
    """A duration of at least so long: in whole seconds, or minutes from 2 on."""
    if seconds < 120:
        return f"{math.ceil(seconds)} s" if seconds >= 1 else format_duration(seconds)
    return f"{math.ceil(seconds / 60)} min"
