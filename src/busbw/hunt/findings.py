"""A verdict in words: a line a suspect, to be pasted into a ticket; who to leave out; what was not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from busbw.errors import ExitCode
from busbw.hunt.field import Field
from busbw.hunt.judge import LEAST_PARTS
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
_WHAT: Final = {
    BANDWIDTH: "less bandwidth than the others have",
    LATENCY: "more latency than the others have",
    QUICKEST: "more latency than the others have, of its quickest messages too",
    RESENT: "segments a test were sent again, over those of the others",
}
_BELOW: Final = {
    BANDWIDTH: "bandwidth that is lower by",
    LATENCY: "latency that is longer by",
    QUICKEST: "the quickest messages' latency that is longer by",
    RESENT: "loss that resends",
}
_APART: Final = {
    BANDWIDTH: "less bandwidth",
    LATENCY: "more latency",
    QUICKEST: "more latency of the quickest messages",
    RESENT: "more segments sent again",
}
_UNLIKE: Final = {
    BANDWIDTH: "bandwidth: too few pairs are alike",
    LATENCY: "latency: too few pairs are alike to say what is slow",
    QUICKEST: "the quickest messages' latency: too few pairs are alike",
    RESENT: "lost packets: segments are sent again all over",
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
    return (*found, *_of_classes(field, verdict), *_not_covered(verdict), *left_out(field))


def _of_classes(field: Field, verdict: Verdict) -> list[Finding]:
    """Paths that are not alike, which is nobody's fault: who is near whom, what leads between switches."""
    found = []
    for metric, groups in verdict.near.items():
        who = "; ".join(", ".join(field.names[part] for part in group) for group in groups)
        claim = f"paths are not alike: near one another are {who}: {_APART[metric]} with the others only"
        found.append(Finding(Severity.INFO, claim, hint=_HINT_OF_CLASSES, check=CHECK))
    for metric, share in verdict.longer.items():
        claim = f"between switches: {_share(metric, share)} {_APART[metric]} than within one, of all of them"
        found.append(Finding(Severity.INFO, claim, check=CHECK))
    return found


def _of_suspect(field: Field, suspect: Suspect) -> Finding:
    names = [field.names[part] for part in suspect.parts]
    who = names[0] if len(names) == 1 else f"the path between {names[0]} and {names[1]}"
    if suspect.leaf:
        who = f"switch {_switch(field, suspect)} of {', '.join(names)}"
    if suspect.beyond:
        ends = [field.leaf_names[field.leaves.index(each)] for each in (suspect.parts, suspect.beyond)]
        who = f"the path between switches {ends[0]} and {ends[1]}"
    elif len(names) == 1 and suspect.metric in (LATENCY, QUICKEST) and suspect.confirmed:
        who = f"{who}, or its path to all others"
    low, high = (_share(suspect.metric, bound) for bound in (suspect.low, suspect.high))
    middle = _share(suspect.metric, suspect.loss)
    claim = f"{who}: {middle} {_WHAT[suspect.metric]} (95 %: {low} to {high})"
    severity = Severity.ERROR
    if suspect.flapping:
        claim = (
            f"{who}: slow in {suspect.slow_tests} of {suspect.tests} tests: {middle} {_WHAT[suspect.metric]}"
        )
        claim, severity = f"{claim} ({low} to {high}), and none in the rest; suspected", Severity.WARNING
    elif not suspect.confirmed:
        claim, severity = f"{claim}; suspected, not confirmed", Severity.WARNING
    is_host = field.kind == "host" and len(names) == 1
    return Finding(
        severity,
        claim,
        evidence=_evidence(field, suspect),
        hint=_HINT_OF_PATH
        if suspect.beyond
        else _HINT_OF_HOST
        if is_host
        else _HINT_OF_SWITCH
        if suspect.leaf
        else "",
        rank=field.ranks[suspect.parts[0]][0] if field.kind == "rank" and len(names) == 1 else None,
        host=names[0] if is_host else "",
        check=CHECK,
    )


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
    said += [f"also {_share(metric, share)} {_WHAT[metric]}" for metric, share in suspect.also.items()]
    return "; ".join(said)


def _switch(field: Field, suspect: Suspect) -> str:
    return field.leaf_names[field.leaves.index(suspect.parts)]


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
        said.append(f"{_BELOW[metric]} less than {_share(metric, share)}")
    if RESENT in verdict.unobserved:
        said.append("lost packets: what the ranks' TCP sockets sent again cannot be read here")
    said += [_UNLIKE[metric] for metric in verdict.unlike]
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
            suspect["switch"] = (
                field.leaf_names[field.leaves.index(suspect["parts"])] if suspect["leaf"] else ""
            )
            suspect["switches"] = [
                field.leaf_names[field.leaves.index(suspect[end])] for end in ("parts", "beyond")
            ] if suspect["beyond"] else []  # fmt: skip
            suspect["partners"] = [field.names[part] for part in suspect["partners"]]
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
