"""What links carried during an untimed burst of calls: readings of their counters, as differences."""

from __future__ import annotations

from dataclasses import dataclass, field

NVLINK = "nvlink"


@dataclass(frozen=True)
class Window:
    """What lies between two readings. ``calls`` is 0 in the first window, and ``seconds`` are all of it: what
    the links carry then is not ours. In the others they are those of the calls, on the slowest rank.
    """

    seconds: float
    calls: int


@dataclass(frozen=True)
class Link:
    """One port of a NIC, or one NVLink of a GPU. ``sent_bytes`` and ``received_bytes`` have a value for each
    window of the burst, ``events`` what else was counted during it (discards, drops, waits). ``gb_per_s``
    is the line rate in one direction, None where nobody states one that can be trusted. ``note`` says why the
    bytes cannot be taken as they are; empty where they can.
    """

    host: str
    kind: str  # infiniband, roce, efa, rdma, slingshot, ethernet or nvlink
    device: str
    link: str
    sent_bytes: tuple[int, ...]
    received_bytes: tuple[int, ...]
    gb_per_s: float | None = None
    events: dict[str, int] = field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        """As people point at it: ``mlx5_0 port 1``."""
        return f"{self.device} {self.link}".strip()


@dataclass(frozen=True)
class Burst:
    """Untimed calls of one case, and what every link carried meanwhile."""

    case: int
    windows: tuple[Window, ...]
    links: tuple[Link, ...]
