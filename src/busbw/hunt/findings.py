"""A verdict in words: a line a suspect, to be pasted into a ticket; who to leave out; what was not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from busbw.errors import ExitCode
from busbw.hunt.field import Field
from busbw.hunt.standing import LEAST_PARTS
from busbw.hunt.verdict import Decision, Suspect, Verdict
from busbw.model.finding import Finding, Severity
from busbw.model.hunt import BANDWIDTH, LATENCY, QUICKEST, RESENT
from busbw.model.record import HostInfo
from busbw.record.exclude import excluding

CHECK: Final = "isolate"
_CODES: Final = {
    Decision.HEALTHY: ExitCode.OK,
    Decision.SLOW: ExitCode.BAD_VERDICT,
    Decision.UNDECIDED: ExitCode.UNDECIDED,
}


class _Words(NamedTuple):
    """How a metric is spoken of: what it is, what a suspect has, what too small a loss is of, what paths
    differ by, and why nothing was decided by it.
    """

    what: str
    has: str
    below: str
    apart: str
    unlike: str


_WORDS: Final = {
    BANDWIDTH: _Words(
        what="bandwidth",
        has="less bandwidth than the others have",
        below="bandwidth that is lower by",
        apart="less bandwidth",
        unlike="bandwidth: too few pairs are alike",
    ),
    LATENCY: _Words(
        what="latency",
        has="more latency than the others have",
        below="latency that is longer by",
        apart="more latency",
        unlike="latency: too few pairs are alike to say what is slow",
    ),
    QUICKEST: _Words(
        what="the quickest messages' latency",
        has="more latency than the others have, of its quickest messages too",
        below="the quickest messages' latency that is longer by",
        apart="more latency of the quickest messages",
        unlike="the quickest messages' latency: too few pairs are alike",
    ),
    RESENT: _Words(
        what="lost packets",
        has="segments a test were sent again, over those of the others",
        below="loss that resends",
        apart="more segments sent again",
        unlike="lost packets: segments are sent again all over",
    ),
}
_NAMED: Final = 8
_HINT_OF_CLASSES: Final = (
    "say which hosts share a switch, --topology FILE, so that each is compared with its like"
)
_HINT_OF_PATH: Final = "look at the links between the two switches, and keep a job off that pair meanwhile"
_HINT_OF_HOST: Final = "look at its NIC, cable and switch port, and at what else runs on it"
_HINT_OF_SWITCH: Final = "look at its uplinks and their ports, and keep a job within one switch meanwhile"
_WAYS: Final = {"sends": "it sends slowly and receives as the others do", "receives": "it receives slowly"}


def exit_code(verdicts: Sequence[Verdict]) -> ExitCode:
    """Of several fields: a confirmed suspect counts more than a field where nothing could be decided."""
    codes = {_CODES[verdict.decision] for verdict in verdicts}
    order = (ExitCode.BAD_VERDICT, ExitCode.UNDECIDED, ExitCode.OK)
    return next((code for code in order if code in codes), ExitCode.OK)


def findings(field: Field, verdict: Verdict) -> tuple[Finding, ...]:
    """What a hunt in one field found: suspects, the slowest first, then what it did not see."""
    found = [_of_suspect(field, suspect) for suspect in (*verdict.suspects, *verdict.open)]
    if verdict.decision is Decision.UNDECIDED:
        claim = f"{field.kind}s: could not decide: {verdict.reason}"
        too_few = len(field.names) < LEAST_PARTS
        hint = (
            "`busbw pairs` shows every pair"
            if too_few
            else "repeat it on idle hosts, or give a larger --loss"
        )
        found.append(Finding(Severity.WARNING, claim, hint=hint, check=CHECK))
    found += [
        _of_acquitted(field.names[part], tests, slow, verdict) for part, tests, slow in verdict.acquitted
    ]
    return (*found, *_of_classes(field, verdict), *_not_covered(verdict), *left_out(field))


def _of_acquitted(name: str, tests: int, slow: int, verdict: Verdict) -> Finding:
    metric, share = next(iter(verdict.resolution.items()))
    how = f"{tests} fresh tests did not find it slow by {_share(metric, share)} or more"
    if slow:
        how = f"{slow} of {tests} fresh tests were slow, and what was slow did not stay with it"
    return Finding(Severity.INFO, f"{name}: doubted before the hunt, and cleared: {how}", check=CHECK)


def _of_classes(field: Field, verdict: Verdict) -> list[Finding]:
    """Paths that are not alike, which is nobody's fault: who is near whom, what leads between switches."""
    found = []
    for metric, groups in verdict.near.items():
        who = "; ".join(", ".join(field.names[part] for part in group) for group in groups)
        claim = (
            f"paths are not alike: near one another are {who}: {_WORDS[metric].apart} with the others only"
        )
        found.append(Finding(Severity.INFO, claim, hint=_HINT_OF_CLASSES, check=CHECK))
    for metric, share in verdict.longer.items():
        more = f"{_share(metric, share)} {_WORDS[metric].apart}"
        claim = f"between switches: {more} than within one, of all of them"
        found.append(Finding(Severity.INFO, claim, check=CHECK))
    return found


