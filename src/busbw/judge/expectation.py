"""Is this number to be expected? A run against references of the same kind, and against the wires.

Only what matches is compared: operation, type, number of ranks, nodes and device where both are known. A run
is *below* where the ratio of the two geometric means over launches is under the tolerance (95 %; 90 % of one
launch) and under what equal launches reach but for one case in 1,000. How launches differ comes from this
machine's history, moderated by the launches at hand (``stats.moderated``). Else it is *as expected*, and what
loss would not have shown is said beside it. "No reference" is an answer too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from busbw.judge import compare_arms
from busbw.judge.compare_arms import Arm, CaseKey, Observed, findings_of, make_arm
from busbw.judge.compare_notes import failures_of
from busbw.judge.launch_history import on_device
from busbw.judge.limits import Limit, limit, rank_placement
from busbw.judge.matching import LAUNCH_PATH_NS, made_with, match, notes, other_buffers, other_case, otherwise
from busbw.judge.network import cause
from busbw.judge.references.reference import Expected, Reference, value_at
from busbw.judge.rotation import cached, rotated_bytes
from busbw.judge.scatter import Prior, Scatter, beside
from busbw.judge.traffic import byte_paths
from busbw.judge.wires import Wires, wires_of
from busbw.model.case import LARGE
from busbw.model.network import said_in, said_words
from busbw.model.record import DOUBTS, RunRecord
from busbw.model.result import Status
from busbw.stats.launches import launch_interval
from busbw.stats.moderated import Moderated, least_share, moderated, pooled
from busbw.stats.ratio import of_neighbours


class Gate(StrEnum):
    """How a case stands to a gate."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"  # the interval holds the bound


def gate_of(least: float, measured: float, low: float | None, high: float | None) -> Gate:
    """Pass where the whole interval of what was measured reaches the least, fail where none of it does; where
    there is no interval the number alone decides. All in one unit.
    """
    if (measured if low is None else low) >= least:
        return Gate.PASS
    return Gate.FAIL if (measured if high is None else high) < least else Gate.UNDECIDED


@dataclass(frozen=True)
class Least:
    """A bus bandwidth that every case from a size on has to reach; of all operations where none is named."""

    from_bytes: int
    least_gb_per_s: float
    operation: str = ""

    def of(self, operation: str, size_bytes: int) -> bool:
        """Whether a case has to reach it."""
        return size_bytes >= self.from_bytes and self.operation in ("", operation)


def overall(gates: Sequence[Gate]) -> Gate:
    """One fail fails; else one that is undecided keeps the whole from passing. Needs at least one."""
    for worst in (Gate.FAIL, Gate.UNDECIDED):
        if worst in gates:
            return worst
    return Gate.PASS


# Below one launch, which does not say how launches differ: nccl-tests' own gate (NCCL_TESTS_MIN_BW) has 0.9.
ONE_LAUNCH_TOLERANCE: Final = 0.10
OWN_TOLERANCE: Final = 0.05  # below several launches
_MOST_UNSEEN: Final = 0.90  # where nothing is asked: who may have lost more unseen is undecided
_NORMAL_95: Final = 1.96  # half of a 95 % interval in standard errors


