"""Is this number to be expected? A run against references of the same kind, and against the wires.

Only what matches is compared: operation, type, number of ranks, nodes and device where both are known. A
reference that was published as a log is one launch elsewhere, so a run may be 10 % below it; one that was
made here from several launches says how launches differ, so a run below the prediction interval of the next
launch, and by more than 5 %, is below. "No reference" is an answer too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from busbw.analysis import compare_arms
from busbw.analysis.compare_arms import Arm, CaseKey, Observed, make_arm
from busbw.analysis.gates import Bound, Gate
from busbw.analysis.limits import Limit, Wires, limit, wires_of
from busbw.model.collective import collective
from busbw.model.record import RunRecord
from busbw.model.result import Status
from busbw.references.reference import Expected, Point, Reference, value_at
from busbw.stats.launches import launch_interval, student_quantile

ELSEWHERE_TOLERANCE: Final = 0.10  # below a published log: nccl-tests' own gate (NCCL_TESTS_MIN_BW) has 0.9
OWN_TOLERANCE: Final = 0.05
# Of all cases of a run together, a good run fails with this probability.
FALSE_ALARM: Final = 0.01
_WORDS: Final = re.compile(r"[A-Za-z0-9]+")


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
    """One case. ``ratio`` is measured / expected busbw; ``bound_gb_per_s`` is what had to be reached."""

    key: CaseKey
    answer: Answer
    why: str
    measured_gb_per_s: float | None = None
    low_gb_per_s: float | None = None
    high_gb_per_s: float | None = None
    launches: int = 0
    reference: str = ""
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
class Kind:
    """What a run was made with: by its record, or by the reference that it is a copy of. ``nodes`` is 0 and
    texts are empty where nobody says it.
    """

    device: str
    nodes: int
    versions: str
    known_as: str = ""


@dataclass(frozen=True)
class Expectation:
    """A run against its references. ``unmatched`` says of references that were asked for and do not match
    why not; ``notes`` what was taken on trust.
    """

    arm: Arm
    cases: tuple[Judged, ...]
    references: tuple[Reference, ...]
    wires: Wires
    unmatched: Mapping[str, str]
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
    ``known`` are published logs: a run that is one of them has that one's machine and versions.
    ``same_version`` leaves out references of another version of the library, or of none.
    ``tolerance`` replaces the two above. Raises UsageError where the records are not one run.
    """
    first = records[0]
    arm = make_arm(first.run_id or "run", records)
    kind = kind_of(first, known)
    reasons = {
        reference.name: mismatch(first, arm, kind, reference, named=named)
        or (_other_version(kind.versions, reference) if same_version else "")
        for reference in references
    }
    fitting = [reference for reference in references if not reasons[reference.name]]
    wires = wires if wires is not None else wires_of(first.machine)
    algorithms = _algorithms(records)
    usable = sum(bool(seen.times_ns) for seen in arm.cases.values())
    level = FALSE_ALARM / max(usable, 1)
    cases = [
        _limited(
            _judge(key, seen, arm, fitting, tolerance, level), arm, kind.nodes, algorithms.get(key, ""), wires
        )
        for key, seen in arm.cases.items()
    ]
    used = {case.reference for case in cases}
    return Expectation(
        arm,
        tuple(cases),
        tuple(reference for reference in fitting if reference.name in used),
        wires,
        {name: why for name, why in reasons.items() if why and named},
        tuple(_notes(kind, [reference for reference in fitting if reference.name in used])),
    )


def kind_of(record: RunRecord, references: Sequence[Reference]) -> Kind:
    """What the record says; of a published log that is among the references, what is known of it."""
    kind = Kind(compare_arms.device(record), compare_arms.nodes(record), compare_arms.version(record))
    own = record.source.sha256 if record.source is not None else ""
    known = next((reference for reference in references if own and reference.sha256 == own), None)
    if known is None:
        return kind
    return Kind(
        kind.device or known.device,
        kind.nodes or known.nodes,
        kind.versions or known.versions_text,
        known.name,
    )


