"""Roots that no test prints: such a row is damaged.

nccl-tests and rccl-tests print -1 where an operation has no root (sendrecv and hypercube among them), and
sweep the sizes once for every root where it has one. So a root is a rank or it is -1, in all rows alike.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from busbw.importers.columns import BoolArray
from busbw.importers.operations import DOUBLE, PLAIN, ROOTED, SHARED, base
from busbw.importers.solve import RankInterval
from busbw.importers.table import Table
from busbw.model.record import ImportFinding

NO_ROOT: Final = -1
_ROOTLESS: Final = (DOUBLE | SHARED | PLAIN | {"barrier", "reduce_scatter_block"}) - ROOTED
# So few rows cannot outvote what the operation says.
_FEW_ROWS: Final = 2
_MOST_FINDINGS: Final = 100


def odd_roots(table: Table) -> BoolArray:
    """Rows whose root is no rank, one where the operation has none, none where it has one, or another one
    than that of the rows above and below in the same sweep.
    """
    roots = table.roots
    odd: BoolArray = roots < NO_ROOT
    absent = roots == NO_ROOT
    if absent.all():
        return odd
    name, rows = base(table.operation), len(table)
    is_named = name in ROOTED or name in _ROOTLESS
    has_root = name in ROOTED if is_named else 2 * int(absent.sum()) < rows
    fits = (roots > NO_ROOT) if has_root else absent
    # Where most rows say otherwise, it is the operation that is wrong.
    if 2 * int(fits.sum()) >= rows or (is_named and rows <= _FEW_ROWS):
        odd |= ~fits
    return odd if "own_collective" in table.header else odd | _lonely(table)


def _lonely(table: Table) -> BoolArray:
    """Rows with another root than both neighbours, though their sizes are those of one sweep."""
    roots, sizes = table.roots, table.sizes
    lonely = np.zeros(len(table), bool)
    lonely[1:-1] = (
        (roots[1:-1] != roots[:-2])
        & (roots[:-2] == roots[2:])
        & (sizes[:-2] < sizes[1:-1])
        & (sizes[1:-1] < sizes[2:])
    )
    return lonely


def within_ranks(table: Table, name: str, ranks: int, solved: RankInterval | None) -> Table:
    """The table without the rows whose root is beyond the last rank, or that have one where the operation,
    known by now, has none. Where most rows have one beyond, and no device list says how many ranks there are,
    it is their number that is wrong: the rows stay, and that is said.
    """
    if base(name) in _ROOTLESS:
        return _without_roots(table, name)
    if base(name) not in ROOTED or not len(table) or ranks < 1:
        return table
    known = [ranks, len(table.ranks), *((solved.high or solved.low,) if solved is not None else ())]
    beyond = table.roots >= max(known)
    if not beyond.any():
        return table
    if not table.ranks and 2 * int(beyond.sum()) > len(table):
        text = f"root {int(table.roots.max())} is no rank of {ranks}: --ranks or a label is wrong"
        return table.with_findings(ImportFinding("contradiction", text, table.first_line))
    return _left_out(table, beyond, f"is no rank of {ranks}")


def _without_roots(table: Table, name: str) -> Table:
    """Without the rows that have a root, unless all have: then it is another operation's table."""
    rooted = table.roots > NO_ROOT
    if not rooted.any() or (rooted.all() and len(table) > _FEW_ROWS):
        return table
    return _left_out(table, rooted, f"in a table of {name}, which has none")


def _left_out(table: Table, odd: BoolArray, why: str) -> Table:
    found = [
        ImportFinding("damaged", f"left out: root {root} {why}", line)
        for root, line in zip(table.roots[odd].tolist(), table.lines[odd].tolist(), strict=True)
    ]
    return table.keep(~odd).with_findings(*found[:_MOST_FINDINGS])
