"""Gates: a pass or a fail for every size, with the noise taken into account.

A minimum is a number somebody promises to reach at one operation, size and world. It is used only where some
published run of that kind reaches it; ``PUBLISHED`` keeps the others with the reason, so that nobody adopts
them by hand without knowing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

GiB: Final = 2**30
MiB: Final = 2**20


class Gate(StrEnum):
    """How a case stands to a gate."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"  # the interval holds the bound


@dataclass(frozen=True)
class Minimum:
    """A published minimum of bus bandwidth. ``reached`` is the best that a published run of the kind has,
    with its source; a minimum above it is not used.
    """

    machine: str
    device: str
    ranks_per_node: int
    operation: str
    least_gb_per_s: float
    at_most_bytes: int
    scope: str  # nodes: over the network; nvlink: NCCL_P2P_LEVEL=NVL NCCL_NET=Socket inside a node
    source: str
    reached_gb_per_s: float | None = None
    reached_by: str = ""

    @property
    def used(self) -> bool:
        """Whether any published run reaches it."""
        return self.reached_gb_per_s is not None and self.reached_gb_per_s >= self.least_gb_per_s

    @property
    def reason(self) -> str:
        """Why it is not used; empty where it is."""
        if self.used:
            return ""
        if self.reached_gb_per_s is None:
            return "no published run of this kind is known"
        return f"the best published run reaches {self.reached_gb_per_s:g} GB/s ({self.reached_by})"


_KIT: Final = "awslabs/awsome-distributed-ai health check 5, 95b939cd"
_P5: Final = "two p5 nodes at 128 MiB, the largest size of the check; 487 at 16 GiB"
_ONE_P5: Final = "one p5 node at 256 MiB"

PUBLISHED: Final[tuple[Minimum, ...]] = (
    Minimum("p4d.24xlarge", "A100", 8, "all_reduce", 300.0, 128 * MiB, "nodes", _KIT, 64.0,
            "two p4de nodes at 128 MiB"),
    Minimum("p5, p5e, p5en.48xlarge", "H100", 8, "all_reduce", 800.0, 128 * MiB, "nodes", _KIT, 289.0, _P5),
    Minimum("p6-b200.48xlarge", "B200", 8, "all_reduce", 900.0, 128 * MiB, "nodes", _KIT),
    Minimum("p4d.24xlarge", "A100", 8, "all_reduce", 200.0, 256 * MiB, "nvlink", _KIT),
    Minimum("p5, p5e, p5en.48xlarge", "H100", 8, "all_reduce", 500.0, 256 * MiB, "nvlink", _KIT, 419.0,
            _ONE_P5),
    Minimum("p6-b200.48xlarge", "B200", 8, "all_reduce", 600.0, 256 * MiB, "nvlink", _KIT),
)  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """A bound and what was measured against it. ``low`` and ``high`` are the interval of the measured
    bandwidth; None where there is none, and then the number alone decides.
    """

    least_gb_per_s: float
    measured_gb_per_s: float
    low_gb_per_s: float | None = None
    high_gb_per_s: float | None = None

    def judge(self) -> Gate:
        """Pass where the whole interval reaches the bound, fail where none of it does."""
        low = self.measured_gb_per_s if self.low_gb_per_s is None else self.low_gb_per_s
        high = self.measured_gb_per_s if self.high_gb_per_s is None else self.high_gb_per_s
        if low >= self.least_gb_per_s:
            return Gate.PASS
        return Gate.FAIL if high < self.least_gb_per_s else Gate.UNDECIDED


@dataclass(frozen=True)
class Least:
    """A bus bandwidth that every case from a size on has to reach; of all operations where none is named."""

    from_bytes: int
    least_gb_per_s: float
    operation: str = ""

    def of(self, operation: str, size_bytes: int) -> bool:
        """Whether a case has to reach it."""
        return size_bytes >= self.from_bytes and self.operation in ("", operation)


def overall(gates: Sequence[Gate]) -> Gate:
    """One fail fails; else one that is undecided keeps the whole from passing. Needs at least one."""
    for worst in (Gate.FAIL, Gate.UNDECIDED):
        if worst in gates:
            return worst
    return Gate.PASS
