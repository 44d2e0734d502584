"""Is the run whole: did it come to its end, and is everything that it measured still there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from busbw.judge.diagnose.subject import Subject, concluded
from busbw.judge.samples import missing_samples
from busbw.model.conclusion import Answer, Conclusion, Fact
from busbw.model.finding import Severity
from busbw.model.record import DOUBTS, INCOMPLETE, JOB_FAILED, RunRecord, RunStatus
from busbw.model.result import Status
from busbw.units import first_of, were

_SHOWN: Final = 3
_ENDED: Final = {
    RunStatus.RUNNING: "the record has no end: the run goes on, or was killed",
    RunStatus.FAILED: "the run failed",
    RunStatus.INTERRUPTED: "the run was interrupted",
}


def conclusions(subject: Subject) -> Iterator[Conclusion]:
    """See ``diagnose.engine.Rule``."""
    record = subject.record
    yield from (found := [*_status(record), *_log(record), *_samples(subject), *_exports(subject)])
    if not found:
        cases = len(record.plan.cases)
        every = "the one case" if cases == 1 else f"all {cases} cases"
        there = f"{every} of the {'log' if record.source else 'plan'} {'is' if cases == 1 else 'are'} there"
        claim = there if cases else "the run came to its end"  # a hunt has rounds instead of cases
        yield concluded(claim, check="whole.status", answer=Answer.YES)
    # Where a log says two things that cannot both be, its rows were followed.
    for each in record.source.findings if record.source is not None else ():
        if each.kind in DOUBTS:
            yield concluded(
                each.text,
                severity=Severity.WARNING,
                evidence=f"line {each.line} of the log" if each.line else "",
                check="whole.labels",
                answer=Answer.ASIDE,
            )


def _exports(subject: Subject) -> Iterator[Conclusion]:
    """What ``--profile nsys`` was to leave: a report of every rank, exported."""
    if subject.record.plan.profile != "nsys" or subject.record.status is RunStatus.RUNNING:
        return
    if subject.exports is not None and (missing := subject.ranks - subject.exports) > 0:
        yield concluded(
            f"{missing} of {subject.ranks} ranks left no export of Nsight Systems",
            evidence="--profile nsys leaves evidence/nsys/rank-*.sqlite in the run folder",
            hint="log/ranks.log has what nsys said; is it the real one on the ranks' PATH, and is the disk"
            " full?",
            check="whole.profiles",
            answer=Answer.NO,
        )


def _status(record: RunRecord) -> Iterator[Conclusion]:
    """How it ended, where that was not by itself, and the cases that it did not come to."""
    cases, missing = len(record.plan.cases), len(record.unmeasured)
    died = record.source is not None and bool(record.error)
    ended = "" if died and record.status is not RunStatus.COMPLETE else _ENDED.get(record.status, "")
    if record.status is RunStatus.FAILED and not record.error and not missing:
        ended = ""  # failed cases have a conclusion of their own
    failed = sum(each.status is Status.FAILED for each in record.results)
    counts = ((missing, f"{were(missing)} not measured"), (failed, "failed"))
    left = "; ".join(f"{count} of {cases} cases {how}" for count, how in counts if count)
    claim = "; ".join(filter(None, (": ".join(filter(None, (ended, record.error))), left)))
    if not claim:
        return
    reasons = dict.fromkeys(each.error for each in record.results if each.case in record.unmeasured)
    severity, answer = Severity.INFO, Answer.UNDECIDED  # it ended as planned
    if ended or record.error:
        severity = Severity.ERROR if died or record.status is RunStatus.FAILED else Severity.WARNING
        answer = Answer.NO
    hint = "`busbw show RUN` has the cases that were measured; run it again for the others" if missing else ""
    if record.source is not None:
        hint = "the lines around it in the log say more; cases that the test did not reach are not known"
    yield concluded(
        claim,
        severity=severity,
        evidence="; ".join(list(filter(None, reasons))[:_SHOWN]),
        hint=record.hint or hint,
        check="whole.status",
        answer=answer,
        facts=(
            Fact("status", record.status.value),
            Fact("cases", cases),
            Fact("cases not measured", missing),
        ),
    )


def _log(record: RunRecord) -> Iterator[Conclusion]:
    """What a log lost, or never had; and what a launcher said behind a table that came to its end."""
    noticed = record.source.findings if record.source is not None else ()
    lost = [each for each in noticed if each.kind in INCOMPLETE and each.text != record.error]
    if lost:
        texts = (f"line {each.line}: {each.text}" if each.line else each.text for each in lost)
        yield concluded(
            f"the log is not whole: {first_of(texts, _SHOWN, '; ')}",
            hint="import the whole log; an excerpt is judged by what it has",
            check="whole.log",
            answer=Answer.NO,
            facts=tuple(Fact(each.kind, each.line, source="line of the log") for each in lost),
        )
    for each in noticed:
        if each.kind == JOB_FAILED:
            evidence = f"line {each.line} of the log, below the whole table"
            yield concluded(each.text, evidence=evidence, check="whole.job", answer=Answer.NO)


def _samples(subject: Subject) -> Iterator[Conclusion]:
    """Samples that were kept and are gone, all or some of them."""
    short = missing_samples(subject.record, subject.samples, subject.digests) if len(subject.samples) else ()
    claims = subject.absent or tuple(map(str, short))
    if not claims:
        return
    yield concluded(
        first_of(claims, _SHOWN, "; "),
        hint="bring the run's folder `samples` here again, or measure again",
        check="whole.samples",
        answer=Answer.NO,
        facts=tuple(Fact(f"case {each.case}", each.found, f"of {each.expected} records") for each in short),
    )
