"""Single ports that are not as their fellows: missing, slower, reset, or counting what spoils transfers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from busbw.analysis.traffic import Fellows, degraded
from busbw.model.case import Case
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.finding import Severity
from busbw.model.traffic import NVLINK, Burst

_QUESTION = Question.LINKS
_SHOWN: Final = 4
# Events that a network without loss does not have. Waits (port_xmit_wait) and notices of congestion are not
# among them: they come with every busy port.
_LOSS: Final = {
    "port_xmit_discards": "discarded before they were sent",
    "port_rcv_errors": "received with errors",
    "out_of_sequence": "out of sequence",
    "packet_seq_err": "sequence errors told by the receiver",
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


def conclusions(burst: Burst, case: Case, groups: Sequence[Fellows]) -> Iterator[Conclusion]:
    """``groups`` are those of one kind that carried something."""
    yield from _missing(case, groups)
    yield from _slower(burst, case, groups)
    yield from _noted(case, groups)
    yield from _events(burst, case, groups)


def _missing(case: Case, groups: Sequence[Fellows]) -> Iterator[Conclusion]:
    """Hosts (or GPUs) with fewer ports than others use: one is down, or not passed into the container."""
    kind = groups[0].kind
    most = max(len(group.used) for group in groups)
    odd = [(group, have) for group in groups if (have := len(group.links) + len(group.noted)) < most]
    if not odd:
        return
    names = Counter(_name(group, use.link.link, use.link.name) for group in groups for use in group.used)
    words = []
    for group, have in odd[:_SHOWN]:
        own = {_name(group, use.link.link, use.link.name) for use in group.links}
        gone = [name for name, many in names.items() if name not in own and many >= len(groups) - len(odd)]
        place = f"{group.host} {group.device}".strip()
        words.append(f"{place} has {have} of {most}" + (f" (no {', '.join(gone[:_SHOWN])})" if gone else ""))
    left = f" and {len(odd) - _SHOWN} more" if len(odd) > _SHOWN else ""
    what = "GPUs" if kind == NVLINK else "hosts"
    yield Conclusion(
        Severity.WARNING,
        f"{what} differ in their {kind} links: {', '.join(words)}{left}",
        evidence="links that are up and have counters",
        hint="look for inactive links: `nvidia-smi nvlink -s`"
        if kind == NVLINK
        else "see whether the port is down (`ibstat`, `ip link`), and passed into the container",
        host=odd[0][0].host if len({group.host for group, _ in odd}) == 1 else "",
        check="links.missing",
        question=_QUESTION,
        answer=Answer.NO,
        facts=tuple(Fact(group.host, have, f"of {most}", kind) for group, have in odd[:_SHOWN]),
        case=case.index,
    )


def _name(group: Fellows, link: str, name: str) -> str:
    return link if group.kind == NVLINK else name


def _slower(burst: Burst, case: Case, groups: Sequence[Fellows]) -> Iterator[Conclusion]:
    kinds = {group.kind for group in groups}
    slow = [(link, best) for link, best in degraded(burst) if link.kind in kinds]
    if not slow:
        return
    words = [
        f"{link.name} of {link.host} has {link.gb_per_s:.4g} of {best:.4g} GB/s"
        for link, best in slow[:_SHOWN]
    ]
    left = f" and {len(slow) - _SHOWN} more" if len(slow) > _SHOWN else ""
    yield Conclusion(
        Severity.WARNING,
        f"ports slower than on other hosts: {', '.join(words)}{left}",
        evidence="the ports' line rates, each against its fellow of the same name on the fastest host",
        hint="the link trained at less than its rate: look at cable, module and switch port",
        host=slow[0][0].host if len({link.host for link, _ in slow}) == 1 else "",
        check="links.rate",
        question=_QUESTION,
        answer=Answer.NO,
        facts=tuple(
            Fact(f"{link.host} {link.name}", link.gb_per_s or 0.0, "GB/s", f"of {best:.4g}")
            for link, best in slow[:_SHOWN]
        ),
        case=case.index,
    )


def _noted(case: Case, groups: Sequence[Fellows]) -> Iterator[Conclusion]:
    noted = [link for group in groups for link in group.noted]
    for note, alike in groupby(sorted(noted, key=lambda link: link.note), key=lambda link: link.note):
        links = list(alike)
        words = ", ".join(f"{link.name} of {link.host}" for link in links[:_SHOWN])
        left = f" and {len(links) - _SHOWN} more" if len(links) > _SHOWN else ""
        yield Conclusion(
            Severity.WARNING,
            f"nothing can be said of {words}{left}: {note}",
            evidence="readings of the links' counters",
            hint="run again; a device that was reset says so in the kernel's log (`dmesg`)",
            host=links[0].host if len({link.host for link in links}) == 1 else "",
            check="links.unreadable",
            question=_QUESTION,
            answer=Answer.UNDECIDED,
            facts=tuple(Fact(f"{link.host} {link.name}", note, source=link.kind) for link in links[:_SHOWN]),
            case=case.index,
        )


def _events(burst: Burst, case: Case, groups: Sequence[Fellows]) -> Iterator[Conclusion]:
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
    words = [f"{name} {total} on {_where(links[name])} ({_LOSS[name]})" for name, total in totals.items()]
    lost = any(name not in _REORDERED for name in totals)
    yield Conclusion(
        Severity.WARNING if lost else Severity.INFO,
        ("events that spoil transfers rose during the burst: " if lost
         else "packets came in another order, as adaptive routing has it, and none was lost: ")
        + "; ".join(words),
        evidence="differences of the ports' counters, the moment of rest before the calls included",
        hint="look at the port's cable, its flow control (PFC and ECN of RoCE) and the switch's counters"
        if lost
        else "",
        host=found[0][2].host if len({link.host for _, _, link in found}) == 1 else "",
        check="links.events",
        question=_QUESTION,
        answer=Answer.NO if lost else Answer.YES,
        facts=tuple(
            Fact(f"{link.host} {link.name} {name}", value)
            for value, name, link in sorted(found, key=lambda each: -each[0])[: 2 * _SHOWN]
        ),
        case=case.index,
    )  # fmt: skip


def _where(names: set[str]) -> str:
    some = ", ".join(sorted(names)[:2])
    return some if len(names) < 3 else f"{some} and {len(names) - 2} more"
