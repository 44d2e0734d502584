"""Network interfaces that could carry a collective: RDMA devices, Slingshot, Ethernet.

Sources: the kernel's ABI documents ``sysfs-class-infiniband`` and ``sysfs-class-net``, and the cxi driver's
attributes as ``cxi_stat`` reads them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.machine.sysfs import SYS, entries, link_name, numa_node, pci_address, read_int, read_text

_RDMA_NAME: Final = re.compile(
    r"((mlx|bnxt_re|irdma|qedr|hns|erdma|ionic|mana|rxe|siw|cxgb|hfi)\d*_?(bond_?)?\d+|roce\w+)|[^:]+:\d+"
)
_RATE: Final = re.compile(r"^([\d.]+) Gb/sec")  # "400 Gb/sec (4X NDR)"


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of an RDMA device. ``rate_gbit_per_s`` is None where it is not said or not to be trusted."""

    port: int
    state: str
    physical_state: str
    link_layer: str
    rate_gbit_per_s: float | None
    rate_note: str


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """A device of /sys/class/infiniband. ``kind``: infiniband, roce, efa or rdma; ``netdevs`` go with it."""

    name: str
    kind: str
    driver: str
    firmware: str
    pci: str
    numa_node: int | None
    netdevs: tuple[str, ...]
    ports: tuple[RdmaPort, ...]


@dataclass(frozen=True, slots=True)
class CxiDevice:
    """A Slingshot (Cassini) device of /sys/class/cxi."""

    name: str
    state: str
    speed: str
    pci: str
    numa_node: int | None
    netdevs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """An interface of /sys/class/net. ``driver`` and ``pci`` are empty for virtual ones (veth, bridge)."""

    name: str
    state: str
    speed_gbit_per_s: float | None
    mtu_bytes: int | None
    driver: str
    pci: str
    numa_node: int | None


@dataclass(frozen=True, slots=True)
class Nics:
    """Everything that was found, each by name; the loopback interface is left out."""

    rdma: tuple[RdmaDevice, ...]
    cxi: tuple[CxiDevice, ...]
    interfaces: tuple[NetworkInterface, ...]


def is_rdma_name(name: str) -> bool:
    """Whether a NIC's name is by its form that of an RDMA device: as drivers number them (``mlx5_0``), or
    with a port behind it.
    """
    return _RDMA_NAME.fullmatch(name) is not None


def read_nics(*, sysfs: Path = SYS) -> Nics:
    """Read the three classes; a class that is absent gives an empty tuple."""
    classes = sysfs / "class"
    return Nics(
        rdma=tuple(_rdma_device(path) for path in entries(classes / "infiniband")),
        cxi=tuple(_cxi_device(path) for path in entries(classes / "cxi") if path.name[3:].isdecimal()),
        # bonding_masters is a file among the interfaces.
        interfaces=tuple(
            _interface(path) for path in entries(classes / "net") if path.name != "lo" and path.is_dir()
        ),
    )


def _rdma_device(path: Path) -> RdmaDevice:
    driver = link_name(path / "device" / "driver")
    ports = tuple(_rdma_port(port, driver) for port in entries(path / "ports") if port.name.isdecimal())
    return RdmaDevice(
        name=path.name,
        kind=_rdma_kind(driver, ports),
        driver=driver,
        firmware=read_text(path / "fw_ver"),
        pci=pci_address(path / "device"),
        numa_node=numa_node(path / "device"),
        netdevs=_netdevs(path),
        ports=ports,
    )


def _rdma_kind(driver: str, ports: tuple[RdmaPort, ...]) -> str:
    layers = {port.link_layer for port in ports}
    if driver == "efa":
        return "efa"
    if "InfiniBand" in layers:
        return "infiniband"
    return "roce" if "Ethernet" in layers else "rdma"


def _rdma_port(path: Path, driver: str) -> RdmaPort:
    rate = _RATE.match(read_text(path / "rate"))
    # Some kernels' efa_query_port reports a fixed 100 Gb/s, whatever the card.
    doubtful = driver == "efa"
    return RdmaPort(
        port=int(path.name),
        state=_state(path / "state"),
        physical_state=_state(path / "phys_state"),
        link_layer=read_text(path / "link_layer"),
        rate_gbit_per_s=None if doubtful or rate is None else float(rate[1]),
        rate_note=f"the driver reports {rate[0]}; EFA's rate may be wrong" if doubtful and rate else "",
    )


def _state(path: Path) -> str:
    """``ACTIVE`` of ``4: ACTIVE``."""
    return read_text(path).rpartition(": ")[2]


def _netdevs(path: Path) -> tuple[str, ...]:
    """Interfaces of the same function; for RoCE those that the ports' address tables name come first."""
    tables = (entries(port / "gid_attrs" / "ndevs") for port in entries(path / "ports"))
    # The tables have hundreds of entries, nearly all unused: the first names the interface.
    named = [read_text(table[0]) for table in tables if table]
    beside = [entry.name for entry in entries(path / "device" / "net")]
    return tuple(dict.fromkeys(name for name in [*named, *beside] if name))


def _cxi_device(path: Path) -> CxiDevice:
    port = path / "device" / "port"
    return CxiDevice(
        name=path.name,
        state=read_text(port / "link"),
        speed=read_text(port / "speed"),
        pci=pci_address(path / "device"),
        numa_node=numa_node(path / "device"),
        netdevs=tuple(entry.name for entry in entries(path / "device" / "net")),
    )


def _interface(path: Path) -> NetworkInterface:
    speed_mbit = read_int(path / "speed")  # -1 or unreadable where unknown
    return NetworkInterface(
        name=path.name,
        state=read_text(path / "operstate"),
        speed_gbit_per_s=speed_mbit / 1000 if speed_mbit is not None and speed_mbit > 0 else None,
        mtu_bytes=read_int(path / "mtu"),
        driver=link_name(path / "device" / "driver"),
        pci=pci_address(path / "device"),
        numa_node=numa_node(path / "device"),
    )
