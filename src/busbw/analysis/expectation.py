"""Is this number to be expected? A run against references of the same kind, and against the wires.

Only what matches is compared: operation, type, number of ranks, nodes and device where both are known. A
reference that was published as a log is one launch elsewhere, so a run may be 10 % below it; one that was
made here from several launches says how launches differ, so a run is below where the geometric mean of its
launches is below the prediction interval for that of as many launches, and by more than 5 %, unless its own
interval holds that bound. Where the prediction interval is too wide to be a gate, nothing is "expected", and
where references contradict one another, nothing is decided. "No reference" is an answer too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from busbw.analysis import compare_arms
from busbw.analysis.compare_arms import Arm, CaseKey, make_arm
from busbw.analysis.compare_notes import failures_of
from busbw.analysis.gates import Bound, Gate
from busbw.analysis.layout import Layout, layout_of
from busbw.analysis.limits import Limit, limit
from busbw.analysis.matching import kind_of, match, notes, other_case
from busbw.analysis.observed import Observed
from busbw.analysis.rotation import cached, rotated_bytes
from busbw.analysis.timed import LAUNCH_PATH_NS, other_buffers, otherwise
from busbw.analysis.ways import ways_of
from busbw.analysis.wires import Wires, wires_of
from busbw.model.record import RunRecord
from busbw.model.result import Status
from busbw.references.reference import Expected, Reference, value_at
from busbw.stats.launches import launch_interval
from busbw.stats.prediction import MOST_LAUNCHES, WIDEST, least_share, more_launches

# Below one launch, which does not say how launches differ: nccl-tests' own gate (NCCL_TESTS_MIN_BW) has 0.9.
ONE_LAUNCH_TOLERANCE: Final = 0.10
OWN_TOLERANCE: Final = 0.05  # below several launches, or what their scatter asks for


class Answer(StrEnum):
    """What is to be said of a case."""

    EXPECTED = "expected"
    BELOW = "NOT EXPECTED"
    ABOVE = "above"
    UNDECIDED = "undecided"
    NO_REFERENCE = "no reference"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Judged:
    """One case. ``ratio`` is measured / expected busbw; ``bound_gb_per_s`` is what had to be reached;
    both are of ``reference``, the best of all ``references`` that have the case.
    """

    key: CaseKey
    answer: Answer
    why: str
    measured_gb_per_s: float | None = None
    low_gb_per_s: float | None = None
    high_gb_per_s: float | None = None
    launches: int = 0
    reference: str = ""
    references: tuple[str, ...] = ()
    expected_gb_per_s: float | None = None
    interpolated: bool = False
    bound_gb_per_s: float | None = None
    limit: Limit | None = None
    algorithm: str = ""

    @property
    def ratio(self) -> float | None:
        """Measured over expected; 0.7 is 30 % below."""
        if self.measured_gb_per_s is None or not self.expected_gb_per_s:
            return None
        return self.measured_gb_per_s / self.expected_gb_per_s


@dataclass(frozen=True)
class Unlike:
    """How a reference was timed otherwise than the run, and its buffers lay otherwise; empty where alike."""

    timed: str
    buffers: str


@dataclass(frozen=True)
class Expectation:
    """A run against its references. ``fitting`` are the names of those that match, whatever their sizes;
    ``unmatched`` says why others do not: those that were asked for, else those of its operation, ranks, nodes
    and device. ``notes`` say what failed before it had a case, what was taken on trust, and what a log
    lacks.
    """

    arm: Arm
    cases: tuple[Judged, ...]
    references: tuple[Reference, ...]
    wires: Wires
    unmatched: Mapping[str, str]
    fitting: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def count(self, answer: Answer) -> int:
        """Cases with this answer."""
        return sum(case.answer is answer for case in self.cases)


def expect(
    records: Sequence[RunRecord],
    references: Sequence[Reference],
    *,
    known: Sequence[Reference] = (),
    named: bool = False,
    same_version: bool = False,
    tolerance: float | None = None,
    wires: Wires | None = None,
) -> Expectation:
    """Judge every case of a run (one record, or several of one launch each).

    ``named``: the user chose the references: then only what contradicts them keeps them from being used, and
    what the run does not say is taken on trust and noted. Otherwise everything must be known and equal.
    ``known`` are published logs: a run that is one of them has that one's machine and versions, and is not
    held against what was measured together with it.
    ``same_version`` leaves out references of another version of the library, or of none.
    ``tolerance`` replaces the two above. Raises UsageError where the records are not one run.
    """
    first = records[0]
    arm = make_arm(first.run_id or "run", records)
    kind = kind_of(first, known)
    matched = match(records, arm, kind, references, known, named=named, same_version=same_version)
    if wires is None:
        wires = wires_of(first.machine, variables_of(first), ways_of(first))
    algorithms = _algorithms(records)
    unlike = {
        each.name: Unlike(otherwise(first, each), other_buffers(arm.buffers, each))
        for each in matched.fitting
    }
    layout = layout_of(first, first.plan.groups, kind.nodes, variables_of(first))
    cases = [
        _limited(
            _judge(key, seen, arm, matched.fitting, tolerance, unlike, rotated_bytes(records)),
            layout, algorithms.get(key, ""), wires,
        )
        for key, seen in arm.cases.items()
    ]  # fmt: skip
    names = {name for case in cases for name in case.references}
    used = tuple(reference for reference in matched.fitting if reference.name in names)
    return Expectation(
        arm,
        _unless_refuted(cases),
        used,
        wires,
        matched.reasons if named else matched.near,
        tuple(reference.name for reference in matched.fitting),
        (
            *failures_of(arm),
            *arm.lacking,
            *matched.notes,
            *notes(kind, used),
            *(why for each in used for why in (unlike[each.name].timed, unlike[each.name].buffers) if why),
        ),
    )


def _judge(
    key: CaseKey,
    seen: Observed,
    arm: Arm,
    references: Sequence[Reference],
    tolerance: float | None,
    unlike: Mapping[str, Unlike],
    rotated: int,
) -> Judged:
    """``unlike`` are the references' by name; ``rotated`` is through how many bytes the run's calls did."""
    judged = _measured(key, seen, arm)
    if not seen.times_ns or judged.measured_gb_per_s is None:
        failed = seen.status in (Status.FAILED, Status.WRONG) or bool(seen.error)
        return replace(judged, answer=Answer.FAILED if failed else Answer.NO_REFERENCE, why=seen.error)
    found = [
        _unless_cached(
            _unless_unlike(against(judged, reference, expected, tolerance), seen, unlike[reference.name]),
            *cached(rotated, reference, key.size_bytes),
        )
        for reference, expected in _known(key, arm, references)
    ]
    if not found:
        return replace(judged, why=_none_of(key, arm, references))
    return _agreed(found)


def _unless_unlike(judged: Judged, seen: Observed, unlike: Unlike) -> Judged:
    """Where buffers lay otherwise nothing is decided. Where the two were timed otherwise, nothing is of a
    size at which that alone can be the difference: launching takes a larger part of the expected time than a
    run may be below.
    """
    if unlike.buffers:
        return replace(judged, answer=Answer.UNDECIDED, why=unlike.buffers)
    why = unlike.timed
    if not why or seen.time_ns is None or not judged.expected_gb_per_s or judged.bound_gb_per_s is None:
        return judged
    expected_ns = seen.time_ns * (judged.ratio or 0.0)
    if expected_ns * (1 - judged.bound_gb_per_s / judged.expected_gb_per_s) >= LAUNCH_PATH_NS:
        return judged
    return replace(judged, answer=Answer.UNDECIDED, why=why)


def _unless_cached(judged: Judged, why: str, theirs: bool) -> Judged:
    """Where caches helped one of the two, what that alone can explain is not decided: a run below a reference
    that was in caches (``theirs``), or one that came up to another thanks to them.
    """
    helped = judged.answer is Answer.BELOW if theirs else judged.answer in (Answer.EXPECTED, Answer.ABOVE)
    return replace(judged, answer=Answer.UNDECIDED, why=why) if why and helped else judged


def _agreed(found: Sequence[Judged]) -> Judged:
    """One answer of all references that have the case, the best first. Those that decide must not contradict
    one another: then which of them is right is not for us to say.
    """
    decided = [each for each in found if each.answer is not Answer.UNDECIDED]
    below = [each for each in decided if each.answer is Answer.BELOW]
    best = (decided or found)[0]
    names = (best.reference, *(each.reference for each in found if each is not best))
    if below and len(below) < len(decided):
        told = "; ".join(
            f"{each.reference} has {each.expected_gb_per_s:.4g} GB/s: {each.answer}" for each in decided
        )
        return replace(
            best, answer=Answer.UNDECIDED, why=f"references disagree: {told}; name one", references=names
        )
    return replace(best, references=names)


def _measured(key: CaseKey, seen: Observed, arm: Arm) -> Judged:
    """Bandwidths from times, so that all launches give theirs: of several launches that of the geometric mean
    of their times, as a reference's is.
    """
    judged = Judged(key, Answer.NO_REFERENCE, "")
    if not seen.times_ns or arm.ranks < 2:
        return judged
    busbw, time_ns = seen.busbw_gb_per_s, seen.time_ns
    if busbw is None or time_ns is None:
        return judged
    bytes_ = busbw * time_ns  # busbw = these bytes / time, whatever the operation
    interval = launch_interval(seen.times_ns)
    low_ns, high_ns = seen.interval or (None, None)
    if interval is not None:
        time_ns, low_ns, high_ns = interval.centre, interval.low, interval.high
    return replace(
        judged,
        measured_gb_per_s=bytes_ / time_ns,
        low_gb_per_s=None if high_ns is None else bytes_ / high_ns,
        high_gb_per_s=None if low_ns is None else bytes_ / low_ns,
        launches=len(seen.times_ns),
    )


def _none_of(key: CaseKey, arm: Arm, references: Sequence[Reference]) -> str:
    """Why none of the references that fit the run has a case; empty where none fits."""
    others = {reference.name: other_case(key, arm.where, reference) for reference in references}
    own = [reference for reference in references if not others[reference.name]]
    if any(point.placement == key.placement for reference in own for point in reference.points):
        return "no reference has this size"
    if own:
        return f"no reference has {key.placement}"
    return "; ".join(f"{name}: {why}" for name, why in others.items())


def _known(key: CaseKey, arm: Arm, references: Sequence[Reference]) -> list[tuple[Reference, Expected]]:
    """All that have the case: first the one with the most launches, then with the exact size, then the
    newest; one without a date is no newest.
    """
    found = []
    for reference in references:
        if other_case(key, arm.where, reference):
            continue
        expected = value_at(reference, key.size_bytes, key.placement)
        if expected is not None:
            date = reference.date if reference.date[:1].isdecimal() else ""
            order = (expected.launches, not expected.interpolated, date)
            found.append((order, reference, expected))
    ordered = sorted(found, key=lambda item: item[0], reverse=True)
    return [(reference, expected) for _, reference, expected in ordered]


def against(judged: Judged, reference: Reference, expected: Expected, tolerance: float | None) -> Judged:
    """One case against one reference. Where its launches scatter so much that the next one may be below
    ``WIDEST`` (or the tolerance, if that was asked to be wider), it can contradict and not confirm.
    """
    deviation = expected.log_deviation
    knows_scatter = deviation is not None
    if tolerance is None:
        tolerance = OWN_TOLERANCE if knows_scatter else ONE_LAUNCH_TOLERANCE
    noise = 1.0 if deviation is None else least_share(deviation, expected.launches, judged.launches)
    judged = replace(
        judged,
        reference=reference.name,
        expected_gb_per_s=expected.busbw_gb_per_s,
        interpolated=expected.interpolated,
        bound_gb_per_s=expected.busbw_gb_per_s * min(1 - tolerance, noise),
    )
    answered = _answered(judged, noise_in_bound=knows_scatter)
    widest = max(WIDEST, tolerance)
    if noise >= 1 - widest or answered.answer is not Answer.EXPECTED:
        return answered
    return replace(answered, answer=Answer.UNDECIDED, why=_too_wide(expected, judged.launches, widest))


def _too_wide(expected: Expected, launches: int, widest: float) -> str:
    assert expected.log_deviation is not None
    more = more_launches(expected.log_deviation, expected.launches, launches, widest)
    if more is None:
        how = f"{MOST_LAUNCHES} launches of each would not do"
    elif more.new:
        how = f"about {_more(more.known)} of it and {more.new} more of the run would do"
    else:
        how = f"about {_more(more.known)} of it would do"
    return (
        f"the reference scatters too much ({expected.log_deviation:.1%} over {expected.launches} launches):"
        f" {how}"
    )


def _more(launches: int) -> str:
    return f"{launches} more launch{'es' if launches != 1 else ''}"


def _answered(judged: Judged, *, noise_in_bound: bool) -> Judged:
    """``noise_in_bound``: the bound is that of the next launches already, so a number that reaches it does,
    unless the run knows it badly; one that does not must be below with its whole interval.
    """
    bound = judged.bound_gb_per_s
    assert judged.measured_gb_per_s is not None
    assert bound is not None
    gate = Bound(bound, judged.measured_gb_per_s, judged.low_gb_per_s, judged.high_gb_per_s).judge()
    single = "single observation" if judged.low_gb_per_s is None else ""
    ratio = judged.ratio or 0.0
    if gate is Gate.FAIL:
        return replace(judged, answer=Answer.BELOW, why=_joined(f"{1 - ratio:.0%} below", single))
    if gate is Gate.UNDECIDED and not (noise_in_bound and judged.measured_gb_per_s >= bound):
        return replace(judged, answer=Answer.UNDECIDED, why=f"the interval holds the bound {bound:.4g} GB/s")
    if gate is Gate.UNDECIDED and _wide(judged):
        return replace(judged, answer=Answer.UNDECIDED, why="the run's own interval is wider than that")
    if ratio * bound > (judged.expected_gb_per_s or 0.0):
        return replace(judged, answer=Answer.ABOVE, why=_joined(f"{ratio - 1:.0%} above", single))
    return replace(judged, answer=Answer.EXPECTED, why=single)


def _wide(judged: Judged) -> bool:
    """Whether the run knows its own number less well than a run may be below."""
    if judged.low_gb_per_s is None or judged.measured_gb_per_s is None:
        return False
    return judged.low_gb_per_s < judged.measured_gb_per_s * (1 - OWN_TOLERANCE)


def _joined(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _limited(judged: Judged, layout: Layout, algorithm: str, wires: Wires) -> Judged:
    bound = limit(
        judged.key.collective, algorithm, layout, wires, judged.measured_gb_per_s, judged.low_gb_per_s
    )
    return replace(judged, limit=bound, algorithm=algorithm)


def _unless_refuted(cases: Sequence[Judged]) -> tuple[Judged, ...]:
    """Where one case shows that the limit is wrong, no other has one."""
    wrong = next((case.limit for case in cases if case.limit is not None and case.limit.refuted), None)
    if wrong is None:
        return tuple(cases)
    return tuple(
        case if case.limit is None or case.limit.busbw_gb_per_s is None else replace(case, limit=wrong)
        for case in cases
    )


def variables_of(record: RunRecord) -> Mapping[str, str]:
    """The environment that the run had."""
    found: Mapping[str, str] = record.environment.get("variables", {})
    return found


def _algorithms(records: Sequence[RunRecord]) -> dict[CaseKey, str]:
    """What was observed of each case; nothing is inferred from settings."""
    return {
        compare_arms.key_of(record.plan.cases[result.case], record): result.algorithm
        for record in records
        for result in record.results
        if result.algorithm
    }
