"""Rules about network interfaces. What is usual is what most hosts have: a port that is down everywhere, and
that nobody asks for, is none of our business.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.machine.preflight.environment import setting
from busbw.machine.preflight.facts import Gathered, NicFacts, RankFacts
from busbw.machine.preflight.outlier_ranks import by_value, few, first_place, only
from busbw.model.finding import Finding, Severity
from busbw.units import counted

# Interfaces that containers and virtual machines make: they come and go on a healthy host.
_PLUMBING: Final = re.compile(
    r"(docker|br-|veth|cni|cali|flannel|virbr|cilium|lxc|tun|tap|dummy|kube|nerdctl|ifb|vnet)"
)
_NO_OTHERS: Final = "the kernel lists no others: a device is missing"
_LOOK_AT_PORT: Final = (
    "check `rdma link` or `ibstat` there, the cable and the switch port; or accept any number with"
    " --expect-use nics=0"
)


def fabric(nics: Sequence[NicFacts]) -> list[NicFacts]:
    """InfiniBand, RoCE, EFA and Slingshot: what collectives are to use."""
    return [nic for nic in nics if nic.kind != "net"]


def up(gathered: Gathered) -> Iterator[Finding]:
    """As many fabric ports are active as was said, or as others have; interfaces are up as elsewhere."""
    yield from _fewer_ports(gathered)
    states: dict[str, dict[str, NicFacts]] = defaultdict(dict)
    for rank, node in gathered.nodes:
        for nic in node.nics:
            if nic.kind == "net" and nic.up is not None and not _PLUMBING.match(nic.name):
                states[nic.name][rank.host] = nic
    for name, by_host in states.items():
        down = [host for host, nic in by_host.items() if not nic.up]
        others = len(by_host) - len(down)
        if down and others >= len(down):
            claim = f"{name} is down on {few(down)}, and up on {counted(others, 'other host')}"
            evidence = "state: " + few([f"{by_host[host].state} ({host})" for host in down])
            hint = f"check `ip link show {name}` there, the cable and the switch port"
            yield Finding(Severity.WARNING, claim, evidence, hint, host=only(down))


def _fewer_ports(gathered: Gathered) -> Iterator[Finding]:
    said = gathered.wants("nics")
    if said == "0":
        return
    used = used_ports(gathered)
    # A driver that tells no state says nothing of being down.
    active = [sum(nic.up is not False for nic in ports) for ports in used.values()]
    if said:  # it counts, though most have less; where variables leave ports out, as far as they let it
        all_used = all(len(used[rank.host]) == len(fabric(node.nics)) for rank, node in gathered.nodes)
        usual = int(said) if all_used else min(int(said), max(map(len, used.values())))
    else:
        (most_usual, hosts), *_ = Counter(active).most_common(1)
        usual = most_usual if 2 * hosts > len(active) else max(active)
    for (host, ports), count in zip(used.items(), active, strict=True):
        if count < usual:
            down = [f"{nic.name} {nic.state or '(no state)'}" for nic in ports if nic.up is False]
            claim = f"{count} of {usual} fabric ports are active on {host}"
            states = f"not active: {few(down)}" if down else _NO_OTHERS
            yield Finding(Severity.ERROR, claim, states, _LOOK_AT_PORT, host=host)


# Variable -> the kinds of NIC that it names.
_NAMING: Final[Mapping[str, tuple[str, ...]]] = {
    "NCCL_IB_HCA": ("rdma",),
    "NCCL_SOCKET_IFNAME": ("net",),
    "UCX_NET_DEVICES": ("rdma", "net"),
    "FI_TCP_IFACE": ("net",),
}
_EXACT: Final = ("UCX_NET_DEVICES", "FI_TCP_IFACE")


@dataclass(frozen=True)
class NicList:
    """What a variable names: prefixes, or whole names where ``exactly``; ``excludes``: all but those."""

    words: tuple[str, ...]
    exactly: bool
    excludes: bool

    def takes(self, nic: NicFacts) -> bool:
        """Whether the list leaves this NIC in use."""
        return any(_names(word, nic, exactly=self.exactly) for word in self.words) is not self.excludes


def read_list(variable: str, value: str) -> NicList:
    """NCCL's lists hold prefixes, or exact names behind =; ^ excludes. An empty one is all there is."""
    bare = value.removeprefix("^")
    words = tuple(word.strip() for word in bare.removeprefix("=").split(",") if word.strip())
    if variable == "UCX_NET_DEVICES":
        # Since 1.22 it expands mlx5_[0-3]:1; such lists are not checked.
        words = () if "all" in words or "[" in value else words
    exactly = bare.startswith("=") or variable in _EXACT
    return NicList(words, exactly, excludes=value.startswith("^") or not words)


