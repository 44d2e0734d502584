"""Where the ranks of an operation are: which of them reach one another over NVLink, and which over NICs.

A unit is what one NVLink domain has: a host, or all hosts whose GPUs are in one domain over several hosts
(NVL72). Between units data go over NICs, and a unit has those of all its hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

from busbw.model.record import RunRecord

_NOT_STATED: Final = "not stated"
NOT_KNOWN: Final = "the number of nodes is not known"
_MIXED: Final = "groups of several sizes: one busbw is no rate of a link"
_DOMAINS_OFF: Final = "NCCL_MNNVL_ENABLE"


@dataclass(frozen=True)
class Layout:
    """``groups`` has, for each group that does the operation at the same time as the others, how many of its
    ranks each unit has. ``hosts`` are those of each unit. ``surely`` is whether it is known which hosts share
    an NVLink domain. ``unknown`` is why there is nothing else.
    """

    groups: tuple[Mapping[int, int], ...] = ()
    hosts: tuple[int, ...] = ()
    surely: bool = True
    unknown: str = ""

    @classmethod
    def even(cls, ranks: int, nodes: int) -> Layout:
        """All ranks together, spread over nodes as evenly as can be; who shares a domain is unknown."""
        if nodes < 1 or ranks < nodes:
            return cls(unknown=NOT_KNOWN)
        share, more = divmod(ranks, nodes)
        return cls(({node: share + (node < more) for node in range(nodes)},), (1,) * nodes, surely=nodes == 1)

    @property
    def ranks(self) -> int:
        """Of each group."""
        return sum(self.groups[0].values()) if self.groups else 0

    @cached_property
    def crossing(self) -> tuple[Mapping[int, int], ...]:
        """The groups that are on more than one unit."""
        return tuple(group for group in self.groups if len(group) > 1)

    @property
    def nodes(self) -> int:
        """Units that a group is on, at most; 0 where not known."""
        return max((len(group) for group in self.groups), default=0)

    @property
    def is_even(self) -> bool:
        """Whether every group that crosses has as many ranks on each of its units."""
        return all(len(set(group.values())) == 1 for group in self.crossing)

    def network_share(self, network_gb_per_s: float) -> float:
        """What a group can have of a unit's NICs, GB/s, where all that cross share alike: of the unit that
        has the least for each. ``network_gb_per_s`` is that of one host.
        """
        sharing = Counter(unit for group in self.crossing for unit in group)
        return min(network_gb_per_s * self.hosts[unit] / many for unit, many in sharing.items())


def layout_of(
    record: RunRecord,
    groups: Sequence[Sequence[int]],
    nodes: int,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Layout:
    """The layout of a run's ranks by the hosts that they were on, and the domains that NVML named.

    ``groups`` are empty where the world is one; ``nodes`` is what is otherwise known of their number, 0 for
    nothing; ``variables`` those of the environment.
    """
    world = record.world
    if len({len(group) for group in groups}) > 1:
        return Layout(unknown=_MIXED)
    host_of = {rank.rank: rank.host for rank in world.ranks} if world is not None else {}
    if world is None or len(host_of) != world.size or _NOT_STATED in host_of.values():
        if groups:
            return Layout(unknown="which ranks of a group share a node is not known")
        return Layout.even(world.size if world is not None else 0, nodes)
    joined = variables.get(_DOMAINS_OFF, "") != "0"
    domain_of = {place.host: place.nvlink_domain for place in world.places} if joined else {}
    surely = len(world.hosts) == 1 or not joined or all(domain_of.get(host) for host in world.hosts)
    units: dict[str, list[str]] = {}
    for host in world.hosts:
        units.setdefault(domain_of.get(host) or host, []).append(host)
    number = {host: unit for unit, hosts in enumerate(units.values()) for host in hosts}
    members = groups or (tuple(host_of),)
    if any(rank not in host_of for group in members for rank in group):
        return Layout(unknown="which ranks of a group share a node is not known")
    return Layout(
        tuple(Counter(number[host_of[rank]] for rank in group) for group in members),
        tuple(map(len, units.values())),
        surely,
    )
