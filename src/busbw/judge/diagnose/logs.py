"""What other tools would have told, and by which option: hints for their logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from busbw.judge.diagnose.subject import Subject
from busbw.model.case import Case
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.finding import Severity
from busbw.model.result import CaseResult, StopReason
from busbw.units import NS_PER_US, format_share, format_size

_TUNING: Final = "run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING and import that log"
_MPI: Final = "MPI libraries do not tell"
_BUSBW: Final = "busbw keeps every sample, and times of each rank"
_NCCL_TESTS: Final = {
    Question.ALGORITHM: _TUNING,
    Question.VARIANCE: f"nccl-tests tells it with -I 1 (2.19 and newer); {_BUSBW}",
}
_HINTS: Final[Mapping[str, Mapping[Question, str]]] = {
    "nccl-tests": _NCCL_TESTS,
    "rccl-tests": {Question.ALGORITHM: _TUNING},
    "nccom-test": {
        Question.ALGORITHM: "nccom-test does not tell",
        Question.VARIANCE: f"nccom-test tells percentiles with --stats p50 p99; {_BUSBW}",
    },
    "osu": {Question.ALGORITHM: _MPI, Question.VARIANCE: f"OSU tells it with -f and -z; {_BUSBW}"},
    "imb": {Question.ALGORITHM: _MPI},
}


def hint(tool: str, question: Question) -> str:
    """What to try with ``tool`` for an answer; busbw itself where that tool has none."""
    return _HINTS.get(tool, {}).get(question, _BUSBW)


# How steady times are where there are no samples: what a log's tool printed, or why a run has none.

_PERCENTILE: Final = re.compile(r"p(\d+(?:\.\d+)?)")
# Whose least and largest times these are, where it is not those of calls.
_OF_RANKS: Final = ("osu", "imb")


def precision(subject: Subject) -> Conclusion:
    """Of a run or log without samples."""
    source = subject.record.source
    if source is None:
        return _without_samples(subject)
    for found in (_cv(subject), _percentiles(subject), _ends(subject, source.tool)):
        if found is not None:
            return found
    return Conclusion(
        Severity.INFO,
        "one mean a size is all there is: how calls vary is not in it",
        hint=hint(source.tool, Question.VARIANCE),
        check="variance.precision",
    )


def _without_samples(subject: Subject) -> Conclusion:
    """A run of busbw keeps samples of whatever it times: they are elsewhere or lost, or nothing was timed."""
    kept = [result.samples for _, result in subject.busy if result.samples]
    claim, hint = "no case has a time", "`busbw show RUN` says how each case ended"
    if kept:
        claim = f"the samples of {len(kept)} cases ({sum(kept)} in all) are not in the run's folder"
        hint = "bring its folder `samples` here; where it is lost, measure again"
    elif any(result.stop is StopReason.CHECK_ONLY for result in subject.record.results):
        claim, hint = "nothing was timed (-n 0)", "leave -n out"
    return Conclusion(
        Severity.INFO,
        claim,
        hint=hint,
        check="variance.precision",
        facts=(Fact("samples missing", sum(kept)),) if kept else (),
    )


def _cv(subject: Subject) -> Conclusion | None:
    cvs = [(cv, case) for case, result in subject.busy if (cv := result.stats.get("cv")) is not None]
    if not cvs:
        return None
    value, case = max(cvs, key=lambda pair: pair[0])
    return _told(
        f"the log's coefficient of variation is {format_share(value)} at most, at"
        f" {format_size(case.size_bytes)}",
        "single calls as the log's tool timed them, without an interval",
        Fact("largest CV", round(value, 4), source="the log"),
        case,
    )


def _percentiles(subject: Subject) -> Conclusion | None:
    """The highest percentile that the log has over its lowest one."""
    found = [(*ends, case) for case, result in subject.busy for ends in _of_calls(result)]
    if not found:
        return None
    low, high, first, last, case = max(found, key=lambda each: each[1] / each[0])
    return _told(
        f"the log's {last} is {high / low:.3g} times its {first} at most, at {format_size(case.size_bytes)}"
        f" ({low / NS_PER_US:.4g} and {high / NS_PER_US:.4g} us)",
        "calls as the log's tool timed them, without an interval",
        Fact(f"{last} over {first}", round(high / low, 4), source="the log"),
        case,
    )


def _of_calls(result: CaseResult) -> Iterator[tuple[float, float, str, str]]:
    known = sorted(
        (float(match[1]), name, value)
        for name, value in result.stats.items()
        if value and (match := _PERCENTILE.fullmatch(name))
    )
    if len(known) > 1:
        yield known[0][2], known[-1][2], known[0][1], known[-1][1]
    elif known and result.time_ns:
        yield result.time_ns, known[0][2], "time", known[0][1]


def _ends(subject: Subject, tool: str) -> Conclusion | None:
    found = [
        (low, high, case)
        for case, result in subject.busy
        if (low := result.stats.get("min")) and (high := result.stats.get("max")) and tool not in _OF_RANKS
    ]
    if not found:
        return None
    low, high, case = max(found, key=lambda each: each[1] / each[0])
    return _told(
        f"the log's largest time is {high / low:.3g} times its least at most, at"
        f" {format_size(case.size_bytes)} ({low / NS_PER_US:.4g} and {high / NS_PER_US:.4g} us)",
        "calls as the log's tool timed them, without an interval",
        Fact("largest over least", round(high / low, 4), source="the log"),
        case,
        hint=hint(tool, Question.VARIANCE),
    )


def ranks(subject: Subject) -> Conclusion | None:
    """The least and the largest of the ranks' means, where a log has these: no noise is known beside them."""
    source = subject.record.source
    found = [
        (high / low, low, high, case)
        for case, result in subject.busy
        if (low := result.stats.get("min")) and (high := result.stats.get("max"))
    ]
    if source is None or source.tool not in _OF_RANKS or not found:
        return None
    ratio, low, high, case = max(found, key=lambda each: each[0])
    return Conclusion(
        Severity.INFO,
        f"the slowest rank's mean is {ratio:.3g} times the quickest's at most, at"
        f" {case.collective} {format_size(case.size_bytes)}"
        f" ({low / NS_PER_US:.4g} and {high / NS_PER_US:.4g} us)",
        evidence="minimum and maximum over ranks, of each rank's mean, without an interval",
        hint=hint(source.tool, Question.RANKS),
        check="ranks.spread",
        answer=Answer.UNDECIDED,
        facts=(Fact("largest over least", round(ratio, 4), source="the log"),),
        case=case.index,
    )


def _told(claim: str, evidence: str, fact: Fact, case: Case, hint: str = "") -> Conclusion:
    return Conclusion(
        Severity.INFO,
        claim,
        evidence=evidence,
        hint=hint,
        check="variance.precision",
        answer=Answer.UNDECIDED,
        facts=(fact,),
        case=case.index,
    )