class Judgement(StrEnum):
    """What is to be said of a case."""

    EXPECTED = "as expected"
    BELOW = "below"
    UNDECIDED = "undecided"
    NO_REFERENCE = "no reference"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Judged:
    """One case. ``ratio`` is measured / expected busbw; ``bound_gb_per_s`` is what had to be reached, and
    ``loss_unseen`` the share of the expected that may be missing without a verdict of *below*; all are of
    ``reference``, the one of ``references`` that decided. ``scatter`` is the relative standard deviation
    between launches that was used, ``assumed`` the same where nothing measured shows it. ``why`` is a reason
    that holds for many sizes alike, or an error.
    """

    key: CaseKey
    answer: Judgement
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
    loss_unseen: float | None = None
    scatter: float | None = None
    assumed: float | None = None
    limit: Limit | None = None
    algorithm: str = ""

    @property
    def ratio(self) -> float | None:
        """Measured over expected; 0.7 is 30 % below."""
        if self.measured_gb_per_s is None or not self.expected_gb_per_s:
            return None
        return self.measured_gb_per_s / self.expected_gb_per_s

    @property
    def half_width(self) -> float:
        """Half the run's own interval, of the logarithm of the bandwidth; 0 where there is none."""
        if not self.low_gb_per_s or not self.high_gb_per_s:
            return 0.0
        return math.log(self.high_gb_per_s / self.low_gb_per_s) / 2


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
    lacks. ``prior`` is what was known of the scatter between launches.
    """

    arm: Arm
    cases: tuple[Judged, ...]
    references: tuple[Reference, ...]
    wires: Wires
    unmatched: Mapping[str, str]
    prior: Prior
    fitting: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def none(self) -> str:
        """Why no reference was used, for every reader alike; empty where one was."""
        if self.references:
            return ""
        if self.fitting:
            return f"{', '.join(self.fitting)} would fit, except for what the rows say"
        return "none can be used" if self.unmatched else "none matches this operation, job size and device"

    def count(self, answer: Judgement) -> int:
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
    detect: float | None = None,
    prior: Prior | None = None,
    wires: Wires | None = None,
) -> Expectation:
    """Judge every case of a run (one record, or several of one launch each).

    ``named``: the user chose the references: then only what contradicts them keeps them from being used, and
    what the run does not say is taken on trust and noted. Otherwise everything must be known and equal.
    ``known`` are published logs: a run that is one of them has that one's machine and versions, and is not
    held against what was measured together with it.
    ``same_version`` leaves out references of another version of the library, or of none.
    ``tolerance`` replaces the two above. ``detect`` is the loss that has to show: it lowers the tolerance,
    and a case in which it would not show is undecided. ``prior`` is what this machine's history says
    (``judge.launch_history``); None: nothing. Raises UsageError where the records are not one run.
    """
    first = records[0]
    arm = make_arm(first.run_id or "run", records)
    kind = made_with(first, known)
    matched = match(records, arm, kind, references, known, named=named, same_version=same_version)
    if wires is None:
        wires = wires_of(first.machine, byte_paths(first))
    unlike = {
        each.name: Unlike(otherwise(first, each), other_buffers(arm.buffers, each))
        for each in matched.fitting
    }
    rule = _Rule(beside(prior or Prior(on_device(first)), [arm]), tolerance, detect)
    own_times = _times_by_kind(arm)
    rotated = rotated_bytes(records)
    cases = [
        _judge(key, seen, arm, matched.fitting, rule, own_times[key.kind], unlike, rotated)
        for key, seen in arm.cases.items()
    ]
    names = {name for case in cases for name in case.references}
    used = tuple(reference for reference in matched.fitting if reference.name in names)
    return Expectation(
        arm,
        _with_limits(cases, records, wires, kind.nodes),
        used,
        wires,
        matched.reasons if named else matched.near,
        rule.prior,
        tuple(reference.name for reference in matched.fitting),
        (
            *failures_of(arm),
            *arm.lacking,
            *arm.merged,
            *findings_of(records, DOUBTS),
            *_said(records, kind.nodes),
            *matched.notes,
            *notes(kind, used),
            *(why for each in used for why in (unlike[each.name].timed, unlike[each.name].buffers) if why),
        ),
    )


def _said(records: Sequence[RunRecord], nodes: int) -> Iterator[str]:
    """What NCCL says that may be the cause of a number: first what makes it low by itself."""
    yield from dict.fromkeys(why for record in records if (why := cause(record, nodes)))
    words = (word for record in records for word in said_words(said_in(record)))
    if said := "; ".join(dict.fromkeys(words)):
        yield f"{'NCCL' if records[0].source is None else 'the log'} says: {said}"


@dataclass(frozen=True)
class _Rule:
    """What is known of launches, and what was asked for."""

    prior: Prior
    tolerance: float | None
    detect: float | None

    def allowed(self, launches: int) -> float:
        """The share that a run may be below a reference of so many launches."""
        usual = OWN_TOLERANCE if launches > 1 else ONE_LAUNCH_TOLERANCE
        if self.tolerance is not None:
            return self.tolerance
        return usual if self.detect is None else min(usual, self.detect)


_Times = Mapping[int, Sequence[float]]  # of launches, by size


def _times_by_kind(arm: Arm) -> Mapping[str, _Times]:
    """The run's times of launches, of each kind of case."""
    found: dict[str, dict[int, Sequence[float]]] = {}
    for key, seen in arm.cases.items():
        found.setdefault(key.kind, {})[key.size_bytes] = seen.times_ns
    return found


