"""What OSU and IMB have in common: rows of size and time, whose meaning depends on the operation above them.

Neither prints type, reduction or root in a row, and their size is that of one block for operations with
blocks, so a table gets these once its operation is decided, by its title or by the user.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import numpy as np

from busbw.importers.headings import IMB
from busbw.importers.operations import REDUCING, ROOTED, base
from busbw.importers.table import Table

TYPES: Final = {
    "MPI_CHAR": "int8",
    "MPI_SIGNED_CHAR": "int8",
    "MPI_BYTE": "uint8",
    "MPI_INT": "int32",
    "MPI_FLOAT": "float",
    "MPI_DOUBLE": "double",
}
_SIZED_TYPE: Final = re.compile(r"MPI_(U?INT\d+)_T")
# Their size is what a rank gives to, or gets from, each other rank: osu_allgather and its kin allocate it
# once for every rank; IMB's user guide says so of X. For reduce_scatter it is the whole vector in both.
SHARES: Final = frozenset(
    {"all_gather", "alltoall", "gather", "scatter", "all_gatherv", "alltoallv", "gatherv", "scatterv"}
)


def with_operation(table: Table, name: str) -> Table:
    """The table as one of this operation: sizes, type, reduction and root."""
    header, rows, plain = table.header, len(table), base(name)
    reducing, rooted = plain in REDUCING, plain in ROOTED
    op = "sum" if reducing else "none"
    op_from = f"assumed: {table.tool}'s default" if reducing else "none: the operation reduces nothing"
    if reducing and "reduction" in header:
        op, op_from = str(header["reduction"]).removeprefix("MPI_").lower(), "header"
    if reducing and header.get("own_op"):
        op, op_from = str(header["own_op"]), "header"
    root, root_from = (0, "assumed: OSU's default") if rooted else (-1, "none: the operation has no root")
    if rooted and table.tool == IMB:
        root, root_from = -1, "none: IMB takes every rank in turn"
    if rooted and "own_root" in header:
        root, root_from = int(header["own_root"]), "header"
    dtype, dtype_from = _element_type(table, reducing)
    return replace(
        table,
        body=table.body.with_columns(
            types=[dtype] * rows, redops=[op] * rows, roots=np.full(rows, root, np.int64)
        ),
        shares=plain in SHARES,
        words_from={"op": op_from, "root": root_from, "dtype": dtype_from},
    )


def _element_type(table: Table, reducing: bool) -> tuple[str, str]:
    """The type that the header names; before OSU 7.1 it names none, and it is MPI_FLOAT for reductions and
    MPI_CHAR for all others. IMB names two, MPI_BYTE and MPI_FLOAT.
    """
    header = table.header
    if "own_type" in header:
        return str(header["own_type"]), "header"
    named = str(header.get("reduction_datatype" if reducing else "datatype", header.get("datatype", "")))
    if table.tool == IMB and reducing and "reduction_datatype" not in header:
        named = ""  # the other one is not that of reductions
    if named:
        sized = _SIZED_TYPE.fullmatch(named)
        return TYPES.get(named, sized[1].lower() if sized else named), "header"
    if reducing:
        return "float", f"assumed: MPI_FLOAT, {table.tool}'s default for reductions"
    default = ("uint8", "MPI_BYTE") if table.tool == IMB else ("int8", "MPI_CHAR")
    return default[0], f"assumed: {default[1]}, {table.tool}'s default"
