"""Is this number to be expected? A run against references of the same kind, and against the wires.

Only what matches is compared: operation, type, number of ranks, nodes and device where both are known. A run
is *below* where the ratio of the two geometric means over launches is under the tolerance (95 %; 90 % of one
launch) and under what equal launches reach but for one case in 1,000. How launches differ comes from this
machine's history, moderated by the launches at hand (``stats.launches``). Else it is *as expected*, and what
loss would not have shown is said beside it. "No reference" is an answer too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from busbw.judge import compare_arms
from busbw.judge.compare import failures_of
from busbw.judge.compare_arms import Arm, CaseKey, Observed, findings_of, make_arm
from busbw.judge.limits import Limit, limit, rank_placement
from busbw.judge.matching import (
    LAUNCH_PATH_NS,
    MadeWith,
    made_with,
    match,
    notes,
    other_buffers,
    other_case,
    otherwise,
)
from busbw.judge.network import cause, said_by
from busbw.judge.references.reference import Expected, Reference, value_at
from busbw.judge.rotation import cached, rotated_bytes
from busbw.judge.scatter import Prior, Scatter, beside
from busbw.judge.traffic import byte_paths
from busbw.judge.wires import Wires, wires_of
from busbw.model.case import LARGE
from busbw.model.record import DOUBTS, RunRecord
from busbw.model.result import Status
from busbw.stats.launches import Moderated, launch_interval, least_share, moderated, pooled
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
    ``same_version`` leaves out references of another version of the library, or of none.
    ``tolerance`` replaces the two above. ``detect`` is the loss that has to show: it lowers the tolerance,
    and a case in which it would not show is undecided. ``prior`` is what this machine's history says
    (``judge.launch_history``); None: nothing. Raises UsageError where the records are not one run.
    """
    first = records[0]
    arm = make_arm(first.run_id or "run", records)
    kind = made_with(first)
    matched = match(records, arm, kind, references, named=named, same_version=same_version)
    if wires is None:
        wires = wires_of(first.machine, byte_paths(first))
    times: dict[str, dict[int, Sequence[float]]] = defaultdict(dict)
    for key, seen in arm.cases.items():
        times[key.kind][key.size_bytes] = seen.times_ns
    asked = _Asked(
        arm,
        kind,
        matched.fitting,
        beside(prior or Prior(arm.on_device), [arm]),
        tolerance,
        detect,
        rotated_bytes(records),
        times,
    )
    cases = [_judge(key, seen, asked) for key, seen in arm.cases.items()]
    names = {name for case in cases for name in case.references}
    used = tuple(reference for reference in matched.fitting if reference.name in names)
    return Expectation(
        arm,
        _with_limits(cases, records, wires, kind.nodes),
        used,
        wires,
        matched.reasons if named else matched.near,
        asked.prior,
        tuple(reference.name for reference in matched.fitting),
        (
            *failures_of(arm),
            *arm.lacking,
            *arm.merged,
            *findings_of(records, DOUBTS),
            # What may be the cause of a number: first what makes it low by itself.
            *dict.fromkeys(why for record in records if (why := cause(record, kind.nodes))),
            *filter(None, [said_by(records)]),
            *notes(kind, used),
            *(
                why
                for each in used
                for why in (otherwise(kind, each), other_buffers(arm.buffers, each))
                if why
            ),
        ),
    )


@dataclass(frozen=True)
class _Asked:
    """A run, the references that fit it, what is known of launches, and what was asked for. ``rotated`` is
    through how many bytes the run's calls did; ``times`` are those of launches, by kind of case and size.
    """

    arm: Arm
    kind: MadeWith
    references: Sequence[Reference]
    prior: Prior
    tolerance: float | None
    detect: float | None
    rotated: int
    times: Mapping[str, Mapping[int, Sequence[float]]]


def _scatter(key: CaseKey, reference: Reference, asked: _Asked) -> tuple[Moderated, float | None]:
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
    ours = {size_bytes: times for size_bytes, times in asked.times[key.kind].items() if counts(size_bytes)}
    seen = pooled([*theirs.values(), *ours.values()])
    known = asked.prior.of(key.collective, key.size_bytes)
    if known.is_default and not seen.degrees:
        common = sorted(size for size in ours.keys() & theirs.keys() if ours[size] and theirs[size])
        curve = [math.log(ours[size][0] / theirs[size][0]) for size in common]
        shown = of_neighbours(known.deviation, [curve])
        known = known if shown == known.deviation else Scatter(shown, at_hand=True)
    found = moderated(known.deviation, seen.deviation, seen.degrees)
    if asked.prior.on_device and key.size_bytes < LARGE:
        found = replace(found, deviation=max(found.deviation, known.deviation))
    return found, None if seen.degrees or not known.is_default else known.deviation


