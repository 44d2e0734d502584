"""What a run comes to, in at most three sentences: the peak and whether it is as expected, what is wrong, and
what to type next. Pure: from a record and what was concluded about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from busbw.judge.compare_arms import key_of
from busbw.judge.diagnose.variance import UNSTABLE
from busbw.judge.expectation import Expectation, Judged, Judgement
from busbw.judge.launch_history import EARLIER_RUNS
from busbw.judge.scatter import assumption
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.conclusion import Conclusion, Question
from busbw.model.finding import Severity
from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import CaseResult, Status
from busbw.report.fields import remark
from busbw.units import first_of, format_gb_per_s, format_share, format_size, were

NO_REFERENCE: Final = "no saved reference matches this operation, job size and device"
_COLUMNS: Final = 100
_PROFILED: Final = "a profiler was attached, so it is not compared"
_ALONE: Final = "one rank copies within its own memory, and nothing travels"
_MOST_PROBLEMS: Final = 2
# What these find is said by the first sentence, by the counts of cases, or below the table.
_SAID: Final = ("expected.reference", "expected.data", "expected.failed")
_ASKED: Final = (Question.EXPECTED, Question.LINKS, Question.RANKS)


@dataclass(frozen=True)
class RunAnswer:
    """``verdict`` is one of Judgement; ``against`` names what the run was held against. ``loss_unseen`` is
    the share of the expected that may be missing at the peak without showing; None where nothing is expected.
    ``peak_gb_per_s`` is the highest bus bandwidth (of one rank: the highest algorithm bandwidth).
    """

    verdict: str
    peak_gb_per_s: float | None
    peak_size_bytes: int | None
    against: tuple[str, ...]
    loss_unseen: float | None
    answer: str
    problems: tuple[str, ...]
    next: str


def answer_of(
    record: RunRecord, expectation: Expectation, conclusions: Sequence[Conclusion], name: str
) -> RunAnswer:
    """The answer of a run, which commands call ``name``."""
    asked = [pair for pair in record.timed if not pair[0].even]
    peak = max(filter(_bandwidth, asked), key=_bandwidth, default=None)
    is_alone = peak is not None and peak[1].busbw_gb_per_s is None
    key = key_of(peak[0]).plain if peak is not None and not is_alone else None
    at_peak = next((each for each in expectation.cases if each.key.plain == key), None)
    verdict, words = _verdict(expectation, at_peak)
    words = _PROFILED if record.profiled else _ALONE if is_alone else words
    problems = (*_broken(record), *_warned(conclusions))
    bad = bool(problems) or record.profiled or record.status is not RunStatus.COMPLETE
    return RunAnswer(
        verdict,
        _bandwidth(peak) if peak is not None else None,
        peak[0].size_bytes if peak is not None else None,
        tuple(reference.name for reference in expectation.references),
        at_peak.loss_unseen if at_peak is not None else None,
        f"{_peak_words(record, *peak)}: {words}" if peak is not None else "no case has a bandwidth",
        problems,
        _next("" if peak is None or is_alone else verdict, bad=bad, name=name),
    )


def _bandwidth(measured: tuple[Case, CaseResult]) -> float:
    """In GB/s; one rank has no bus bandwidth, and copies nothing in-place."""
    case, result = measured
    copied = result.algbw_gb_per_s if case.placement is Placement.OUT_OF_PLACE else None
    return result.busbw_gb_per_s or copied or 0.0


def _peak_words(record: RunRecord, case: Case, result: CaseResult) -> str:
    operations = {each.collective for each in record.plan.cases}
    of = f"{case.collective} " if len(operations) > 1 else ""
    rate = "" if result.busbw_gb_per_s is not None else " (algbw)"
    value = _bandwidth((case, result))
    return f"{of}{format_gb_per_s(value)} GB/s{rate} at {format_size(case.size_bytes)} {case.placement.value}"


def _verdict(expectation: Expectation, at_peak: Judged | None) -> tuple[str, str]:
    """One of Judgement, and its sentence: a run is as good as its worst case."""
    cases = expectation.cases
    below = sorted(
        (each for each in cases if each.answer is Judgement.BELOW), key=lambda each: each.ratio or 0
    )
    good = [each for each in cases if each.answer is Judgement.EXPECTED]
    undecided = [each for each in cases if each.answer is Judgement.UNDECIDED]
    names = [
        each.source if each.name.startswith(EARLIER_RUNS) else each.name for each in expectation.references
    ]
    against = ", ".join(dict.fromkeys(names))
    known = len(below) + len(good) + len(undecided)
    if below:
        worst = below[0]
        where = f"{format_size(worst.key.size_bytes)} {worst.key.placement}"
        share = format_share(worst.ratio or 0.0, decimals=0)
        return Judgement.BELOW, (
            f"below {against} in {len(below)} of {known} cases; the worst, {where}, has {share} of it"
            f"{_assumed(worst)}"
        )
    if good:
        told = at_peak if at_peak is not None and at_peak in good else good[-1]
        part = "" if len(good) == len(cases) else f" in {len(good)} of {len(cases)} cases"
        part += f", {len(undecided)} undecided" if undecided else ""
        at = "" if told is at_peak else f" at {format_size(told.key.size_bytes)}"
        missed = f"a loss under {told.loss_unseen or 0.0:.0%}{at} would not show{_assumed(told)}"
        return Judgement.EXPECTED, f"as expected{part} ({against}; {missed})"
    if undecided:
        return Judgement.UNDECIDED, f"undecided against {against}: {undecided[0].why}"
    limits = [each.limit.percent for each in cases if each.limit and each.limit.percent is not None]
    if limits:
        return Judgement.NO_REFERENCE, f"{max(limits):.0f} % of what the wires allow; {NO_REFERENCE}"
    return Judgement.NO_REFERENCE, NO_REFERENCE


def _assumed(judged: Judged) -> str:
    return "" if judged.assumed is None else f"; {assumption(judged.assumed)}"


def _broken(record: RunRecord) -> Iterator[str]:
    """What has no number, the worst first."""
    cases = len(record.plan.cases)
    for status, words in (
        (Status.WRONG, "gave wrong data: do not use them"),
        (Status.FAILED, "failed"),
        (Status.NOT_RUN, "{were} not measured"),
    ):
        if count := sum(result.status is status for result in record.results):
            yield f"{count} of {cases} cases {words.format(were=were(count))}"


def _warned(conclusions: Sequence[Conclusion]) -> Iterator[str]:
    """What links and ranks show to be wrong, and times that another run would not have."""
    for each in conclusions:
        asked = each.question in _ASKED or each.check == UNSTABLE
        if each.severity is not Severity.INFO and asked and each.check not in _SAID:
            yield each.claim


def _next(verdict: str, *, bad: bool, name: str) -> str:
    if verdict == Judgement.BELOW or bad:
        return f"busbw diagnose {name}"
    if verdict == Judgement.UNDECIDED:
        return f"busbw expect {name}"
    return f"busbw expect {name} --save NAME" if verdict == Judgement.NO_REFERENCE else f"busbw report {name}"


_WHY: Final = {
    "diagnose": "looks for the cause",
    "report": "writes a page to send",
    "expect": "shows every size",
    "save": "keeps this run as the reference",
}


def answer_lines(answer: Mapping[str, Any], columns: int = _COLUMNS) -> list[str]:
    """For the end of a table: every line begins with #, and fits so many columns."""
    words = str(answer["next"]).split()
    why = _WHY["save" if "--save" in words else words[1]]
    texts = [answer["answer"]]
    if problems := answer["problems"]:
        texts.append(f"problem: {first_of(problems, _MOST_PROBLEMS, '; ')}")
    texts.append(f"next: `{answer['next']}` {why}")
    return [line for text in texts for line in remark(text, columns)]
