"""Were all links used: which carried nothing, how evenly, at what share of their rate, and whether the bytes
are those that had to move.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from busbw.judge.diagnose.subject import Subject, concluded
from busbw.judge.traffic import (
    STARVED,
    WORTH_NAMING,
    Fellows,
    bypassed,
    byte_paths,
    degraded,
    matters,
    odd_one,
    settings_of,
    traffic,
)
from busbw.model.case import Case
from busbw.model.conclusion import Answer, Conclusion, Fact
from busbw.model.finding import Severity
from busbw.model.result import CaseResult, Status
from busbw.model.traffic import NVLINK, Burst, Link
from busbw.units import first_of, format_approximate_size, format_share, format_size

_SHOWN: Final = 4
# Events that a network without loss does not have. Waits (port_xmit_wait) and notices of congestion are not
# among them: they come with every busy port.
_LOSS: Final = {
    "port_xmit_discards": "discarded before they were sent",
    "port_rcv_errors": "received with errors",
    "out_of_sequence": "out of sequence",
    "packet_seq_err": "sequence errors reported by the receiver",
    "roce_adp_retrans": "adaptive retransmissions",
    "rx_drops": "dropped on receipt",
    "retrans_bytes": "bytes retransmitted",
    "rx_dropped": "dropped on receipt",
    "tx_dropped": "dropped before they were sent",
    "rx_errors": "received with errors",
}

# Packets that came in another order: losses do that, and so does adaptive routing, which is as it should be.
_REORDERED: Final = ("out_of_sequence",)

# Kernels drop what nobody listens to, as a switch's own frames (STP, LLDP): up to one a second is no loss.
_IDLE: Final = ("rx_dropped",)


def _missing(groups: Sequence[Fellows]) -> Iterator[Conclusion]:
    """Hosts (or GPUs) with fewer ports than others use: one is down, or not passed into the container."""
    kind = groups[0].kind
    most = max(len(group.used) for group in groups)
    odd = [(group, have) for group in groups if (have := len(group.links) + len(group.noted)) < most]
    if not odd:
        return
    names = Counter(_name(use.link) for group in groups for use in group.used)
    words = []
    for group, have in odd:
        own = {_name(use.link) for use in group.links}
        gone = [name for name, many in names.items() if name not in own and many >= len(groups) - len(odd)]
        words.append(
            f"{_place(group)} has {have} of {most}" + (f" (no {', '.join(gone[:_SHOWN])})" if gone else "")
        )
    what = "GPUs" if kind == NVLINK else "hosts"
    yield concluded(
        f"{what} differ in their {kind} links: {first_of(words, _SHOWN)}",
        evidence="links that are up and have counters",
        hint="look for inactive links: `nvidia-smi nvlink -s`"
        if kind == NVLINK
        else "see whether the port is down (`ibstat`, `ip link`), and passed into the container",
        host=_only(group.host for group, _ in odd),
        check="links.missing",
        answer=Answer.NO,
        facts=tuple(Fact(group.host, have, f"of {most}", kind) for group, have in odd[:_SHOWN]),
    )


def _only(hosts: Iterable[str]) -> str:
    """The one host that it is about; empty where there are several."""
    names = set(hosts)
    return names.pop() if len(names) == 1 else ""


def _name(link: Link) -> str:
    """Without the GPU, whose NVLinks have the same numbers as another's."""
    return link.link if link.kind == NVLINK else link.name


def _slower(burst: Burst, groups: Sequence[Fellows]) -> Iterator[Conclusion]:
    slow = [(link, best) for link, best in degraded(burst) if link.kind == groups[0].kind]
    if not slow:
        return
    words = [f"{link.name} of {link.host} has {link.gb_per_s:.4g} of {best:.4g} GB/s" for link, best in slow]
    yield concluded(
        f"ports slower than on other hosts: {first_of(words, _SHOWN)}",
        evidence="the ports' line rates, each against its fellow of the same name on the fastest host",
        hint="the link trained at less than its rate: look at cable, module and switch port",
        host=_only(link.host for link, _ in slow),
        check="links.rate",
        answer=Answer.NO,
        facts=tuple(
            Fact(f"{link.host} {link.name}", link.gb_per_s or 0.0, "GB/s", f"of {best:.4g}")
            for link, best in slow[:_SHOWN]
        ),
    )


