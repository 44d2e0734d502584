"""What NICs have carried so far, by the counters of their drivers in sysfs; ordinary users may read them.

Formats: the kernel's ABI document ``stable/sysfs-class-infiniband`` (``port_xmit_data`` and ``port_rcv_data``
count octets divided by 4), the EFA driver's ``hw_counters`` (bytes; which exist depends on card and kernel),
the cxi driver's ``telemetry`` (``value@timestamp``), and ``testing/sysfs-class-net-statistics``. A counter
that is not there is unknown, not zero. What bypasses the kernel never appears in an interface's counters.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from busbw.machine.nics import Nics, read_nics
from busbw.machine.sysfs import SYS, entries, read_int, read_text

_BITS: Final = 8.0
# What the counters of a kind count, each set in bytes as (factor, sent, received). Where there are several
# sets, all of them are counters of the same bytes, and the one that saw most is right.
_SETS: Final = {
    "efa": (
        (1, ("tx_bytes",), ("rx_bytes",)),
        (
            1,
            ("send_bytes", "rdma_read_resp_bytes", "rdma_write_bytes"),
            ("recv_bytes", "rdma_read_bytes", "rdma_write_recv_bytes"),
        ),
    ),
    "slingshot": ((1, ("hni_sts_tx_ok_octets",), ("hni_sts_rx_ok_octets",)),),
    "ethernet": ((1, ("tx_bytes",), ("rx_bytes",)),),
}
_PORT_SETS: Final = ((4, ("port_xmit_data",), ("port_rcv_data",)),)
# What spoils a transfer, in whatever kind it exists.
_EVENTS: Final = (
    "port_xmit_wait", "port_xmit_discards", "port_rcv_errors", "out_of_sequence", "packet_seq_err",
    "roce_adp_retrans", "np_cnp_sent", "rx_drops", "retrans_bytes", "rx_dropped", "tx_dropped", "rx_errors",
)  # fmt: skip
_SLINGSHOT_RATE: Final = re.compile(r"(\d+)G")  # BS_200G
_TOTALS: Final = ("bridge", "bonding")  # they count their members' traffic again


@dataclass(frozen=True, slots=True)
class Counted:
    """One port with its counters now, by name. ``gb_per_s`` is its line rate in one direction, None where
    nobody states one that can be trusted.
    """

    kind: str
    device: str
    link: str
    gb_per_s: float | None
    values: dict[str, int] = field(default_factory=dict)


def read_counters(*, sysfs: Path = SYS) -> tuple[Counted, ...]:
    """Every NIC port that is up and has counters of bytes."""
    nics = read_nics(sysfs=sysfs)
    found = [*_rdma(nics, sysfs), *_slingshot(nics, sysfs), *_ethernet(nics, sysfs)]
    return tuple(each for each in found if sent_received(each.kind, each.values) is not None)


def sent_received(kind: str, differences: dict[str, int]) -> tuple[int, int] | None:
    """Bytes in each direction by counters' differences between two readings; None where none counts bytes."""
    found = []
    for factor, sent, received in _SETS.get(kind, _PORT_SETS):
        if all(any(name in differences for name in names) for names in (sent, received)):
            pair = (sum(differences.get(name, 0) for name in names) for names in (sent, received))
            found.append(tuple(factor * value for value in pair))
    if not found:
        return None
    return max(pair[0] for pair in found), max(pair[1] for pair in found)


def events(differences: dict[str, int]) -> dict[str, int]:
    """What else was counted and is worth telling."""
    return {name: value for name in _EVENTS if (value := differences.get(name, 0)) > 0}


def _rdma(nics: Nics, sysfs: Path) -> Iterator[Counted]:
    for device in nics.rdma:
        for port in device.ports:
            if port.state == "ACTIVE":
                folder = sysfs / "class/infiniband" / device.name / "ports" / str(port.port)
                values = {**_numbers(folder / "hw_counters"), **_numbers(folder / "counters")}
                rate = None if port.rate_gbit_per_s is None else port.rate_gbit_per_s / _BITS
                yield Counted(device.kind, device.name, f"port {port.port}", rate, values)


def _slingshot(nics: Nics, sysfs: Path) -> Iterator[Counted]:
    for device in nics.cxi:
        folder = sysfs / "class/cxi" / device.name / "device/telemetry"
        values = {
            name: int(text)
            for _, sent, received in _SETS["slingshot"]
            for name in (*sent, *received)
            if (text := read_text(folder / name).partition("@")[0]).isdecimal()
        }
        if device.state in ("up", ""):
            rate = _SLINGSHOT_RATE.search(device.speed)
            yield Counted("slingshot", device.name, "", float(rate[1]) / _BITS if rate else None, values)


def _ethernet(nics: Nics, sysfs: Path) -> Iterator[Counted]:
    """Real interfaces; where a container or namespace has virtual ones only, those."""
    net = sysfs / "class/net"
    there = [
        each
        for each in nics.interfaces
        if each.state in ("up", "unknown") and not any((net / each.name / name).is_dir() for name in _TOTALS)
    ]
    real = [each for each in there if each.driver or each.pci]
    for each in real or there:
        speed = each.speed_gbit_per_s if real else None  # a virtual one's speed is made up
        rate = None if speed is None else speed / _BITS
        yield Counted("ethernet", each.name, "", rate, _numbers(net / each.name / "statistics"))


def _numbers(folder: Path) -> dict[str, int]:
    """Every file of a folder that holds a number."""
    return {path.name: value for path in entries(folder) if (value := read_int(path)) is not None}


# ---- what TCP sent again -----------------------------------------------------------------------------
# By the sockets that this process holds, a library's, whatever library it is. The counters of a whole host
# would have every other program's in them as well: a daemon that keeps calling a server that is gone resends
# for as long as it is tested.

_OPEN: Final = Path("/proc/self/fd")
# tcp_info of linux/tcp.h: 8 bytes, then words of 4, of which tcpi_total_retrans is the 24th.
_TOTAL_RETRANS: Final = struct.Struct("=8x92xI")
_TCP: Final = [
    (family, socket.SOCK_STREAM, socket.IPPROTO_TCP) for family in (socket.AF_INET, socket.AF_INET6)
]
Resent = dict[int, int]
"""Segments that each TCP socket sent again since it was made, by its inode."""


def resent_by_socket() -> Resent | None:
    """Of the TCP sockets of this process; None where the system does not say."""
    try:
        descriptors = [int(each.name) for each in _OPEN.iterdir()]
    except OSError:
        return None
    counted: Resent = {}
    for descriptor in descriptors:
        try:
            inode = os.fstat(descriptor).st_ino
            held = socket.socket(fileno=descriptor)
        except OSError:  # no socket, or closed meanwhile
            continue
        try:
            if (held.family, held.type, held.proto) in _TCP:
                info = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TOTAL_RETRANS.size)
                counted[inode] = int(_TOTAL_RETRANS.unpack(info)[0])
        except (OSError, struct.error):  # a kernel that is not Linux's own, under a container
            return None
        finally:
            held.detach()  # it is the library's, and stays open
    return counted


def resent_since(before: Resent | None, after: Mapping[int, int] | None) -> int | None:
    """What was sent again between two looks; None where one of them saw nothing. A socket that is new, or
    has the inode of one that was closed, began at 0.
    """
    if before is None or after is None:
        return None
    known = ((count, before.get(inode, 0)) for inode, count in after.items())
    return sum(count - had if count >= had else count for count, had in known)
