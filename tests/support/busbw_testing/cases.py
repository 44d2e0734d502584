"""Cases as a plan would have them."""

from __future__ import annotations

from busbw.model.case import Case
from busbw.model.collective import Placement, collective
from busbw.model.datatype import data_type


def case_of(
    name: str,
    ranks: int,
    *,
    dtype: str = "float",
    op: str = "sum",
    root: int = 0,
    size_bytes: int = 4096,
    placement: Placement = Placement.OUT_OF_PLACE,
) -> Case:
    """One case of so many ranks."""
    row, type_bytes = collective(name), data_type(dtype).size_bytes
    shape = row.shape(size_bytes // type_bytes, ranks, type_bytes)
    return Case(
        index=0,
        collective=name,
        dtype=dtype,
        op=op if row.reducing else "",
        root=root if row.rooted else -1,
        requested_bytes=size_bytes,
        size_bytes=shape.size_bytes(type_bytes),
        count=shape.call_count,
        placement=placement,
    )
