"""The world of one process: every collective is the identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from busbw.errors import RankFailed
from busbw.world.base import Member, Number, WorldKind, distinct_hosts, reducible, this_member

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SoloWorld:
    """One rank, no launcher, no library; see ``base.World`` for the contract."""

    def __init__(self, launcher: str = "none") -> None:
        self.kind: WorldKind = "solo"
        self.rank = 0
        self.size = 1
        self.launcher = launcher
        self.members: tuple[Member, ...] = (this_member(rank=0, local_rank=0),)

    @property
    def hosts(self) -> tuple[str, ...]:
        return distinct_hosts(self.members)

    def barrier(self) -> None:
        return

    def broadcast(self, data: bytes | None) -> bytes:
        if data is None:
            raise ValueError("rank 0 has to give the data that it broadcasts")
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
