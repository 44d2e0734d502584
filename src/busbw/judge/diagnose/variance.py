"""Are the times steady: the intervals, two modes, tails, disturbances."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from busbw.judge.diagnose import profiled
from busbw.judge.diagnose.subject import BUSBW, Subject, concluded, hint_of_tool
from busbw.judge.samples import Spread, spreads
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.finding import Severity
from busbw.model.mark import meaning
from busbw.model.result import CaseResult
from busbw.units import NS_PER_US, format_share, format_size, format_time

# Marks and conditions that say from outside of the times what disturbed them.
_LOST: Final = "descheduled"
_DELAYED: Final = "delayed"  # on purpose, by --arrival
_MORE_CALLS: Final = "leave -n out, or give more calls"
_MORE_TIME: Final = "give --case-time 5s, or look for what else uses the machine"
_DISTURBED: Final = (_DELAYED, "throttled", _LOST, "clock", "contended")
UNSTABLE: Final = "variance.unstable"
_PERCENTILE: Final = re.compile(r"p(\d+(?:\.\d+)?)")


def conclusions(subject: Subject) -> Iterator[Conclusion]:
    """See ``diagnose.engine.Rule``."""
    if subject.record.profiled:
        yield profiled.untrusted("variance.profiled")
        return
    busy = {case.index for case, _ in subject.busy}
    found = [each for each in spreads(subject.record, subject.samples) if each.case.index in busy]
    if not found:
        yield _without_spread(subject)
    else:
        yield _precision(subject, found)
        yield from _modes(found)
        yield from _tails(found)
    yield from unstable(subject)
    yield from _disturbances(subject)


def _without_spread(subject: Subject) -> Conclusion:
    """Of a run or log without samples."""
    source = subject.record.source
    if source is None:  # busbw keeps samples of whatever it times
        claim, hint = "no case has a time", "`busbw show RUN` says how each case ended"
        if any(result.samples for _, result in subject.busy):
            claim = "the samples are not in the run's folder"
            hint = "bring its folder `samples` here; where it is lost, measure again"
        return concluded(claim, hint=hint, check="variance.precision")
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
            hint=hint_of_tool(source.tool, Question.VARIANCE),
            check="variance.precision",
        )
    return concluded(
        f"{claim}, at {case.collective} {format_size(case.size_bytes)}",
        evidence="what the log's tool printed, without an interval",
        hint=BUSBW,
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


def _precision(subject: Subject, found: Sequence[Spread]) -> Conclusion:
    limits = subject.record.plan.limits
    known = [(width, each) for each in found if (width := each.result.half_width) is not None]
    if not known:
        return concluded(
            f"{max(each.samples for each in found)} samples a case are too few for an interval",
            hint=_MORE_CALLS,
            check="variance.precision",
            answer=Answer.UNDECIDED,
        )
    wide = [
        each
        for width, each in known
        if width > (limits.small_precision if each.headline_ns < limits.small_ns else limits.precision)
    ]
    width, worst = max(known, key=lambda pair: pair[0])
    size, asked = format_size(worst.case.size_bytes), format_share(limits.precision)
    fixed = bool(limits.calls)  # -n: nothing was asked of the interval
    beyond = f"than {asked}" if fixed else "than was asked for"
    missed = f", and wider {beyond} in {len(wide)} of {len(known)} cases" if wide else ""
    if without := len(found) - len(known):
        missed += f"; {without} more had too few independent samples"
    return concluded(
        f"the 95 % interval is {format_share(width)} of the time at most, at {size}{missed}",
        evidence=f"half widths; {'held against' if fixed else 'asked for'} {asked},"
        f" {format_share(limits.small_precision)} below {limits.small_ns / NS_PER_US:.0f} us",
        hint=(_MORE_CALLS if fixed else _MORE_TIME) if missed else "",
        check="variance.precision",
        answer=Answer.UNDECIDED if 2 * (len(wide) + without) > len(found) else Answer.YES,
        facts=(
            Fact("widest half width", round(width, 5), source="order statistics of the median"),
            Fact("largest CV", round(max(each.cv for each in found), 5), source="standard deviation / mean"),
            Fact("cases wider than asked", len(wide)),
        ),
        case=worst.case.index,
    )


def _modes(found: Sequence[Spread]) -> Iterator[Conclusion]:
    two = [(each, each.modes) for each in found if each.modes is not None]
    if not two:
        return
    most = 2 * len(two) > len(found)  # single cases say so in their rows
    worst, modes = max(two, key=lambda pair: pair[1].high.centre / pair[1].low.centre)
    shown = f"{format_share(modes.low.weight, decimals=0)} near {format_time(modes.low.centre, 4)} and"
    yield concluded(
        f"{len(two)} of {len(found)} cases have two modes; {_name(worst)}:"
        f" {shown} {format_share(modes.high.weight, decimals=0)} near {format_time(modes.high.centre, 4)}",
        evidence="a gap of more than 5 MAD with a tenth of the samples on either side",
        hint="look for two algorithms, a clock that switches, or a neighbour: `busbw show RUN --histogram`",
        check="variance.modes",
        answer=Answer.NO if most else Answer.ASIDE,
        facts=tuple(
            Fact(_name(each), round(own.high.centre / own.low.centre, 4), "upper / lower mode")
            for each, own in two
        ),
        case=worst.case.index,
    )


def _tails(found: Sequence[Spread]) -> Iterator[Conclusion]:
    """How far slow samples take the mean from the median. It is no answer: the headline is the median."""
    bounded = [(each, each.result.high_ns) for each in found]
    lifted = [each for each, high in bounded if each.far and high is not None and each.mean_ns > high]
    if not lifted:
        return
    worst = max(lifted, key=lambda each: each.mean_ns / each.headline_ns)
    median = "their median" + (" without disturbed ones" if worst.result.excluded else "")
    calls = "one call" if worst.calls_per_sample == 1 else f"{worst.calls_per_sample} calls"
    single = ""
    if (tail := worst.tail) is not None:
        p99 = "" if tail.p99_ns is None else f"p99 {format_time(tail.p99_ns, 4)}, "
        single = f". Of {tail.calls} single calls: {p99}slowest {format_time(tail.max_ns, 4)}"
    yield concluded(
        f"slow samples lift the mean out of the median's interval in {len(lifted)} of {len(found)} cases;"
        f" {_name(worst)}, all {worst.samples} samples of {calls}: mean"
        f" {format_time(worst.mean_ns, 4)}, slowest {format_time(worst.max_ns, 4)}, {median}"
        f" {format_time(worst.headline_ns, 4)}",
        evidence=f"samples beyond 14.8 MAD{single}",
        hint="see them with `busbw show RUN --histogram`; --stats p99 times single calls",
        check="variance.tails",
        answer=Answer.ASIDE,
        facts=tuple(Fact(_name(each), each.far, f"of {each.samples} samples") for each in lifted),
        case=worst.case.index,
    )


def _name(each: Spread) -> str:
    return f"{each.case.collective} {format_size(each.case.size_bytes)}"


def unstable(subject: Subject) -> Iterator[Conclusion]:
    """A run is unsteady where most cases are whose pace links set; single cases say so in their rows. Nothing
    is said of a run under a profiler.
    """
    floor_ns = subject.record.plan.limits.small_ns
    slow = [result for _, result in subject.busy if (result.time_ns or 0.0) >= floor_ns]
    marked = [result for result in slow if "unstable" in result.marks]
    if not marked or subject.record.profiled:
        return
    most = 2 * len(marked) > len(slow)
    of = f"of {len(slow)} cases above {floor_ns / NS_PER_US:.0f} us"
    yield concluded(
        f"{len(marked)} {of} are unstable: another run may differ by more than +-"
        if most
        else f"unstable in {len(marked)} {of}",
        evidence=meaning("unstable"),
        check=UNSTABLE,
        answer=Answer.NO if most else Answer.ASIDE,
        facts=(Fact("cases", len(marked)),),
    )


def _disturbances(subject: Subject) -> Iterator[Conclusion]:
    """Samples without a core are no part of a time where they could be left out, and change no answer."""
    cases = len(subject.busy)
    left_out = [result.excluded for _, result in subject.busy if _LOST in result.marks and result.excluded]
    if left_out:
        yield concluded(
            f"in {len(left_out)} of {cases} cases, samples taken while a rank was descheduled were dropped",
            evidence=meaning(_LOST),
            check=f"variance.{_LOST}",
            answer=Answer.ASIDE,
            facts=(Fact("samples left out", sum(left_out)),),
        )
    counts = Counter(
        mark
        for _, result in subject.busy
        for mark in (*result.marks, *result.conditions)
        if mark in _DISTURBED and not (mark == _LOST and result.excluded)
    )
    for mark, count in counts.items():
        asked = mark == _DELAYED and subject.record.plan.timing.arrival != "none"
        found = Answer.NO if 2 * count > cases else Answer.UNDECIDED
        yield concluded(
            f"{mark} in {count} of {cases} cases",
            severity=Severity.INFO if asked else Severity.WARNING,
            evidence=meaning(mark),
            check=f"variance.{mark}",
            answer=Answer.ASIDE if asked else found,
            facts=(Fact("cases", count),),
        )
