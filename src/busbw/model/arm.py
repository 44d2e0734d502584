"""An arm of a race: one way in which NCCL can do a collective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from busbw.model.choice import NCCL_ALGORITHMS, NCCL_PROTOCOLS

# The functions that NCCL asks a tuner about, by our names and those of NVIDIA's tables.
FUNCTIONS: Final = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
MOST_CHANNELS: Final = 32
# NCCL's own number, and powers of two with steps between the larger ones.
CHANNELS: Final = (0, 1, 2, 4, 8, 16, 24, 32)
# What NCCL can do at all: its rings run everything, its other algorithms some of it (NCCL 2.28, tuning.cc).
_ALGORITHMS: Final = {
    "all_reduce": ("TREE", "RING", "NVLS", "NVLS_TREE"),
    "all_gather": ("RING", "NVLS", "PAT"),
    "reduce_scatter": ("RING", "NVLS", "PAT"),
    "broadcast": ("RING",),
    "reduce": ("RING",),
}
_ALL_PROTOCOLS: Final = frozenset({"TREE", "RING"})  # the others have SIMPLE only


@dataclass(frozen=True, order=True)
class Arm:
    """NCCL's algorithm and protocol in its own words, and channels; 0: as many as NCCL takes."""

    algorithm: str
    protocol: str
    channels: int = 0

    @classmethod
    def of(cls, text: str) -> Arm:
        """From its text. Raises ValueError."""
        algorithm, protocol, channels = text.upper().split("/")
        arm = cls(algorithm, protocol, int(channels))
        if arm.algorithm not in NCCL_ALGORITHMS or arm.protocol not in NCCL_PROTOCOLS or arm.channels < 0:
            raise ValueError(text)
        return arm

    def __str__(self) -> str:
        """As a case has it: ``ring/ll128/24``."""
        return f"{self.algorithm}/{self.protocol}/{self.channels}".lower()

    @property
    def numbers(self) -> tuple[int, int]:
        """NCCL's numbers of algorithm and protocol."""
        return NCCL_ALGORITHMS.index(self.algorithm), NCCL_PROTOCOLS.index(self.protocol)

    @property
    def words(self) -> str:
        """For a reader: ``RING LL128, 24 channels``."""
        return f"{self.algorithm} {self.protocol}" + (f", {self.channels} channels" if self.channels else "")


def arms_of(operation: str) -> tuple[Arm, ...]:
    """All arms of an operation that a tuner can choose among; none where NCCL does not ask it (sends,
    alltoall, gather, scatter).
    """
    return tuple(
        Arm(algorithm, protocol, channels)
        for algorithm in _ALGORITHMS.get(operation, ())
        for protocol in (NCCL_PROTOCOLS if algorithm in _ALL_PROTOCOLS else ("SIMPLE",))
        for channels in CHANNELS
    )
