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
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeVar

from busbw.errors import UsageError
from busbw.judge.traffic import BytePaths
from busbw.model.collective import collective
from busbw.model.record import NOT_STATED, RunRecord

NOT_KNOWN: Final = "the number of nodes is not known"
_MIXED: Final = "groups of several sizes: one busbw is no rate of a link"
_DOMAINS_OFF: Final = "NCCL_MNNVL_ENABLE"


@dataclass(frozen=True)
class RankPlacement:
    """``groups`` has, for each group that does the operation at the same time as the others, how many of its
    ranks each unit has. ``hosts`` are those of each unit. ``surely`` is whether it is known which hosts share
    an NVLink domain. ``unknown`` is why there is nothing else.
    """

    groups: tuple[Mapping[int, int], ...] = ()
    hosts: tuple[int, ...] = ()
    surely: bool = True
    unknown: str = ""

    @classmethod
    def even(cls, ranks: int, nodes: int) -> RankPlacement:
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


def rank_placement(
    record: RunRecord,
    groups: Sequence[Sequence[int]],
    nodes: int,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> RankPlacement:
    """The layout of a run's ranks by the hosts that they were on, and the domains that NVML named.

    ``groups`` are empty where the world is one; ``nodes`` is what is otherwise known of their number, 0 for
    nothing; ``variables`` those of the environment.
    """
    world = record.world
    if len({len(group) for group in groups}) > 1:
        return RankPlacement(unknown=_MIXED)
    host_of = {rank.rank: rank.host for rank in world.ranks} if world is not None else {}
    if world is None or len(host_of) != world.size or NOT_STATED in host_of.values():
        if groups:
            return RankPlacement(unknown="which ranks of a group share a node is not known")
        return RankPlacement.even(world.size if world is not None else 0, nodes)
    joined = variables.get(_DOMAINS_OFF, "") != "0"
    domain_of = {place.host: place.nvlink_domain for place in world.places} if joined else {}
    surely = len(world.hosts) == 1 or not joined or all(domain_of.get(host) for host in world.hosts)
    units: dict[str, list[str]] = {}
    for host in world.hosts:
        units.setdefault(domain_of.get(host) or host, []).append(host)
    number = {host: unit for unit, hosts in enumerate(units.values()) for host in hosts}
    members = groups or (tuple(host_of),)
    if any(rank not in host_of for group in members for rank in group):
        return RankPlacement(unknown="which ranks of a group share a node is not known")
    return RankPlacement(
        tuple(Counter(number[host_of[rank]] for rank in group) for group in members),
        tuple(map(len, units.values())),
        surely,
    )


# Line rates of the links of a machine: by its record, by a preset, or as NCCL's topology has them.

Number = TypeVar("Number", int, float)
_BITS: Final = 8.0
_MBIT_PER_GB: Final = 8000.0  # NCCL's topology has Mb/s: GB/s = speed / 8000
# What SM traffic leaves of NVLink's line rate, one link and direction in GB/s (NCCL, graph/topo.h).
NVLINK_GB_PER_S: Final[Mapping[int, float]] = {80: 20.0, 90: 20.6, 100: 40.1}
_P2P_OFF: Final = "NCCL_P2P_DISABLE"
_TOPOLOGY_HINT: Final = "set NCCL_TOPO_DUMP_FILE in a run to get one"


@dataclass(frozen=True)
class Wires:
    """Line rates in one direction, GB/s. ``nvlink_gb_per_s`` is that of a GPU, ``network_gb_per_s`` that of
    all NICs of a node; None where not known. ``pcie_gb_per_s`` is that of a GPU's PCIe link, where its data
    must go that way: there is no NVLink, or direct access is off. ``source`` says whose word it is, and
    ``rates`` what they are, where they are no line rates.
    """

    nvlink_gb_per_s: float | None = None
    network_gb_per_s: float | None = None
    nics: int = 0
    source: str = ""
    pcie_gb_per_s: float | None = None
    rates: str = "line rates"

    @property
    def gpu_gb_per_s(self) -> float | None:
        """Of the link that leaves a GPU."""
        return self.nvlink_gb_per_s or self.pcie_gb_per_s

    @property
    def gpu_link(self) -> str:
        """Which link that is."""
        return "PCIe" if self.pcie_gb_per_s and not self.nvlink_gb_per_s else "NVLink"


def wires_of(
    machine: Mapping[str, Any],
    variables: Mapping[str, str] = MappingProxyType({}),
    ways: BytePaths | None = None,
) -> Wires:
    """The links of rank 0's host, as its record has them; the other hosts are taken to be alike.
    ``variables`` are those of its environment. All NICs with an active port count, used or not, but for those
    that a setting of ``ways`` keeps out.
    """
    gpus = machine.get("gpus", {}).get("gpus", ())
    nics = machine.get("nics", {})
    ports = [port for device in nics.get("rdma", ()) for port in _active_ports(device)]
    allowed = [port for port in ports if ways.allows_port(*port[:3])] if ways is not None else []
    rates = [rate for *_, rate in allowed or ports]
    rates += [rate for device in nics.get("cxi", ()) if (rate := _cxi_rate(device)) is not None]
    known = [rate for rate in rates if rate is not None]
    complete = bool(rates) and len(known) == len(rates)
    nvlink = min((_nvlink(gpu) for gpu in gpus), default=0.0) or None
    is_off = _is_off(variables)
    is_without = nvlink is None and bool(machine.get("gpus", {}).get("driver_version"))  # NVML was there
    pcie = min((float(gpu.get("pcie_gb_per_s") or 0.0) for gpu in gpus), default=0.0) or None
    return Wires(
        nvlink_gb_per_s=None if is_off else nvlink,
        pcie_gb_per_s=pcie if is_off or is_without else None,
        network_gb_per_s=sum(known) if complete else None,
        nics=len(rates),
        source="NVML and sysfs of rank 0's host" + _counted(len(rates), ways if allowed else None)
        if machine
        else "the record has no machine",
    )


def _counted(ports: int, ways: BytePaths | None) -> str:
    """Which ports are in the sum: one that serves storage alone raises it."""
    if not ports:
        return ""
    if ways is not None and ways.choosing:
        return f", ports that {ways.choosing} lets be used"
    return ", all active ports, used or not"


def _is_off(variables: Mapping[str, str]) -> bool:
    return variables.get(_P2P_OFF, "0") not in ("0", "")


def _nvlink(gpu: Mapping[str, Any]) -> float:
    """All active links of one GPU in one direction; 0.0 where NVML does not say."""
    active = sum(bool(link.get("active")) for link in gpu.get("nvlinks", ()))
    return active * float(gpu.get("nvlink_gb_per_s") or 0.0)


def _active_ports(device: Mapping[str, Any]) -> list[tuple[str, str, str, float | None]]:
    """Kind, device, ``port N`` and rate in GB/s of the ports that are up; None for a rate that is not said
    (EFA).
    """
    kind, name = str(device.get("kind", "")), str(device.get("name", ""))
    return [
        (
            kind, name, f"port {port.get('port', '')}",
            port["rate_gbit_per_s"] / _BITS if port.get("rate_gbit_per_s") else None,
        )
        for port in device.get("ports", ())
        if port.get("state") == "ACTIVE"
    ]  # fmt: skip


def _cxi_rate(device: Mapping[str, Any]) -> float | None:
    """``BS_200G``: Slingshot's word for 200 Gb/s."""
    found = re.search(r"(\d+)G", str(device.get("speed", "")))
    return float(found[1]) / _BITS if found else None


def wires_of_node(node: Mapping[str, Any], preset: str) -> Wires:
    """The network of a node of a preset, by what its maker says."""
    return Wires(
        network_gb_per_s=float(node["node_gbit_per_s"]) / _BITS,
        nics=int(node["nics"]),
        source=f"preset {preset}",
    )


def wires_from_topology(text: str, variables: Mapping[str, str] = MappingProxyType({})) -> Wires:
    """The links of a node as NCCL saw them: the XML of NCCL_TOPO_DUMP_FILE. ``variables`` are those of the
    run's environment. Raises UsageError.

    NVLink is NCCL's usable rate of a link (``NVLINK_GB_PER_S``) x the links of the GPU with the fewest.
    """
    try:
        # A file that the user's own NCCL wrote; entities are not used in it.
        system = ET.fromstring(text)
    except ET.ParseError as error:
        raise UsageError(f"not an XML file of NCCL's topology: {error}", hint=_TOPOLOGY_HINT) from error
    gpus = list(system.iter("gpu"))
    links = [
        sum(_number(link, "count", int) for link in gpu.iter("nvlink"))
        * NVLINK_GB_PER_S.get(_generation(_number(gpu, "sm", int)), 0.0)
        for gpu in gpus
    ]
    speeds = [_number(net, "speed", float) for net in system.iter("net")]
    # NCCL takes a missing or negative speed for 10 Gb/s; we take it for unknown.
    known = bool(speeds) and min(speeds) > 0
    return Wires(
        nvlink_gb_per_s=None if _is_off(variables) else min(links, default=0.0) or None,
        network_gb_per_s=sum(speeds) / _MBIT_PER_GB if known else None,
        nics=len(speeds),
        source="NCCL's topology",
        rates="bandwidths that NCCL reckons with (of NVLink what it takes for usable, below the line rate)",
    )


def _number(element: ET.Element, name: str, kind: type[Number]) -> Number:
    """An attribute's value, 0 without one. Raises UsageError."""
    text = element.get(name, "0")
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not math.isfinite(value):
        raise UsageError(
            f'not a file of NCCL\'s topology: {element.tag} has {name}="{text}", which is no number',
            hint=_TOPOLOGY_HINT,
        )
    return value


def _generation(sm: int) -> int:
    return max((known for known in NVLINK_GB_PER_S if known <= sm), default=0)


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

    layout: RankPlacement
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


def _leaving(layout: RankPlacement) -> dict[int, float]:
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
    layout: RankPlacement,
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


def _sharing(layout: RankPlacement, nodes: int) -> str:
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