def _names(word: str, nic: NicFacts, *, exactly: bool) -> bool:
    """A port stands behind a colon."""
    name, _, port = word.partition(":")
    own, _, own_port = nic.name.partition(":")
    if port and own_port and port != own_port:
        return False
    return own == name if exactly else own.startswith(name)


def used_ports(gathered: Gathered) -> dict[str, list[NicFacts]]:
    """The fabric ports of every host that the variables of any of its ranks leave in use: each rank may have
    been given its own.
    """
    variable = "NCCL_IB_HCA" if gathered.uses_nccl else "UCX_NET_DEVICES"
    lists: dict[str, set[NicList]] = defaultdict(set)
    for rank in gathered.ranks:
        if not _means_sockets(gathered, rank):
            lists[rank.host].add(read_list(variable, setting(rank.environ, variable)))
    return {
        rank.host: [
            nic
            for nic in fabric(node.nics)
            if any(nic.kind != "rdma" or each.takes(nic) for each in lists[rank.host])
        ]
        for rank, node in gathered.nodes
    }


def _means_sockets(gathered: Gathered, rank: RankFacts) -> bool:
    if gathered.wants("net") == "socket":
        return True
    if not gathered.uses_nccl or not means_sockets(rank.environ):
        return False
    # Without that name it is NCCL_IB_DISABLE=1, which leaves a plugin its devices.
    is_named = bool(setting(rank.environ, "NCCL_NET"))
    return is_named or not (rank.net_plugin or gathered.wants("net") or gathered.wants("provider"))


def asked_for(gathered: Gathered) -> Iterator[Finding]:
    """Of what a variable names, something is up on every host, and each whole name is."""
    # NCCL passes over prefixes of which nothing is up, so that one list of them can serve unlike hosts.
    without: dict[tuple[str, str, bool], dict[str, bool]] = defaultdict(dict)  # word -> host -> is up
    for host, nics, variable, names in _lists(gathered):
        there = [nic for nic in nics if nic.kind in _NAMING[variable]]
        words = [word for word in names.words if word != "lo"]  # every host has it, and no list of NICs does
        is_up = {
            word: any(nic.up is not False and _names(word, nic, exactly=names.exactly) for nic in there)
            for word in words
        }
        if not any(is_up.values()) and not ("lo" in names.words and len(gathered.nodes) == 1):
            yield _nothing_named(variable, words, host, there, names)
            continue
        for word, is_one in is_up.items():
            without[variable, word, names.exactly][host] = is_one
    for (variable, word, exactly), by_host in without.items():
        lacking = [host for host, is_one in by_host.items() if not is_one]
        if lacking and (exactly or len(lacking) == len(by_host)):
            claim = f"{variable} names {word}, but no such interface is up on {few(lacking)}"
            hint = f"correct {variable}, or bring the interface up"
            severity = Severity.WARNING if exactly else Severity.INFO
            yield Finding(severity, claim, hint=hint, host=only(lacking))


