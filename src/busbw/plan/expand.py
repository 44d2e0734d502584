"""The product of operations, types, reductions, roots and sizes, as an ordered list of cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.collective import Collective, Placement, Role, unsupported
from busbw.model.counts import CountTable, most_tables, table_of
from busbw.model.datatype import DataType, ReduceOp

# As nccl-tests prints the root of a collective that has none.
NO_ROOT: Final = -1


@dataclass(frozen=True)
class Grid:
    """What a sweep ranges over; each axis in the order given by the user. ``lenient``: the types were not
    named one by one ("all"), so those that a backend does not have are shown as not applicable.

    ``tables`` are the counts of collectives whose ranks differ; ``own_sizes``: one that states amounts is
    measured with these and nothing else; ``even_beside``: what they move in all is also measured evenly
    spread. ``coalesce`` are the ratios of the parallel parts of every call.
    """

    collectives: Sequence[Collective]
    data_types: Sequence[DataType]
    reduce_ops: Sequence[ReduceOp]
    roots: Sequence[int]
    sizes_bytes: Sequence[int]
    lenient: bool = False
    tables: Sequence[CountTable] = ()
    own_sizes: bool = False
    coalesce: tuple[int, ...] = ()
    even_beside: bool = False


def expand(grid: Grid, ranks: int, backend: str, other_sizes: Sequence[int] = ()) -> tuple[Case, ...]:
    """Cases of groups of ``ranks``: where groups differ, of the largest, and ``other_sizes`` are the rest.

    In the order they are measured: all sizes of one operation before the next, both placements of
    a size side by side. A placement that the collective does not have on this backend stays in the list,
    marked as not applicable, so that the table can say so. A collective that cannot run on this many ranks
    has one size only, for the same reason.
    """
    refuse_roots(grid.roots, min((ranks, *other_sizes)))
    refuse_unsupported(grid, backend, (ranks, *other_sizes))
    sweeps = [
        [
            case
            for row in grid.collectives
            for case in _sweep(row, grid, ranks, backend, _refused(row, (ranks, *other_sizes)), cycle)
        ]
        for cycle in range(most_tables(grid.tables))  # each table has its own sizes
    ]
    cases = (replace(case, cycle=cycle) for cycle, sweep in enumerate(sweeps) for case in sweep)
    return tuple(replace(case, index=index) for index, case in enumerate(cases))


def refuse_roots(roots: Iterable[int], ranks: int) -> None:
    """Raises UsageError for a root that not every group of ``ranks`` or more has."""
    for root in roots:
        if not 0 <= root < ranks:
            raise UsageError(
                f"root {root} is not one of the ranks 0..{ranks - 1}", hint="give -r one of the ranks"
            )


def refuse_unsupported(grid: Grid, backend: str, group_sizes: Sequence[int] = ()) -> None:
    """Raises UsageError for a type that was named, and that the backend does not have for an operation."""
    for row in grid.collectives if not grid.lenient else ():
        if _refused(row, group_sizes):
            continue  # shown as not applicable
        for dtype in grid.data_types if row.sized else grid.data_types[:1]:
            if reason := unsupported(backend, row, dtype):
                raise UsageError(f"{row.name} of {dtype.name}: {reason}", hint="choose another type with -d")


def _refused(row: Collective, group_sizes: Sequence[int]) -> str:
    """Why groups of these sizes cannot run it; empty where they can."""
    return next(filter(None, map(row.refuses, group_sizes)), "")


def _sizes(row: Collective, grid: Grid, dtype: DataType, refused: str, cycle: int) -> Sequence[int]:
    table = table_of(grid.tables, row.name, cycle)
    if not row.sized:
        return (0,)
    if table is not None and table.is_exact and grid.own_sizes:
        return (table.size_bytes(dtype.size_bytes),)
    return tuple(grid.sizes_bytes)[:1] if refused else grid.sizes_bytes


def _sweep(row: Collective, grid: Grid, ranks: int, backend: str, refused: str, cycle: int) -> Iterable[Case]:
    """The cases of one collective; index and cycle are given later."""
    table = table_of(grid.tables, row.name, cycle)
    coalesce = grid.coalesce if row.sized else ()
    for dtype in grid.data_types if row.sized else grid.data_types[:1]:
        reason = refused or unsupported(backend, row, dtype)
        for op, root, size in product(
            [op.name for op in grid.reduce_ops] if row.reducing else [""],
            grid.roots if row.rooted else [NO_ROOT],
            _sizes(row, grid, dtype, refused, cycle),
        ):
            role = Role(0, ranks, max(root, 0), counts=table)
            asked = Case(
                index=0,
                collective=row.name,
                dtype=dtype.name,
                op=op,
                root=root,
                requested_bytes=size,
                size_bytes=size,
                count=0,
                placement=Placement.OUT_OF_PLACE,
                coalesce=coalesce,
            )
            made = _rounded(asked, role)
            for placement in Placement:
                lacks = f"{row.name} has no {placement.value} form on {backend}"
                why = reason or ("" if row.has(placement, backend) else lacks)
                yield replace(made, placement=placement, applicable=not why, reason=why)
            if table is not None and grid.even_beside and not reason:
                yield _rounded(replace(asked, even=True), replace(role, counts=table.evenly()))


def _rounded(case: Case, role: Role) -> Case:
    """With its size and count, of all of its parts."""
    type_bytes = case.data_type.size_bytes
    elements = case.requested_bytes // type_bytes
    shares = [elements * ratio // sum(case.coalesce) for ratio in case.coalesce] or [elements]
    size_bytes = count = 0
    for share in shares:
        if case.row.variable is None:
            shape = case.row.shape(share, role.ranks, type_bytes)
            size_bytes, count = size_bytes + shape.size_bytes(type_bytes), count + shape.call_count
        else:  # of the busiest rank: its bytes, and its elements for one peer on average
            busiest = case.row.variable.busiest(case.row.table(role), share, type_bytes)
            size_bytes, count = size_bytes + busiest * type_bytes, count + busiest // role.ranks
    return replace(case, size_bytes=size_bytes, count=count)
