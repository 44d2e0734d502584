"""Groups that were compared, in words: a line a slow one, and what could not be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Final

from busbw.errors import ExitCode
from busbw.hunt.alike import Comparison, GroupVerdict
from busbw.hunt.field import Field
from busbw.hunt.findings import CHECK, excluded
from busbw.hunt.verdict import Decision
from busbw.model.collective import collective
from busbw.model.finding import Finding, Severity
from busbw.model.hunt import BANDWIDTH, RoundResult, Rules
from busbw.model.record import HostInfo
from busbw.units import gb_per_s

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


def exit_code(comparisons: Sequence[Comparison]) -> ExitCode:
    """A slow group counts more than one of which nothing could be decided; a stage in which there was nothing
    to compare is left to the other one.
    """
    decisions = {each.decision for each in comparisons if each.groups}
    if Decision.SLOW in decisions:
        return ExitCode.BAD_VERDICT
    return ExitCode.OK if decisions == {Decision.HEALTHY} else ExitCode.UNDECIDED


def findings(
    rules: Rules, size_bytes: int, field: Field, found: Comparison, rounds: Sequence[RoundResult]
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
    field: Field, found: Comparison, rounds: Sequence[RoundResult], places: Sequence[HostInfo]
) -> dict[str, Any]:
    """For the record, with the keys that fields of pair tests have."""
    slow = [own for own in found.groups if own.decision is Decision.SLOW]
    bad = [field.names[own.group] for own in slow]
    groups: list[Mapping[str, Any]] = [
        {"name": field.names[own.group], **asdict(own)} for own in found.groups
    ]
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
        "groups": groups,
        "alone": [field.names[group] for group in found.alone],
        "noise": {},
        "ranking": [],
        "exclude": excluded(bad, places) if field.kind == "host" and bad else {},
        "rounds": len(rounds),
        "seconds": round(sum(each.seconds for each in rounds), 3),
    }