def _events(burst: Burst, groups: Sequence[Fellows]) -> Iterator[Conclusion]:
    seconds = sum(window.seconds for window in burst.windows)
    found = [
        (value, name, use.link)
        for group in groups
        for use in group.used
        for name, value in use.link.events.items()
        if name in _LOSS and value > (seconds if name in _IDLE else 0)
    ]
    if not found:
        return
    totals: dict[str, int] = defaultdict(int)
    links: dict[str, set[str]] = defaultdict(set)
    for value, name, link in found:
        totals[name] += value
        links[name].add(f"{link.name} of {link.host}")
    words = [
        f"{name} {total} on {first_of(sorted(links[name]), 2)} ({_LOSS[name]})"
        for name, total in totals.items()
    ]
    lost = any(name not in _REORDERED for name in totals)
    yield concluded(
        ("error counters rose during the burst: " if lost
         else "packets arrived out of order, which adaptive routing causes, and none was lost: ")
        + "; ".join(words),
        evidence="differences of the ports' counters, including a short rest before the calls",
        hint="look at the port's cable, its flow control (PFC and ECN of RoCE) and the switch's counters"
        if lost
        else "",
        host=_only(link.host for _, _, link in found),
        check="links.events",
        answer=Answer.NO if lost else Answer.YES,
        facts=tuple(
            Fact(f"{link.host} {link.name} {name}", value)
            for value, name, link in sorted(found, key=lambda each: -each[0])[: 2 * _SHOWN]
        ),
    )  # fmt: skip


_ALONE: Final = "all ranks are on one host: no link between hosts is needed"
_NCCL_MEANS: Final = "NCCL_SOCKET_IFNAME, NCCL_IB_HCA and NCCL_CROSS_NIC"
_MPI_MEANS: Final = "UCX_NET_DEVICES where it uses UCX, or the library's own interface flags"
# By a word of the library's version. MPICH's wheel has UCX first, and libfabric beside it: over UCX a list of
# NICs alone leaves all but one idle, and libfabric's variables do nothing.
_MEANS: Final = {
    "MPICH": "UCX_NET_DEVICES with their names, and UCX_MAX_RNDV_RAILS and UCX_MAX_EAGER_RAILS with their"
    " number (MPICH over UCX, as the bundled one; FI_TCP_IFACE counts with MPIR_CVAR_CH4_NETMOD=ofi only)",
    "Open MPI": "OMPI_MCA_btl_tcp_if_include (TCP), or UCX_NET_DEVICES (UCX)",
}
# What counters have beyond an operation's bytes: headers of packets, of TCP and 1500 B most; NVLink's none.
_OVERHEAD: Final = 0.10
_COUNTERS: Final = "counters before and after an untimed burst"


def conclusions(subject: Subject) -> Iterator[Conclusion]:
    """See ``diagnose.engine.Rule``."""
    # What a call without a payload sends (a barrier, a size rounded to 0 B) does not show which links
    # would carry one.
    cases = subject.record.plan.cases
    bursts = [burst for burst in subject.record.bursts if cases[burst.case].size_bytes]
    if not bursts:
        yield _unread(subject)
    ways, alone = byte_paths(subject.record), subject.nodes == 1
    results = {result.case: result for result in subject.record.results}
    unseen: list[Conclusion] = []
    for burst in bursts:
        case = cases[burst.case]
        result = results.get(case.index, CaseResult(case.index, Status.NOT_RUN))
        found = traffic(burst, case.collective, result.algorithm, case.size_bytes, subject.together, ways)
        told = list(_group(subject, burst, result, [each for each in found if each.kind == NVLINK]))
        if subject.nodes > 1:
            nics = [each for each in found if each.kind != NVLINK]
            told = [*_bypassed(burst, case), *_group(subject, burst, result, nics), *told]
        yield from (replace(each, case=case.index) for each in told)
        if not told:
            words = f"{subject.nodes} nodes, and no link has counters that can be read"
            hint = "" if alone else "mount /sys into the container, and pass the devices in"
            claim = _ALONE if alone else words
            unseen.append(concluded(claim, hint=hint, check="links.used", case=case.index))
    # One host's reason is that of all of its operations.
    yield from unseen[:1] if alone else unseen


