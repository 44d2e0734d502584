"""Groups that ran the same collective at once, compared with one another: is one of them slow?

A group's value in a round is the logarithm of what its collective took over the middle of the others': what
disturbs all of them alike in a round is gone. Groups share no rank, so that a slow one makes no other slow.
Only groups of as many ranks are compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Final

import numpy as np

from busbw.hunt.field import Field
from busbw.hunt.findings import CHECK, excluded
from busbw.hunt.noise import Floats
from busbw.hunt.verdict import Decision
from busbw.model.collective import collective
from busbw.model.finding import Finding, Severity
from busbw.model.hunt import BANDWIDTH, RoundResult, Rules
from busbw.model.record import HostInfo
from busbw.stats.launches import student_quantile
from busbw.units import gb_per_s

# Rounds after which every group is judged, and fresh rounds that judge those which the first did not clear.
# Their numbers are fixed: a test that went on until it decides would decide wrongly more often.
SCREENS: Final = 8
FRESH: Final = 16
_SHOWN: Final = 0.95  # of the interval that is shown
# Rounds in a row may share a disturbance: the error is that of means of so many, where that is greater.
_IN_A_ROW: Final = 4


@dataclass(frozen=True)
class GroupVerdict:
    """Of one group. ``loss`` is the share of bandwidth that it has less than the others, ``low`` and ``high``
    its 95 % interval, of ``rounds`` rounds, which are fresh ones where the first did not clear it.
    """

    group: int
    decision: Decision
    loss: float
    low: float
    high: float
    rounds: int
    fresh: bool
    error: float  # of the logarithm of the time, as ``loss`` is of the bandwidth


@dataclass(frozen=True)
class GroupComparison:
    """Of all groups of a stage. ``groups`` are those that could be compared, the slowest first; ``alone``
    those that no other has as many ranks as.
    """

    decision: Decision
    reason: str
    groups: tuple[GroupVerdict, ...]
    alone: tuple[int, ...]


def wants_more(rules: Rules, rounds: Sequence[RoundResult]) -> bool:
    """Whether another round of the stage is worth its time."""
    if len(rounds) < SCREENS:
        return True
    screened = compare(rules, rounds[:SCREENS])
    return len(rounds) < SCREENS + FRESH and any(
        each.decision is not Decision.HEALTHY for each in screened.groups
    )


def compare(rules: Rules, rounds: Sequence[RoundResult]) -> GroupComparison:
    """The verdict of a stage's rounds so far."""
    values = _values(rounds)
    alone = tuple(group for group, own in enumerate(values.T) if math.isnan(own[0]))
    count = values.shape[1] - len(alone)
    if not count:
        reason = "no two groups have the same number of ranks, so none can be compared"
        return GroupComparison(Decision.UNDECIDED, reason, (), alone)
    found = []
    for group in (each for each in range(values.shape[1]) if each not in alone):
        own = _judged(rules, group, values[:SCREENS, group], count)
        if own.decision is not Decision.HEALTHY and len(rounds) > SCREENS:
            own = _judged(rules, group, values[SCREENS:, group], count, fresh=True)
        found.append(own)
    found.sort(key=lambda each: -each.loss)
    decisions = [each.decision for each in found]
    # Half the 95 % interval of most groups.
    halves = [student_quantile((1 + _SHOWN) / 2, max(1, each.rounds - 1)) * each.error for each in found]
    noise = float(np.median(halves))
    if Decision.SLOW in decisions and noise > _floor(rules):
        # What hides the loss that was asked for in most groups may look like a greater one in some.
        found = [replace(each, decision=Decision.UNDECIDED) for each in found]
        reason = f"noise hides what is below {_share(noise):.1%}"
        return GroupComparison(Decision.UNDECIDED, reason, tuple(found), alone)
    decision, reason = Decision.HEALTHY, ""
    if Decision.SLOW in decisions:
        decision = Decision.SLOW
    elif unsure := decisions.count(Decision.UNDECIDED):
        decision, floor = Decision.UNDECIDED, rules.floors[BANDWIDTH]
        reason = f"noise hides whether {unsure} of {len(found)} lack {floor:.1%} or more"
    return GroupComparison(decision, reason, tuple(found), alone)


def _floor(rules: Rules) -> float:
    return -math.log1p(-rules.floors[BANDWIDTH])