def _lists(gathered: Gathered) -> Iterator[tuple[str, Sequence[NicFacts], str, NicList]]:
    """Host, its NICs, variable and list: each list that names something, once a host."""
    nics = {rank.host: node.nics for rank, node in gathered.nodes}
    seen = set()
    for rank in gathered.ranks:
        for variable in _NAMING:
            of_nccl = variable.startswith("NCCL_")
            if (of_nccl and not gathered.uses_nccl) or rank.host not in nics:
                continue
            if variable == "NCCL_IB_HCA" and _means_sockets(gathered, rank):
                continue  # named to keep NCCL away from InfiniBand
            names = read_list(variable, setting(rank.environ, variable))
            if not names.excludes and (rank.host, variable, names) not in seen:
                seen.add((rank.host, variable, names))
                yield rank.host, nics[rank.host], variable, names


def _nothing_named(
    variable: str, words: list[str], host: str, nics: list[NicFacts], names: NicList
) -> Finding:
    down = [nic.name for nic in nics if names.takes(nic)]
    verb = "is" if len(down) == 1 else "are"
    if down:
        claim = f"{variable} names {few(words)} on {host}, and {few(down)} {verb} down there"
    elif words:
        claim = f"{variable} names {few(words)}, which {host} does not have"
    else:
        claim = f"{variable} names lo, which reaches no other host"
    first = sorted(nics, key=names.takes, reverse=True)
    states = few([f"{nic.name} {nic.state or '(no state)'}" for nic in first]) or "none"
    hint = f"correct {variable}, or bring the interface up"
    return Finding(Severity.ERROR, claim, f"there: {states}", hint, host=host)


def rates(gathered: Gathered) -> Iterator[Finding]:
    """An interface has the rate and lanes of its namesakes on other hosts."""
    hosts = [rank.host for rank, _ in gathered.nodes]
    found: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for at, (_, node) in enumerate(gathered.nodes):
        for nic in node.nics:
            if nic.up and nic.rate_gbit_per_s and not _PLUMBING.match(nic.name):
                found["rate", nic.name][at] = f"{nic.rate_gbit_per_s:g} Gbit/s"
            if nic.lanes:
                found["PCIe lanes", nic.name][at] = f"{nic.lanes} of {nic.most_lanes}"
    for (what, name), values in found.items():
        usual, *odd = by_value(values)
        if odd:
            said = [f"{value} on {few([hosts[at] for at in places])}" for value, places in (*odd, usual)]
            claim = f"{what} of {name}: {few(said)}"
            hint = "check the cable, the switch port and the slot"
            yield Finding(Severity.WARNING, claim, hint=hint, host=hosts[first_place(odd)])


# ---- what variables say of the network that is meant: sockets, or a fabric ---------------------------

# libfabric's providers that copy through the kernel's sockets, or that reach no other host.
SLOW_PROVIDERS: Final = ("tcp", "sockets", "udp", "net", "shm")


def cores(providers: str) -> set[str]:
    """``tcp;ofi_rxm`` is the utility provider ofi_rxm over tcp; lists have commas."""
    return set(filter(None, re.split(r"[;,\s]+", providers.lower())))


def names_a_fabric(providers: str) -> bool:
    """Whether all of FI_PROVIDER's are of one: no sockets among them, and none only left out."""
    named = cores(providers)
    return bool(named) and not providers.startswith("^") and named.isdisjoint(SLOW_PROVIDERS)


def means_sockets(environ: Mapping[str, str]) -> bool:
    """Whether NCCL is told to use them: by name, or as its own verbs are turned off and nothing asks for a
    plugin, which that does not concern.
    """
    net = setting(environ, "NCCL_NET").lower()
    if net:
        return net == "socket"
    has_plugin = setting(environ, "NCCL_NET_PLUGIN").lower() not in ("", "none")
    has_verbs = setting(environ, "NCCL_IB_DISABLE") != "1"
    return not (has_verbs or has_plugin or names_a_fabric(setting(environ, "FI_PROVIDER")))
