"""nccom-test (AWS Neuron), text: both kinds of time columns, failed rows, the command line above a table."""

from __future__ import annotations

import shlex
from collections.abc import Hashable
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from busbw.importers.body import Body, Timing
from busbw.importers.columns import NO_ALGORITHM, Columns, Layout
from busbw.importers.headings import NCCOM_TEST
from busbw.importers.operations import operation
from busbw.importers.printed import FloatArray, one_printed
from busbw.importers.raw import RawTable
from busbw.importers.table import Table
from busbw.model.collective import Placement
from busbw.units import NS_PER_US

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


def time_columns(layout: Layout) -> list[str]:
    """Names of the time columns in their order: bandwidths are made from the first."""
    return [name for name in (column.name for column in layout.columns) if name.partition(":")[0] == "time"]


def body_key(raw: RawTable) -> Hashable:
    """What ``body`` takes from beside the columns."""
    return tuple(
        raw.facts.header.get(name) for name in ("own_op", "own_root", "own_placement", "own_checked")
    )


def body(raw: RawTable, columns: Columns) -> Body:
    """The rows of a table of nccom-test, or of several that have the same key."""
    header, rows = raw.facts.header, len(columns)
    first, *others = time_columns(raw.layout)
    stats: dict[str, FloatArray] = {
        other.partition(":")[2]: columns.measures[other, 0].value * NS_PER_US for other in others
    }
    algbw, busbw = columns.measures.get(("algbw", 0)), columns.measures.get(("busbw", 0))
    placement = Placement(header.get("own_placement", "out-of-place"))
    checked = np.zeros(rows) if header.get("own_checked") else None
    return Body(
        lines=columns.lines,
        widths=columns.widths,
        sizes=columns.whole["size"],
        counts=columns.whole["count"],
        types=columns.words.get("type", [""] * rows),
        redops=[str(header.get("own_op") or "none")] * rows,
        roots=np.full(rows, int(header.get("own_root", -1)), np.int64),
        timings=(Timing(placement, columns.measures[first, 0], algbw, busbw, checked, stats),),
        algorithms=[algorithm(word) for word in columns.words.get("algorithm", ())],
        **{
            name: columns.whole[name].tolist()
            for name in ("input_bytes", "output_bytes")
            if name in columns.whole
        },
    )


def algorithm(word: str) -> str:
    """The word of the column; empty for the one that stands there where none is known."""
    return "" if word == NO_ALGORITHM else word


def interpret(raw: RawTable, body: Body) -> Table:
    """What a table of nccom-test says."""
    job, header = raw.job, raw.facts.header
    name, ranks = command(str(job.get("nccom_command", "")))
    own_name = operation(str(header.get("own_collective", ""))) or str(header.get("own_collective", ""))
    labels = [("header", int(header["own_ranks"]))] if "own_ranks" in header else []
    return Table(
        tool=NCCOM_TEST,
        stream=raw.stream,
        body=body,
        time=time_words(time_columns(raw.layout)[0]),
        operation=own_name or name,
        operation_from="header" if own_name else "command" if name else "",
        heading_width=raw.layout.width,
        first_line=raw.heading_line,
        last_line=raw.last_line,
        rank_labels=(*labels, *((("command", ranks),) if ranks else ())),
        header={**header, **raw.footer, **_command_header(job)},
        failures=tuple(raw.failures),
        average=one_printed(str(raw.footer.get("average", ""))),
        ended="average" in raw.footer or "errors_found" in raw.footer,
        findings=tuple(raw.findings),
        cycle=int(header.get("own_cycle", 0)),
        words_from=_words_from(header),
        default_type=str(header.get("own_type", "")),
    )


def _words_from(header: dict[str, Any]) -> dict[str, str]:
    """nccom-test prints neither reduction nor root; exports of busbw have them in a line of their own."""
    if "own_collective" in header:
        return {"op": "header", "root": "header"}
    return {"op": "not stated: nccom-test prints none", "root": "not stated: nccom-test prints none"}


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


def _command_header(job: dict[str, Any]) -> dict[str, Any]:
    return {"command": f"nccom-test {job['nccom_command']}"} if "nccom_command" in job else {}