def _judge(key: CaseKey, seen: Observed, asked: _Asked) -> Judged:
    judged = _measured(key, seen, asked.arm)
    if not seen.times_ns or judged.measured_gb_per_s is None:
        failed = seen.status in (Status.FAILED, Status.WRONG) or bool(seen.error)
        return replace(judged, answer=Judgement.FAILED if failed else Judgement.NO_REFERENCE, why=seen.error)
    others = [(each, other_case(key, asked.arm.where, each)) for each in asked.references]
    own = [reference for reference, why in others if not why]
    known = [
        (reference, expected)
        for reference in own
        if (expected := value_at(reference, key.size_bytes, key.placement)) is not None
    ]
    # What counts least is sorted by first: the newest (one without a date is none), the exact size, launches.
    known.sort(key=lambda pair: pair[0].date if pair[0].date[:1].isdecimal() else "", reverse=True)
    known.sort(key=lambda pair: (pair[1].launches, not pair[1].interpolated), reverse=True)
    if known:
        return _agreed([_against(judged, seen, reference, expected, asked) for reference, expected in known])
    why = f"no reference has {key.placement}"
    if any(point.placement == key.placement for each in own for point in each.points):
        why = "no reference has this size"
    elif not own:
        why = "; ".join(dict.fromkeys(f"{reference.name}: {each}" for reference, each in others))
    return replace(judged, why=why)


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
    busbw, time_ns = seen.busbw_gb_per_s, seen.time_ns
    if busbw is None or time_ns is None or arm.ranks < 2:
        return judged
    bytes_ = busbw * time_ns  # busbw = these bytes / time, whatever the operation
    one_launch = (time_ns, *(seen.interval or (None, None)))
    time_ns, low_ns, high_ns = launch_interval(seen.times_ns) or one_launch
    return replace(
        judged,
        measured_gb_per_s=bytes_ / time_ns,
        low_gb_per_s=None if high_ns is None else bytes_ / high_ns,
        high_gb_per_s=bytes_ / low_ns if low_ns else None,  # a wide interval reaches down to 0
        launches=len(seen.times_ns),
    )


def _against(
    judged: Judged, seen: Observed, reference: Reference, expected: Expected, asked: _Asked
) -> Judged:
    """One case against one reference."""
    of_launch, assumed = _scatter(judged.key, reference, asked)
    # That of several launches is in their scatter.
    own_error = judged.half_width / _NORMAL_95 if judged.launches == 1 else 0.0
    reached = least_share(of_launch, expected.launches, judged.launches, own_error)
    usual = OWN_TOLERANCE if expected.launches > 1 else ONE_LAUNCH_TOLERANCE
    allowed = asked.tolerance
    if allowed is None:
        allowed = usual if asked.detect is None else min(usual, asked.detect)
    least = min(1 - allowed, reached)
    judged = replace(
        judged,
        answer=Judgement.EXPECTED,
        reference=reference.name,
        expected_gb_per_s=expected.busbw_gb_per_s,
        interpolated=expected.interpolated,
        bound_gb_per_s=expected.busbw_gb_per_s * least,
        loss_unseen=1 - least,
        scatter=of_launch.deviation,
        assumed=assumed,
    )
    detect = _MOST_UNSEEN if asked.detect is None else asked.detect
    if (judged.ratio or 0.0) < least:
        judged = replace(judged, answer=Judgement.BELOW)
    elif 1 - least > detect * (1 + 1e-9):
        why = f"a loss of {detect:.1%} would not show".replace(".0%", "%")
        judged = replace(judged, answer=Judgement.UNDECIDED, why=why)
    why = _doubt(judged, seen, reference, asked)
    return replace(judged, answer=Judgement.UNDECIDED, why=why) if why else judged


def _doubt(judged: Judged, seen: Observed, reference: Reference, asked: _Asked) -> str:
    """Why nothing is decided, whatever the numbers say; empty for no reason.

    Where buffers lay otherwise nothing is. Where the two were timed otherwise, nothing is of a size at which
    that alone can be the difference: launching takes a larger part of the expected time than a run may be
    below. Where caches helped one of the two, what that alone can explain is not: a run below a reference
    that was in caches, or one that came up to another thanks to them.
    """
    if why := other_buffers(asked.arm.buffers, reference):
        return why
    why, expected, bound = otherwise(asked.kind, reference), judged.expected_gb_per_s, judged.bound_gb_per_s
    if why and seen.time_ns is not None and expected and bound is not None:
        expected_ns = seen.time_ns * (judged.ratio or 0.0)
        if expected_ns * (1 - bound / expected) < LAUNCH_PATH_NS:
            return why
    why, theirs = cached(asked.rotated, reference, judged.key.size_bytes)
    return why if judged.answer is (Judgement.BELOW if theirs else Judgement.EXPECTED) else ""


def _with_limits(
    cases: Sequence[Judged], records: Sequence[RunRecord], wires: Wires, nodes: int
) -> tuple[Judged, ...]:
    """What the wires allow in each case. Where one case shows that the limit is wrong, no other has one."""
    layout = rank_placement(records[0], nodes)
    # What was observed of each case; nothing is inferred from settings.
    algorithms = {
        compare_arms.key_of(record.plan.cases[result.case], record): result.algorithm
        for record in records
        for result in record.results
        if result.algorithm
    }
    found = []
    for case in cases:
        algorithm = algorithms.get(case.key, "")
        speeds = case.measured_gb_per_s, case.low_gb_per_s
        bound = limit(case.key.collective, algorithm, layout, wires, *speeds)
        found.append(replace(case, limit=bound, algorithm=algorithm))
    wrong = next((case.limit for case in found if case.limit is not None and case.limit.refuted), None)
    return tuple(
        replace(case, limit=wrong) if wrong and case.limit and case.limit.busbw_gb_per_s is not None else case
        for case in found
    )
