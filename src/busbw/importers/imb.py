"""Intel MPI Benchmarks, collectives and sendrecv: text."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from busbw.importers.body import Body, Timing
from busbw.importers.columns import Columns
from busbw.importers.headings import IMB
from busbw.importers.operations import operation
from busbw.importers.osu import statistics, untyped
from busbw.importers.raw import RawTable
from busbw.importers.table import Table
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding

_TIME: Final = (
    "maximum over ranks of the mean over the repetitions (IMB: t_max, from which its own Mbytes/sec is made)"
)


_TIME_NON_BLOCKING: Final = (
    "that of the rank with the longest time with other work, of the communication alone (IMB: t_pure)"
)
_MOST_DEFECT: Final = 1e-2  # TOL in IMB_declare.h: beyond it, IMB counts a sample as wrong


def body_key(raw: RawTable) -> Hashable:  # noqa: ARG001 (the columns say all)
    """What ``body`` takes from beside the columns."""
    return ()


def body(raw: RawTable, columns: Columns) -> Body:  # noqa: ARG001 (the columns say all)
    """The rows of tables of IMB."""
    defects = columns.measures.get(("defects", 0))
    wrong = None if defects is None else np.where(defects.value > _MOST_DEFECT, np.inf, 0.0)
    time, stats = columns.measures["time", 0], statistics(columns)
    rate = columns.measures.get(("mbytes_per_s", 0))
    return untyped(columns, Timing(Placement.OUT_OF_PLACE, time, wrong=wrong, stats=stats, rate=rate))


def interpret(raw: RawTable, body: Body) -> Table:
    """What a table of IMB says."""
    header, job = raw.facts.header, raw.job
    benchmark = str(header.get("benchmark", "")).removeprefix("Multi-")
    name = operation(benchmark)
    labels = [("header", int(header["processes"]))] if "processes" in header else []
    return Table(
        tool=IMB,
        stream=raw.stream,
        body=body,
        time=_TIME_NON_BLOCKING if "overall" in raw.layout.names else _TIME,
        operation=name or benchmark.lower(),
        operation_from="header" if "benchmark" in header else "",
        heading_width=raw.layout.width,
        first_line=raw.heading_line,
        last_line=raw.last_line,
        rank_labels=(
            *labels,
            *((("command", int(job["command_ranks"])),) if "command_ranks" in job and not labels else ()),
        ),
        header=dict(header),
        ended=True,  # a table ends with the next one or with the program
        failures=tuple(raw.failures),
        findings=(*raw.findings, *_groups(raw)),
    )


def _groups(raw: RawTable) -> list[ImportFinding]:
    """Multi: several communicators at the same time, one table for all of them."""
    header = raw.facts.header
    if not str(header.get("benchmark", "")).startswith("Multi-"):
        return []
    count = f"{header['groups']} groups" if "groups" in header else "several groups"
    text = f"{count} ran at the same time; a time is that of the slowest rank of all, ranks are those of one"
    if "group" in raw.layout.names:
        text = f"{count} ran at the same time; rows of a size are those of one group after the other"
    return [ImportFinding("groups", text, raw.heading_line)]
