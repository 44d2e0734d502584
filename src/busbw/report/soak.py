"""A soak as text: what a window has shown as it comes; at the end, from the record, the level, what was
found, and which loss would have been seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TextIO

from busbw.model.case import Case
from busbw.model.event import Event, EventKind
from busbw.model.finding import Severity
from busbw.model.plan import Plan
from busbw.model.record import Method, RunRecord, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.model.soak import SOAK_CHECK
from busbw.record.read import read_record
from busbw.report.console import columns, print_lines
from busbw.report.display import Display, who_lines
from busbw.report.events import finding_lines, read_result
from busbw.report.fields import UNBOUND
from busbw.units import counted, format_duration, format_gb_per_s, format_share, format_time

_STEPS: Final = 1000  # of a progress bar
_PROBABILITY: Final = 0.95  # of wrong data, as of a loss


class SoakDisplay(Display):
    """Notes go to ``err`` as they come, the result to ``out``."""

    def __init__(self, out: TextIO, err: TextIO, *, live: bool = True) -> None:
        super().__init__(out, err, progress=live)
        self._live = live

    def _begin(self, header: Event, plan: Plan, world: WorldInfo, method: Method) -> None:
        self._print(header_lines(plan, world, str(header["busbw_version"])))
        if self._progress is not None:
            self._progress.start(_STEPS, "window 1")

    def _take(self, item: Event) -> None:
        kind = item["event"]
        if kind == EventKind.WINDOW:
            self._window(item)
        elif kind == EventKind.FINDING:
            self._findings.append(item["finding"])
        elif kind == EventKind.END and self._plan is not None:
            self._stop_progress()
            self._print(soak_lines(read_record(Path(str(item["folder"]))), str(item["folder"]), self._out))
            self._findings = []

    def close(self) -> None:
        """See Display. Where nothing was started, there is no END to wait for."""
        super().close()
        self._print(_finding_lines(self._findings, self._out))

    def _window(self, item: Event) -> None:
        plan = self._plan
        if not self._live or plan is None or plan.soak is None:
            return
        print_lines((f"busbw: {note}" for note in item["notes"]), self._err)
        if self._progress is None:
            return
        result, elapsed_s, seconds = read_result(item), float(item["elapsed_s"]), plan.soak.seconds
        case = plan.cases[result.case]
        words = f"{case.short} {_level(result)}".rstrip()
        if seconds is None:
            self._progress.step(0, f"{format_duration(elapsed_s)}, {words}, until Ctrl-C")
        else:
            done = min(_STEPS, round(_STEPS * elapsed_s / seconds))
            self._progress.step(done, words, max(0.0, seconds - elapsed_s))


def _finding_lines(findings: Iterable[Mapping[str, Any]], out: TextIO) -> Iterator[str]:
    for finding in findings:
        if finding["severity"] != Severity.INFO or finding["check"] == SOAK_CHECK:
            yield from finding_lines(finding, columns(UNBOUND, out))


def soak_lines(record: RunRecord, folder: str, out: TextIO) -> Iterator[str]:
    """What it came to, also where it was ended early."""
    cases = record.plan.cases
    for result in record.finished:
        words = _result_words(cases[result.case], result) if result.time_ns else result.error
        yield f"# result   {words}"
    if record.soak:
        yield f"# calls    {call_words(record.soak)}"
    yield from _finding_lines(map(asdict, record.findings), out)
    yield f"# record   {folder}"
    if record.soak:
        yield from (f"# {line}" for line in power_lines(record.soak, cases))


def header_lines(plan: Plan, world: WorldInfo, version: str) -> list[str]:
    """What is soaked, with what, for how long."""
    assert plan.soak is not None
    what = plan.cases[0].short if len(plan.cases) == 1 else f"{len(plan.cases)} cases in turn"
    long = "until Ctrl-C" if plan.soak.seconds is None else f"for {format_duration(plan.soak.seconds)}"
    window = f"windows of {format_duration(plan.limits.case_seconds)}"
    window = window if plan.limits.calls is None else f"windows of {plan.limits.calls} calls"
    checked = "every element checked before and after" if plan.checks else "unchecked"
    who = who_lines(f"soak of {what}", plan, world, version)
    return [*who, f"# soak     {long}, {window}, {checked}"]


def _level(result: CaseResult) -> str:
    if result.busbw_gb_per_s is not None:
        return f"{format_gb_per_s(result.busbw_gb_per_s)} GB/s"
    return format_time(result.time_ns) if result.time_ns else ""


def _result_words(case: Case, result: CaseResult) -> str:
    """The level over all windows."""
    spread = "" if result.half_width is None else f" +-{format_share(result.half_width)}"
    wrong = "; WRONG DATA" if result.status is Status.WRONG else ""
    over = f"median over {counted(result.samples, 'window')}"
    return f"{case.short}: {_level(result)}{spread}, {over}{wrong}"


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
    yield _loss_words(soak, cases)


def _loss_words(soak: Mapping[str, Any], cases: Sequence[Case]) -> str:
    """Of several cases, in the one where the least would have been seen."""
    powers = soak["power"]
    if not powers:
        return "no window ended, so no loss would have been seen"
    blind = next((each for each in powers if each["loss"] is None), None)
    worst = blind or max(powers, key=lambda each: (each["loss"], each["seconds"]))
    of = "" if len(powers) == 1 else f" in {cases[worst['case']].short}"
    if blind is not None:
        return f"no loss{of} would have been seen for certain: too few windows, or too much scatter"
    loss, probability = format_share(worst["loss"], decimals=0), worst["probability"]
    lasting = _at_least(float(worst["seconds"]))
    blind = _at_least(float(worst["blind_s"]))
    seen = f"would have been seen after the first {blind} (probability {probability:g})"
    return f"a loss of {loss}{of} that lasts {lasting} {seen}"


def _at_least(seconds: float) -> str:
    """A duration of at least so long: in whole seconds, or minutes from 2 on."""
    if seconds < 120:
        return f"{math.ceil(seconds)} s" if seconds >= 1 else format_duration(seconds)
    return f"{math.ceil(seconds / 60)} min"
