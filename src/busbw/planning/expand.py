"""The product of operations, types, reductions and sizes, as an ordered list of cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.collective import Collective, Placement
from busbw.model.datatype import DataType, ReduceOp

# As nccl-tests prints the root of a collective that has none.
NO_ROOT: Final = -1


@dataclass(frozen=True)
class Grid:
    """What a sweep ranges over; each axis in the order given by the user."""

    collectives: Sequence[Collective]
    data_types: Sequence[DataType]
    reduce_ops: Sequence[ReduceOp]
    roots: Sequence[int]
    sizes_bytes: Sequence[int]


def expand(grid: Grid, ranks: int, backend: str) -> tuple[Case, ...]:
    """Cases in the order they are measured: all sizes of one operation before the next, both placements of
    a size side by side. A placement that the collective does not have on this backend stays in the list,
    marked as not applicable, so that the table can say so.
    """
    for root in grid.roots:
        if not 0 <= root < ranks:
            raise UsageError(
                f"root {root} is not a rank of 0..{ranks - 1}", hint="give -r a rank that takes part"
            )
    cases: list[Case] = []
    for row in grid.collectives:
        for dtype in grid.data_types:
            for op in grid.reduce_ops if row.reducing else (None,):
                for root in grid.roots if row.rooted else (NO_ROOT,):
                    for size in grid.sizes_bytes:
                        cases.extend(_placements(len(cases), row, dtype, op, root, size, ranks, backend))
    return tuple(cases)


def _placements(
    first_index: int,
    row: Collective,
    dtype: DataType,
    op: ReduceOp | None,
    root: int,
    requested_bytes: int,
    ranks: int,
    backend: str,
) -> Iterable[Case]:
    shape = row.shape(requested_bytes // dtype.size_bytes, ranks, dtype.size_bytes)
    for offset, placement in enumerate(Placement):
        yield Case(
            index=first_index + offset,
            collective=row.name,
            dtype=dtype.name,
            op=op.name if op is not None else "",
            root=root,
            requested_bytes=requested_bytes,
            size_bytes=shape.size_bytes(dtype.size_bytes),
            count=shape.call_count,
            placement=placement,
            applicable=placement is Placement.OUT_OF_PLACE or backend in row.in_place_on,
        )
