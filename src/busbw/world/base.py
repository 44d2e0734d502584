"""What every world offers: who takes part, and the control traffic around the measured operation.

Nothing here is timed. A world carries plans, votes, sample blocks and errors; the measured bytes go through a
backend. Every method except ``fail`` is collective: all ranks call it, in the same order. A collective that
can no longer complete raises ``RankFailed`` where the world notices (nccl), or the launcher ends the job
(mpi).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WorldKind = Literal["solo", "mpi", "nccl"]
Number = TypeVar("Number", np.float64, np.int64)


@dataclass(frozen=True, slots=True)
class Member:
    """One process of the world. ``local_rank`` counts the ranks of one host from 0."""

    rank: int
    host: str
    pid: int
    local_rank: int


@dataclass(frozen=True, slots=True)
class PeerFailure:
    """A rank that is lost to the run. ``host`` is empty when the rank never said where it is."""

    rank: int
    host: str
    reason: str

    def __str__(self) -> str:
        place = f" on {self.host}" if self.host else ""
        return f"rank {self.rank}{place}: {self.reason}"


OnFailure = Callable[[PeerFailure], None]
"""Called once when a rank is lost, possibly from another thread while the main thread is inside a collective.

The callee decides what to do (keep the record, abort a communicator, leave the process) and must not call the
world.
"""


class World(Protocol):
    """The ranks of one run. ``members`` is ordered by rank and equal on every rank."""

    @property
    def kind(self) -> WorldKind: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def launcher(self) -> str: ...
    @property
    def members(self) -> tuple[Member, ...]: ...
    @property
    def hosts(self) -> tuple[str, ...]: ...

    def barrier(self) -> None:
        """Return when every rank has called it."""

    def broadcast(self, data: bytes | None) -> bytes:
        """Give rank 0's ``data`` to every rank; the other ranks pass None."""

    def max(self, values: NDArray[Number]) -> NDArray[Number]:
        """Element-wise maximum over ranks, the same bits on all; float64 or int64, any shape, no NaN."""

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        """Element-wise sum over ranks, the same bits on all; float64 or int64, any shape, no NaN."""

    def gather(self, data: bytes) -> list[bytes] | None:
        """Rank 0 gets everybody's ``data`` in rank order, the others None; lengths may differ."""

    def fail(self, message: str) -> NoReturn:
        """End the world because this rank cannot go on; not collective.

        Where the channel allows it every other rank is told rank, host and text. Raises ``RankFailed`` or
        ends the process with exit code 5 (an MPI abort cannot be survived). Prints nothing.
        """

    def close(self) -> None:
        """Leave in good order; afterwards only the attributes may be used. Calling it twice is harmless."""


def this_member(rank: int, local_rank: int) -> Member:
    """The member that the calling process is."""
    return Member(rank=rank, host=socket.gethostname(), pid=os.getpid(), local_rank=local_rank)


def distinct_hosts(members: tuple[Member, ...]) -> tuple[str, ...]:
    """Host names without repetition, in the order of their lowest rank."""
    return tuple(dict.fromkeys(member.host for member in members))


def reducible(values: NDArray[Number]) -> NDArray[Number]:
    """``values`` as a contiguous array that every world can reduce.

    Raises TypeError for another element type and ValueError for NaN: the maximum of NaN depends on the order
    of the operands, so ranks could decide differently from it.
    """
    if values.dtype not in (np.float64, np.int64):
        raise TypeError(f"only float64 and int64 can be reduced over ranks, not {values.dtype}")
    if values.dtype == np.float64 and bool(np.isnan(values).any()):
        raise ValueError("NaN cannot be reduced over ranks")
    # ascontiguousarray would turn a scalar array into one of shape (1,).
    return np.array(values, order="C", copy=True)