def _scatter(key: CaseKey, own: _Times, reference: Reference, prior: Prior) -> tuple[Moderated, float | None]:
    """How launches of a case differ, and ``assumed`` as of ``Judged``: by the machine's history, and by the
    launches of run and reference. From 1 MiB on all sizes count, since there launches of one size say nothing
    of those of another; below, what is odd about a launch is so at all sizes, and each counts for itself.
    Launches of one series seldom meet all levels of a host-bound size, so there they do not make the
    history's scatter smaller. Where nothing shows the scatter, a default is no less than what neighbouring
    sizes do.
    """

    def counts(size_bytes: int) -> bool:
        return size_bytes == key.size_bytes or min(size_bytes, key.size_bytes) >= LARGE

    theirs = {
        point.size_bytes: point.times_us
        for point in reference.points
        if point.placement == key.placement and counts(point.size_bytes)
    }
    ours = {size_bytes: times for size_bytes, times in own.items() if counts(size_bytes)}
    seen = pooled([*theirs.values(), *ours.values()])
    known = prior.of(key.collective, key.size_bytes)
    if known.is_default and not seen.degrees:
        common = sorted(size for size in ours.keys() & theirs.keys() if ours[size] and theirs[size])
        curve = [math.log(ours[size][0] / theirs[size][0]) for size in common]
        shown = of_neighbours(known.deviation, [curve])
        known = known if shown == known.deviation else Scatter(shown, at_hand=True)
    found = moderated(known.deviation, seen.deviation, seen.degrees)
    if prior.on_device and key.size_bytes < LARGE:
        found = replace(found, deviation=max(found.deviation, known.deviation))
    return found, None if seen.degrees or not known.is_default else known.deviation


