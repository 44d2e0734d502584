"""A check in one line, as LBNL NHC and Slurm's HealthCheckProgram want it, and as Prometheus text. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from busbw.errors import ExitCode
from busbw.judge.expectation import Expectation, Gate, Judged, Judgement
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.units import format_flag_size, format_gb_per_s, format_share, format_size

_WORDS: Final = {ExitCode.OK: "OK", ExitCode.UNDECIDED: "UNDECIDED"}
_ESCAPED: Final = re.compile(r'[\\"]')


def check_code(record: RunRecord, expectation: Expectation, gates: Sequence[tuple[str, Gate]]) -> ExitCode:
    """1 for wrong data, a failure, and what is below its level or a limit; 3 where a case was not measured, a
    limit or all cases are undecided. What has no level yet is right as far as is known.
    """
    answers, ends = {case.answer for case in expectation.cases}, {result.status for result in record.results}
    answered = {gate for _, gate in gates}
    if ends & {Status.WRONG, Status.FAILED} or Judgement.BELOW in answers or Gate.FAIL in answered:
        return ExitCode.BAD_VERDICT
    if Status.NOT_RUN in ends or answers == {Judgement.UNDECIDED} or Gate.UNDECIDED in answered:
        return ExitCode.UNDECIDED
    return ExitCode.OK


def check_line(
    record: RunRecord, expectation: Expectation, gates: Sequence[tuple[str, Gate]], code: ExitCode
) -> str:
    """``OK busbw: all_reduce 1G 356 GB/s, 99 % of its level, 0 wrong``."""
    return f"{_WORDS.get(code, 'ERROR')} busbw: {_what(record, expectation, gates, code)}"


def error_line(message: str) -> str:
    """Of a check that came to no result."""
    return f"ERROR busbw: {message}"


def _what(
    record: RunRecord, expectation: Expectation, gates: Sequence[tuple[str, Gate]], code: ExitCode
) -> str:
    if wrong := [result for result in record.results if result.status is Status.WRONG]:
        where = [f" on rank {place.rank} ({place.host})" for place in wrong[0].wrong_at[:1]]
        return f"{_case_words(record, wrong[0])}: {wrong[0].wrong_words}{''.join(where)}"
    ends = {ExitCode.BAD_VERDICT: Gate.FAIL, ExitCode.UNDECIDED: Gate.UNDECIDED}
    if gate := next((text for text, gate in gates if gate is ends.get(code)), ""):
        return gate
    for status, why in ((Status.FAILED, "failed"), (Status.NOT_RUN, "no time was left to measure it")):
        if found := [result for result in record.results if result.status is status]:
            error = found[0].error if status is Status.FAILED else ""
            return f"{_case_words(record, found[0])}: {error or why}"
    worst = {ExitCode.BAD_VERDICT: Judgement.BELOW, ExitCode.UNDECIDED: Judgement.UNDECIDED}.get(code)
    if judged := [case for case in expectation.cases if case.answer is worst]:
        return _judged_words(min(judged, key=lambda case: case.ratio or 0.0))
    cases = [case for case in expectation.cases if case.answer is not Judgement.UNDECIDED]
    best = max(cases, key=lambda case: case.measured_gb_per_s or 0.0, default=None)
    if best is None or best.measured_gb_per_s is None:
        return "no case has a bus bandwidth, 0 wrong"
    left = len(expectation.cases) - len(cases)
    unknown = f", {left} of {len(expectation.cases)} cases undecided" if left else ""
    return f"{_judged_words(best)}, 0 wrong{unknown}"


def _judged_words(judged: Judged) -> str:
    where = f"{judged.key.collective} {format_flag_size(judged.key.size_bytes)}"
    if judged.measured_gb_per_s is None:
        return f"{where}: {judged.why or judged.answer}"
    level = "no level yet"
    if judged.ratio is not None:
        level = f"{format_share(judged.ratio, decimals=0).replace('%', ' %')} of its level"
    return f"{where} {format_gb_per_s(judged.measured_gb_per_s)} GB/s, {level}"


def _case_words(record: RunRecord, result: CaseResult) -> str:
    case = record.plan.cases[result.case]
    return f"{case.collective} {format_flag_size(case.size_bytes)}"


# ---- Prometheus -----------------------------------------------------------------------------------------


def prometheus_text(
    record: RunRecord | None, expectation: Expectation | None, code: ExitCode, now_s: float
) -> str:
    """For node_exporter. The names that begin with nccl are those of NCCL Inspector's own exporter, which
    dashboards know; the others are of the check.
    """
    lines: list[str] = []
    if record is not None and expectation is not None:
        timed = [
            (_labels(record, case.collective, case.size_bytes, case.placement.value), result)
            for case, result in record.timed
        ]
        rates = [(labels, result.busbw_gb_per_s) for labels, result in timed]
        lines += _metric("nccl_bus_bandwidth_gbs", "Bus bandwidth, GB/s of 10^9 bytes", rates)
        times_us = [(labels, (result.time_ns or 0.0) / 1e3) for labels, result in timed]
        what = "Time of a call, median over samples"
        lines += _metric("nccl_collective_exec_time_microseconds", what, times_us)
        ratios = [
            (_labels(record, each.key.collective, each.key.size_bytes, each.key.placement), each.ratio)
            for each in expectation.cases
        ]
        what = "Bus bandwidth over its level (reference or earlier runs)"
        lines += _metric("busbw_check_level_ratio", what, ratios)
        wrong = sum(result.wrong or 0 for result in record.results)
        lines += _metric("busbw_check_wrong_elements", "Wrong elements, all cases", [("", wrong)])
    lines += _metric(
        "busbw_check_exit_code", "0 as expected, 1 bad, 3 undecided, 4 and 5 not measured", [("", int(code))]
    )
    lines += _metric("busbw_check_timestamp_seconds", "When the check ended", [("", round(now_s))])
    return "".join(f"{line}\n" for line in lines)


def _labels(record: RunRecord, collective: str, size_bytes: int, placement: str) -> str:
    """Inspector's labels as far as a run has them."""
    world = record.world
    version = world.ranks[0].library_version if world is not None else ""
    values = {
        "version": version,
        "collective": "".join(word.capitalize() for word in collective.split("_")),
        "message_size": format_size(size_bytes).replace(" ", ""),
        "n_nodes": len(world.hosts) if world is not None else "",
        "nranks": world.size if world is not None else "",
        "placement": placement,
    }
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in values.items()) + "}"


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"\\{found[0]}", text).replace("\n", " ")


def _metric(name: str, what: str, values: Sequence[tuple[str, float | None]]) -> list[str]:
    rows = [f"{name}{labels} {value:.10g}" for labels, value in values if value is not None]
    return [f"# HELP {name} {what}", f"# TYPE {name} gauge", *rows] if rows else []
