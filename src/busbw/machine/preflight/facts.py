"""What a rank says of itself and its host before the run, as one compact value, and all of them on rank 0.

Every rank sends its own; what belongs to the host comes from the first rank of each. Readers take what they
know: a rank with another busbw may say more, or less, and is still named.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

from busbw.model.plain import from_bytes, to_bytes
from busbw.model.plan import Preflight

T = TypeVar("T")

# Components of ``versions`` and ``builds``.
NET_PLUGIN: Final = "NCCL net plugin"
IMAGE: Final = "container image"


@dataclass(frozen=True, slots=True)
class NicFacts:
    """``kind`` is rdma (with the port in the name, mlx5_0:1), cxi or net. ``up`` is None where the kernel
    does not say; widths are PCIe lanes, 0 where unknown. ``efa``: an rdma device of EFA, without RC.
    """

    name: str
    kind: str
    up: bool | None
    state: str
    rate_gbit_per_s: float | None = None
    lanes: int = 0
    most_lanes: int = 0
    efa: bool = False


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """The GPU of a rank. ``limits`` are what holds its clocks back now, in NVML's words; the clock of
    applications that was set, and its default, are None where NVML does not tell.
    """

    uuid: str
    name: str
    links: int = 0
    links_active: int = 0
    sm_max_mhz: int | None = None
    limits: tuple[str, ...] = ()
    lanes: int = 0
    most_lanes: int = 0
    sm_set_mhz: int | None = None
    sm_default_mhz: int | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A host, told by its first rank. ``devices`` are those of ``rank.facts.DEVICES`` that are there;
    ``sees_folder`` is None where no run folder is to be seen.
    """

    nics: tuple[NicFacts, ...] = ()
    memory_bytes: int = 0
    shm_bytes: int | None = None
    devices: tuple[str, ...] = ()
    sees_folder: bool | None = None


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A file or folder that a variable names and that is not there."""

    variable: str
    path: str
    kind: str  # file, folder or plugin


@dataclass(frozen=True, slots=True)
class RankFacts:
    """One rank. ``versions`` and ``builds`` (ELF build ids) by component; ``net_plugin`` is the file that
    NCCL would load, empty where there is none; ``limits`` by name, -1 without a limit; ``node`` on the first
    rank of each host only.
    """

    rank: int
    host: str
    local_rank: int
    versions: Mapping[str, str] = field(default_factory=dict)
    builds: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    net_plugin: str = ""
    missing: tuple[MissingFile, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    gpu: GpuFacts | None = None
    node: NodeFacts | None = None


def encode(facts: RankFacts) -> bytes:
    """A kilobyte or two."""
    return zlib.compress(to_bytes(facts), level=1)


def decode(data: bytes) -> RankFacts:
    """Undo ``encode``, also that of another version of busbw."""
    return from_bytes(RankFacts, zlib.decompress(data))


@dataclass(frozen=True)
class Gathered:
    """``ranks`` in rank order."""

    ranks: tuple[RankFacts, ...]
    backend: str
    asked: Preflight

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Of every rank, by rank."""
        return tuple(rank.host for rank in self.ranks)

    @cached_property
    def nodes(self) -> tuple[tuple[RankFacts, NodeFacts], ...]:
        """The first rank of every host, and what it says of the host."""
        return tuple((rank, rank.node) for rank in self.ranks if rank.node is not None)

    @property
    def uses_nccl(self) -> bool:
        """Whether NCCL's variables mean something; the null backend stands for it."""
        return self.backend != "mpi"

    def wants(self, feature: str) -> str:
        """What is expected of a feature (``net`` -> ``ofi``); empty where nothing is."""
        return next((e.partition("=")[2] for e in self.asked.expects if e.partition("=")[0] == feature), "")
