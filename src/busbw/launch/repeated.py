"""Several launches of one plan, and one result from them: an interval that knows what a launch cannot.

Placement, addresses and a library's choices change between launches and not within one, so each launch's
median is one observation (``stats.launches``). Every launch is a run of its own in the series' folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from busbw.errors import ExitCode
from busbw.launch import here
from busbw.launch.base import LaunchRequest
from busbw.model.case import Case
from busbw.model.event import Emit, Event, EventKind, event, now_utc
from busbw.model.plan import Plan
from busbw.model.record import Method, RunRecord, RunStatus
from busbw.model.result import CaseResult, Status, not_run
from busbw.plan.flags.run import RunSettings
from busbw.rank.summarize import bandwidths
from busbw.record import folder as folders
from busbw.record.read import read_record
from busbw.record.results import write_record
from busbw.report.progress import progress
from busbw.stats.launches import launch_interval
from busbw.units import format_duration


def measure(
    plan: Plan,
    settings: RunSettings,
    argv: tuple[str, ...],
    request_for: Callable[[str], LaunchRequest],
    show: Emit,
    err: TextIO,
) -> ExitCode:
    """``settings.launches`` launches, one after another, then the table over them. What finished is kept and
    shown where a launch fails. Raises as ``here.measure``.
    """
    folder = here.new_folder(plan, settings)
    finished: list[RunRecord] = []
    headers: list[Event] = []
    code = ExitCode.OK

    def hear(item: Event) -> None:
        if item["event"] == EventKind.HEADER:
            headers.append(item)
        elif item["event"] == EventKind.ERROR:
            show(item)

    with progress(settings.launches, "launch 1") as step:
        for number in range(1, settings.launches + 1):
            started_s = time.monotonic()
            launch = folders.create(folder / folders.LAUNCHES, str(number))
            code = max(code, here.measure(plan, settings, argv, request_for, hear, err, folder=launch))
            if code > ExitCode.BAD_VERDICT:
                break
            finished.append(read_record(launch))
            took = format_duration(time.monotonic() - started_s)
            print(f"launch {number} of {settings.launches}: {took}", file=err, flush=True)
            step(number, f"launch {number + 1}")
    if finished:
        _report(folder, finished, headers[0], code, show)
    return code


def _report(folder: Path, launches: list[RunRecord], header: Event, code: ExitCode, show: Emit) -> None:
    """Write the series' record and show it as a run."""
    record = combine(launches, folder.name)
    if code > ExitCode.BAD_VERDICT:
        interrupted = code is ExitCode.INTERRUPTED
        record = replace(record, status=RunStatus.INTERRUPTED if interrupted else RunStatus.FAILED)
    write_record(folder, record)
    for finding in record.findings:
        show(event(EventKind.FINDING, finding=finding))
    show({**header, **event(EventKind.HEADER, folder=str(folder), run_id=folder.name, method=record.method)})
    for result in record.results:
        show(event(EventKind.CASE, result=result))
    show(event(EventKind.END, exit_code=int(code), folder=str(folder), status=record.status.value))


def combine(launches: list[RunRecord], run_id: str) -> RunRecord:
    """One record over launches of the same plan (at least one)."""
    first = launches[0]
    ranks = first.world.size if first.world is not None else 1
    results = [
        _over_launches(case, [record.results[case.index] for record in launches], ranks)
        for case in first.plan.cases
    ]
    return replace(
        first,
        run_id=run_id,
        results=(*results, *not_run(len(first.plan.cases), len(results))),
        method=_method([launch.method or Method() for launch in launches]),
        ended=now_utc(),
        status=RunStatus.COMPLETE,
    )


def _over_launches(case: Case, results: list[CaseResult], ranks: int) -> CaseResult:
    """Times are the geometric mean of the launches' with its t-interval; other numbers are medians over
    launches. A case that is wrong in one launch is wrong.
    """
    worst = next((result for result in results if result.status is not Status.GOOD), results[0])
    times = [result.time_ns for result in results if result.time_ns]
    if len(times) < len(results):
        return worst
    time_ns, low_ns, high_ns = launch_interval(times) or (times[0], None, None)
    algbw, busbw = bandwidths(case, ranks, time_ns if worst.status is Status.GOOD else None)
    return replace(
        worst,
        time_ns=time_ns,
        low_ns=low_ns,
        high_ns=high_ns,
        mean_ns=median(result.mean_ns or 0.0 for result in results),
        algbw_gb_per_s=algbw,
        busbw_gb_per_s=busbw,
        samples=sum(result.samples for result in results),
        warmup_calls=sum(result.warmup_calls for result in results),
        tau=None,
        excluded=sum(result.excluded for result in results),
        wrong=None if worst.wrong is None else sum(result.wrong or 0 for result in results),
        marks=tuple(dict.fromkeys(mark for result in results for mark in result.marks)),
        issue_ns=_median(result.issue_ns for result in results),
        skew_ns=_median(result.skew_ns for result in results),
        first_call_ns=_median(result.first_call_ns for result in results),
        stats={word: _median(result.stats.get(word) for result in results) for word in worst.stats},
        evidence={"launch_times_ns": times, **_evidence(results)},
    )


def _evidence(results: list[CaseResult]) -> dict[str, Any]:
    """Host-bound where one launch was. What the percentiles are of: as many calls as every launch timed one
    by one.
    """
    found = [result.evidence for result in results]
    bound = {"host_bound": True} if any(each.get("host_bound") for each in found) else {}
    are_single = all(each.get("single_calls") is not None for each in found)
    return bound | ({"single_calls": min(each["single_calls"] for each in found)} if are_single else {})


def _median(values: Iterable[float | None]) -> float | None:
    """None where one launch has none."""
    known = list(values)
    return None if None in known else median(value for value in known if value is not None)


def _method(methods: list[Method]) -> Method:
    """Of the first launch; the clocks are worth what they were in the worst one."""
    launches = len(methods)
    errors = [method.clock_error_ns for method in methods if method.clock_error_ns is not None]
    return replace(
        methods[0],
        time=f"geometric mean over {launches} launches of the {methods[0].time}",
        interval=f"95 % t-interval over {launches} launches, of the logarithms of their times",
        clock_error_ns=max(errors, default=None),
    )