def _unread(subject: Subject) -> Conclusion:
    alone = subject.nodes == 1 and subject.record.plan.backend == "mpi"
    if alone:
        return concluded(_ALONE, check="links.used")
    cases = subject.record.plan.cases
    if cases and not any(case.size_bytes for case in cases):  # a barrier
        return concluded("no operation of the run moves data", check="links.used")
    hint = "measure with --evidence counters; a log of another tool has none"
    if "counters" in subject.record.plan.evidence:
        hint = "counters are read after the last case that moves data: let the run finish"
    return concluded("link counters were not read", hint=hint, check="links.used")


def _bypassed(burst: Burst, case: Case) -> Iterator[Conclusion]:
    fabric = bypassed(burst, case.size_bytes)
    if fabric:
        kinds = ", ".join(sorted({link.kind for link in fabric}))
        hosts = len({link.host for link in fabric})
        yield concluded(
            f"the bytes went over Ethernet, though {hosts} hosts have {len(fabric)} ports of {kinds}",
            severity=Severity.ERROR,
            evidence=_COUNTERS,
            hint="make the library use the fabric: its network plugin (NCCL), its provider or PML (MPI)",
            check="links.bypassed",
            answer=Answer.NO,
            facts=tuple(Fact(link.name, link.host, source=link.kind) for link in fabric[:_SHOWN]),
        )


def _group(
    subject: Subject, burst: Burst, result: CaseResult, groups: Sequence[Fellows]
) -> Iterator[Conclusion]:
    """Of links of one kind, on all hosts."""
    case = subject.record.plan.cases[result.case]
    if any(group.used for group in groups):
        yield _used(subject, case, groups)
        yield from _even(result, groups)
        yield from _missing(groups)
        yield from _slower(burst, groups)
        yield from _events(burst, groups)
        yield from _bytes(subject, groups)
    elif groups:
        yield _silent(subject, burst, case, groups)


def _silent(subject: Subject, burst: Burst, case: Case, groups: Sequence[Fellows]) -> Conclusion:
    """An error, but for NICs beside NVLinks that carried the bytes and may reach the other hosts: their
    domain is not known. A healthy rack looks like that.
    """
    links, kind = sum(len(group.links) for group in groups), groups[0].kind
    near = kind != NVLINK and not subject.layout.surely and matters(burst, NVLINK, case.size_bytes)
    claim = (
        f"none of {links} {kind} links carried anything of {case.collective} {format_size(case.size_bytes)}"
    )
    hint = "the bytes went another way: a device that is not seen here, host memory, or shared memory"
    value = settings_of(subject.record).get("NCCL_P2P_DISABLE", "")
    if near:
        claim += "; NVLinks did, and whether they join the hosts is not known"
        hint = "see whether the hosts are of one NVLink domain: `nvidia-smi -q` has its ClusterUUID"
    elif kind == NVLINK and value not in ("", "0"):
        hint = f"NCCL_P2P_DISABLE={value} keeps NCCL off NVLink: measure without it"
    return concluded(
        claim,
        severity=Severity.INFO if near else Severity.ERROR,
        evidence=_COUNTERS,
        hint=hint,
        check="links.used",
        answer=Answer.UNDECIDED if near else Answer.NO,
        facts=_facts(groups),
    )


