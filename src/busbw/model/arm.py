"""An arm of a race: one way in which NCCL can do a collective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from busbw.model.choice import NCCL_ALGORITHMS, NCCL_PROTOCOLS
from busbw.units import format_size

# The functions that NCCL asks a tuner about, by our names and those of NVIDIA's tables.
FUNCTIONS: Final = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
# NCCL's own number, and powers of two with steps between the larger ones.
CHANNELS: Final = (0, 1, 2, 4, 8, 16, 24, 32)
# NCCL takes 512 KiB at most where its buffer has 4 MiB, less for small calls. Only SIMPLE has large ones.
CHUNKS: Final = (64 << 10, 128 << 10, 256 << 10)
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
    """NCCL's algorithm and protocol in its own words, channels, and bytes of a chunk; 0: what NCCL takes."""

    algorithm: str
    protocol: str
    channels: int = 0
    chunk_bytes: int = 0

    @classmethod
    def of(cls, text: str) -> Arm:
        """From its text. Raises ValueError."""
        algorithm, protocol, *numbers = text.upper().split("/")
        arm = cls(algorithm, protocol, *map(int, numbers))
        if (
            arm.algorithm not in NCCL_ALGORITHMS
            or arm.protocol not in NCCL_PROTOCOLS
            or min(arm.channels, arm.chunk_bytes) < 0
        ):
            raise ValueError(text)
        return arm

    def __str__(self) -> str:
        """As a case has it: ``ring/ll128/24``, ``ring/simple/0/131072``."""
        chunk = f"/{self.chunk_bytes}" if self.chunk_bytes else ""
        return f"{self.algorithm}/{self.protocol}/{self.channels}{chunk}".lower()

    @property
    def numbers(self) -> tuple[int, int]:
        """NCCL's numbers of algorithm and protocol."""
        return NCCL_ALGORITHMS.index(self.algorithm), NCCL_PROTOCOLS.index(self.protocol)

    @property
    def short(self) -> str:
        """For a column: ``RING LL128 x24``."""
        channels = f" x{self.channels}" if self.channels else ""
        chunk = f" by {format_size(self.chunk_bytes)}" if self.chunk_bytes else ""
        return f"{self.algorithm} {self.protocol}{channels}{chunk}"

    @property
    def words(self) -> str:
        """For a reader: ``RING LL128, 24 channels``."""
        channels = f", {self.channels} channels" if self.channels else ""
        chunk = f", chunks of {format_size(self.chunk_bytes)}" if self.chunk_bytes else ""
        return f"{self.algorithm} {self.protocol}{channels}{chunk}"


def arms_of(operation: str) -> tuple[Arm, ...]:
    """All arms of an operation that a tuner can choose among; none where NCCL does not ask it (sends,
    alltoall, gather, scatter).
    """
    algorithms = _ALGORITHMS.get(operation, ())
    by_channels = (
        Arm(algorithm, protocol, channels)
        for algorithm in algorithms
        for protocol in (NCCL_PROTOCOLS if algorithm in _ALL_PROTOCOLS else ("SIMPLE",))
        for channels in CHANNELS
    )
    by_chunk = (
        Arm(algorithm, "SIMPLE", chunk_bytes=chunk_bytes)
        for algorithm in algorithms
        if algorithm in _ALL_PROTOCOLS
        for chunk_bytes in CHUNKS
    )
    return (*by_channels, *by_chunk)
