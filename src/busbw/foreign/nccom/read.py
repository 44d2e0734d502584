"""nccom-test (AWS Neuron), text: both kinds of time columns, failed rows, the command line above a table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from busbw.foreign.logs.operations import REDUCING, operation
from busbw.foreign.logs.row_words import Column, Kind, Layout
from busbw.foreign.logs.table import GIB_PER_GB, Cells, Side, Table, Tool, fact, number
from busbw.foreign.nccom.columns import OPERANDS
from busbw.model.collective import Placement
from busbw.units import NS_PER_US, counted

NAME: Final = "nccom-test"
# Whose tables say neither reduction nor root.
OPERATIONS: Final = frozenset(OPERANDS.values())
# Older versions divide by 2^30 and call it GB/s.
GB_SIZES: Final = (1.0, GIB_PER_GB)
PLACEMENT_ASSUMED: Final = "assumed: separate buffers, the tool's default"
NOT_STATED: Final = "not stated: nccom-test prints none"
_COLUMNS: Final = {
    **dict.fromkeys(("size(B)", "size"), Column("size", Kind.INTEGER)),
    **dict.fromkeys(("count(elems)", "count"), Column("count", Kind.INTEGER)),
    "total_input_size(B)": Column("input_bytes", Kind.INTEGER),
    "total_output_size(B)": Column("output_bytes", Kind.INTEGER),
    "type": Column("type", Kind.WORD),
    **dict.fromkeys(("algbw(GB/s)", "algbw"), Column("algbw", Kind.MEASURE)),
    **dict.fromkeys(("busbw(GB/s)", "busbw"), Column("busbw", Kind.MEASURE)),
    "algorithm": Column("algorithm", Kind.WORD),
}
_TIME: Final = re.compile(r"time(?::(avg|p\d+(?:\.\d+)?))?\(us\)")
_START: Final = re.compile(r"size(?:\(B\))?\s+count\S*\s+(?:\S+\s+)*?type\s+time\S*\(us\)")
_OLD_TIME: Final = (
    "the column time(us) of nccom-test: the median (p50) before Neuron 2.28, the mean from then on; the log"
    " does not say the version"
)
_RANKS: Final = ("-r", "--nworkers")


@lru_cache(256)  # the tables of a job have few commands
def command(text: str) -> tuple[str, int | None]:
    """Operation and ranks of a command line of nccom-test; "" and None where it does not say."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    ranks = [int(value) for flag, value in pairwise(words) if flag in _RANKS and value.isdecimal()]
    # The operand stands anywhere; `all_ones` and file names are no operations.
    names = [name for name in map(operation, words) if name]
    return (names[0] if len(set(names)) == 1 else ""), (ranks[0] if ranks else None)


def heading(line: str) -> Layout | None:
    """The layout that a line announces; None where it is no heading of nccom-test."""
    line = line.lstrip("# ")
    if _START.match(line) is None:
        return None
    columns = [column(name) for name in line.split() if name != "(GiB/s)"]
    known = [each for each in columns if each is not None]
    return Layout(tuple(known)) if len(known) == len(columns) else None


def column(title: str) -> Column | None:
    """The column of a title; None for one that nccom-test does not have."""
    time = _TIME.fullmatch(title)
    if time is not None:
        return Column(f"time:{time[1]}" if time[1] else "time", Kind.MEASURE)
    return _COLUMNS.get(title)


def interpret(found: Table) -> Table:
    """What a table of nccom-test says. Bandwidths are made from its first time."""
    job, header = found.job, found.facts.header
    commanded, ranks = command(str(job.get("nccom_command", "")))
    named = operation(str(header.get("operation", "")))
    labels = [("header", int(header["ranks"]))] if "ranks" in header else []
    if "nccom_command" in job:
        found.footer["command"] = f"{NAME} {job['nccom_command']}"
    if (errors := int(found.footer.get("errors_found", 0))) > len(found.failures):
        shown = counted(len(found.failures), "row")
        text = f"the line below the table counts {counted(errors, 'error')}, and {shown} show one"
        found.note("contradiction", text, found.last_line)
    names = found.layout.names
    first_time, *_ = _times(column.name for column in found.layout.columns)
    return found.read(
        _side,
        {0: Placement(found.above or "out-of-place")},
        time=str(header.get("time_is") or time_words(first_time)),
        operation=named or commanded,
        operation_from="header" if named else "command" if commanded else "",
        rank_labels=(*labels, *((("command", ranks),) if ranks else ())),
        ended="average" in found.footer or "errors_found" in found.footer,
        words_from={
            "op": "rows" if "redop" in names else NOT_STATED,
            "root": "rows" if "root" in names else NOT_STATED,
            "placement": "rows" if found.above else PLACEMENT_ASSUMED,
        },
    )


def with_reduction(table: Table) -> Table:
    """The table with the reduction that nccom-test has where it does not say one: its check of buffers full
    of ones is that of a sum.
    """
    if table.operation not in REDUCING or table.words_from.get("op") != NOT_STATED:
        return table
    words = {**table.words_from, "op": "assumed: nccom-test's check is that of a sum"}
    return replace(table, rows=tuple(replace(row, redop="sum") for row in table.rows), words_from=words)


def _times(names: Iterable[str]) -> list[str]:
    """Those of time columns, in their order."""
    return [name for name in names if name.partition(":")[0] == "time"]


def _side(cells: Cells, index: int) -> Side:
    first, *others = _times(name for name, _ in cells)
    return Side(
        number(cells, first, index),
        number(cells, "algbw", index),
        number(cells, "busbw", index),
        stats={name.partition(":")[2]: number(cells, name).value * NS_PER_US for name in others},
    )


def time_words(column: str) -> str:
    """Which reduction a time column is."""
    statistic = column.partition(":")[2]
    if not statistic:
        return _OLD_TIME
    return (
        "mean over the measured calls (nccom-test)"
        if statistic == "avg"
        else f"{statistic} of the measured calls (nccom-test)"
    )


NCCOM_TEST: Final = Tool(
    NAME,
    backend="nccom",
    heading_marks=("algbw",),
    heading=heading,
    facts=(
        fact("footer", "GB/s", r"(?:Avg bus bandwidth:|(?<=# )avg)\s*(?P<average>[\d.]+) ?GB/s"),
        fact("footer", "found - test failed", r"(?P<errors_found>\d+) errors? found - test failed"),
    ),
    interpret=interpret,
    decided=with_reduction,
    gb_sizes=GB_SIZES,
    operations=OPERATIONS,
    usual=heading("size count type time(us) algbw busbw"),
)
