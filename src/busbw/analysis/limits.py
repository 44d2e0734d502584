"""What the wires allow: an upper bound of bus bandwidth from the links of the machine and the algorithm.

Bus bandwidth is the rate that a link would need if the operation were done by sends and receives alone ("ring
equivalent"). A switch that reduces, or a tree over two nodes, needs less, so a bound without the algorithm
means nothing: where it was not observed, no bound is given.

Formulas, with S the message size as nccl-tests defines it, n ranks, N nodes, g = n / N ranks on a node, B one
direction of a GPU's NVLink, W one direction of all NICs of a node; from the bytes that each algorithm moves
(factors: nccl-tests PERFORMANCE.md; NVLS: a GPU sends and receives S (1 + 1/n), NVIDIA/nccl-tests issues 239
and 212; trees over two nodes: NVIDIA/nccl issue 320).
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from busbw.errors import UsageError
from busbw.model.collective import collective

_BITS: Final = 8.0
_MBIT_PER_GB: Final = 8000.0  # NCCL's topology has Mb/s: GB/s = speed / 8000
# What SM traffic leaves of NVLink's line rate, one link and direction in GB/s (NCCL, graph/topo.h).
NVLINK_GB_PER_S: Final[Mapping[int, float]] = {80: 20.0, 90: 20.6, 100: 40.1}
UNKNOWN: Final = "unknown algorithm"
_NO_LINK: Final = "the rate of the links between GPUs is not known"
_P2P_OFF: Final = "NCCL_P2P_DISABLE"


@dataclass(frozen=True)
class Wires:
    """Line rates in one direction, GB/s. ``nvlink_gb_per_s`` is that of a GPU, ``network_gb_per_s`` that of
    all NICs of a node; None where not known. ``pcie_gb_per_s`` is that of a GPU's PCIe link, where its data
    must go that way: there is no NVLink, or direct access is off. ``source`` says whose word it is.
    """

    nvlink_gb_per_s: float | None = None
    network_gb_per_s: float | None = None
    nics: int = 0
    source: str = ""
    pcie_gb_per_s: float | None = None

    @property
    def gpu_gb_per_s(self) -> float | None:
        """Of the link that leaves a GPU."""
        return self.nvlink_gb_per_s or self.pcie_gb_per_s

    @property
    def gpu_link(self) -> str:
        """Which link that is."""
        return "PCIe" if self.pcie_gb_per_s and not self.nvlink_gb_per_s else "NVLink"


@dataclass(frozen=True)
class Limit:
    """The bound of a case. ``busbw_gb_per_s`` is None where none can be given; ``model`` says which formula,
    or why none. ``wire_gb_per_s`` is the rate of the busiest kind of link that the measured number implies,
    ``percent`` the measured busbw in percent of the bound.
    """

    busbw_gb_per_s: float | None
    model: str
    wire: str = ""
    wire_gb_per_s: float | None = None
    percent: float | None = None


def wires_of(machine: Mapping[str, Any], variables: Mapping[str, str] = MappingProxyType({})) -> Wires:
    """The links of rank 0's host, as its record has them; the other hosts are taken to be alike.
    ``variables`` are those of its environment. All NICs with an active port count, used or not.
    """
    gpus = machine.get("gpus", {}).get("gpus", ())
    nics = machine.get("nics", {})
    rates = [rate for device in nics.get("rdma", ()) for rate in _port_rates(device)]
    rates += [rate for device in nics.get("cxi", ()) if (rate := _cxi_rate(device)) is not None]
    known = [rate for rate in rates if rate is not None]
    complete = bool(rates) and len(known) == len(rates)
    nvlink = min((_nvlink(gpu) for gpu in gpus), default=0.0) or None
    is_off = variables.get(_P2P_OFF, "0") not in ("0", "")
    is_without = nvlink is None and bool(machine.get("gpus", {}).get("driver_version"))  # NVML was there
    pcie = min((float(gpu.get("pcie_gb_per_s") or 0.0) for gpu in gpus), default=0.0) or None
    return Wires(
        nvlink_gb_per_s=None if is_off else nvlink,
        pcie_gb_per_s=pcie if is_off or is_without else None,
        network_gb_per_s=sum(known) if complete else None,
        nics=len(rates),
        source="NVML and sysfs of rank 0's host" if machine else "the record has no machine",
    )


def _nvlink(gpu: Mapping[str, Any]) -> float:
    """All active links of one GPU in one direction; 0.0 where NVML does not say."""
    active = sum(bool(link.get("active")) for link in gpu.get("nvlinks", ()))
    return active * float(gpu.get("nvlink_gb_per_s") or 0.0)


def _port_rates(device: Mapping[str, Any]) -> list[float | None]:
    """Rates of the ports that carry something, GB/s; None for one that does not say (EFA)."""
    return [
        port["rate_gbit_per_s"] / _BITS if port.get("rate_gbit_per_s") else None
        for port in device.get("ports", ())
        if port.get("state") == "ACTIVE"
    ]


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


def wires_from_topology(text: str) -> Wires:
    """The links of a node as NCCL saw them: the XML of NCCL_TOPO_DUMP_FILE. Raises UsageError.

    NVLink is NCCL's usable rate of a link (``NVLINK_GB_PER_S``) x the links of the GPU with the fewest.
    """
    try:
        # A file that the user's own NCCL wrote; entities are not used in it.
        system = ET.fromstring(text)
    except ET.ParseError as error:
        raise UsageError(
            f"not an XML file of NCCL's topology: {error}", hint="set NCCL_TOPO_DUMP_FILE in a run to get one"
        ) from error
    gpus = list(system.iter("gpu"))
    links = [
        sum(int(link.get("count", "0")) for link in gpu.iter("nvlink"))
        * NVLINK_GB_PER_S.get(_generation(int(gpu.get("sm", "0"))), 0.0)
        for gpu in gpus
    ]
    speeds = [float(net.get("speed", "0")) for net in system.iter("net")]
    # NCCL takes a missing or negative speed for 10 Gb/s; we take it for unknown.
    known = bool(speeds) and min(speeds) > 0
    return Wires(
        nvlink_gb_per_s=min(links, default=0.0) or None,
        network_gb_per_s=sum(speeds) / _MBIT_PER_GB if known else None,
        nics=len(speeds),
        source="NCCL's topology",
    )


def _generation(sm: int) -> int:
    return max((known for known in NVLINK_GB_PER_S if known <= sm), default=0)


@dataclass(frozen=True)
class _World:
    ranks: int
    nodes: int
    wires: Wires

    @property
    def share(self) -> float:
        """(n - 1) / n."""
        return (self.ranks - 1) / self.ranks


_Formula = Callable[[_World], "tuple[float | None, str]"]


def _one_direction(what: str) -> _Formula:
    """Where each link carries busbw in one direction: in a ring, and with sends to the next rank."""

    def formula(world: _World) -> tuple[float | None, str]:
        gpu, network, link = world.wires.gpu_gb_per_s, world.wires.network_gb_per_s, world.wires.gpu_link
        if world.nodes == 1:
            return gpu, f"{what} inside a node: one {link} direction" if gpu else _NO_LINK
        if network is None:
            return None, f"{what} over nodes: the NICs' rate is not known"
        bound = min(network, gpu or math.inf)
        return bound, f"{what} over nodes: the smaller of a node's NICs and {link}"

    return formula


_ring: Final = _one_direction("ring")
_neighbours: Final = _one_direction("to the next rank")


def _tree(world: _World) -> tuple[float | None, str]:
    network = world.wires.network_gb_per_s
    if world.nodes == 1:
        return None, "no bound is known for a tree inside a node"
    if network is None:
        return None, "double tree over nodes: the NICs' rate is not known"
    if world.nodes == 2:
        return 2 * network * world.share, "double tree over 2 nodes: 2 W (n-1)/n, above the wire's own rate"
    return network * world.share, "double tree over nodes: W (n-1)/n"


def _nvls(world: _World) -> tuple[float | None, str]:
    nvlink = world.wires.nvlink_gb_per_s
    if world.nodes > 1:
        return None, "NVLS over nodes: no bound is known"
    if nvlink is None:
        return None, _NO_LINK
    bound = 2 * nvlink * (world.ranks - 1) / (world.ranks + 1)
    return bound, "NVLS inside a node: 2 B (n-1)/(n+1), the switch reduces"


def _collnet(world: _World) -> tuple[float | None, str]:
    network = world.wires.network_gb_per_s
    if network is None or world.nodes == 1:
        return None, "CollNet: the NICs' rate is not known"
    return 2 * network * world.share, "CollNet (SHARP): 2 W (n-1)/n, the network reduces"


def _pairs(world: _World) -> tuple[float | None, str]:
    gpu, network, link = world.wires.gpu_gb_per_s, world.wires.network_gb_per_s, world.wires.gpu_link
    if world.nodes == 1:
        return gpu, f"sends and receives inside a node: one {link} direction" if gpu else _NO_LINK
    if network is None:
        return None, "sends and receives over nodes: the NICs' rate is not known"
    on_node = world.ranks // world.nodes
    bound = network / on_node * (world.ranks - 1) / (world.ranks - on_node)
    return bound, "sends and receives over nodes: (W/g) (n-1)/(n-g)"


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
_MOVING: Final = ("all_gather", "reduce_scatter")


def limit(
    operation: str, algorithm: str, ranks: int, nodes: int, wires: Wires, busbw_gb_per_s: float | None = None
) -> Limit:
    """The bound of one operation; with a measured busbw also the implied rate of the wire, and percent.

    ``algorithm`` is the library's word (RING, TREE, NVLS, ...), empty where it was not observed.
    """
    if ranks < 2 or nodes < 1:
        return Limit(None, "one rank" if ranks == 1 else "the number of nodes is not known")
    formula = _formula(operation, algorithm)
    if formula is None:
        return Limit(None, f"{UNKNOWN}: no bound" if not algorithm else f"no bound is known for {algorithm}")
    bound, model = formula(_World(ranks, nodes, wires))
    if bound is None or busbw_gb_per_s is None:
        return Limit(bound, model)
    wire, rate = _implied(operation, formula, ranks, nodes, busbw_gb_per_s, wires.gpu_link)
    return Limit(bound, model, wire, rate, 100 * busbw_gb_per_s / bound)


def _formula(operation: str, algorithm: str) -> _Formula | None:
    words = algorithm.upper().split()
    word = words[0] if words else ""
    if operation == "alltoall":
        return _pairs  # every rank must send to every other, whatever the order
    if operation == "sendrecv":
        return _neighbours
    if operation == "all_reduce":
        return _ALL_REDUCE.get(word)
    return _ring if operation in _MOVING and word == "RING" else None


def _implied(
    operation: str, formula: _Formula, ranks: int, nodes: int, busbw_gb_per_s: float, link: str
) -> tuple[str, float]:
    """Which link, and the rate that the measured number means for it, GB/s in one direction."""
    factor = collective(operation).busbw_factor(ranks)
    algbw = busbw_gb_per_s / factor
    if formula is _nvls:
        return "NVLink of a GPU", algbw * (1 + 1 / ranks)
    if nodes == 1:
        return f"{link} of a GPU", busbw_gb_per_s
    if formula is _pairs:
        on_node = ranks // nodes
        return "NICs of a node", algbw * on_node * (ranks - on_node) / ranks
    if formula is _collnet or (formula is _tree and nodes == 2):
        return "NICs of a node", algbw
    if formula is _tree:
        return "NICs of a node", 2 * algbw
    return "NICs of a node", busbw_gb_per_s
