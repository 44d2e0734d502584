"""Line rates of the links of a machine: by its record, by a preset, or as NCCL's topology has them."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from operator import mul
from types import MappingProxyType
from typing import Any, Final, TypeVar

from busbw.errors import UsageError
from busbw.judge.traffic import BytePaths

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


def wires_of(machine: Mapping[str, Any], ways: BytePaths | None = None) -> Wires:
    """The links of rank 0's host, as its record has them; the other hosts are taken to be alike. All NICs
    with an active port count, used or not, but for those that a setting of ``ways`` keeps out.
    """
    ways = ways or BytePaths()
    gpus = machine.get("gpus", {}).get("gpus", ())
    nics = machine.get("nics", {})
    ports = [
        (str(device.get("kind", "")), str(device.get("name", "")), port)
        for device in nics.get("rdma", ())
        for port in device.get("ports", ())
        if port.get("state") == "ACTIVE"
    ]
    allowed = [each for each in ports if ways.allows_port(*each[:2], f"port {each[2].get('port', '')}")]
    # EFA does not say its rate.
    gbits = [port.get("rate_gbit_per_s") for *_, port in allowed or ports]
    rates = [gbit / _BITS if gbit else None for gbit in gbits]
    # BS_200G is Slingshot's word for 200 Gb/s.
    speeds = (re.search(r"(\d+)G", str(device.get("speed", ""))) for device in nics.get("cxi", ()))
    rates += [float(speed[1]) / _BITS for speed in speeds if speed is not None]
    known = [rate for rate in rates if rate is not None]
    complete = bool(rates) and len(known) == len(rates)
    # All active links of a GPU in one direction; 0 where NVML does not say.
    active = [sum(bool(link.get("active")) for link in gpu.get("nvlinks", ())) for gpu in gpus]
    each = [float(gpu.get("nvlink_gb_per_s") or 0.0) for gpu in gpus]
    nvlink = min(map(mul, active, each), default=0.0) or None
    is_off = _is_off(ways.settings)
    is_without = nvlink is None and bool(machine.get("gpus", {}).get("driver_version"))  # NVML was there
    pcie = min((float(gpu.get("pcie_gb_per_s") or 0.0) for gpu in gpus), default=0.0) or None
    source = "NVML and sysfs of rank 0's host" if machine else "the record has no machine"
    if machine and rates:  # which ports are in the sum: one that serves storage alone raises it
        choosing = f"ports that {ways.choosing} lets be used" if allowed and ways.choosing else ""
        source += f", {choosing or 'all active ports, used or not'}"
    return Wires(
        nvlink_gb_per_s=None if is_off else nvlink,
        pcie_gb_per_s=pcie if is_off or is_without else None,
        network_gb_per_s=sum(known) if complete else None,
        nics=len(rates),
        source=source,
    )


def _is_off(settings: Mapping[str, str]) -> bool:
    return settings.get(_P2P_OFF, "0") not in ("0", "")


def wires_of_node(node: Mapping[str, Any], preset: str) -> Wires:
    """The network of a node of a preset, by what its maker says."""
    return Wires(
        network_gb_per_s=float(node["node_gbit_per_s"]) / _BITS,
        nics=int(node["nics"]),
        source=f"preset {preset}",
    )


def wires_from_topology(text: str, settings: Mapping[str, str] = MappingProxyType({})) -> Wires:
    """The links of a node as NCCL saw them: the XML of NCCL_TOPO_DUMP_FILE. ``settings`` are those of
    the run. Raises UsageError.

    NVLink is NCCL's usable rate of a link (``NVLINK_GB_PER_S``) x the links of the GPU with the fewest.
    """
    try:
        # A file that the user's own NCCL wrote; entities are not used in it.
        system = ET.fromstring(text)
    except ET.ParseError as error:
        raise UsageError(f"not an XML file of NCCL's topology: {error}", hint=_TOPOLOGY_HINT) from error
    links = []
    for gpu in system.iter("gpu"):
        generation = max((sm for sm in NVLINK_GB_PER_S if sm <= _number(gpu, "sm", int)), default=0)
        count = sum(_number(link, "count", int) for link in gpu.iter("nvlink"))
        links.append(count * NVLINK_GB_PER_S.get(generation, 0.0))
    speeds = [_number(net, "speed", float) for net in system.iter("net")]
    # NCCL takes a missing or negative speed for 10 Gb/s; we take it for unknown.
    known = bool(speeds) and min(speeds) > 0
    return Wires(
        nvlink_gb_per_s=None if _is_off(settings) else min(links, default=0.0) or None,
        network_gb_per_s=sum(speeds) / _MBIT_PER_GB if known else None,
        nics=len(speeds),
        source="NCCL's topology",
        rates="bandwidths that NCCL uses (for NVLink a usable rate, below the line rate)",
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
