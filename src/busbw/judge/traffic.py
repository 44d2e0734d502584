"""What links did during a burst: which carried nothing, how evenly, how much of their rate and of what had to
move. Everything is judged by the burst's own noise.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from busbw.judge.moved import Moved, gpu_bytes, node_bytes
from busbw.model.record import RunRecord
from busbw.model.traffic import NVLINK, Burst, Link, Window
from busbw.units import format_share

_SETTING: Final = re.compile(r"(NCCL_\w+) (.+)")
# NCCL's own verbs transport takes these; its names are beginnings of names, or whole ones behind "=".
_VERBS: Final = ("infiniband", "roce", "rdma")


@dataclass(frozen=True)
class BytePaths:
    """``nodes`` is how many hosts the run had, 0 where not known; ``domains`` are the NVLink domains of
    hosts, where NVML reported them and NCCL may use them. ``settings`` are variables, and values of NCCL's
    own files.
    """

    nodes: int = 0
    domains: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    backend: str = "nccl"

    @property
    def domains_off(self) -> bool:
        """Whether NCCL was kept from using NVLink between hosts."""
        return self.settings.get("NCCL_MNNVL_ENABLE", "") == "0"

    def joined(self, hosts: frozenset[str]) -> bool:
        """Whether these are several hosts of one NVLink domain, whose bytes need no NIC."""
        domains = {self.domains.get(host, "") for host in hosts}
        return len(hosts) > 1 and len(domains) == 1 and "" not in domains

    @property
    def network_reduces(self) -> bool:
        """Whether switches were allowed to reduce (SHARP)."""
        words = {name: value for name, value in self.settings.items() if value not in ("", "0")}
        return "NCCL_COLLNET_ENABLE" in words or any(
            name == "HCOLL_ENABLE_SHARP" or name.startswith("SHARP_COLL_") for name in words
        )

    @property
    def choosing(self) -> str:
        """The variable that names the ports to use; empty where none does."""
        name = "UCX_NET_DEVICES" if self.backend == "mpi" else "NCCL_IB_HCA"
        return name if self.settings.get(name, "") not in ("", "all") else ""

    def allows_port(self, kind: str, device: str, port: str) -> bool:
        """Whether that variable, if any, lets a port be used, by its kind, the name of its device, and
        ``port N``. A word of it is ``mlx5_0:1``, or without the port.
        """
        if not self.choosing or kind not in _VERBS:
            return True
        value = self.settings[self.choosing]
        excluded, value = value.startswith("^"), value.removeprefix("^")
        exact = value.startswith("=") or self.choosing != "NCCL_IB_HCA"
        words = [word.strip().partition(":") for word in value.removeprefix("=").split(",") if word.strip()]
        named = any(
            (device == name if exact else device.startswith(name))
            and (not number or port == f"port {number}")
            for name, _, number in words
        )
        return named != excluded


def byte_paths(record: RunRecord) -> BytePaths:
    """From a record."""
    settings = settings_of(record)
    world = record.world
    found = BytePaths(len(world.known_hosts) if world is not None else 0, {}, settings, record.plan.backend)
    if found.domains_off or world is None:
        return found
    return replace(found, domains={place.host: place.nvlink_domain for place in world.places})


def settings_of(record: RunRecord) -> dict[str, str]:
    """Of rank 0's environment and NCCL's own files, the environment last because it wins; of a log, those
    that NCCL reported.
    """
    found: dict[str, str] = {}
    for file in reversed(record.environment.get("nccl_config", ())):
        found |= dict(file["settings"])
    found |= record.environment.get("variables", {})
    if record.source is not None:
        told = record.source.evidence.get("setting", ())
        found |= {match[1]: match[2] for text in told if (match := _SETTING.fullmatch(text))}
    return found


ETHERNET: Final = "ethernet"
# A kind of NIC whose bytes are less than this share of the message carried none of it: control traffic.
_SIGNIFICANT: Final = 0.01


@dataclass(frozen=True)
class LinkUse:
    """One link. Bytes are those of all calls, with what flowed before the burst taken off. ``share`` is of
    the mean of its fellows, 1 where it carried as much as they. ``carried`` is False where its bytes cannot
    be distinguished from nothing.
    """

    link: Link
    sent_bytes: float
    received_bytes: float
    seconds: float
    share: float
    carried: bool

    @property
    def bytes(self) -> float:
        """In its busier direction."""
        return max(self.sent_bytes, self.received_bytes)

    @property
    def gb_per_s(self) -> float:
        """In its busier direction, over the whole burst."""
        return self.bytes / self.seconds / 1e9

    @property
    def of_rate(self) -> float | None:
        """Share of its line rate; None where that is not known."""
        return self.gb_per_s / self.link.gb_per_s if self.link.gb_per_s else None


@dataclass(frozen=True)
class Fellows:
    """Links that could have carried the same bytes: the NICs of one kind of a host, the NVLinks of a GPU.

    ``must`` is what the operation moves through all of them, per call and direction; None where that is not
    known. ``noise`` is by how much the whole traffic of a window differs from the mean of all, at most;
    ``taken_off`` which share of all bytes was taken off, because as much would have flowed anyway: whether it
    went on during the calls is not known.
    ``noted`` are links whose counters cannot be taken, ``left_out`` those that a setting keeps out.
    """

    host: str
    kind: str
    device: str  # the GPU; empty for NICs
    links: tuple[LinkUse, ...]
    calls: int
    noise: float
    taken_off: float = 0.0
    must: Moved | None = None
    noted: tuple[Link, ...] = ()
    left_out: tuple[Link, ...] = ()

    @property
    def used(self) -> tuple[LinkUse, ...]:
        """Those that carried something."""
        return tuple(use for use in self.links if use.carried)

    @property
    def unused(self) -> tuple[LinkUse, ...]:
        """Those that carried nothing."""
        return tuple(use for use in self.links if not use.carried)

    @property
    def gb_per_s(self) -> float:
        """All of them together, in the busier direction."""
        return _busier(self.links) / self.links[0].seconds / 1e9

    @property
    def call_bytes(self) -> float:
        """What a call moved through all of them, in the busier direction."""
        return _busier(self.links) / self.calls

    @property
    def least(self) -> float:
        """Share of the link that carried least, of those that carried something."""
        return min((use.share for use in self.used), default=0.0)

    @property
    def most(self) -> float:
        """Share of the link that carried most: its excess over 1 is time that an even split would save."""
        return max((use.share for use in self.links), default=0.0)


def traffic(
    burst: Burst, operation: str, algorithm: str, size_bytes: int, ranks: int, ways: BytePaths | None = None
) -> tuple[Fellows, ...]:
    """The links that could take part, host after host: the NICs of the kind that carried most, and every
    GPU's NVLinks. Links whose counters cannot be taken are left out, and so are the slower NICs of a kind,
    and those that a setting excludes. NICs of hosts that share an NVLink domain need not take part: they are
    listed only where they did.
    """
    ways = ways or BytePaths()
    hosts = frozenset(link.host for link in burst.links)
    main = main_kind(burst, size_bytes)
    if ways.joined(hosts) and _carried(burst, {NVLINK}) and not matters(burst, main, size_bytes):
        main = ""
    groups: dict[tuple[str, str, str], list[Link]] = defaultdict(list)
    for link in burst.links:
        if link.kind in (main, NVLINK):
            groups[link.host, link.kind, link.device if link.kind == NVLINK else ""].append(link)
    rates = _rates(burst)
    found = []
    for (host, kind, device), links in groups.items():
        must = _must(kind == NVLINK, hosts, ways, (operation, algorithm, size_bytes, ranks))
        allowed = [link for link in links if ways.allows_port(link.kind, link.device, link.link)] or links
        readable = [link for link in allowed if not link.note]
        # Slower ones are left out: a management port is no fellow of a 400 Gb/s one. A port that is fast on
        # another host belongs to them, however slow it is here.
        best = max((link.gb_per_s or 0.0 for link in readable), default=0.0)
        good = [link for link in readable if not link.gb_per_s or rates[link.kind, link.name] >= best]
        if good:
            noted = tuple(link for link in allowed if link.note)
            left_out = tuple(link for link in links if link not in allowed)
            each = _fellows(burst.windows, host, kind, device, good, None if noted else must)
            found.append(replace(each, noted=noted, left_out=left_out))
    if any(each.must is None for each in found if each.kind == main):
        # Of some hosts it is not known: a mean over the others says nothing.
        return tuple(
            replace(each, must=None) if each.kind == main and each.must and each.must.mean else each
            for each in found
        )
    return tuple(found)


def _must(
    nvlink: bool, hosts: frozenset[str], ways: BytePaths, what: tuple[str, str, int, int]
) -> Moved | None:
    """``what`` are operation, algorithm, size and ranks."""
    if nvlink:
        near = len(hosts) == 1 or (ways.joined(hosts) and ways.nodes <= len(hosts))
        return gpu_bytes(*what) if near else None
    domains = [domain for host in hosts if (domain := ways.domains.get(host))]
    if len(set(domains)) < len(domains):  # a host is no unit of what must move over NICs then
        return None
    nodes = max(ways.nodes, len(hosts))
    must = node_bytes(*what, nodes, network_reduces=ways.network_reduces)
    return None if must is not None and must.mean and len(hosts) < nodes else must


def main_kind(burst: Burst, size_bytes: int) -> str:
    """The kind of NIC that carried most over all hosts, and a fabric rather than Ethernet where nothing worth
    mentioning flowed; empty where there is none.
    """
    kinds = list(dict.fromkeys(link.kind for link in burst.links if link.kind != NVLINK and not link.note))
    most = max(kinds, key=lambda kind: _carried(burst, {kind}), default="")
    if most == ETHERNET and not matters(burst, most, size_bytes):
        return next((kind for kind in kinds if kind != ETHERNET), most)
    return most


def bypassed(burst: Burst, size_bytes: int) -> tuple[Link, ...]:
    """Fabric NICs that are up, where the bytes went over Ethernet interfaces instead."""
    if main_kind(burst, size_bytes) != ETHERNET or not matters(burst, ETHERNET, size_bytes):
        return ()
    return tuple(link for link in burst.links if link.kind not in (ETHERNET, NVLINK) and not link.note)


def degraded(burst: Burst) -> tuple[tuple[Link, float], ...]:
    """Ports that are slower than the port of their name is on another host, and that one's rate in GB/s."""
    rates = _rates(burst)
    return tuple(
        (link, best)
        for link in burst.links
        if link.gb_per_s and link.gb_per_s < (best := rates[link.kind, link.name]) and link.kind != NVLINK
    )


