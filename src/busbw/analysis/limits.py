"""What the wires allow: an upper bound of bus bandwidth from the links of the machine and the algorithm.

Bus bandwidth is the rate that a link would need if the operation were done by sends and receives alone ("ring
equivalent"). A switch that reduces, or a tree over two nodes, needs less, so a bound without the algorithm
means nothing: where it was not observed, no bound is given.

Formulas, with S the message size as nccl-tests defines it, n ranks, N nodes, g = n / N ranks on a node, B one
direction of a GPU's NVLink, W one direction of all NICs of a node; from the bytes that each algorithm moves
(factors: nccl-tests PERFORMANCE.md; NVLS: a GPU sends and receives S (1 + 1/n), NVIDIA/nccl-tests issues 239
and 212; trees over two nodes: NVIDIA/nccl issue 320). A node is what one NVLink domain has (``layout``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from busbw.analysis.layout import Layout
from busbw.analysis.wires import Wires
from busbw.model.collective import collective

UNKNOWN: Final = "unknown algorithm"
_NO_LINK: Final = "the rate of the links between GPUs is not known"
# A number without an interval may be above the bound by so much before the bound is held to be wrong.
_NOISE: Final = 1.05
_DOMAINS: Final = "hosts may share an NVLink domain or have more NICs than the record says"


@dataclass(frozen=True)
class Limit:
    """The bound of a case. ``busbw_gb_per_s`` is None where none can be given; ``model`` says which formula,
    or why none. ``wire_gb_per_s`` is the rate of the busiest kind of link that the measured number implies,
    ``percent`` the measured busbw in percent of the bound. ``refuted``: there was one, and the measured
    number is above it, so it is wrong for all cases of the run.
    """

    busbw_gb_per_s: float | None
    model: str
    wire: str = ""
    wire_gb_per_s: float | None = None
    percent: float | None = None
    refuted: bool = False


@dataclass(frozen=True)
class _World:
    """``nodes`` are the units of the layout that the group in question is on."""

    layout: Layout
    nodes: int
    wires: Wires

    @property
    def ranks(self) -> int:
        """Of the group."""
        return self.layout.ranks

    @property
    def share(self) -> float:
        """(n - 1) / n."""
        return (self.ranks - 1) / self.ranks

    @property
    def hierarchy(self) -> float:
        """(N - 1) / N."""
        return (self.nodes - 1) / self.nodes

    @property
    def network(self) -> float | None:
        """W, GB/s, of which each group that crosses nodes has its part."""
        whole = self.wires.network_gb_per_s
        return None if whole is None else self.layout.network_share(whole)


_Formula = Callable[[_World], "tuple[float | None, str]"]


def _one_direction(what: str) -> _Formula:
    """Where each link carries busbw in one direction: in a ring, and with sends to the next rank."""

    def formula(world: _World) -> tuple[float | None, str]:
        gpu, link = world.wires.gpu_gb_per_s, world.wires.gpu_link
        if world.nodes == 1:
            return gpu, f"{what} inside a node: one {link} direction" if gpu else _NO_LINK
        network = world.network
        if network is None:
            return None, f"{what} over nodes: the NICs' rate is not known"
        return network, f"{what} over nodes: the NICs of a node"

    return formula


_ring: Final = _one_direction("ring")
_rooted: Final = _one_direction("all data through a link of the busiest GPU")
_neighbours: Final = _one_direction("to the next rank")


def _tree(world: _World) -> tuple[float | None, str]:
    if world.nodes == 1:
        return None, "no bound is known for a tree inside a node"
    network = world.network
    if network is None:
        return None, "double tree over nodes: the NICs' rate is not known"
    if world.nodes == 2:
        return 2 * network * world.share, "double tree over 2 nodes: 2 W (n-1)/n, above the wire's own rate"
    if world.nodes == 3:
        return network * world.share * 4 / 3, "double tree over 3 nodes: 4/3 W (n-1)/n, one node has 3 edges"
    return network * world.share, "double tree over nodes: W (n-1)/n"


def _nvls(world: _World) -> tuple[float | None, str]:
    nvlink = world.wires.nvlink_gb_per_s
    if world.nodes > 1:
        bound, model = _collnet(world)
        return bound, f"NVLS over nodes, with SHARP between them; {model}"
    if nvlink is None:
        return None, _NO_LINK
    bound = 2 * nvlink * (world.ranks - 1) / (world.ranks + 1)
    return bound, "NVLS inside a node: 2 B (n-1)/(n+1), the switch reduces"


def _nvls_moving(world: _World) -> tuple[float | None, str]:
    nvlink = world.wires.nvlink_gb_per_s
    if world.nodes > 1:
        return _hierarchical(world)
    if nvlink is None:
        return None, _NO_LINK
    return (
        nvlink * world.share,
        "NVLS inside a node: B (n-1)/n, the own share comes back too",
    )


def _hierarchical(world: _World) -> tuple[float | None, str]:
    """Of all_gather and reduce_scatter that send each byte once to each node."""
    if world.nodes == 1:
        return None, "no bound is known for it inside a node"
    network = world.network
    if network is None:
        return None, "hierarchical over nodes: the NICs' rate is not known"
    bound = network * world.share / world.hierarchy
    return bound, "hierarchical over nodes: W [(n-1)/n] [N/(N-1)], each byte once to each node"


def _collnet(world: _World) -> tuple[float | None, str]:
    if world.nodes == 1 or world.network is None:
        return None, "CollNet: the NICs' rate is not known"
    return 2 * world.network * world.share, "CollNet (SHARP): 2 W (n-1)/n, the network reduces"


def _pairs(world: _World) -> tuple[float | None, str]:
    gpu, link = world.wires.gpu_gb_per_s, world.wires.gpu_link
    if world.nodes == 1:
        return gpu, f"sends and receives inside a node: one {link} direction" if gpu else _NO_LINK
    whole = world.wires.network_gb_per_s
    if whole is None:
        return None, "sends and receives over nodes: the NICs' rate is not known"
    out = _leaving(world.layout)
    bound = min(whole * world.layout.hosts[unit] / parts for unit, parts in out.items()) * world.share
    return bound, "sends and receives over nodes: (W/g) (n-1)/(n-g)"


def _leaving(layout: Layout) -> dict[int, float]:
    """How many times the size leaves each unit in an alltoall: g (n-g)/n of every group that crosses."""
    out: dict[int, float] = {}
    for group in layout.crossing:
        ranks = sum(group.values())
        for unit, here in group.items():
            out[unit] = out.get(unit, 0.0) + here * (ranks - here) / ranks
    return out


# By the first word of the observed algorithm; what a vendor or NCCL calls it.
_ALL_REDUCE: Final[Mapping[str, _Formula]] = {
    "RING": _ring,
    "TREE": _tree,
    "NVLS_TREE": _tree,
    "NVLSTREE": _tree,
    "NVLS": _nvls,
    "COLLNET_DIRECT": _collnet,
    "COLLNET_CHAIN": _collnet,
    "COLLNET": _collnet,
}
_MOVING: Final[Mapping[str, _Formula]] = {
    "RING": _ring,
    "NVLS": _nvls_moving,
    "COLLNET_DIRECT": _hierarchical,
    "PAT": _hierarchical,
}
_BY_ALGORITHM: Final[Mapping[str, Mapping[str, _Formula]]] = {
    "all_reduce": _ALL_REDUCE,
    "all_gather": _MOVING,
    "reduce_scatter": _MOVING,
}
# Whatever the algorithm: every rank must send to every other, or to the next one; all that is broadcast comes
# into every GPU and node but the root's, and what is reduced into the root's.
_ANY: Final[Mapping[str, _Formula]] = {
    "alltoall": _pairs,
    "sendrecv": _neighbours,
    "broadcast": _rooted,
    "reduce": _rooted,
}
# Over nodes, of a GPU's own link: whatever switches add up, it sends its own S once, and gets what it lacks.
_INSIDE: Final[Mapping[_Formula, Callable[[_World], float]]] = {
    _ring: lambda world: 1.0,
    _neighbours: lambda world: 1.0,
    _rooted: lambda world: 1.0,
    _tree: lambda world: 2 * world.share,
    _nvls: lambda world: 2 * world.share,
    _collnet: lambda world: 2 * world.share,
    _nvls_moving: lambda world: 1.0,
    _hierarchical: lambda world: 1.0,
}


def limit(
    operation: str,
    algorithm: str,
    layout: Layout,
    wires: Wires,
    busbw_gb_per_s: float | None = None,
    low_gb_per_s: float | None = None,
) -> Limit:
    """The bound of one operation; with a measured busbw also the implied rate of the wire, and percent.

    ``algorithm`` is the library's word (RING, TREE, NVLS, ...), empty where it was not observed. Where groups
    do the operation at once, the bound is of the group that has the least: the time is that of the last one.
    ``low_gb_per_s`` is the lower end of the measured one's interval: where even that is above the bound of a
    layout that is not sure, the bound is wrong, and there is none.
    """
    if layout.unknown or layout.ranks < 2:
        return Limit(None, layout.unknown or "one rank")
    formula = _formula(operation, algorithm)
    if formula is None:
        return Limit(None, f"{UNKNOWN}: no bound" if not algorithm else f"no bound is known for {algorithm}")
    if formula is not _pairs and len(layout.groups) > 1 and not layout.is_even:
        return Limit(None, "groups with more ranks on one node than on another: no bound is known")
    worlds = [_World(layout, nodes, wires) for nodes in sorted({len(group) for group in layout.groups})]
    bounds = [(_bound(formula, world), world) for world in worlds]
    (bound, model), world = min(bounds, key=lambda each: -1.0 if each[0][0] is None else each[0][0])
    model += _sharing(layout, world.nodes)
    if bound is None or busbw_gb_per_s is None:
        return Limit(bound, model)
    least = busbw_gb_per_s / _NOISE if low_gb_per_s is None else low_gb_per_s
    if least > bound and world.nodes > 1 and not layout.surely:
        why = f"unknown: {busbw_gb_per_s:.4g} GB/s is above {bound:.4g} ({model}); {_DOMAINS}"
        return Limit(None, why, refuted=True)
    wire, rate = _implied(operation, formula, world, busbw_gb_per_s)
    return Limit(bound, model, wire, rate, 100 * busbw_gb_per_s / bound)


def _bound(formula: _Formula, world: _World) -> tuple[float | None, str]:
    """The formula's, and that of the links inside a node, over which the same data go."""
    bound, model = formula(world)
    gpu = world.wires.gpu_gb_per_s
    if bound is None or gpu is None or world.nodes == 1 or formula not in _INSIDE:
        return bound, model
    inside = gpu * _INSIDE[formula](world)
    if inside < bound:
        return inside, f"{world.wires.gpu_link} inside a node, which is less than {model}"
    return bound, model


