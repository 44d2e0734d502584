"""What a library chose for a call: algorithm, protocol, channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

# Words of ``--stats`` that show it.
CHOICE_WORDS: Final = frozenset({"algorithm", "channels"})

# Up to NCCL 2.23 numbers stand for names (graph/tuning.cc has them in this order).
NCCL_ALGORITHMS: Final = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
NCCL_PROTOCOLS: Final = ("LL", "LL128", "SIMPLE")


@dataclass(frozen=True)
class Choice:
    """How the library did one untimed call of a case, in its own words. Nothing is inferred: what ``source``
    does not report is empty or None.

    ``source`` is ``profiler v5`` (NCCL's profiler interface, by its version), ``log`` (its TUNING line), or
    both where each told a part. ``algorithm`` and ``protocol`` are NCCL's (RING, LL128); SYMMETRIC is a
    ``kernel`` for symmetric memory, COPY ENGINE no kernel at all (the protocol is how its copies are
    synchronised); sends and receives have neither. ``functions`` is what the call became, in NCCL's names:
    AllReduce, or Send and Recv; ``tasks`` is how many of them there were on one rank, ``peers`` how many
    other ranks they went to or came from, ``channels`` and ``warps`` (a channel's) the most of any.
    ``sequence`` is how many calls of the function the communicator had before.

    ``ranks`` reported this; ``other_ranks`` another algorithm, protocol, kernel or number of channels.
    """

    source: str
    algorithm: str = ""
    protocol: str = ""
    kernel: str = ""
    functions: tuple[str, ...] = ()
    tasks: int | None = None
    channels: int | None = None
    warps: int | None = None
    peers: int | None = None
    sequence: int | None = None
    ranks: int = 1
    other_ranks: int = 0

    @property
    def words(self) -> str:
        """Algorithm and protocol as one text, ``RING LL128``; empty for sends and receives."""
        return " ".join(word for word in (self.algorithm, self.protocol, self.kernel) if word)

    def agrees(self, other: Choice) -> bool:
        """Whether both say the same of one call, as far as both report it."""
        channels = {self.channels, other.channels} - {None}
        return self.words == other.words and len(channels) < 2


def agreed_choice(told: Sequence[Choice]) -> Choice | None:
    """The first rank's choice, and how many ranks reported it and another one; None where no rank did."""
    if not told:
        return None
    alike = sum(choice.agrees(told[0]) for choice in told)
    return replace(told[0], ranks=alike, other_ranks=len(told) - alike)