def _used(subject: Subject, case: Case, groups: Sequence[Fellows]) -> Conclusion:
    """How many of each host's or GPU's links carried traffic; those that are alike in one breath."""
    kind, what = groups[0].kind, "GPU" if groups[0].kind == NVLINK else "host"
    bad = [group for group in groups if group.unused]
    counts = sorted({len(group.links) for group in groups})
    links = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    evidence = f"{_COUNTERS}: {case.collective} {format_size(case.size_bytes)}{_left_out(subject, groups)}"
    if not bad:
        return concluded(
            f"all {links} {kind} links of each {what} carried traffic ({_rates(subject, groups)})",
            evidence=evidence,
            check="links.used",
            answer=Answer.YES,
            facts=_facts(groups),
        )
    patterns = []
    for (used, unused), alike in groupby(sorted(bad, key=_pattern), key=_pattern):
        names = ", ".join(_place(group) for group in list(alike)[:_SHOWN])
        others = f", all on {', '.join(used[:_SHOWN])}" if used else ""
        patterns.append(f"nothing on {', '.join(unused[:_SHOWN])}{others} ({names})")
    least, most = min(len(group.used) for group in bad), max(len(group.used) for group in bad)
    count = f"{least}" if least == most else f"{least} to {most}"
    return concluded(
        f"{count} of {links} {kind} links carried traffic on {len(bad)} of {len(groups)} {what}s: "
        + "; ".join(patterns[:2]),
        severity=Severity.ERROR,
        evidence=f"{evidence}, {_rates(subject, groups)}",
        hint=_hint(subject, kind),
        host=_only(group.host for group in bad),
        check="links.used",
        answer=Answer.NO,
        facts=_facts(bad),
    )


def _left_out(subject: Subject, groups: Sequence[Fellows]) -> str:
    """Which ports a setting keeps out, for it may be meant (storage) or not; and which cannot be read."""
    names = dict.fromkeys(link.name for group in groups for link in group.left_out)
    unread = [f"{link.name} of {link.host} ({link.note})" for group in groups for link in group.noted]
    words = f"; {byte_paths(subject.record).choosing} leaves out {first_of(names, _SHOWN)}" if names else ""
    return words + (f"; not readable: {first_of(unread, _SHOWN)}" if unread else "")


def _hint(subject: Subject, kind: str) -> str:
    if kind == NVLINK:
        return "look for inactive links (`nvidia-smi nvlink -s`), NCCL_P2P_DISABLE and the fabric manager"
    world = subject.record.world
    version = world.ranks[0].library_version if world is not None and world.ranks else ""
    means = next((text for name, text in _MEANS.items() if name in version), _MPI_MEANS)
    means = means if subject.record.plan.backend == "mpi" else _NCCL_MEANS
    return f"let the library use every NIC: {means}; see that each is up and routed"


