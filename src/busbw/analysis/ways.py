"""Which ways a run's bytes may take: what its settings and the places of its hosts say about links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from busbw.model.record import RunRecord
from busbw.model.traffic import Link

_SETTING: Final = re.compile(r"(NCCL_\w+) (.+)")
# NCCL's own verbs transport takes these; its names are beginnings of names, or whole ones behind "=".
_VERBS: Final = ("infiniband", "roce", "rdma")


@dataclass(frozen=True)
class Ways:
    """``nodes`` is how many hosts the run had, 0 where not known; ``domains`` are the NVLink domains of
    hosts, where NVML told them and NCCL may use them. ``settings`` are variables, and values of NCCL's own
    files.
    """

    nodes: int = 0
    domains: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    backend: str = "nccl"

    def joined(self, hosts: frozenset[str]) -> bool:
        """Whether these are several hosts of one NVLink domain, whose bytes need no NIC."""
        return len(hosts) > 1 and len({self.domains.get(host, "") for host in hosts} - {""}) == 1 and all(
            self.domains.get(host) for host in hosts
        )  # fmt: skip

    def partly_joined(self, hosts: frozenset[str]) -> bool:
        """Whether some of them share a domain: then a host is no unit of what must move over NICs."""
        known = [domain for host in hosts if (domain := self.domains.get(host))]
        return len(set(known)) < len(known)

    @property
    def network_reduces(self) -> bool:
        """Whether switches were allowed to reduce (SHARP)."""
        words = {name: value for name, value in self.settings.items() if value not in ("", "0")}
        return "NCCL_COLLNET_ENABLE" in words or any(
            name == "HCOLL_ENABLE_SHARP" or name.startswith("SHARP_COLL_") for name in words
        )

    @property
    def choosing(self) -> str:
        """The variable that names the ports to use; empty where none does."""
        name = "UCX_NET_DEVICES" if self.backend == "mpi" else "NCCL_IB_HCA"
        return name if self.settings.get(name, "") not in ("", "all") else ""

    def allows(self, link: Link) -> bool:
        """Whether that variable, if any, lets a port be used."""
        return self.allows_port(link.kind, link.device, link.link)

    def allows_port(self, kind: str, device: str, port: str) -> bool:
        """The same of a port by its kind, the name of its device, and ``port N``."""
        if not self.choosing or kind not in _VERBS:
            return True
        value = self.settings[self.choosing]
        excluded, value = value.startswith("^"), value.removeprefix("^")
        exact = value.startswith("=") or self.choosing != "NCCL_IB_HCA"
        words = [word.strip() for word in value.removeprefix("=").split(",") if word.strip()]
        return any(_is(word, device, port, exact=exact) for word in words) != excluded


def ways_of(record: RunRecord) -> Ways:
    """From a record."""
    settings = settings_of(record)
    world = record.world
    joined = settings.get("NCCL_MNNVL_ENABLE", "") != "0" and world is not None
    domains = {place.host: place.nvlink_domain for place in world.places} if joined and world else {}
    return Ways(len(world.hosts) if world is not None else 0, domains, settings, record.plan.backend)


def settings_of(record: RunRecord) -> dict[str, str]:
    """Of rank 0's environment and NCCL's own files, the environment last because it wins; of a log, those
    that NCCL told.
    """
    found: dict[str, str] = {}
    for file in reversed(record.environment.get("nccl_config", ())):
        found |= dict(file["settings"])
    found |= record.environment.get("variables", {})
    if record.source is not None:
        told = record.source.evidence.get("setting", ())
        found |= {match[1]: match[2] for text in told if (match := _SETTING.fullmatch(text))}
    return found


def _is(word: str, device: str, port: str, *, exact: bool) -> bool:
    """Whether ``mlx5_0:1``, or without the port, means it."""
    name, _, number = word.partition(":")
    named = device == name if exact else device.startswith(name)
    return named and (not number or port == f"port {number}")
