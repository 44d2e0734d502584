"""What the wires allow: an upper bound of bus bandwidth from the links of the machine and the algorithm.

Bus bandwidth is the rate that a link would need if the operation were done by sends and receives alone ("ring
equivalent"). A switch that reduces, or a tree over two nodes, needs less, so a bound without the algorithm
means nothing: where it was not observed, no bound is given. The bytes that each algorithm moves through a
link are in ``judge.moved``; the link that needs the longest for them is the bound. A node is what one NVLink
domain has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from busbw.judge.moved import Way, way_of
from busbw.judge.traffic import byte_paths
from busbw.judge.wires import Wires
from busbw.model.collective import collective
from busbw.model.record import RunRecord

NOT_KNOWN: Final = "the number of nodes is not known"
_GROUPS: Final = "groups: no bound is known"


@dataclass(frozen=True)
class RankPlacement:
    """All ranks together on ``nodes`` units, of which each has the NICs of ``hosts`` hosts at least.
    ``surely`` is whether it is known which hosts share an NVLink domain. ``unknown`` is why there is nothing
    else.
    """

    ranks: int = 0
    nodes: int = 0
    hosts: int = 1
    surely: bool = True
    unknown: str = ""

    @classmethod
    def even(cls, ranks: int, nodes: int) -> RankPlacement:
        """Ranks spread over nodes; who shares a domain is unknown."""
        if nodes < 1 or ranks < nodes:
            return cls(unknown=NOT_KNOWN)
        return cls(ranks, nodes, surely=nodes == 1)


def rank_placement(record: RunRecord, nodes: int) -> RankPlacement:
    """The layout of a run's ranks by the hosts that they were on, and the domains that NVML named. ``nodes``
    is what is otherwise known of their number, 0 for nothing.
    """
    world, ways = record.world, byte_paths(record)
    hosts = world.known_hosts if world is not None else ()
    if world is None or not hosts:
        found = RankPlacement.even(world.size if world is not None else 0, nodes)
    else:
        surely = len(hosts) == 1 or ways.domains_off or all(ways.domains.get(host) for host in hosts)
        units = Counter(ways.domains.get(host) or host for host in hosts)
        found = RankPlacement(world.size, len(units), min(units.values()), surely)
    return replace(found, unknown=_GROUPS) if record.plan.groups else found


UNKNOWN: Final = "unknown algorithm"
# A number without an interval may be above the bound by so much before the bound is held to be wrong.
_NOISE: Final = 1.05
_DOMAINS: Final = "hosts may share an NVLink domain or have more NICs than the record says"


@dataclass(frozen=True)
class Limit:
    """The bound of a case. ``busbw_gb_per_s`` is None where none can be given; ``model`` says which formula,
    or why none. ``wire_gb_per_s`` is the rate of the kind of link that bounds it which the measured number
    implies, ``percent`` the measured busbw in percent of the bound. ``refuted``: there was one, and the
    measured number is above it, so it is wrong for all cases of the run.
    """

    busbw_gb_per_s: float | None
    model: str
    wire: str = ""
    wire_gb_per_s: float | None = None
    percent: float | None = None
    refuted: bool = False


def limit(
    operation: str,
    algorithm: str,
    layout: RankPlacement,
    wires: Wires,
    busbw_gb_per_s: float | None = None,
    low_gb_per_s: float | None = None,
) -> Limit:
    """The bound of one operation; with a measured busbw also the implied rate of the wire, and percent.

    ``algorithm`` is the library's word (RING, TREE, NVLS, ...), empty where it was not observed.
    ``low_gb_per_s`` is the lower end of the measured one's interval: where even that is above the bound of a
    layout that is not sure, the bound is wrong, and there is none.
    """
    if layout.unknown or layout.ranks < 2:
        return Limit(None, layout.unknown or "one rank")
    way = way_of(operation, algorithm, layout.ranks, layout.nodes)
    if way is None:
        return Limit(None, f"{UNKNOWN}: no bound" if not algorithm else f"no bound is known for {algorithm}")
    links = list(_links(way, layout, wires))
    if not links:
        return Limit(None, f"no bound is known: {way.name}, rates of links {wires.source or 'not known'}")
    # The link whose rate is soonest used up, by the bytes through it over those of the message.
    rate, share, name, model = min(links, key=lambda link: link[0] / link[1])
    factor = collective(operation).busbw_factor(layout.ranks)
    bound = rate / share * factor
    if busbw_gb_per_s is None:
        return Limit(bound, model)
    least = busbw_gb_per_s / _NOISE if low_gb_per_s is None else low_gb_per_s
    if least > bound and layout.nodes > 1 and not layout.surely:
        why = f"unknown: {busbw_gb_per_s:.4g} GB/s is above {bound:.4g} ({model}); {_DOMAINS}"
        return Limit(None, why, refuted=True)
    implied = busbw_gb_per_s / factor * share
    return Limit(bound, model, name, implied, 100 * busbw_gb_per_s / bound)


def _links(way: Way, layout: RankPlacement, wires: Wires) -> Iterator[tuple[float, float, str, str]]:
    """A GPU's link and the NICs of a node, where both rate (GB/s) and bytes (over those of the message) are
    known; nothing over nodes where those of the NICs are not. Behind them a link's name and model.
    """
    link, name = wires.gpu_link, f"{wires.gpu_link} of a GPU"
    gpu = wires.nvlink_gb_per_s if way.switched else wires.gpu_gb_per_s
    if layout.nodes == 1:
        if way.gpu is not None and way.gpu.bound and gpu:
            yield gpu, way.gpu.bound, name, f"{way.name}: {way.gpu.words} over {link} inside a node"
    elif way.node is not None and wires.network_gb_per_s:
        domain = ", an NVLink domain of several hosts" if layout.hosts > 1 else ""
        model = f"{way.name}: {way.node.words} over the NICs of a node{domain}"
        yield wires.network_gb_per_s, way.node.bound / layout.hosts, "NICs of a node", model
        if way.inside is not None and wires.gpu_gb_per_s:
            model = f"{way.name}: over {link} inside a node, which allows less than the NICs"
            yield wires.gpu_gb_per_s, way.inside, name, model