def _carried(burst: Burst, kinds: set[str]) -> float:
    """Bytes of all calls over links of these kinds, both directions, without those that flow anyway."""
    return sum(
        _net(burst.windows, counted)
        for link in burst.links
        if link.kind in kinds and not link.note
        for counted in (link.sent_bytes, link.received_bytes)
    )


def matters(burst: Burst, kind: str, size_bytes: int) -> bool:
    """Whether links of this kind carried a significant part of messages of this size."""
    calls = sum(window.calls for window in burst.windows)
    return _carried(burst, {kind}) > _SIGNIFICANT * size_bytes * calls


def _rates(burst: Burst) -> dict[tuple[str, str], float]:
    """The highest rate of ports of one kind and name, over all hosts."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for link in burst.links:
        found[link.kind, link.name] = max(found[link.kind, link.name], link.gb_per_s or 0.0)
    return found


def _fellows(
    windows: Sequence[Window], host: str, kind: str, device: str, links: Sequence[Link], must: Moved | None
) -> Fellows:
    calls = sum(window.calls for window in windows)
    seconds = sum(window.seconds for window in windows[1:])
    # How far the bytes of a call in one window lie from those in all, at most.
    per_call = [
        sum(max(link.sent_bytes[at], link.received_bytes[at]) for link in links) / window.calls
        for at, window in enumerate(windows)
        if window.calls
    ]
    mean = sum(per_call) / len(per_call) if per_call else 0.0
    noise = max(abs(value / mean - 1) for value in per_call) if mean else 0.0
    bytes_ = [(_net(windows, link.sent_bytes), _net(windows, link.received_bytes)) for link in links]
    even = sum(max(pair) for pair in bytes_) / len(links)
    # A link that takes part carries at least an even share of one call, and more than what the whole
    # traffic differs by between windows.
    least = max(noise, 1 / max(calls, 1)) * even
    uses = tuple(
        LinkUse(
            link,
            sent,
            received,
            seconds,
            max(sent, received) / even if even else 0.0,
            carried=max(sent, received) > least,
        )
        for link, (sent, received) in zip(links, bytes_, strict=True)
    )
    gross = sum(max(sum(link.sent_bytes[1:]), sum(link.received_bytes[1:])) for link in links)
    taken_off = 1 - even * len(links) / gross if gross else 0.0
    return Fellows(host, kind, device, uses, calls, noise, taken_off, must)


def _net(windows: Sequence[Window], counted: Sequence[int]) -> float:
    """Bytes of the busy windows, without those that would have flowed anyway."""
    before = counted[0] / windows[0].seconds
    busy = sum(window.seconds for window in windows[1:])
    return max(0.0, sum(counted[1:]) - before * busy)


def _busier(uses: Sequence[LinkUse]) -> float:
    return max(sum(use.sent_bytes for use in uses), sum(use.received_bytes for use in uses))


# Links of healthy GPUs differ by up to 0.8 % (18 NVLinks of an H200), often more than the noise of the time.
# Less than this is less than two runs may differ by and still be the SAME.
WORTH_NAMING: Final = 0.02
# NVIDIA's own tests call a link used where it carries more than half of the mean of its fellows.
STARVED: Final = 0.5


def odd_one(carried: Sequence[float], what: str) -> tuple[int, str, bool]:
    """Which of several links is least like the median one, what it does in words, and whether it carries
    more: with one starved, all others have more than an even share.
    """
    middle = median(carried)
    odd = max(range(len(carried)), key=lambda at: (round(abs(carried[at] / middle - 1), 9), carried[at]))
    if carried[odd] >= middle:
        more = carried[odd] * len(carried) / sum(carried) - 1
        return odd, f"carries {format_share(more)} more than an even share", True
    return odd, f"carries {format_share(carried[odd] / middle)} of the median {what}", False