def _of_suspect(field: Field, suspect: Suspect) -> Finding:
    names = [field.names[part] for part in suspect.parts]
    who, (low, high) = (
        _who(field, suspect),
        (_share(suspect.metric, at) for at in (suspect.low, suspect.high)),
    )
    lost = f"{_share(suspect.metric, suspect.loss)} {_WORDS[suspect.metric].has}"
    claim, severity = f"{who}: {lost} (95 %: {low} to {high})", Severity.ERROR
    if suspect.doubted:
        tests = (
            f"{suspect.fresh} fresh tests did not decide" if suspect.fresh else "no fresh test of it counted"
        )
        claim, severity = f"{who}: doubted before the hunt, and not cleared: {tests}", Severity.WARNING
    elif suspect.flapping:
        slow = f"slow in {suspect.slow_tests} of {suspect.tests} tests"
        claim = f"{who}: {slow}: {lost} ({low} to {high}), and none in the rest; suspected"
        severity = Severity.WARNING
    elif not suspect.confirmed:
        claim, severity = f"{claim}; suspected, not confirmed", Severity.WARNING
    is_host = field.kind == "host" and len(names) == 1
    return Finding(
        severity,
        claim,
        evidence=_evidence(field, suspect),
        hint=_hint(suspect, is_host=is_host),
        rank=field.ranks[suspect.parts[0]][0] if field.kind == "rank" and len(names) == 1 else None,
        host=names[0] if is_host else "",
        check=CHECK,
    )


def _who(field: Field, suspect: Suspect) -> str:
    names = [field.names[part] for part in suspect.parts]
    if suspect.beyond:
        one, other = (_switch(field, parts) for parts in (suspect.parts, suspect.beyond))
        return f"the path between switches {one} and {other}"
    if suspect.leaf:
        return f"switch {_switch(field, suspect.parts)} of {', '.join(names)}"
    if len(names) > 1:
        return f"the path between {names[0]} and {names[1]}"
    # Latency to all others is a property of the way there too, and no test within a switch tells them apart.
    is_way = suspect.metric in (LATENCY, QUICKEST) and suspect.confirmed
    return f"{names[0]}, or its path to all others" if is_way else names[0]


def _hint(suspect: Suspect, *, is_host: bool) -> str:
    if suspect.beyond:
        return _HINT_OF_PATH
    if is_host:
        return _HINT_OF_HOST
    return _HINT_OF_SWITCH if suspect.leaf else ""


def _evidence(field: Field, suspect: Suspect) -> str:
    if suspect.leaf:
        return _evidence_of_switch(suspect)
    said = []
    if suspect.partners:
        partners = ", ".join(field.names[part] for part in dict.fromkeys(suspect.partners))
        said.append(f"fresh tests with {partners}, which pass with others")
    elif suspect.fresh:
        tests = f"{suspect.slow_fresh} of {suspect.fresh} fresh tests of this pair were slow"
        said.append(f"{tests}, while both of its {field.kind}s passed with others")
    said.append(f"{suspect.slow_screens} of {suspect.screens} tests in random pairs were slow")
    if suspect.direction:
        said.append(_WAYS[suspect.direction])
    if suspect.lanes:
        said.append(f"only its local ranks {', '.join(map(str, suspect.lanes))}")
    said += [f"also {_share(metric, share)} {_WORDS[metric].has}" for metric, share in suspect.also.items()]
    return "; ".join(said)


def _switch(field: Field, parts: tuple[int, ...]) -> str:
    return field.leaf_names[field.leaves.index(parts)]