def mismatch(record: RunRecord, arm: Arm, kind: Kind, reference: Reference, *, named: bool) -> str:
    """Why a reference says nothing about a run; empty where it does."""
    if reference.left_out:
        return reference.left_out
    if reference.sha256 and record.source is not None and record.source.sha256 == reference.sha256:
        return "it is this very log"
    if reference.operation not in {key.collective for key in arm.cases}:
        return f"it is of {reference.operation or 'no stated operation'}"
    if reference.ranks != arm.ranks:
        return f"it has {reference.ranks} ranks, the run {arm.ranks or 'does not say'}"
    unknown = not kind.nodes or not reference.nodes
    if (unknown and not named) or (not unknown and kind.nodes != reference.nodes):
        return f"it has {reference.nodes or 'unknown'} nodes, the run {kind.nodes or 'does not say'}"
    return _other_device(kind.device, reference, named=named)


def _other_device(device: str, reference: Reference, *, named: bool) -> str:
    family = {word.upper() for word in _WORDS.findall(reference.device)}
    words = {word.upper() for word in _WORDS.findall(device)}
    is_told = bool(words) and "GRAPHICS" not in words  # what NVML calls a GPU that it does not know
    if reference.kind == "saved":
        same = device == reference.device or (named and not (is_told and reference.device))
    else:
        same = bool(family & words) if is_told else named
    return "" if same else f"it is of {reference.device}, the run of {device or 'an unnamed device'}"


def _other_version(versions: str, reference: Reference) -> str:
    if _numbers(versions) & _numbers(*reference.versions.values()):
        return ""
    return f"it is of {reference.versions_text}, the run of {versions or 'unknown versions'}"


def _numbers(*texts: str) -> set[str]:
    """Version numbers in texts: 2.22.3-1 counts as 2.22.3."""
    return {number for text in texts for number in re.findall(r"\d+(?:\.\d+)+", text)}


def _notes(kind: Kind, used: Sequence[Reference]) -> list[str]:
    """What was taken on trust, and both sides' versions where they are not known to be the same."""
    found = [f"this log is {kind.known_as}: {kind.versions}"] if kind.known_as else []
    for reference in used:
        missing = [
            f"device {reference.device}" if not kind.device and reference.device else "",
            f"{reference.nodes} nodes" if not kind.nodes and reference.nodes else "",
        ]
        words = " and ".join(word for word in missing if word)
        if words:
            found.append(f"the run does not say {words}: taken from {reference.name}, as you named it")
        if _other_version(kind.versions, reference):
            versions = kind.versions or "not stated"
            found.append(f"versions: the run {versions}; {reference.name} {reference.versions_text}")
    return found


def _judge(
    key: CaseKey,
    seen: Observed,
    arm: Arm,
    references: Sequence[Reference],
    tolerance: float | None,
    level: float,
) -> Judged:
    judged = _measured(key, seen, arm)
    if not seen.times_ns or judged.measured_gb_per_s is None:
        failed = seen.status in (Status.FAILED, Status.WRONG) or bool(seen.error)
        return replace(judged, answer=Answer.FAILED if failed else Answer.NO_REFERENCE, why=seen.error)
    found = _best(key, references)
    if found is None:
        return replace(judged, why="no reference has this size" if references else "")
    reference, expected = found
    bound = expected.busbw_gb_per_s * _least_share(expected, reference, judged.launches, tolerance, level)
    judged = replace(
        judged,
        reference=reference.name,
        expected_gb_per_s=expected.busbw_gb_per_s,
        interpolated=expected.interpolated,
        bound_gb_per_s=bound,
    )
    return _answered(judged, bound, noise_in_bound=expected.log_deviation is not None)


def _measured(key: CaseKey, seen: Observed, arm: Arm) -> Judged:
    """Bandwidths from times, so that all launches give theirs."""
    judged = Judged(key, Answer.NO_REFERENCE, "")
    if not seen.times_ns or arm.ranks < 2:
        return judged
    busbw, time_ns = seen.busbw_gb_per_s, seen.time_ns
    if busbw is None or time_ns is None:
        return judged
    bytes_ = busbw * time_ns  # busbw = these bytes / time, whatever the operation
    interval = launch_interval(seen.times_ns)
    low_ns, high_ns = (
        (interval.low, interval.high) if interval is not None else (seen.interval or (None, None))
    )
    return replace(
        judged,
        measured_gb_per_s=busbw,
        low_gb_per_s=None if high_ns is None else bytes_ / high_ns,
        high_gb_per_s=None if low_ns is None else bytes_ / low_ns,
        launches=len(seen.times_ns),
    )


