"""A case: the smallest thing that is measured and has a row of its own."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.model.collective import Collective, Placement, Shape, collective
from busbw.model.datatype import DataType, ReduceOp, data_type, reduce_op


@dataclass(frozen=True)
class Case:
    """Collective x type x op x root x size x placement. Names, not rows, so that a case is plain data.

    ``requested_bytes`` is what the sweep asked for, ``size_bytes`` what remained after rounding to whole
    elements and, for all_gather and its kin, to equal shares. ``op`` is empty for collectives that move.
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
    def in_place(self) -> bool:
        """Whether send and receive share a buffer."""
        return self.placement is Placement.IN_PLACE

    def shape(self, ranks: int) -> Shape:
        """Element counts on ``ranks`` ranks."""
        type_bytes = self.data_type.size_bytes
        return self.row.shape(self.requested_bytes // type_bytes, ranks, type_bytes)
