"""Is the number to be expected: right data, what others measured, what the wires allow."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.judge.diagnose.subject import Subject, concluded
from busbw.judge.expectation import Judged, Judgement
from busbw.judge.moved import node_bytes
from busbw.judge.network import cause, said_by
from busbw.judge.traffic import settings_of
from busbw.model.conclusion import Answer, Conclusion, Fact
from busbw.model.finding import Severity
from busbw.model.result import Status
from busbw.units import first_of, format_share, format_size

_SHOWN = 3  # cases that a claim names
_SOCKETS_HINT = (
    "give the job the fabric's devices and its network plugin; NCCL_DEBUG=INFO says why NCCL did not use them"
)
_BEYOND = "check ranks, nodes, rates and algorithm in the record"


def conclusions(subject: Subject) -> Iterator[Conclusion]:
    """See ``diagnose.engine.Rule``."""
    yield from _data(subject)
    if subject.record.profiled:
        yield concluded(
            "a profiler was attached: no time of this run is held against a reference or a wire",
            hint="measure without --profile, and without nsys around it",
            check="expected.profiled",
        )
        return
    physical = (*_limit(subject), *_wire(subject))
    yield _reference(subject, bounded=any(each.answer is Answer.ASIDE for each in physical))
    yield from _network(subject)
    yield from physical


def _data(subject: Subject) -> Iterator[Conclusion]:
    """Wrong elements and failed cases come before any number."""
    cases = subject.record.plan.cases
    for status, check, what in (
        (Status.WRONG, "expected.data", "gave wrong data"),
        (Status.FAILED, "expected.failed", "failed"),
    ):
        bad = [result for result in subject.record.results if result.status is status]
        if not bad:
            continue
        first, at = bad[0], cases[bad[0].case]
        where = first.wrong_at[0] if first.wrong_at else None
        words = f"the first: {at.collective} {at.dtype} {format_size(at.size_bytes)}, case {first.case}"
        words += f": {first.wrong_words}" if status is Status.WRONG else ""
        # Of the worst case, where every case has them counted: one fault shows in many cases.
        counts = [each.wrong for each in bad if each.wrong is not None]
        worst = [Fact("wrong elements of the worst case", max(counts))] if len(counts) == len(bad) else []
        yield concluded(
            f"{len(bad)} of {len(cases)} cases {what}",
            severity=Severity.ERROR,
            evidence=first.error or words,
            hint="measure again with another version of the library, and on half of the ranks",
            rank=where.rank if where else None,
            host=where.host if where else "",
            check=check,
            answer=Answer.NO,
            facts=(Fact("cases", len(bad)), *worst),
            case=first.case,
        )


def _reference(subject: Subject, *, bounded: bool) -> Conclusion:
    """The run against references, all cases in one conclusion: a run is as good as its worst case.
    ``bounded`` is whether something physical bounds it, which a slow run is below, too.
    """
    judged = subject.expectation.cases
    below = [case for case in judged if case.answer is Judgement.BELOW]
    below.sort(key=lambda case: case.ratio or 0.0)
    undecided = [case for case in judged if case.answer is Judgement.UNDECIDED]
    good = [case for case in judged if case.answer is Judgement.EXPECTED]
    names = ", ".join(reference.name for reference in subject.expectation.references)
    known = len(below) + len(undecided) + len(good)
    if not known:
        return _no_reference(subject, bounded=bounded)
    if below:
        answer, claim = Answer.NO, f"{len(below)} of {known} cases are below what {names} reached: "
        claim += first_of(map(_share_of, below), _SHOWN)
        evidence = "bus bandwidth over the reference's"
        hint = "`busbw expect` has every case; then see which links and which algorithm were used"
    elif len(undecided) > len(good):
        answer, claim = (
            Answer.UNDECIDED,
            f"{len(undecided)} of {known} cases cannot be decided against {names}",
        )
        evidence = f"{format_size(undecided[0].key.size_bytes)}: {undecided[0].why}"
        hint = "`busbw expect` says of each what is missing; name one reference where several disagree"
    else:
        answer, claim = Answer.YES, f"{len(good)} of {len(judged)} cases reach what {names} did"
        claim += f"; {len(undecided)} undecided" if undecided else ""
        # By how much less would be called expected too, at the best and the worst size.
        losses = sorted(case.loss_unseen or 0.0 for case in good)
        unseen = " to ".join(dict.fromkeys((f"{losses[0]:.0%}", f"{losses[-1]:.0%}")))
        evidence, hint = f"a loss under {unseen} would not show", ""
    return concluded(
        claim,
        severity=Severity.ERROR if below else None,
        evidence=evidence,
        hint=hint,
        check="expected.reference",
        answer=answer,
        facts=(
            Fact("cases with a reference", known),
            Fact("below it", len(below)),
            *(_ratio(case) for case in (below or good)[:_SHOWN]),
        ),
    )


def _share_of(case: Judged) -> str:
    size, share = format_size(case.key.size_bytes), format_share(case.ratio or 0.0, decimals=0)
    return f"{size} {case.key.collective} {case.key.placement} {share}"


def _ratio(case: Judged) -> Fact:
    name = f"{case.key.collective} {format_size(case.key.size_bytes)} {case.key.placement}"
    return Fact(name, round(case.ratio or 0.0, 4), "of the reference", case.reference)


def _no_reference(subject: Subject, *, bounded: bool) -> Conclusion:
    """What the references at hand lack, by rows where these say it."""
    lacking = [f"{name}: {why}" for name, why in subject.expectation.unmatched.items()]
    if subject.expectation.fitting:
        lacking = list(dict.fromkeys(case.why for case in subject.expectation.cases if case.why))
    if bounded:
        lacking.append("a number below the limit of the wires is possible, but need not be the expected one")
    return concluded(
        f"no reference: {subject.expectation.none}",
        evidence=first_of(lacking, _SHOWN, "; "),
        hint="save a good run as the reference: `busbw expect RUN --save NAME`",
        check="expected.reference",
        answer=Answer.UNDECIDED if bounded else Answer.NOT_OBSERVABLE,
    )


def _network(subject: Subject) -> Iterator[Conclusion]:
    """What NCCL says of its network, and the setting that keeps it off a fabric. Sockets between hosts are
    a warning where the run is below its reference, or has none and its machine has a fabric (of a log: may
    have one).
    """
    parts = list(filter(None, [said_by((subject.record,))]))
    off = settings_of(subject.record).get("NCCL_IB_DISABLE", "")
    if off not in ("", "0") and subject.nodes != 1 and subject.record.plan.backend != "mpi":
        parts.append(f"NCCL_IB_DISABLE={off} keeps NCCL off InfiniBand and RoCE")
    if not parts:
        return
    said = "; ".join(parts)
    why = cause(subject.record, subject.nodes)
    nics = subject.record.machine.get("nics", {})
    may_have_fabric = subject.record.source is not None or nics.get("rdma") or nics.get("cxi")
    reached, below = map(subject.expectation.count, (Judgement.EXPECTED, Judgement.BELOW))
    is_bad = why and subject.nodes and (below or (may_have_fabric and not reached))
    yield concluded(
        why or said,
        severity=Severity.WARNING if is_bad else Severity.INFO,
        evidence=said if why else "",
        hint=_SOCKETS_HINT if why else "",
        check="expected.log",
        answer=Answer.ASIDE,
    )


def _limit(subject: Subject) -> Iterator[Conclusion]:
    """The best case against what its observed algorithm can do on these wires. More cannot be; less is no
    evidence that it is what such a machine reaches.
    """
    limits = ((case.limit, case) for case in subject.expectation.cases if case.limit is not None)
    known = [(limit.percent, limit, case) for limit, case in limits if limit.percent is not None]
    if not known:
        return
    percent, limit, best = max(known, key=lambda each: each[0])
    bound = limit.busbw_gb_per_s or 0.0
    beyond = best.low_gb_per_s is not None and best.low_gb_per_s > bound
    yield concluded(
        f"{best.key.collective} {format_size(best.key.size_bytes)} reaches {percent:.0f} % of what the wires"
        f" allow ({limit.wire} at {limit.wire_gb_per_s or 0.0:.1f} GB/s)"
        + (", which cannot be" if beyond else ""),
        evidence=f"{limit.model}; rates: {subject.expectation.wires.source}",
        hint=_BEYOND if beyond else "",
        check="expected.limit",
        answer=Answer.NO if beyond else Answer.ASIDE,
        facts=(
            Fact("measured busbw", round(best.measured_gb_per_s or 0.0, 3), "GB/s"),
            Fact("limit of busbw", round(bound, 3), "GB/s", limit.model),
            Fact("share of limit", round(percent, 1), "%"),
        ),
    )


def _wire(subject: Subject) -> Iterator[Conclusion]:
    """What the largest case means for a node's NICs, by the bytes that must leave it: what to hold against
    the line rate instead of a bus bandwidth.
    """
    line, nics = subject.wires.network_gb_per_s, subject.wires.nics
    large = max(subject.record.timed, key=lambda pair: pair[1].algbw_gb_per_s or 0.0, default=None)
    if large is None or not line or not nics:
        return
    case, result = large
    layout = subject.layout
    units = layout.nodes or subject.nodes  # hosts that share an NVLink domain are one, and share its NICs
    moved = node_bytes(case.collective, result.algorithm, case.size_bytes, subject.together, units)
    if moved is None or not result.time_ns:
        return
    rate = moved.bytes / result.time_ns / layout.hosts
    if rate > line and not layout.surely:  # then it is not known what has to leave a host
        return
    least = "" if moved.exact else "at least "
    same = ", the algbw" if moved.bytes == case.size_bytes else ""
    beyond = rate > line
    yield concluded(
        f"{format_size(case.size_bytes)} {case.collective}: each of {subject.nodes} nodes must send and"
        f" receive {least}{rate:.2f} GB/s{same}, {rate / nics:.2f} over each of {nics} NICs:"
        f" {format_share(rate / line, decimals=0)} of their rate" + (", which cannot be" if beyond else ""),
        evidence=f"{moved.model}; rates: {subject.wires.source}",
        hint=_BEYOND if beyond else "",
        check="expected.wire",
        answer=Answer.NO if beyond else Answer.ASIDE,
        facts=(
            Fact("bytes a call and node", round(moved.bytes), "B", moved.model),
            Fact("network rate of a node", round(rate, 3), "GB/s"),
            Fact("algbw", round(result.algbw_gb_per_s or 0.0, 3), "GB/s", "size / time"),
            Fact("line rate of a node", round(line, 3), "GB/s", subject.wires.source),
            Fact("NICs", nics),
        ),
        case=case.index,
    )
