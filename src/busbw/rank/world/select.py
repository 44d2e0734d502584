"""The one place that turns an identity and a wish into a world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NoReturn

from busbw.errors import LauncherMismatch, RankFailed
from busbw.rank.world.base import Member, Number, OnFailure, World, WorldKind, reducible, this_member

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from busbw.rank.world.identity import Identity


WorldChoice = Literal["auto", "solo", "mpi", "nccl"]


def create(identity: Identity | None, kind: WorldChoice, on_failure: OnFailure) -> World:
    """Join the world of ``kind``; ``auto`` takes the launcher's default, and without a launcher ``solo``.

    ``on_failure`` is called once when a rank is lost (``base.OnFailure``). Raises ``LauncherMismatch`` when
    the kind needs ranks that the launcher did not start, ``SiteError`` when MPI or the root address is
    missing, ``RankFailed`` when ranks do not arrive. Heavy libraries are imported here, for the chosen kind
    only.
    """
    chosen: WorldKind = identity.world if identity is not None else "solo"
    chosen = chosen if kind == "auto" else kind
    started = 1 if identity is None else identity.size
    if chosen == "mpi":
        from busbw.rank.world import mpi

        return mpi.connect(identity, on_failure)
    if chosen == "nccl" and identity is not None and started != 1:
        from busbw.rank.world import nccl

        return nccl.connect(identity, on_failure)
    if started != 1:
        raise LauncherMismatch(
            f"solo was asked for, but {identity.launcher if identity else ''} started {started} ranks",
            hint="leave --world out, or start one process only",
        )
    return SoloWorld(identity.launcher if identity else "none")


class SoloWorld:
    """One rank, no launcher, no library; see ``base.World`` for the contract."""

    def __init__(self, launcher: str = "none") -> None:
        self.kind: WorldKind = "solo"
        self.rank = 0
        self.size = 1
        self.launcher = launcher
        self.members: tuple[Member, ...] = (this_member(rank=0, local_rank=0),)

    def barrier(self) -> None:
        return

    def broadcast(self, data: bytes | None) -> bytes:
        assert data is not None, "rank 0 has it"
        return data

    def max(self, values: NDArray[Number]) -> NDArray[Number]:
        return reducible(values)

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        return reducible(values)

    def gather(self, data: bytes) -> list[bytes] | None:
        return [data]

    def fail(self, message: str) -> NoReturn:
        raise RankFailed(message, rank=0, host=self.members[0].host)

    def close(self) -> None:
        return