def _sharing(layout: Layout, nodes: int) -> str:
    """What groups and domains make of W, in words."""
    words = []
    if nodes > 1 and len(layout.crossing) > 1:
        words.append(f"{len(layout.crossing)} groups over nodes share W")
    if max(layout.hosts) > 1:
        words.append("a node is an NVLink domain of several hosts" + (", W that of all" * (nodes > 1)))
    return "".join(f"; {word}" for word in words)


def _formula(operation: str, algorithm: str) -> _Formula | None:
    words = algorithm.upper().split()
    return _ANY.get(operation) or _BY_ALGORITHM.get(operation, {}).get(words[0] if words else "")


def _implied(operation: str, formula: _Formula, world: _World, busbw_gb_per_s: float) -> tuple[str, float]:
    """Which link, and the rate that the measured number means for it, GB/s in one direction: of a GPU's link,
    or of the NICs of a host, for all groups that share them.
    """
    if world.nodes > 1:
        full = formula(world)[0] or math.inf  # the busbw at which the NICs are full
        return "NICs of a node", (world.wires.network_gb_per_s or 0.0) * busbw_gb_per_s / full
    algbw = busbw_gb_per_s / collective(operation).busbw_factor(world.ranks)
    if formula is _nvls:
        return "NVLink of a GPU", algbw * (1 + 1 / world.ranks)
    return f"{world.wires.gpu_link} of a GPU", algbw if formula is _nvls_moving else busbw_gb_per_s