def _best(key: CaseKey, references: Sequence[Reference]) -> tuple[Reference, Expected] | None:
    """The reference with the most launches, then with the exact size, then the newest."""
    found = []
    for reference in references:
        same = reference.operation == key.collective and reference.dtype in ("", key.dtype)
        if not same or reference.op not in ("", key.op):
            continue
        expected = value_at(reference, key.size_bytes, key.placement)
        if expected is not None:
            order = (expected.launches, not expected.interpolated, reference.date)
            found.append((order, reference, expected))
    if not found:
        return None
    _, reference, expected = max(found, key=lambda item: item[0])
    return reference, expected


def _least_share(
    expected: Expected, reference: Reference, launches: int, tolerance: float | None, level: float
) -> float:
    """The share of the expected bandwidth that must be reached.

    Where launches of the reference are known, the prediction interval of the mean logarithm of so many new
    ones bounds it from below too: it may be lower than the tolerance on a machine that scatters.
    """
    own = reference.kind in ("own", "saved")
    if tolerance is None:
        tolerance = OWN_TOLERANCE if own else ELSEWHERE_TOLERANCE
    share = 1 - tolerance
    if expected.log_deviation is None or expected.launches < 2:
        return share
    quantile = student_quantile(1 - level, expected.launches - 1)
    half = quantile * expected.log_deviation * math.sqrt(1 / expected.launches + 1 / max(launches, 1))
    return min(share, math.exp(-half))


def _answered(judged: Judged, bound: float, *, noise_in_bound: bool) -> Judged:
    """``noise_in_bound``: the bound is that of the next launches already, so the number alone decides."""
    assert judged.measured_gb_per_s is not None
    ends = (None, None) if noise_in_bound else (judged.low_gb_per_s, judged.high_gb_per_s)
    gate = Bound(bound, judged.measured_gb_per_s, *ends).judge()
    single = "single observation" if judged.low_gb_per_s is None else ""
    ratio = judged.ratio or 0.0
    if gate is Gate.FAIL:
        return replace(judged, answer=Answer.BELOW, why=_joined(f"{1 - ratio:.0%} below", single))
    if gate is Gate.UNDECIDED:
        return replace(judged, answer=Answer.UNDECIDED, why=f"the interval holds the bound {bound:.4g} GB/s")
    if ratio > 1 + (1 - bound / (judged.expected_gb_per_s or bound)):
        return replace(judged, answer=Answer.ABOVE, why=_joined(f"{ratio - 1:.0%} above", single))
    return replace(judged, answer=Answer.EXPECTED, why=single)


def _joined(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _limited(judged: Judged, arm: Arm, nodes: int, algorithm: str, wires: Wires) -> Judged:
    bound = limit(judged.key.collective, algorithm, arm.ranks, nodes, wires, judged.measured_gb_per_s)
    return replace(judged, limit=bound, algorithm=algorithm)


def _algorithms(records: Sequence[RunRecord]) -> dict[CaseKey, str]:
    """What was observed of each case; nothing is inferred from settings."""
    return {
        compare_arms.key_of(record.plan.cases[result.case]): result.algorithm
        for record in records
        for result in record.results
        if result.algorithm
    }


def reference_of(
    name: str, record: RunRecord, launches: Mapping[CaseKey, tuple[float, ...]]
) -> list[Reference]:
    """References of one's own run, one an operation, type and reduction; ``launches`` has the times of each
    case in ns, one a launch.
    """
    made: dict[tuple[str, str, str], list[Point]] = {}
    ranks = compare_arms.ranks(record)
    for case, result in zip(record.plan.cases, record.results, strict=True):
        key = compare_arms.key_of(case)
        if result.status is not Status.GOOD or result.busbw_gb_per_s is None or key not in launches:
            continue
        times = tuple(time / 1e3 for time in launches[key])
        point = Point(case.size_bytes, case.placement.value, result.busbw_gb_per_s, times)
        kind = (case.collective, case.dtype, case.op)
        if case.cycle == 0:
            made.setdefault(kind, []).append(point)
    version = compare_arms.version(record)
    library, _, number = version.rpartition(" ")
    several = len(made) > 1
    return [
        Reference(
            name="-".join((name, *kind)) if several else name,
            kind="saved",
            operation=kind[0],
            ranks=ranks,
            nodes=compare_arms.nodes(record),
            machine=", ".join(record.world.hosts) if record.world is not None else "",
            device=compare_arms.device(record),
            versions={library or "library": number} if version else {},
            date=record.created[:10],
            source=record.run_id,
            definition=compare_arms.definition(record),
            points=tuple(points),
            dtype=kind[1],
            op=kind[2],
        )
        for kind, points in made.items()
        if collective(kind[0]).sized
    ]
