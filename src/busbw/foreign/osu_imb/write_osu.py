"""The text table of an OSU collective (7.4, without -f): size and latency, one table for each of its runs.

The size is OSU's: for all_gather and its kin what one rank gives to or gets from each other, so the record's
size over the ranks. OSU's number is a mean of means; the lines above say what is in its column here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from busbw.errors import UsageError
from busbw.foreign.forms.remarks import notes, remarks, table_line
from busbw.foreign.forms.rows import Row, Table, is_applicable, ranks, runs
from busbw.foreign.osu_imb.read import SHARES
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.units import NS_PER_US

_TITLES: Final = {
    "all_reduce": "Allreduce",
    "all_gather": "Allgather",
    "all_gatherv": "Allgatherv",
    "reduce_scatter": "Reduce_scatter",
    "alltoall": "All-to-All Personalized Exchange",
    "alltoallv": "All-to-Allv Personalized Exchange",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
    "gather": "Gather",
    "gatherv": "Gatherv",
    "scatter": "Scatter",
    "scatterv": "Scatterv",
    "barrier": "Barrier",
}
_TYPES: Final = {
    "int8": "MPI_CHAR",
    "uint8": "MPI_BYTE",
    "int16": "MPI_INT16_T",
    "uint16": "MPI_UINT16_T",
    "int32": "MPI_INT",
    "uint32": "MPI_UINT32_T",
    "int64": "MPI_INT64_T",
    "uint64": "MPI_UINT64_T",
    "float": "MPI_FLOAT",
    "double": "MPI_DOUBLE",
}
_SIZED: Final = "# Size       Avg Latency(us)"
_UNSIZED: Final = "# Avg Latency(us)"


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """All tables below each other. Raises UsageError for an operation that OSU has no test for, and for sizes
    that its column cannot say: ranks whose counts differ have no block of one size.
    """
    missing = [table.collective for table in tables if table.collective not in _TITLES]
    if missing:
        raise UsageError(
            f"OSU has no test for {', '.join(missing)}",
            hint="choose another operation of the run with --op, or another format",
        )
    number = ranks(record) or 1
    for table in tables:
        sizes = [row.case.size_bytes for row in table.rows if row.case.size_bytes % number]
        if sizes and table.collective in SHARES:
            raise UsageError(
                f"OSU's Size is one block of {number}, {table.collective} of {sizes[0]} B has no equal ones",
                hint="choose another operation of the run with --op, or another format",
            )
    lines = [f"# busbw: {note}" for note in notes(record, "the OSU micro-benchmarks 7.4")]
    for table in tables:
        for rows, placement in runs(table):
            if is_applicable(rows, placement):
                lines += _table(record, rows, placement)
            else:
                lines += [f"# busbw: {table.collective}: {line}" for line in remarks(rows, (placement,))]
    return ("\n".join(lines) + "\n").encode()


def _table(record: RunRecord, rows: Sequence[Row], placement: Placement) -> list[str]:
    case = rows[0].case
    number = ranks(record)
    sized = case.collective != "barrier"
    line = table_line(case, placement, number, [row.side(placement) for row in rows])
    share = f"; Size = bytes of one block of {number}" if case.collective in SHARES else ""
    library = "NCCL" if record.plan.backend == "nccl" else "MPI"
    return [
        f"# busbw: {line}{share}; nan = no number",
        "",
        f"# OSU {library} {_TITLES[case.collective]} Latency Test v7.4",
        *([f"# Datatype: {_TYPES.get(case.dtype, case.dtype)}."] if sized else []),
        _SIZED if sized else _UNSIZED,
        *(_row(row, row.side(placement), number, sized=sized) for row in rows),
        *(f"# busbw: {line}" for line in remarks(rows, (placement,))),
    ]


def _row(row: Row, result: CaseResult | None, number: int | None, *, sized: bool) -> str:
    shared = row.case.collective in SHARES and number is not None
    size = row.case.size_bytes // number if shared and number else row.case.size_bytes
    measured = result is not None and result.status is Status.GOOD and result.time_ns is not None
    time_us = result.time_ns / NS_PER_US if measured and result and result.time_ns is not None else None
    cell = "nan" if time_us is None else f"{time_us:.2f}"
    return f"{size:<10}{cell:>18}" if sized else f"{cell:>17}"