def _pattern(group: Fellows) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the links that carried something, and of those that did not, without the host or GPU."""
    used, unused = (tuple(_name(use.link) for use in uses) for uses in (group.used, group.unused))
    return used, unused


def _place(group: Fellows) -> str:
    return f"{group.host} {group.device}".strip()


def _rates(subject: Subject, groups: Sequence[Fellows]) -> str:
    """What flowed, as a rate, a share of the line and against what had to move."""
    group = max(groups, key=lambda each: each.gb_per_s)
    used, links = max(len(group.used), 1), len(group.links)
    words = f"{used} x {group.gb_per_s / used:.3g} GB/s"
    rates = [use.link.gb_per_s for use in group.links]
    line = sum(rate or 0.0 for rate in rates) if all(rates) else None
    if line is None and group.kind != NVLINK and subject.wires.nics == links:
        line = subject.wires.network_gb_per_s  # what is known of such a machine, where its driver is silent
    if line:
        words += f", {format_share(group.gb_per_s / line, decimals=0)} of {links} lines' {line:.3g} GB/s"
    return words


def _even(result: CaseResult, groups: Sequence[Fellows]) -> Iterator[Conclusion]:
    """How evenly the links that carried something did, where that were two or more. The busiest link sets the
    time, so an imbalance counts where it costs more than the noise of the time itself, and enough to be worth
    a look; and one that carries less than half of the mean counts anyway. Named is the one that is least like
    its fellows: with one starved, all others have more than an even share.
    """
    several = [group for group in groups if len(group.used) > 1]
    if not several:
        return
    group = max(several, key=lambda each: (each.least <= STARVED, each.most))
    noise = max(group.noise, result.half_width or 0.0)
    excess = group.most * len(group.used) / len(group.links) - 1
    uneven = excess > max(noise, WORTH_NAMING) or group.least < min(STARVED, 1 - noise)
    at, claim, is_more = odd_one([use.share for use in group.used], "link")
    hint = (
        "look for a link that more channels use than others"
        if is_more
        else "look at that port's rate, cable and events, and at how many channels use it"
    )
    evenly = f"the {group.kind} links that carry traffic do so evenly: the busiest has"
    yield concluded(
        f"{group.used[at].link.name} {claim} on {_place(group)}"
        if uneven
        else f"{evenly} {format_share(excess)} more",
        evidence=f"noise {format_share(noise)}: of the traffic between windows and of the time",
        hint=hint if uneven else "",
        host=group.host if uneven else "",
        check="links.even",
        answer=Answer.NO if uneven else Answer.YES,
        facts=(
            Fact("busiest over even share", round(excess, 4)),
            Fact("least over mean", round(group.least, 4), source="of links that carried something"),
            Fact("noise", round(noise, 4)),
        ),
    )


def _bytes(subject: Subject, groups: Sequence[Fellows]) -> Iterator[Conclusion]:
    """The counters against what the algorithm must move: fewer bytes mean a way that is not seen. More are
    too many where the way was seen: which algorithm an MPI library took is never known.
    """
    known = [(group, group.must) for group in groups if group.must is not None and group.must.bytes > 0]
    if not known:
        return
    ratios = [(group.call_bytes / must.bytes, group, must) for group, must in known]
    if known[0][1].mean:
        mean = sum(each.call_bytes for each, _ in known) / len(known)
        ratios = [(mean / must.bytes, group, must) for group, must in known]
    unsure = max(max(group.noise, 1 / max(group.calls, 1), group.taken_off) for group, _ in known)
    unsure = max(unsure, WORTH_NAMING)
    above = unsure if known[0][0].kind == NVLINK else unsure + _OVERHEAD
    ratio, group, must = min(ratios, key=lambda each: each[0])
    missing, judged = ratio < 1 - unsure, must.exact and subject.record.plan.backend != "mpi"
    most = max(ratios, key=lambda each: each[0])
    excess = judged and not missing and most[0] > 1 + above
    if excess:
        ratio, group, must = most
    unit = "GPU" if group.kind == NVLINK else "node"
    what, hint = "", ""
    if missing:
        what = ": some went a way that these counters do not see"
        hint = "look for devices that are not passed into the container, and for shared memory"
    elif excess:
        what = ": more than the algorithm that was observed sends"
        hint = "look for another job or storage on these links, and for retransmissions"
    yield concluded(
        f"a {unit} moved {format_approximate_size(ratio * must.bytes)} a call,"
        f" {format_share(ratio, decimals=0)} of {'what' if must.exact else 'the least that'} must move{what}",
        evidence=f"{must.model}; packet headers count too; uncertain by {format_share(unsure)}",
        hint=hint,
        host=group.host if (missing or excess) and not must.mean else "",
        check="links.bytes",
        answer=Answer.NO if missing or excess else Answer.YES,
        facts=(
            Fact("bytes a call", round(ratio * must.bytes), "B", _COUNTERS),
            Fact("bytes that must move", round(must.bytes), "B", must.model),
            Fact("calls", group.calls),
        ),
    )


def _facts(groups: Sequence[Fellows]) -> tuple[Fact, ...]:
    """Every link of the first hosts or GPUs: its rate in the busier direction."""
    return tuple(
        Fact(f"{group.host} {use.link.name}", round(use.gb_per_s, 4), "GB/s", use.link.kind)
        for group in groups[:_SHOWN]
        for use in group.links
    )
