"""OSU micro-benchmarks, collectives: text of mpi/collective and of the NCCL versions."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, Final

import numpy as np

from busbw.importers.body import Body, Timing
from busbw.importers.columns import Columns
from busbw.importers.headings import OSU
from busbw.importers.mpi import SHARES
from busbw.importers.operations import operation
from busbw.importers.own import Outcome, remarked
from busbw.importers.printed import FloatArray
from busbw.importers.raw import RawTable
from busbw.importers.table import Table
from busbw.model.collective import Placement
from busbw.model.datatype import DATA_TYPES
from busbw.model.result import Status
from busbw.units import NS_PER_US

_TIME: Final = "mean over the iterations of the mean over ranks, a barrier between calls (OSU: Avg Latency)"
_TIME_NON_BLOCKING: Final = (
    "mean over the iterations of the mean over ranks, of the communication alone (OSU: Pure Comm.)"
)
_NO_STATISTICS: Final = ("time", "mbytes_per_s", "messages_per_s", "defects")


def body_key(raw: RawTable) -> Hashable:
    """What ``body`` takes from beside the columns."""
    return raw.facts.header.get("own_placement"), raw.facts.header.get("own_checked")


def body(raw: RawTable, columns: Columns) -> Body:
    """The rows of a table of an OSU collective, or of several that have the same key."""
    header = raw.facts.header
    times = columns.measures["time", 0]
    checked = np.where(np.isfinite(times.value), 0.0, np.nan) if header.get("own_checked") else None
    if "validation" in columns.words:
        verdicts = np.array(columns.words["validation"])
        checked = np.select([verdicts == "Pass", verdicts == "Fail"], [0.0, np.inf], np.nan)
    placement = Placement(header.get("own_placement", "out-of-place"))
    return untyped(columns, Timing(placement, times, wrong=checked, stats=statistics(columns)))


def statistics(columns: Columns) -> dict[str, FloatArray]:
    """The other times of a row, and the overlap of a non-blocking operation with other work, a fraction."""
    return {
        column: values.value / 100 if column == "overlap" else values.value * NS_PER_US
        for (column, _), values in columns.measures.items()
        if column not in _NO_STATISTICS
    }


def untyped(columns: Columns, timing: Timing) -> Body:
    """The rows of a table that prints size and times only."""
    rows = len(columns)
    return Body(
        lines=columns.lines,
        widths=columns.widths,
        sizes=columns.whole.get("size", np.zeros(rows, np.int64)),
        counts=np.full(rows, -1, np.int64),
        types=[""] * rows,
        redops=["none"] * rows,
        roots=np.full(rows, -1, np.int64),
        timings=(timing,),
        algorithms=(),
    )


def interpret(raw: RawTable, body: Body) -> Table:
    """What a table of an OSU collective says."""
    header = raw.facts.header
    title = str(header.get("title", ""))
    name = operation(title.removesuffix(" Latency"))
    return Table(
        tool=OSU,
        stream=raw.stream,
        body=body,
        time=_TIME_NON_BLOCKING if "overall" in raw.layout.names else _TIME,
        operation=name,
        operation_from="header" if name else "",
        heading_width=raw.layout.width,
        first_line=raw.heading_line,
        last_line=raw.last_line,
        rank_labels=_rank_labels(header, raw.job),
        header=dict(header),
        ended=True,  # OSU prints nothing below its tables: their end cannot be missed
        findings=tuple(raw.findings),
        outcomes=outcomes(raw, body),
        cycle=int(header.get("own_cycle", 0)),
    )


def _rank_labels(header: dict[str, Any], job: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """Ranks by a line of our own export, and by the command line."""
    own = (("header", int(header["own_ranks"])),) if "own_ranks" in header else ()
    return (*own, *((("command", int(job["command_ranks"])),) if "command_ranks" in job else ()))


def outcomes(raw: RawTable, body: Body) -> dict[tuple[int, Placement], Outcome]:
    """What the lines below our own table say of its rows without a number; a good row has one."""
    header = raw.facts.header
    if "own_collective" not in header:
        return {}
    placement = Placement(header["own_placement"])
    times = body.timings[0].time_us.value
    # The rows have the size of a block, the lines below that of the buffer.
    blocks = int(header.get("own_ranks", 1)) if header["own_collective"] in SHARES else 1
    unknown = Outcome(Status.NOT_RUN, {"error": "the log has no number, and does not say why"})
    return {
        (line, placement): remarked(raw.remarks, placement.value, size * blocks) or unknown
        for line, size, time in zip(body.lines.tolist(), body.sizes.tolist(), times.tolist(), strict=True)
        if not math.isfinite(time)
    }


_WIDTHS: Final = {word: row.size_bytes for row in DATA_TYPES for word in (row.name, *row.aliases)}


def type_bytes(dtype: str) -> int | None:
    """Bytes of an element; None for a type that we do not know."""
    return _WIDTHS.get(dtype)
