"""Rules about what --deep measured: copies of every rank against those of the others, and other tools."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from busbw.model.finding import Finding, Severity, strictly, worst_first
from busbw.preflight.odd import few
from busbw.preflight.tools import ToolReport

# Copies of one kind differ by some per cent between the sockets of a host; a lost lane or a link that was
# trained down costs a half. In between, who is slower than this is worth a look.
_SLOW: Final = 0.75
# Of a port's rate: headers and small frames cost less than this.
_LEAST_OF_RATE: Final = 0.8


NEXT_RANK: Final = "to the next rank"
# Links of one host, of hosts that share an NVLink domain, and of others are not of one speed.
_SAME_DOMAIN: Final = f"{NEXT_RANK} between hosts of an NVLink domain"
_BETWEEN: Final = f"{NEXT_RANK} between hosts"
_HINTS: Final[Mapping[str, str]] = {
    NEXT_RANK: "look at the link between them, and at what else runs there",
    _SAME_DOMAIN: "look at the links of both hosts, and at what else runs there",
    _BETWEEN: "look at the NICs of both hosts, and at what else runs there",
}


@dataclass(frozen=True)
class DeepFacts:
    """One rank's: ``copies`` by kind in GB/s, ``left_out`` why there are none of a kind; ``tools`` on the
    first rank of a host; ``port_gb_per_s`` of the ports that ib_write_bw used; ``domain`` is the NVLink
    domain of its GPU over several hosts, empty where there is none.
    """

    rank: int
    host: str
    copies: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    tools: tuple[ToolReport, ...] = ()
    port_gb_per_s: Mapping[str, float] = field(default_factory=dict)
    domain: str = ""


def encode_deep(facts: DeepFacts) -> bytes:
    """As it travels to rank 0."""
    return json.dumps(asdict(facts), separators=(",", ":")).encode()


def decode_deep(data: bytes) -> DeepFacts:
    """Undo ``encode_deep``."""
    fields = json.loads(data)
    tools = tuple(
        ToolReport(**{**tool, "problems": tuple(tool["problems"]), "remarks": tuple(tool["remarks"])})
        for tool in fields.pop("tools")
    )
    return DeepFacts(**{**fields, "left_out": tuple(fields["left_out"]), "tools": tools})


def copies(ranks: tuple[DeepFacts, ...]) -> Iterator[Finding]:
    """No rank copies clearly slower than the others over links of that kind."""
    by_kind: dict[str, dict[int, float]] = {}
    for at, rank in enumerate(ranks):
        for kind, rate in rank.copies.items():
            by_kind.setdefault(_over(ranks, at) if kind == NEXT_RANK else kind, {})[at] = rate
    for kind, rates in by_kind.items():
        usual = statistics.median(rates.values())
        spread = f"{min(rates.values()):.1f} to {max(rates.values()):.1f} GB/s over {len(rates)} ranks"
        yield Finding(Severity.INFO, f"copies {kind}: median {usual:.1f} GB/s", spread)
        for at, rate in rates.items():
            if rate < _SLOW * usual:
                yield Finding(
                    Severity.WARNING,
                    f"rank {at} ({ranks[at].host}) copies {kind} with {rate:.1f} GB/s, the median is"
                    f" {usual:.1f}",
                    spread,
                    _HINTS.get(kind, "look at PCIe lanes and generation, and at the rank's NUMA node"),
                    rank=at,
                    host=ranks[at].host,
                )


def _over(ranks: tuple[DeepFacts, ...], at: int) -> str:
    """What a rank's copy to the next goes over: it ends when what the rank before sends has come, too, so the
    farther of the two counts.
    """
    own = ranks[at]
    beyond = [side for side in (ranks[at - 1], ranks[(at + 1) % len(ranks)]) if side.host != own.host]
    if not beyond:
        return NEXT_RANK
    return _SAME_DOMAIN if own.domain and all(side.domain == own.domain for side in beyond) else _BETWEEN


def left_out(ranks: tuple[DeepFacts, ...]) -> Iterator[Finding]:
    """Everything that belongs to --deep could be done."""
    for reason in dict.fromkeys(reason for rank in ranks for reason in rank.left_out):
        yield Finding(Severity.INFO, reason)
    for tool in dict.fromkeys(report.tool for rank in ranks for report in rank.tools if report.absent):
        hosts = [rank.host for rank in ranks if any(r.tool == tool and r.absent for r in rank.tools)]
        yield Finding(Severity.INFO, f"{tool} is not installed on {few(hosts)}: left out")
    without: dict[tuple[str, str], list[str]] = {}
    for rank in ranks:
        for report in rank.tools:
            if report.left_out:
                without.setdefault((report.tool, report.left_out), []).append(rank.host)
    for (tool, reason), hosts in without.items():
        yield Finding(Severity.INFO, f"{tool} was left out on {few(hosts)}: {reason}")


def tools(ranks: tuple[DeepFacts, ...]) -> Iterator[Finding]:
    """Tools that are installed find nothing."""
    for rank in ranks:
        for report in rank.tools:
            for severity, words in ((Severity.ERROR, report.problems), (Severity.INFO, report.remarks)):
                if words:
                    yield Finding(
                        severity
                        if report.tool == "dcgmi" and report.ran
                        else min(severity, Severity.WARNING, key=_ORDER.index),
                        f"{report.tool} on {rank.host}: {words[0]}",
                        "; ".join(words[1:]),
                        f"run {report.tool} there, and look at all that it says",
                        host=rank.host,
                    )


_ORDER: Final = (Severity.INFO, Severity.WARNING, Severity.ERROR)


def rates_of_tools(ranks: tuple[DeepFacts, ...]) -> Iterator[Finding]:
    """What tools measure is alike on all hosts, and near the rate of a port."""
    names = dict.fromkeys(
        (report.tool, name) for rank in ranks for report in rank.tools for name in report.values
    )
    for tool, name in names:
        by_host = {
            rank.host: report.values[name]
            for rank in ranks
            for report in rank.tools
            if report.tool == tool and name in report.values
        }
        usual = statistics.median(by_host.values())
        yield Finding(
            Severity.INFO,
            f"{tool} {name}: median {usual:.1f} GB/s",
            few([f"{host} {value:.1f}" for host, value in by_host.items()]),
        )
        for host, value in by_host.items():
            if value < _SLOW * usual:
                yield Finding(
                    Severity.WARNING,
                    f"{tool} {name} reaches {value:.1f} GB/s on {host}, the median is {usual:.1f}",
                    hint=f"run {tool} there, and look at links, lanes and other jobs",
                    host=host,
                )
        yield from _below_their_median(ranks, tool, name)
    for rank in ranks:
        yield from _below_rate(rank)


def _below_their_median(ranks: tuple[DeepFacts, ...], tool: str, name: str) -> Iterator[Finding]:
    """One GPU of a host that is slower than the others: their median hides it. Where a host's GPUs have
    unlike links, all hosts have the same least.
    """
    reports = {
        rank.host: report
        for rank in ranks
        for report in rank.tools
        if report.tool == tool and name in report.values
    }
    least = {host: report.least.get(name, report.values[name]) for host, report in reports.items()}
    for host, value in least.items():
        beside = reports[host].values[name]
        usual = statistics.median(least.values()) if len(least) > 1 else beside
        if value < _SLOW * min(beside, usual):
            yield Finding(
                Severity.WARNING,
                f"{tool} {name} reaches {value:.1f} GB/s with one GPU of {host}, the median there is"
                f" {beside:.1f}",
                hint=f"run {tool} there, and look at the lanes and links of each GPU",
                host=host,
            )


def _below_rate(rank: DeepFacts) -> Iterator[Finding]:
    for report in rank.tools:
        for name, value in report.values.items():
            rate = rank.port_gb_per_s.get(name, 0.0)
            if value < _LEAST_OF_RATE * rate:
                yield Finding(
                    Severity.WARNING,
                    f"{report.tool} {name} reaches {value:.1f} GB/s on {rank.host}, where the port's rate is"
                    f" {rate:.1f}",
                    hint="look at the link's width and speed, and at the switch's counters",
                    host=rank.host,
                )


CHECKS: Final[Mapping[str, Callable[[tuple[DeepFacts, ...]], Iterator[Finding]]]] = {
    "copies": copies,
    "tools": tools,
    "rates-of-tools": rates_of_tools,
    "left-out": left_out,
}


def judge_deep(ranks: tuple[DeepFacts, ...], *, strict: bool) -> tuple[Finding, ...]:
    """All findings, the worst first."""
    found = [replace(each, check=name) for name, find in CHECKS.items() for each in find(ranks)]
    return worst_first(strictly(found) if strict else found)
