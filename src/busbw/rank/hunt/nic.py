"""A hunt by one NIC: whether this host has it, and by all NICs' counters, whether the traffic went by it."""

from __future__ import annotations

import contextlib
import fcntl
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError
from busbw.machine.counters import read_counters, sent_received
from busbw.machine.nics import Nics, is_rdma_name, read_nics
from busbw.machine.sysfs import read_text
from busbw.model.finding import Finding, Severity
from busbw.rank.world.base import World, gathered
from busbw.units import first_of

if TYPE_CHECKING:
    from busbw.model.hunt import Hunt

CHECK: Final = "by-nic"
_HINT: Final = (
    "check which devices the library uses (NCCL_DEBUG=INFO, UCX_LOG_LEVEL=info), and whether hosts share an"
    " NVLink domain"
)
_UP: Final = ("active", "up", "unknown", "")
_SIOCGIFADDR: Final = 0x8915


def check_nic(
    nic: str, host: str, nics: Nics | None = None, addresses: Callable[[str], bool] | None = None
) -> None:
    """Raises SiteError where this host has no such NIC, or it is down. Before the library starts, which would
    fail on all ranks at once, and name no NIC (MPICH), or wait for ever (Open MPI).
    """
    found = read_nics() if nics is None else nics
    name, _, port = nic.partition(":")
    interfaces = {each.name: each.state for each in found.interfaces}
    ports = {
        f"{device.name}:{each.port}": each.state
        for device in found.rdma
        for each in device.ports
        if not port or port == str(each.port)
    }
    states = [state for other, state in ports.items() if other.partition(":")[0] == name]
    states += [interfaces[name]] if name in interfaces and not port else []
    if not states:
        there = ", ".join((*interfaces, *ports)) or "none"
        hint = f"leave {nic} out of --each-nic, or {host} out of the hosts"
        raise SiteError(f"{host} has no NIC {nic} (it has {there})", hint=hint, host=host)
    if name not in interfaces and not is_rdma_name(nic):
        # Its variables are those of an Ethernet interface.
        ports_of = sorted(other for other in ports if other.partition(":")[0] == name)
        hint = f"name it with its port: --each-nic {ports_of[0]}"
        raise SiteError(f"{nic} is an RDMA device on {host}, not an interface", hint=hint, host=host)
    if not any(state.lower() in _UP for state in states):
        text = f"{nic} is down on {host} ({', '.join(states)})"
        raise SiteError(text, hint=f"bring {nic} up there", host=host)
    if name in interfaces and not port and not (addresses or has_address)(name):
        raise SiteError(f"{nic} has no address on {host}", hint=f"look at `ip address show {nic}`", host=host)


def has_address(name: str, *, of_ipv6: Path = Path("/proc/net/if_inet6")) -> bool:
    """Whether an interface has an address by which others reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, contextlib.suppress(OSError):
        fcntl.ioctl(asking, _SIOCGIFADDR, name.encode().ljust(40, b"\0"))
        return True
    rows = [line.split() for line in read_text(of_ipv6).splitlines()]
    return any(row[-1] == name and not row[0].startswith("fe80") for row in rows)


def carried() -> dict[str, int]:
    """Bytes that each NIC has sent and received so far, by its name with the port of an RDMA device."""
    return {
        f"{each.device}:{each.link.removeprefix('port ')}".rstrip(":"): sum(moved)
        for each in read_counters()
        if (moved := sent_received(each.kind, each.values)) is not None
    }


def by_host(world: World, before: Mapping[str, int]) -> dict[str, dict[str, int]] | None:
    """What the NICs of each host carried since ``before``; None on other ranks than 0. Collective."""
    own = {name: value - before[name] for name, value in carried().items() if name in before}
    everyone = gathered(world, own)
    hosts = [member.host for member in world.members]
    return None if everyone is None else dict(zip(hosts, everyone, strict=True))


def judge(hunt: Hunt, rounds: int, moved: Mapping[str, Mapping[str, int]]) -> tuple[Finding | None, bool]:
    """What is to be said of the NIC, and whether the hunt was by it."""
    if not rounds:
        return None, True
    least = hunt.size_bytes * hunt.samples * rounds // 2  # a host without a partner has nothing to send
    unseen = [host for host, own in moved.items() if _of(hunt.nic, own) is None]
    wrong = {
        host: own
        for host, own in moved.items()
        if (by := _of(hunt.nic, own)) is not None and by < max(least, sum(own.values()) // 2)
    }
    if wrong:
        host, own = next(iter(wrong.items()))
        amounts = ", ".join(f"{name} {value / 1e6:.1f} MB" for name, value in sorted(own.items()))
        claim = f"could not decide: the traffic of {first_of(wrong, 3)} did not go through {hunt.nic}"
        return Finding(Severity.WARNING, claim, f"{host}: {amounts}", _HINT, check=CHECK), False
    if unseen:
        who = first_of(unseen, 3)
        claim = f"not covered: {hunt.nic} has no counters on {who}, so its traffic was not seen"
        return Finding(Severity.INFO, claim, check=CHECK), True
    low, high = (f(_of(hunt.nic, own) or 0 for own in moved.values()) / 1e6 for f in (min, max))
    claim = f"{hunt.nic} carried what was sent, by its counters: {low:.0f} to {high:.0f} MB a host"
    return Finding(Severity.INFO, claim, check=CHECK), True


def named(finding: Finding, nic: str) -> str:
    """The claim of a finding with the NIC behind whom it is about: h4 by eth1: ..."""
    who, colon, rest = finding.claim.partition(": ")
    return finding.claim if finding.severity is Severity.INFO else f"{who} by {nic}{colon}{rest}"


def _of(nic: str, own: Mapping[str, int]) -> int | None:
    """Bytes of a NIC; of all ports of a device whose port was not named."""
    found = [value for name, value in own.items() if nic in (name, name.partition(":")[0])]
    return sum(found) if found else None