def _judged(rules: Rules, group: int, own: Floats, count: int, *, fresh: bool = False) -> GroupVerdict:
    """By an interval of the mean over rounds. Slow takes fresh rounds: the first only name candidates."""
    floor, middle, freedom = _floor(rules), float(own.mean()), max(1, len(own) - 1)
    means = [own]  # of one round each, and of so many that may share a disturbance
    if len(own) >= 2 * _IN_A_ROW:
        means.append(own[: len(own) // _IN_A_ROW * _IN_A_ROW].reshape(-1, _IN_A_ROW).mean(axis=1))
    error = max(float(each.std(ddof=1)) / math.sqrt(len(each)) for each in means) if len(own) > 1 else 0.0
    least = middle - student_quantile(1 - rules.accusation / count, freedom) * error
    most = middle + student_quantile(1 - rules.acquittal, freedom) * error
    decision = Decision.UNDECIDED
    if most < floor:
        decision = Decision.HEALTHY
    elif fresh and least > floor / 2:
        decision = Decision.SLOW
    half = student_quantile((1 + _SHOWN) / 2, freedom) * error
    shares = (_share(middle), _share(middle - half), _share(middle + half))
    return GroupVerdict(group, decision, *shares, len(own), fresh, error)


def _values(rounds: Sequence[RoundResult]) -> Floats:
    """By round and group; NaN of groups that have none to be compared with."""
    sizes = np.array([len(each.ranks) for each in rounds[0].groups])
    times = np.log([[each.time_ns for each in found.groups] for found in rounds])
    values = np.full(times.shape, math.nan)
    for group, size in enumerate(sizes):
        others = [other for other in np.flatnonzero(sizes == size).tolist() if other != group]
        if others:
            values[:, group] = times[:, group] - np.median(times[:, others], axis=1)
    return values


def _share(excess: float) -> float:
    """The share of bandwidth that is missing, of the logarithm of how much longer it took."""
    return -math.expm1(-excess)


# What groups run: between ranks it is sends and receives in every library, so that no algorithm for two hosts
# (a tree, NVLSTree) shows more than the links have, and none has to be forced.
COLLECTIVE: Final = "alltoall"
ELEMENT_BYTES: Final = 4
_HINTS: Final = {
    "rail": "the steps of its ring say which hosts: look at the NICs, cables and leaf switch of that rail",
    "host": "look at what its ranks share: NVLink, PCIe, memory, and at what else runs on it",
}


def bus_gb_per_s(size_bytes: int, ranks: int, duration_ns: float) -> float:
    """Bus bandwidth of a group's collective of ``size_bytes`` a rank, as of any alltoall."""
    row = collective(COLLECTIVE)
    moved = row.shape(size_bytes // ELEMENT_BYTES, ranks, ELEMENT_BYTES).algbw_count * ELEMENT_BYTES
    return gb_per_s(moved * row.busbw_factor(ranks), duration_ns)


def decisions(comparisons: Sequence[GroupComparison]) -> list[Decision]:
    """Of the stages; one in which there was nothing to compare leaves it to the other one."""
    return [each.decision for each in comparisons if each.groups]


def findings(
    rules: Rules, size_bytes: int, field: Field, found: GroupComparison, rounds: Sequence[RoundResult]
) -> tuple[Finding, ...]:
    """What was found in one stage, the slowest first."""
    said = [_of_slow(size_bytes, field, own, rounds) for own in found.groups if own.decision is Decision.SLOW]
    if found.decision is Decision.UNDECIDED and found.groups:
        claim = f"{field.kind}s: could not decide: {found.reason}"
        hint = "repeat it on idle hosts, or give a larger --loss"
        said.append(Finding(Severity.WARNING, claim, hint=hint, check=CHECK))
    if found.groups:
        claim = f"not covered: {field.kind}s that lack less than {rules.floors[BANDWIDTH]:.1%} of bandwidth"
        said.append(Finding(Severity.INFO, f"{claim}, or are all slow alike", check=CHECK))
    if found.alone:
        names = ", ".join(field.names[group] for group in found.alone)
        claim = f"not compared: {names}: no other {field.kind} has as many ranks"
        said.append(Finding(Severity.INFO, claim, check=CHECK))
    return tuple(said)


def _of_slow(size_bytes: int, field: Field, own: GroupVerdict, rounds: Sequence[RoundResult]) -> Finding:
    name, ranks = field.names[own.group], len(field.ranks[own.group])
    others = [g for g, each in enumerate(field.ranks) if len(each) == ranks and g != own.group]

    def rate(groups: Sequence[int]) -> str:
        took = median(found.groups[group].time_ns for found in rounds[-own.rounds :] for group in groups)
        return f"{bus_gb_per_s(size_bytes, ranks, took):.3g} GB/s"

    who = f"the {len(others)} other {field.kind}s" if len(others) > 1 else field.names[others[0]]
    return Finding(
        Severity.ERROR,
        f"{name}: {own.loss:.1%} less bandwidth than {who} at the same time"
        f" (95 %: {own.low:.1%} to {own.high:.1%})",
        evidence=f"{own.rounds} fresh rounds of {COLLECTIVE} in every {field.kind} at once:"
        f" {rate([own.group])}, {who} {rate(others)} (bus bandwidth, medians)",
        hint=_HINTS[field.kind],
        host=name if field.kind == "host" else "",
        check=CHECK,
    )


def to_fields(
    field: Field, found: GroupComparison, rounds: Sequence[RoundResult], places: Sequence[HostInfo]
) -> dict[str, Any]:
    """For the record, with the keys that fields of pair tests have."""
    slow = [own for own in found.groups if own.decision is Decision.SLOW]
    bad = [field.names[own.group] for own in slow]
    return {
        "kind": field.kind,
        "names": list(field.names),
        "decision": found.decision,
        "reason": found.reason,
        "suspects": [
            {"names": [field.names[own.group]], "metric": BANDWIDTH, "confirmed": True, **asdict(own)}
            for own in slow
        ],
        "open": [],
        "groups": [{"name": field.names[own.group], **asdict(own)} for own in found.groups],
        "alone": [field.names[group] for group in found.alone],
        "noise": {},
        "ranking": [],
        "exclude": excluded(bad, places) if field.kind == "host" and bad else {},
        "rounds": len(rounds),
        "seconds": round(sum(each.seconds for each in rounds), 3),
    }
