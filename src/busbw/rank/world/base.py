"""What every world offers: who takes part, and the control traffic around the measured operation.

Nothing here is timed. A world carries plans, votes, sample blocks and errors; the measured bytes go through a
backend. Every method except ``fail`` is collective: all ranks call it, in the same order. A collective that
can no longer complete raises ``RankFailed`` where the world notices (nccl), or the launcher ends the job
(mpi).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeVar

import numpy as np

from busbw.errors import BusbwError, ExitCode

if TYPE_CHECKING:
    from numpy.typing import NDArray


WorldKind = Literal["solo", "mpi", "nccl"]
Number = TypeVar("Number", np.float64, np.int64)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Member:
    """One process of the world. ``local_rank`` counts the ranks of one host from 0."""

    rank: int
    host: str
    pid: int
    local_rank: int


@dataclass(frozen=True, slots=True)
class PeerFailure:
    """A rank that is lost to the run. ``host`` is empty when the rank never said where it is; ``mismatch``:
    the ranks never fitted together, so none is to blame for dying.
    """

    rank: int
    host: str
    reason: str
    mismatch: bool = False

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

    def barrier(self) -> None:
        """Return when every rank has called it."""

    def broadcast(self, data: bytes | None) -> bytes:
        """Give rank 0's ``data`` to every rank; the other ranks pass None."""

    def max(self, values: NDArray[Number]) -> NDArray[Number]:
        """Element-wise maximum over ranks, the same bits on all; float64 or int64, any shape, no NaN."""

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        """Element-wise sum over ranks, the same bits on all; float64 or int64, any shape, no NaN."""

    def gather(self, data: bytes) -> list[bytes] | None:
        """Rank 0 gets the ``data`` of all in rank order, the others None; lengths may differ."""

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


def members_here(world: World) -> tuple[Member, ...]:
    """The ranks of this rank's host, this one among them."""
    host = world.members[world.rank].host
    return tuple(member for member in world.members if member.host == host)


def speaks_for_host(world: World) -> bool:
    """Whether this rank is the first of its host."""
    return members_here(world)[0].rank == world.rank


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


def gathered(world: World, own: Any) -> list[Any] | None:  # noqa: ANN401 (whatever JSON has)
    """What each rank has, on rank 0; None elsewhere. Collective."""
    told = world.gather(json.dumps(own).encode())
    return None if told is None else [json.loads(each) for each in told]


def of_rank_0(world: World, own: Any) -> Any:  # noqa: ANN401 (whatever JSON has)
    """What rank 0 has, on all ranks. Collective."""
    return json.loads(world.broadcast(json.dumps(own).encode() if world.rank == 0 else None))


class RefusedTogether(BusbwError):
    """One or more ranks refused a step; raised alike on all ranks, so that all of them leave."""

    def __init__(
        self, message: str, *, hint: str, exit_code: ExitCode, rank: int | None = None, host: str = ""
    ) -> None:
        super().__init__(message, hint=hint, rank=rank, host=host)
        self.exit_code = exit_code


def agreed(world: World, step: Callable[[], T]) -> T:
    """The result of a step that each rank takes alone, once it succeeded on every rank: nobody goes on into a
    collective that others left. Collective over the world.

    Raises RefusedTogether on every rank when it failed on any, with the first failing rank's words. A step
    that raises it itself says what it is about.
    """
    result: T | None = None
    failure: BusbwError | None = None
    try:
        result = step()
    except BusbwError as error:
        failure = error
    if world.max(np.array([0 if failure is None else 1], np.int64))[0] == 0:
        return result  # type: ignore[return-value]
    own = None if failure is None else _report(failure, world.members[world.rank])
    failed = [each for each in gathered(world, own) or () if each]
    if len(failed) > 1:
        failed[0]["message"] += f" (and {len(failed) - 1} more)"
    fields = of_rank_0(world, failed[0] if failed else None)
    raise RefusedTogether(**fields | {"exit_code": ExitCode(fields["exit_code"])}) from failure


def _report(error: BusbwError, own: Member) -> dict[str, Any]:
    at = error if isinstance(error, RefusedTogether) else own
    code = int(error.exit_code)
    return {"message": error.message, "hint": error.hint, "exit_code": code, "rank": at.rank, "host": at.host}