def _evidence_of_switch(suspect: Suspect) -> str:
    """Where its hosts are slow, and where not."""
    if suspect.beyond:
        tests = f"{suspect.slow_screens} of {suspect.screens} tests over it in the first rounds were slow"
        again = f"{suspect.slow_fresh} of {suspect.fresh} rounds of fresh tests"
        return f"{tests}; so was the middle one in {again}, while these hosts passed with others"
    out = f"{suspect.slow_screens} of {suspect.screens} tests that left it in random pairs were slow"
    well, hosts = suspect.passed_inside, len(suspect.parts)
    among = f"{well} of its {hosts} hosts were as good as others with each other" if well else ""
    fresh = "so was the middle one of its hosts with good hosts of other switches, in fresh tests"
    return "; ".join(filter(None, (out, fresh if suspect.confirmed else "", among)))


def _share(metric: str, share: float) -> str:
    if metric == RESENT:
        return f"{share:.0f}"
    return f"{share:.1%}" if metric == BANDWIDTH or share < 1 else f"{share:.1f} times"


def _not_covered(verdict: Verdict) -> list[Finding]:
    """What a hunt cannot have seen is said, so that "healthy" is no more than it is."""
    untested = verdict.pairs - verdict.tested
    said = [f"paths between the {untested} of {verdict.pairs} pairs that were not tested"] if untested else []
    for metric, share in verdict.resolution.items():
        said.append(f"{_WORDS[metric].below} less than {_share(metric, share)}")
    if RESENT in verdict.unobserved:
        said.append("lost packets: what the ranks' TCP sockets sent again cannot be read here")
    said += [_WORDS[metric].unlike for metric in verdict.unlike]
    for metric, count in verdict.moved.items():
        said.append(
            f"{_WORDS[metric].what} in {count} of {verdict.rounds} rounds, in which all pairs were slow"
        )
    if verdict.stalled_rounds:
        rounds = f"{verdict.stalled_rounds} of {verdict.rounds} rounds"
        said.append(f"late messages among quick ones in {rounds}, in which programs waited for cores")
    return (
        [Finding(Severity.INFO, f"not covered: {'; '.join(said)}", check=CHECK)] if verdict.resolution else []
    )


def left_out(field: Field) -> tuple[Finding, ...]:
    """Ranks that no test has: all tests are alike."""
    if not field.left_out:
        return ()
    first = ", ".join(map(str, field.left_out[:_NAMED]))
    more = f" and {len(field.left_out) - _NAMED} more" if len(field.left_out) > _NAMED else ""
    ranks = "rank" if len(field.left_out) == 1 else "ranks"
    used = f"{field.width} ranks" if field.width > 1 else "one rank"
    why = f"every {field.kind} is tested with {used}, as many as the one with the fewest has"
    return (Finding(Severity.INFO, f"not covered: {ranks} {first}{more}: {why}", check=CHECK),)


def to_fields(field: Field, verdict: Verdict, places: Sequence[HostInfo], seconds: float) -> dict[str, Any]:
    """The verdict of one field for the record: numbers, names, and who to leave out."""
    fields = asdict(verdict)
    for name in ("suspects", "open"):
        for suspect in fields[name]:
            suspect["names"] = [field.names[part] for part in suspect["parts"]]
            ends = ("parts", "beyond") if suspect["beyond"] else ()
            suspect["switch"] = _switch(field, suspect["parts"]) if suspect["leaf"] else ""
            suspect["switches"] = [_switch(field, suspect[end]) for end in ends]
            suspect["partners"] = [field.names[part] for part in suspect["partners"]]
    fields["acquitted"] = [
        {"name": field.names[part], "tests": tests, "slow_tests": slow}
        for part, tests, slow in verdict.acquitted
    ]
    fields["ranking"] = [{"name": field.names[part], "loss": loss} for part, loss in verdict.ranking]
    bad = [field.names[each.parts[0]] for each in verdict.suspects if len(each.parts) == 1]
    fields["near"] = {
        metric: [[field.names[part] for part in group] for group in groups]
        for metric, groups in verdict.near.items()
    }
    exclude = excluded(bad, places) if field.kind == "host" and bad else {}
    return {"kind": field.kind, "names": list(field.names), **fields, "exclude": exclude, "seconds": seconds}


def excluded(hosts: Sequence[str], places: Sequence[HostInfo] = ()) -> dict[str, Any]:
    """How Slurm and Kubernetes are told to leave hosts out, by their own names for them."""
    known: Mapping[str, HostInfo] = {place.host: place for place in places}
    of = [known.get(host, HostInfo(host)) for host in hosts]
    return excluding(
        [place.slurm_node or place.host for place in of],
        [place.kubernetes_node or place.host for place in of],
    )
