"""What links did during a burst: which carried nothing, how evenly, how much of their rate and of what had to
move. Everything is judged by the burst's own noise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.analysis.moved import Moved, gpu_bytes, node_bytes
from busbw.model.traffic import NVLINK, Burst, Link, Window

ETHERNET: Final = "ethernet"


@dataclass(frozen=True)
class LinkUse:
    """One link. Bytes are those of all calls, with what flowed before the burst taken off. ``share`` is of
    the mean of its fellows, 1 where it carried as much as they. ``carried`` is False where its bytes cannot
    be told from nothing.
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
    known. ``noise`` is by how much the whole traffic of a window differs from the mean of all, at most.
    """

    host: str
    kind: str
    device: str  # the GPU; empty for NICs
    links: tuple[LinkUse, ...]
    calls: int
    noise: float
    must: Moved | None = None

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
    def line_gb_per_s(self) -> float | None:
        """The line rate of all of them together; None where one's is not known."""
        rates = [use.link.gb_per_s for use in self.links]
        known = [rate for rate in rates if rate]
        return sum(known) if len(known) == len(rates) else None

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


def traffic(burst: Burst, operation: str, algorithm: str, size_bytes: int, ranks: int) -> tuple[Fellows, ...]:
    """The links that could take part, host after host: the NICs of the kind that carried most, and every
    GPU's NVLinks. Links whose counters cannot be taken are left out, and so are the slower NICs of a kind.
    """
    hosts = len({link.host for link in burst.links})
    groups: dict[tuple[str, str, str], list[Link]] = defaultdict(list)
    main = main_kind(burst)
    for link in burst.links:
        if link.note or link.kind not in (main, NVLINK):
            continue
        groups[link.host, link.kind, link.device if link.kind == NVLINK else ""].append(link)
    found = []
    for (host, kind, device), links in groups.items():
        if kind == NVLINK:
            must = gpu_bytes(operation, algorithm, size_bytes, ranks) if hosts == 1 else None
        else:
            must = node_bytes(operation, algorithm, size_bytes, ranks, hosts)
        found.append(_fellows(burst.windows, host, kind, device, _fastest(links), must))
    return tuple(found)


def main_kind(burst: Burst) -> str:
    """The kind of NIC that carried most over all hosts; empty where there is none."""
    total: dict[str, int] = defaultdict(int)
    for link in burst.links:
        if link.kind != NVLINK and not link.note:
            total[link.kind] += sum(link.sent_bytes[1:]) + sum(link.received_bytes[1:])
    return max(total, key=lambda kind: total[kind], default="")


def bypassed(burst: Burst) -> tuple[Link, ...]:
    """Fabric NICs that are up, where the bytes went over Ethernet interfaces instead."""
    if main_kind(burst) != ETHERNET:
        return ()
    return tuple(link for link in burst.links if link.kind not in (ETHERNET, NVLINK) and not link.note)


def _fastest(links: Sequence[Link]) -> list[Link]:
    """Without those that are slower than the others: a management port is no fellow of a 400 Gb/s one."""
    best = max((link.gb_per_s or 0.0 for link in links), default=0.0)
    return [link for link in links if not link.gb_per_s or link.gb_per_s >= best]


def _fellows(
    windows: Sequence[Window], host: str, kind: str, device: str, links: Sequence[Link], must: Moved | None
) -> Fellows:
    calls = sum(window.calls for window in windows)
    seconds = sum(window.seconds for window in windows[1:])
    noise = _noise(windows, links)
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
    return Fellows(host, kind, device, uses, calls, noise, must)


def _net(windows: Sequence[Window], counted: Sequence[int]) -> float:
    """Bytes of the busy windows, without those that would have flowed anyway."""
    before = counted[0] / windows[0].seconds
    busy = sum(window.seconds for window in windows[1:])
    return max(0.0, sum(counted[1:]) - before * busy)


def _noise(windows: Sequence[Window], links: Sequence[Link]) -> float:
    """How far the bytes of a call in one window lie from those in all, at most; 0 where nothing flowed."""
    per_call = [
        sum(max(link.sent_bytes[at], link.received_bytes[at]) for link in links) / window.calls
        for at, window in enumerate(windows)
        if window.calls
    ]
    mean = sum(per_call) / len(per_call) if per_call else 0.0
    return max((abs(value / mean - 1) for value in per_call), default=0.0) if mean else 0.0


def _busier(uses: Iterable[LinkUse]) -> float:
    uses = tuple(uses)
    return max(sum(use.sent_bytes for use in uses), sum(use.received_bytes for use in uses))
