"""A case: the smallest thing that is measured and has a row of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from busbw.model.collective import Collective, Placement, Role, Shape, collective
from busbw.model.datatype import DataType, ReduceOp, data_type, reduce_op
from busbw.units import format_size

ALONE: Final = -1  # the stream of a case that runs by itself
LARGE: Final = 1 << 20  # below, the host's part of a call sets the pace; from here on the links do


@dataclass(frozen=True)
class Case:
    """Collective x type x op x root x size x placement. Names, not rows, so that a case is plain data.

    ``requested_bytes`` is what the sweep asked for, ``size_bytes`` what remained after rounding to whole
    elements and, for all_gather and its kin, to equal shares. ``op`` is empty for collectives that move.
    ``reason`` says why a case does not apply; ``cycle`` is the number of its table of counts, and in a log
    that of the sweep. ``coalesce`` are the ratios of the parallel parts that the call is made of; empty where
    it is one.

    ``stream`` is the number of the operation among those that run at once, -1 where it runs by itself;
    ``beside`` says in words what runs with it. A time beside other traffic is of another thing than a time
    alone, so whatever compares cases compares these too.

    ``arm`` is how NCCL is told to do it (``model.arm``), empty where NCCL chooses. ``even``: what uneven
    counts move in all at the requested size, spread evenly; it comes behind the case with these counts.
    """

    index: int
    collective: str
    dtype: str
    op: str
    root: int
    requested_bytes: int
    size_bytes: int
    count: int
    placement: Placement
    applicable: bool = True
    reason: str = ""
    cycle: int = 0
    coalesce: tuple[int, ...] = ()
    stream: int = ALONE
    beside: tuple[str, ...] = ()
    arm: str = ""
    even: bool = False

    @property
    def row(self) -> Collective:
        """The catalogue row."""
        return collective(self.collective)

    @property
    def data_type(self) -> DataType:
        """The element type's row."""
        return data_type(self.dtype)

    @property
    def reduce_op(self) -> ReduceOp | None:
        """The reduction's row; None for collectives that only move data."""
        return reduce_op(self.op) if self.op else None

    @property
    def short(self) -> str:
        """For lines about few cases: all_reduce 64 MiB in-place."""
        size = f" {format_size(self.size_bytes)}" if self.row.sized else ""
        return f"{self.collective}{size}{' in-place' if self.in_place else ''}"

    @property
    def in_place(self) -> bool:
        """Whether send and receive share a buffer."""
        return self.placement is Placement.IN_PLACE

    def shape(self, ranks: int) -> Shape:
        """Element counts on ``ranks`` ranks; of the even distribution where counts differ between ranks."""
        type_bytes = self.data_type.size_bytes
        return self.row.shape(self.requested_bytes // type_bytes, ranks, type_bytes)

    def shape_for(self, role: Role) -> Shape:
        """Element counts on one rank, with its segments where they differ between ranks."""
        type_bytes = self.data_type.size_bytes
        return self.row.shape_for(self.requested_bytes // type_bytes, role, type_bytes)

    def role(self, rank: int, ranks: int) -> Role:
        """The part that ``rank`` plays where all ranks form one group and counts are even."""
        return Role(rank, ranks, max(self.root, 0))

    @property
    def parts(self) -> tuple[Case, ...]:
        """The calls that run at once, each a case of its own size; this one where there is only one."""
        if not self.coalesce:
            return (self,)
        type_bytes = self.data_type.size_bytes
        elements, whole = self.requested_bytes // type_bytes, sum(self.coalesce)
        return tuple(
            replace(self, requested_bytes=elements * ratio // whole * type_bytes, coalesce=())
            for ratio in self.coalesce
        )

    def size_in(self, ranks: int) -> int:
        """The size in a group of ``ranks``: groups of other sizes may round otherwise."""
        if self.row.variable is not None:
            return self.size_bytes
        return sum(part.shape(ranks).size_bytes(self.data_type.size_bytes) for part in self.parts)

    def algbw_bytes(self, ranks: int) -> int:
        """The bytes of algbw in a group of ``ranks``: those of the busiest rank where they differ."""
        if self.row.variable is not None:
            return self.size_bytes
        return sum(part.shape(ranks).algbw_count for part in self.parts) * self.data_type.size_bytes