def _judge(
    key: CaseKey,
    seen: Observed,
    arm: Arm,
    references: Sequence[Reference],
    rule: _Rule,
    own: _Times,
    unlike: Mapping[str, Unlike],
    rotated: int,
) -> Judged:
    """``own`` are the times of its kind; ``unlike`` are the references' by name; ``rotated`` is through how
    many bytes the run's calls did.
    """
    judged = _measured(key, seen, arm)
    if not seen.times_ns or judged.measured_gb_per_s is None:
        failed = seen.status in (Status.FAILED, Status.WRONG) or bool(seen.error)
        return replace(judged, answer=Judgement.FAILED if failed else Judgement.NO_REFERENCE, why=seen.error)
    found = [
        _unless_cached(
            _unless_unlike(
                _against(judged, reference, expected, _scatter(key, own, reference, rule.prior), rule),
                seen,
                unlike[reference.name],
            ),
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
        return replace(judged, answer=Judgement.UNDECIDED, why=unlike.buffers)
    why = unlike.timed
    if not why or seen.time_ns is None or not judged.expected_gb_per_s or judged.bound_gb_per_s is None:
        return judged
    expected_ns = seen.time_ns * (judged.ratio or 0.0)
    if expected_ns * (1 - judged.bound_gb_per_s / judged.expected_gb_per_s) >= LAUNCH_PATH_NS:
        return judged
    return replace(judged, answer=Judgement.UNDECIDED, why=why)


def _unless_cached(judged: Judged, why: str, theirs: bool) -> Judged:
    """Where caches helped one of the two, what that alone can explain is not decided: a run below a reference
    that was in caches (``theirs``), or one that came up to another thanks to them.
    """
    helped = judged.answer is (Judgement.BELOW if theirs else Judgement.EXPECTED)
    return replace(judged, answer=Judgement.UNDECIDED, why=why) if why and helped else judged


def _agreed(found: Sequence[Judged]) -> Judged:
    """One answer of all references that have the case, the best first; one that finds the run below has seen
    what others could not. Where even the value of another is below its bound, the references contradict one
    another, and which of them is right is not for us to say.
    """
    decided = [each for each in found if each.answer is not Judgement.UNDECIDED]
    below = [each for each in decided if each.answer is Judgement.BELOW]
    best = (below or decided or found)[0]
    names = (best.reference, *(each.reference for each in found if each is not best))
    others = [
        each
        for each in decided
        if below and each not in below and (each.expected_gb_per_s or 0.0) < (best.bound_gb_per_s or 0.0)
    ]
    if not others:
        return replace(best, references=names)
    words = "; ".join(f"{each.reference}: {each.answer}" for each in (best, *others))
    why = f"references disagree ({words}): name one with --reference"
    return replace(best, answer=Judgement.UNDECIDED, why=why, references=names)


def _measured(key: CaseKey, seen: Observed, arm: Arm) -> Judged:
    """Bandwidths from times, so that all launches give theirs: of several launches that of the geometric mean
    of their times, as a reference's is.
    """
    judged = Judged(key, Judgement.NO_REFERENCE, "")
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
        high_gb_per_s=bytes_ / low_ns if low_ns else None,  # a wide interval reaches down to 0
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


def _against(
    judged: Judged,
    reference: Reference,
    expected: Expected,
    scatter: tuple[Moderated, float | None],
    rule: _Rule,
) -> Judged:
    """One case against one reference; ``scatter`` is as ``_scatter`` has it."""
    of_launch, assumed = scatter
    # That of several launches is in their scatter.
    own_error = judged.half_width / _NORMAL_95 if judged.launches == 1 else 0.0
    reached = least_share(of_launch, expected.launches, judged.launches, own_error)
    least = min(1 - rule.allowed(expected.launches), reached)
    judged = replace(
        judged,
        reference=reference.name,
        expected_gb_per_s=expected.busbw_gb_per_s,
        interpolated=expected.interpolated,
        bound_gb_per_s=expected.busbw_gb_per_s * least,
        loss_unseen=1 - least,
        scatter=of_launch.deviation,
        assumed=assumed,
    )
    if (judged.ratio or 0.0) < least:
        return replace(judged, answer=Judgement.BELOW)
    detect = _MOST_UNSEEN if rule.detect is None else rule.detect
    if 1 - least > detect * (1 + 1e-9):
        why = f"a loss of {detect:.1%} would not show".replace(".0%", "%")
        return replace(judged, answer=Judgement.UNDECIDED, why=why)
    return replace(judged, answer=Judgement.EXPECTED)


def _with_limits(
    cases: Sequence[Judged], records: Sequence[RunRecord], wires: Wires, nodes: int
) -> tuple[Judged, ...]:
    """What the wires allow in each case. Where one case shows that the limit is wrong, no other has one."""
    first = records[0]
    layout = rank_placement(first, nodes)
    algorithms = _algorithms(records)
    found = []
    for case in cases:
        algorithm = algorithms.get(case.key, "")
        bound = limit(
            case.key.collective, algorithm, layout, wires, case.measured_gb_per_s, case.low_gb_per_s
        )
        found.append(replace(case, limit=bound, algorithm=algorithm))
    limits = [case.limit for case in found if case.limit is not None]
    wrong = next((each for each in limits if each.refuted), None)
    if wrong is None:
        return tuple(found)
    return tuple(
        replace(case, limit=wrong) if case.limit and case.limit.busbw_gb_per_s is not None else case
        for case in found
    )


def _algorithms(records: Sequence[RunRecord]) -> dict[CaseKey, str]:
    """What was observed of each case; nothing is inferred from settings."""
    return {
        compare_arms.key_of(record.plan.cases[result.case], record): result.algorithm
        for record in records
        for result in record.results
        if result.algorithm
    }
