"""What other tools can report, and by which option: hints for their logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from busbw.judge.diagnose.subject import Subject, concluded
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.result import CaseResult, StopReason
from busbw.units import counted, format_share, format_size, format_time

_TUNING: Final = "run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING and import that log"
_MPI: Final = "MPI does not report its algorithm"
_BUSBW: Final = "busbw keeps every sample, and times of each rank"
_NCCL_TESTS: Final = {
    Question.ALGORITHM: _TUNING,
    Question.VARIANCE: f"nccl-tests shows it with -I 1 (2.19 and newer); {_BUSBW}",
}
_HINTS: Final[Mapping[str, Mapping[Question, str]]] = {
    "nccl-tests": _NCCL_TESTS,
    "rccl-tests": {Question.ALGORITHM: _TUNING},
    "nccom-test": {
        Question.ALGORITHM: "nccom-test does not report it",
        Question.VARIANCE: f"nccom-test shows percentiles with --stats p50 p99; {_BUSBW}",
    },
    "osu": {Question.ALGORITHM: _MPI, Question.VARIANCE: f"OSU shows it with -f and -z; {_BUSBW}"},
    "imb": {Question.ALGORITHM: _MPI},
}


def hint(tool: str, question: Question) -> str:
    """What to try with ``tool`` for an answer; busbw itself where that tool has none."""
    return _HINTS.get(tool, {}).get(question, _BUSBW)


# How steady times are where there are no samples: what a log's tool printed, or why a run has none.

_PERCENTILE: Final = re.compile(r"p(\d+(?:\.\d+)?)")


def precision(subject: Subject) -> Conclusion:
    """Of a run or log without samples."""
    source = subject.record.source
    if source is None:
        return _without_samples(subject)
    cvs = [(cv, case) for case, result in subject.busy if (cv := result.stats.get("cv")) is not None]
    ends = [(*found, case) for case, result in subject.busy if (found := _percentiles(result)) is not None]
    if cvs:
        value, case = max(cvs, key=lambda pair: pair[0])
        claim = f"the log's coefficient of variation is {format_share(value)} at most"
        fact = Fact("largest CV", round(value, 4), source="the log")
    elif ends:
        low, high, first, last, case = max(ends, key=lambda each: each[1] / each[0])
        claim = f"the log's {last} ({format_time(high, 4)}) is {high / low:.3g} times its {first} at most"
        fact = Fact(f"{last} over {first}", round(high / low, 4), source="the log")
    else:
        return concluded(
            "the log has one mean a size, which does not show how calls vary",
            hint=hint(source.tool, Question.VARIANCE),
            check="variance.precision",
        )
    return concluded(
        f"{claim}, at {case.collective} {format_size(case.size_bytes)}",
        evidence="what the log's tool printed, without an interval",
        hint=_BUSBW,
        check="variance.precision",
        answer=Answer.UNDECIDED,
        facts=(fact,),
        case=case.index,
    )


def _percentiles(result: CaseResult) -> tuple[float, float, str, str] | None:
    """The lowest and the highest percentile that the log has, in ns, and their names; the only one beside the
    time.
    """
    known = sorted(
        (float(match[1]), name, value)
        for name, value in result.stats.items()
        if value and (match := _PERCENTILE.fullmatch(name))
    )
    if len(known) > 1:
        return known[0][2], known[-1][2], known[0][1], known[-1][1]
    return (result.time_ns, known[0][2], "time", known[0][1]) if known and result.time_ns else None


def _without_samples(subject: Subject) -> Conclusion:
    """A run of busbw keeps samples of whatever it times: they are elsewhere or lost, or nothing was timed."""
    kept = [result.samples for _, result in subject.busy if result.samples]
    claim, hint = "no case has a time", "`busbw show RUN` says how each case ended"
    if kept:
        cases = counted(len(kept), "case")
        claim = f"the samples of {cases} ({sum(kept)} in all) are not in the run's folder"
        hint = "bring its folder `samples` here; where it is lost, measure again"
    elif any(result.stop is StopReason.CHECK_ONLY for result in subject.record.results):
        claim, hint = "nothing was timed (-n 0)", "leave -n out"
    return concluded(
        claim,
        hint=hint,
        check="variance.precision",
        facts=(Fact("samples missing", sum(kept)),) if kept else (),
    )
