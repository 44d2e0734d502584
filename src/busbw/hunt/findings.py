"""A verdict in words: a line a suspect, to be pasted into a ticket; who to leave out; what was not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from busbw.hunt.decide import LEAST_PARTS
from busbw.hunt.field import Field
from busbw.hunt.verdict import Decision, HuntVerdict, Suspect
from busbw.model.finding import Finding, Severity
from busbw.model.hunt import BANDWIDTH, LATENCY, QUICKEST, RESENT
from busbw.model.record import HostInfo
from busbw.record.findings import excluding
from busbw.units import first_of

CHECK: Final = "isolate"


class _Words(NamedTuple):
    """How a metric is spoken of: what it is, what a suspect has, which loss is too small to show, and what
    paths differ by.
    """

    what: str
    has: str
    below: str
    apart: str


_WORDS: Final = {
    BANDWIDTH: _Words(
        "bandwidth", "less bandwidth than the others have", "bandwidth lower by less than", "less bandwidth"
    ),
    LATENCY: _Words(
        "latency", "more latency than the others have", "latency longer by less than", "more latency"
    ),
    QUICKEST: _Words(
        "latency of the quickest messages",
        "more latency than the others have, of its quickest messages too",
        "latency of the quickest messages longer by less than",
        "more latency of the quickest messages",
    ),
    RESENT: _Words(
        "lost packets",
        "more segments resent per test than the others",
        "fewer resent segments than",
        "more segments sent again",
    ),
}
_NAMED: Final = 8
_HINT_OF_GROUPS: Final = (
    "say which hosts share a switch, --topology FILE, so that each is compared with its like; else look at"
    " NICs and uplinks"
)
_HINT_OF_PATH: Final = "look at the links between the two switches, and keep a job off that pair meanwhile"
_HINT_OF_HOST: Final = "look at its NIC, cable and switch port, and at what else runs on it"
_HINT_OF_RANK: Final = "look at its GPU or core, and at what else runs on it"
_HINT_OF_WAY: Final = "look at the links between them, and at what else runs on both"
_HINT_OF_SWITCH: Final = "look at its uplinks and their ports, and keep a job within one switch meanwhile"
_WAYS: Final = {"sends": "it sends slowly and receives as the others do", "receives": "it receives slowly"}


def findings(field: Field, verdict: HuntVerdict) -> tuple[Finding, ...]:
    """What a hunt in one field found: suspects, the slowest first, then what it did not see."""
    found = [_of_suspect(field, suspect) for suspect in (*verdict.suspects, *verdict.open)]
    if verdict.decision is Decision.UNDECIDED:
        claim = f"{field.kind}s: could not decide: {verdict.reason}"
        hint = "repeat it on idle hosts, or give a larger --loss"
        if verdict.open or verdict.fast:
            hint = _HINT_OF_GROUPS
        elif len(field.names) < LEAST_PARTS:
            hint = "`busbw pairs` shows every pair"
        found.append(Finding(Severity.WARNING, claim, hint=hint, check=CHECK))
    # Paths that are not alike are nobody's fault.
    claims = [
        f"paths differ: {_WORDS[metric].apart} between {_names(field, one)} and {_names(field, other)}"
        for metric, groups in verdict.near.items()
        for one, other in groups[:_NAMED]
    ]
    claims += [
        f"between switches: {_share(metric, share)} {_WORDS[metric].apart} than within one, of all of them"
        for metric, share in verdict.longer.items()
    ]
    found += [Finding(Severity.INFO, claim, check=CHECK) for claim in claims]
    return (*found, *_not_covered(verdict), *left_out(field))


def _of_suspect(field: Field, suspect: Suspect) -> Finding:
    low, high = (_share(suspect.metric, at) for at in (suspect.low, suspect.high))
    lost = f"{_share(suspect.metric, suspect.loss)} {_WORDS[suspect.metric].has}"
    is_host = field.kind == "host" and _is_part(suspect)
    who, other = (_names(field, parts) for parts in (suspect.parts, suspect.beyond))
    if suspect.beyond:
        several = len(suspect.parts) * len(suspect.beyond) > 1
        who = f"the {'paths' if several else 'path'} between {who} and {other}"
    elif suspect.metric in (LATENCY, QUICKEST):
        # It is a property of the way there too, and no test separates the two.
        who += ", or its path to all others"
    return Finding(
        Severity.ERROR if suspect.confirmed else Severity.WARNING,
        f"{who}: {lost} (95 %: {low} to {high})",
        evidence=_evidence(suspect),
        hint=_hint(suspect, is_host=is_host),
        rank=field.ranks[suspect.parts[0]][0] if field.kind == "rank" and _is_part(suspect) else None,
        host=field.names[suspect.parts[0]] if is_host else "",
        check=CHECK,
    )


def _is_part(suspect: Suspect) -> bool:
    return len(suspect.parts) == 1 and not suspect.beyond


def _names(field: Field, parts: tuple[int, ...]) -> str:
    """The parts, with their switch where they are all that it has."""
    names = first_of([field.names[part] for part in parts], _NAMED)
    if len(parts) > 1 and parts in field.leaves:
        return f"switch {field.leaf_names[field.leaves.index(parts)]} of {names}"
    return names


def _hint(suspect: Suspect, *, is_host: bool) -> str:
    if not suspect.confirmed:
        return _HINT_OF_GROUPS
    if suspect.leaf:
        return _HINT_OF_PATH if suspect.beyond else _HINT_OF_SWITCH
    if suspect.beyond:
        return _HINT_OF_WAY
    return _HINT_OF_HOST if is_host else _HINT_OF_RANK


def _evidence(suspect: Suspect) -> str:
    slow, tests = suspect.slow_tests, suspect.tests
    said = [f"{slow} of its {tests} tests with healthy parts were slow"]
    if suspect.beyond:
        said = [f"{slow} of {tests} tests were slow, while both ends are quick with others"]
    if suspect.direction:
        said.append(_WAYS[suspect.direction])
    if suspect.lanes:
        said.append(f"only its local ranks {', '.join(map(str, suspect.lanes))}")
    said += [f"also {_share(metric, share)} {_WORDS[metric].has}" for metric, share in suspect.also.items()]
    return "; ".join(said)


def _share(metric: str, share: float) -> str:
    if metric == RESENT:
        return f"{share:.0f}"
    return f"{share:.1%}" if metric == BANDWIDTH or share < 1 else f"{share:.1f} times"


def _not_covered(verdict: HuntVerdict) -> list[Finding]:
    """What a hunt cannot have seen is said, so that "healthy" is no more than it is."""
    untested = verdict.pairs - verdict.tested
    said = [f"paths between the {untested} of {verdict.pairs} pairs that were not tested"] if untested else []
    for metric, share in verdict.resolution.items():
        said.append(f"{_WORDS[metric].below} {_share(metric, share)}")
    if RESENT in verdict.unobserved:
        said.append("lost packets: what the ranks' TCP sockets sent again cannot be read here")
    said += [f"{_WORDS[metric].what}: tests scatter too much" for metric in verdict.unlike]
    if verdict.stalled_rounds:
        rounds = f"{verdict.stalled_rounds} of {verdict.rounds} rounds"
        said.append(f"late messages in {rounds}, because programs waited for cores")
    return (
        [Finding(Severity.INFO, f"not covered: {'; '.join(said)}", check=CHECK)] if verdict.resolution else []
    )


def left_out(field: Field) -> tuple[Finding, ...]:
    """Ranks that no test has: all tests are alike."""
    if not field.left_out:
        return ()
    first = first_of(map(str, field.left_out), _NAMED)
    ranks = "rank" if len(field.left_out) == 1 else "ranks"
    used = f"{field.width} ranks" if field.width > 1 else "one rank"
    why = f"every {field.kind} is tested with {used}, as many as the one with the fewest has"
    return (Finding(Severity.INFO, f"not covered: {ranks} {first}: {why}", check=CHECK),)


def to_fields(
    field: Field, verdict: HuntVerdict, places: Sequence[HostInfo], seconds: float
) -> dict[str, Any]:
    """The verdict of one field for the record: numbers, names, and who to leave out."""
    fields = asdict(verdict)

    def named(parts: Sequence[int]) -> list[str]:
        return [field.names[part] for part in parts]

    for suspect in (*fields["suspects"], *fields["open"]):
        suspect |= {"names": named((*suspect["parts"], *suspect["beyond"]))}
        suspect |= {"ends": [named(suspect[end]) for end in ("parts", "beyond") if suspect["beyond"]]}
    fields["ranking"] = [{"name": field.names[part], "loss": loss} for part, loss in verdict.ranking]
    fields["near"] = {
        metric: [[named(one), named(other)] for one, other in groups]
        for metric, groups in verdict.near.items()
    }
    bad = [field.names[each.parts[0]] for each in verdict.suspects if _is_part(each)]
    exclude = excluded(bad, places) if field.kind == "host" and bad else {}
    return {"kind": field.kind, "names": list(field.names), **fields, "exclude": exclude, "seconds": seconds}


def excluded(hosts: Sequence[str], places: Sequence[HostInfo] = ()) -> dict[str, Any]:
    """How to make Slurm and Kubernetes leave hosts out, by their own names for them."""
    known: Mapping[str, HostInfo] = {place.host: place for place in places}
    of = [known.get(host, HostInfo(host)) for host in hosts]
    return excluding(
        [place.slurm_node or place.host for place in of],
        [place.kubernetes_node or place.host for place in of],
    )
