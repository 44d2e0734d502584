"""Rules about network interfaces. What is usual is what most hosts have: a port that is down everywhere, and
that nobody asks for, is none of our business.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from busbw.model.finding import Finding, Severity
from busbw.preflight.facts import NicFacts
from busbw.preflight.gathered import Gathered
from busbw.preflight.odd import few, split

# Interfaces that containers and virtual machines make: they come and go on a healthy host.
_PLUMBING: Final = re.compile(
    r"(docker|br-|veth|cni|cali|flannel|virbr|cilium|lxc|tun|tap|dummy|kube|nerdctl|ifb|vnet)"
)
_LOOK_AT_PORT: Final = "look at `rdma link` or `ibstat` there, the cable and the switch port"


def fabric(nics: Sequence[NicFacts]) -> list[NicFacts]:
    """InfiniBand, RoCE, EFA and Slingshot: what collectives are to use."""
    return [nic for nic in nics if nic.kind != "net"]


def up(gathered: Gathered) -> Iterator[Finding]:
    """As many fabric ports are active as was said, or as others have; interfaces are up as elsewhere."""
    yield from _fewer_ports(gathered)
    states: dict[str, dict[str, NicFacts]] = defaultdict(dict)
    for host, node in gathered.each_node():
        for nic in node.nics:
            if nic.kind == "net" and nic.up is not None and not _PLUMBING.match(nic.name):
                states[nic.name][host] = nic
    for name, by_host in states.items():
        down = [host for host, nic in by_host.items() if not nic.up]
        others = len(by_host) - len(down)
        if down and others >= len(down):
            yield Finding(
                Severity.WARNING,
                f"{name} is down on {few(down)}, and up on {others} other host{'s' * (others > 1)}",
                "state: " + few([f"{by_host[host].state} ({host})" for host in down]),
                f"look at `ip link show {name}` there, the cable and the switch port",
                host=down[0] if len(down) == 1 else "",
            )


def _fewer_ports(gathered: Gathered) -> Iterator[Finding]:
    nics = {host: fabric(node.nics) for host, node in gathered.each_node()}
    # A driver that tells no state says nothing of being down.
    active = [sum(nic.up is not False for nic in ports) for ports in nics.values()]
    found = split(dict(enumerate(active)))
    usual = 0
    if found is not None:
        usual = found.groups[0][0] if found.has_majority else max(active)
    said = int(gathered.wants("nics") or 0) if gathered.wants("net") != "socket" else 0
    usual = max(usual, said)  # what was said counts, though most have less
    for (host, ports), count in zip(nics.items(), active, strict=True):
        if count < usual:
            down = [f"{nic.name} {nic.state or '(no state)'}" for nic in ports if nic.up is False]
            yield Finding(
                Severity.ERROR,
                f"{count} of {usual} fabric ports are active on {host}",
                f"not active: {few(down)}" if down else "the kernel lists no other: a device is missing",
                _LOOK_AT_PORT + "; --expect-use nics=0 if any number will do" * (usual == said),
                host=host,
            )


# Variable -> the kinds of NIC that it names.
_NAMING: Final[Mapping[str, tuple[str, ...]]] = {
    "NCCL_IB_HCA": ("rdma",),
    "NCCL_SOCKET_IFNAME": ("net",),
    "UCX_NET_DEVICES": ("rdma", "net"),
    "FI_TCP_IFACE": ("net",),
}
_EXACT: Final = ("UCX_NET_DEVICES", "FI_TCP_IFACE")


def asked_for(gathered: Gathered) -> Iterator[Finding]:
    """Interfaces that variables name are there, and up."""
    for rank in gathered.nodes:
        for variable, kinds in _NAMING.items():
            value = rank.environ.get(variable, "")
            of_nccl = variable.startswith("NCCL_")
            if rank.node is None or not value or (of_nccl and not gathered.uses_nccl):
                continue
            if variable == "NCCL_IB_HCA" and gathered.wants("net") == "socket":
                continue  # named to keep NCCL away from InfiniBand
            nics = [nic for nic in rank.node.nics if nic.kind in kinds]
            yield from _named(variable, value, rank.host, nics, alone=len(gathered.nodes) == 1)


def _named(variable: str, value: str, host: str, nics: list[NicFacts], *, alone: bool) -> Iterator[Finding]:
    if value.startswith("^") or value == "all":
        return
    exactly = value.startswith("=") or variable in _EXACT
    words = [word for word in value.removeprefix("=").split(",") if word]
    for word in words:
        if word == "lo" and (alone or len(words) > 1):  # every host has it, and no list of NICs does
            continue
        named = [nic for nic in nics if _names(word, nic, exactly=exactly)]
        down = [nic.name for nic in named if nic.up is False]
        if named and not down:
            continue
        claim = f"and {few(down)} is down there" if down else f"which {host} does not have"
        claim = "over which no other host is reached" if word == "lo" else claim
        yield Finding(
            Severity.ERROR,
            f"{variable} names {word} on {host}, {claim}" if down else f"{variable} names {word}, {claim}",
            "there: " + (few([f"{nic.name} {nic.state or '(no state)'}" for nic in nics]) or "none"),
            f"correct {variable}, or bring the interface up",
            host=host,
        )


def _names(word: str, nic: NicFacts, *, exactly: bool) -> bool:
    """NCCL's lists hold prefixes, or exact names behind =; a port stands behind a colon."""
    name, _, port = word.strip().partition(":")
    own, _, own_port = nic.name.partition(":")
    if port and own_port and port != own_port:
        return False
    return own == name if exactly else own.startswith(name)


def rates(gathered: Gathered) -> Iterator[Finding]:
    """An interface has the rate and the PCIe lanes that those of its name have on other hosts."""
    hosts = [rank.host for rank in gathered.nodes]
    found: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for at, (_, node) in enumerate(gathered.each_node()):
        for nic in node.nics:
            if nic.up and nic.rate_gbit_per_s and not _PLUMBING.match(nic.name):
                found["rate", nic.name][at] = f"{nic.rate_gbit_per_s:g} Gbit/s"
            if nic.lanes:
                found["PCIe lanes", nic.name][at] = f"{nic.lanes} of {nic.most_lanes}"
    for (what, name), values in found.items():
        if differing := split(values):
            said = [f"{value} on {few([hosts[at] for at in places])}" for value, places in differing.groups]
            yield Finding(
                Severity.WARNING,
                f"{what} of {name}: {few([*said[1:], said[0]])}",
                hint="look at the cable, the switch port and the slot",
                host=hosts[differing.odd],
            )
