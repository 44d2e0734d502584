"""nccl-tests and rccl-tests, text: every layout since 2.0, by the words of its heading.

Rows are told apart whatever options added columns: ``error`` or ``#wrong``, with or without ``root``, -I, -C.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any, Final

from busbw.foreign.logs.context import VERSION
from busbw.foreign.logs.operations import operation
from busbw.foreign.logs.row_words import Column, Kind, Layout
from busbw.foreign.logs.table import Cells, Row, Side, Table, Tool, fact, number
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding
from busbw.units import NS_PER_US

TIME: Final = (
    "mean over the timed calls of one loop, then the mean over ranks (nccl-tests' -a 1, its default; the log"
    " does not say -a)"
)
_PLACEMENTS: Final = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
_NO_COLUMN: Final = "none: the table has no such column"


# ---- headings ----------------------------------------------------------------------------------------------

_WORDS: Final = re.compile(r"(?<!\S)[#\\]*(?P<name>[^\s#\\]\S*)")  # pages want a backslash before a sign
# Columns since the first version, and of rccl-tests, by their names in the heading.
_KINDS: Final = {
    **dict.fromkeys(("size", "count", "root"), Kind.INTEGER),
    **dict.fromkeys(("type", "redop"), Kind.WORD),
    **dict.fromkeys(("time", "cputime", "algbw", "busbw"), Kind.MEASURE),
    **dict.fromkeys(("i_min", "i_max", "i_p99", "i_cv%"), Kind.MEASURE),  # ours have no i_
    "wrong": Kind.WRONG,
    "error": Kind.DEVIATION,
}
_TIMESTAMP: Final = (Column("date", Kind.ANY), Column("clock", Kind.ANY))
_STATS: Final = ("min", "max", "p50", "p95", "p99")
# Of forms that name their columns; each table has some of these.
ALL_COLUMNS: Final = (
    *(Column(name, _KINDS[name]) for name in ("size", "count", "type", "redop", "root")),
    *(
        Column(name, _KINDS.get(name, Kind.MEASURE), index)
        for index in range(len(_PLACEMENTS))
        for name in ("time", "cputime", "algbw", "busbw", "wrong", *_STATS)
    ),
)


def heading(line: str) -> Layout | None:
    """The layout that a line announces; None where it is no heading of these tests."""
    matches = list(_WORDS.finditer(line))
    names = [match.group("name") for match in matches]
    if names[:2] != ["size", "count"]:
        return None
    columns: list[Column] = []
    seen: Counter[str] = Counter()
    breaks: list[tuple[int, int]] = []
    blank = None
    for index, (name, match) in enumerate(zip(names, matches, strict=True)):
        if name == "timestamp":
            columns.extend(_TIMESTAMP)
            continue
        if name not in _KINDS:
            return None
        ours, kind = name.removeprefix("i_"), _KINDS[name]
        if ours in ("time", "cputime") and index:
            breaks.append((len(columns), matches[index - 1].end()))
        if ours == "redop":
            blank = (len(columns), matches[index - 1].end(), match.end())
        columns.append(Column(ours, kind, seen[ours]))
        seen[ours] += 1
    breaks.append((len(columns), matches[-1].end()))
    return Layout(tuple(columns), tuple(breaks), blank)


_USUAL: Final = heading("# size count type redop root time algbw busbw #wrong time algbw busbw #wrong")

# ---- lines beside the rows ---------------------------------------------------------------------------------

_DEVICE: Final = r" +\[(?P<bus_id>[^\]]*)\] *(?P<device_name>.*)"
_RANK: Final = r"Rank +(?P<rank>\d{1,9})"
# Group names are the keys of the header; all digits become a number.
FACTS: Final = (
    fact("launch", "busbw: time = ", r"busbw: time = (?P<time_is>.+?); of one call"),  # of busbw's export
    fact("units", "(elements)", r"\(B\)\s+\(elements\)\s+\(us\)"),
    fact(
        "rank",
        " device ",
        _RANK + r"(?: +Group +(?P<group>\d{1,9}))?(?: +Pid +(?P<pid>\d{1,18}))?"
        r" +on +(?P<host>\S+) +device +(?P<device>\d{1,9})" + _DEVICE,
    ),
    fact(
        "launch",
        "-tests version ",
        r"(?P<tests>nccl|rccl)-tests version (?P<tests_version>\S+)"
        r"(?:.*?\w+-headers=(?P<headers_version>\d+))?(?:.*?\w+-library=(?P<library_version>\d+))?",
    ),
    fact("launch", "rccl-tests: Version", r"(?P<tests>rccl)-tests: Version (?P<tests_version>\S+)"),
    fact("launch", "Collective test starting", r"Collective test starting: (?:\S*/)?(?P<program>\w+)"),
    fact(
        "launch",
        "nThread ",
        r"nThread (?P<threads>\d+) nGpus (?P<gpus>\d+) minBytes (?P<min_bytes>\d+) "
        r"maxBytes (?P<max_bytes>\d+) step: (?P<step>\d+)\((?P<step_kind>\w+)\)"
        r" warmup iters: (?P<warmup_iters>\d+) iters: (?P<iters>\d+)"
        r"(?: agg iters: (?P<agg_iters>\d+))?(?: validation: (?P<validation>\d+))?(?: graph: (?P<graph>\d+))?"
        r"(?: unalign: (?P<unalign>\d+))?",
    ),
    fact("placements", "-place", r"(?P<placements>(?:out-of|in)-place\b.*)"),
    fact("header", "Blocking Enabled", r"Blocking Enabled: (?P<blocking>.*\S)"),
    fact("header", "Reducing maxBytes", r"Reducing maxBytes to (?P<reduced_max_bytes>\d+)"),
    fact("header", "Parallel Init", r"(?P<parallel_init>Parallel Init Enabled)"),
    fact("footer", "Out of bounds", r"Out of bounds values *: (?P<out_of_bounds>\d+) *(?:OK|FAILED)"),
    fact("footer", "Avg bus bandwidth", r"Avg bus bandwidth *: *(?P<average>\S+)"),
    fact("footer", "Collective test concluded", r"Collective test concluded: (?P<concluded>\S+)"),
)


# ---- a table -----------------------------------------------------------------------------------------------


def interpret(found: Table) -> Table:
    """What a table of nccl-tests says."""
    header, job, names = found.facts.header, found.job, found.layout.names
    named = operation(str(header.get("program", "")))
    name = named or operation(str(job.get("command_program", "")))
    return found.read(
        partial(_side, is_right=found.footer.get("out_of_bounds") == 0),
        _placements(found),
        tool=RCCL_TESTS if _is_rccl(found) else NCCL_TESTS,
        time=str(header.get("time_is", TIME)),
        operation=name,
        operation_from="header" if named else "command" if name else "",
        trusted_time="cputime" not in names,
        formulas="old" if "error" in names else "today's",
        rank_labels=_rank_labels(header, job),
        words_from={
            name: "rows" if column in names else _NO_COLUMN
            for name, column in (("op", "redop"), ("root", "root"))
        },
    )


def _is_rccl(found: Table) -> bool:
    """By its own word, the library's, or its GPUs: these have a bus address in hex, unlike AMD's CPUs."""
    if found.facts.header.get("tests"):
        return bool(found.facts.header["tests"] == "rccl")
    return any(word.startswith("RCCL") for word in found.evidence.get(VERSION, ())) or any(
        re.search(r"[0-9a-fA-F]$", rank.bus_id) and rank.device_name.startswith("AMD ")
        for rank in found.facts.ranks
    )


def _rank_labels(header: dict[str, Any], job: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """How many ranks there are by the form itself, and by the command line."""
    said = (("header", int(header["ranks"])),) if "ranks" in header else ()
    if "command_ranks" not in job:
        return said
    per_process = int(header.get("threads", 1)) * int(header.get("gpus", 1))
    return (*said, ("command", int(job["command_ranks"]) * per_process))


# ---- its columns -------------------------------------------------------------------------------------------


def _placements(found: Table) -> dict[int, Placement]:
    """The placements that have a time, by their number among the columns."""
    sides = {column.placement for column in found.layout.columns if column.name in ("time", "cputime")}
    # Without its out-of-place columns, rccl-tests prints the others alone, below their name.
    if found.above.startswith("in-place") and sides == {0}:
        return {0: Placement.IN_PLACE}
    return {side: _PLACEMENTS[side] for side in sorted(sides)}


def _side(cells: Cells, index: int, *, is_right: bool) -> Side:
    """One placement of a row. ``is_right``: the line below the table says that no row is wrong."""
    time = number(cells, "time" if ("time", index) in cells else "cputime", index)
    algbw, deviation = number(cells, "algbw", index), number(cells, "error", index)
    wrong = _by_deviation(deviation.value, is_right)
    if ("wrong", index) in cells:
        wrong = number(cells, "wrong", index).value
        # busbw's exports write like this what is wrong, if the elements were not counted.
        has_lost_bandwidth = math.isfinite(time.value) and math.isnan(algbw.value)
        if math.isnan(wrong) and has_lost_bandwidth and cells["size", 0] != "0":  # a barrier never has one
            wrong = math.inf
    return Side(time, algbw, number(cells, "busbw", index), wrong, _stats(cells, index), deviation)


def _by_deviation(deviation: float, is_right: bool) -> float:
    """Wrong elements by the old column ``error``, the largest deviation, which is no count: a row is wrong
    where it has a mark for that, and all others are right where the line below the table says so.
    """
    if math.isinf(deviation):
        return math.inf
    return 0.0 if is_right and not math.isnan(deviation) else math.nan


def _stats(cells: Cells, index: int) -> dict[str, float]:
    stats = {name: number(cells, name, index).value * NS_PER_US for name in _STATS if (name, index) in cells}
    if ("cv%", index) in cells:
        stats["cv"] = number(cells, "cv%", index).value / 100
    return stats


# ---- wrong rows of the old column ``error`` ----------------------------------------------------------------

# DeltaMaxValue of nccl-tests 1.0 to 2.11, for each further rank; 1e-200 for all other types.
_LIMITS: Final = {"half": 1e-2, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}
_OTHER_LIMIT: Final = 1e-200


def with_wrong_rows(table: Table) -> Table:
    """The table with the rows marked whose deviation is beyond the limit with which the test itself compared
    it, where the line below does not deny that there are such; and with a finding where it counts some that
    no row shows. The deviations of several threads of a process are added up: then they are not compared.
    """
    out_of_bounds = table.footer.get("out_of_bounds")
    if out_of_bounds == 0:
        return table
    if table.formulas == "old" and table.header.get("threads", 1) == 1 and table.world_size > 1:
        table = replace(table, rows=tuple(_marked(row, table.world_size) for row in table.rows))
    shown = any(side.wrong > 0 for side in table.sides)
    if not out_of_bounds or shown or not table.rows:
        return table
    text = f"the line below the table counts {out_of_bounds} values out of bounds, but no row shows which"
    return table.with_findings(ImportFinding("contradiction", text, table.last_line))


def _marked(row: Row, ranks: int) -> Row:
    limit = _LIMITS.get(row.dtype, _OTHER_LIMIT) * (ranks - 1)
    sides = (replace(side, wrong=math.inf) if side.deviation.low > limit else side for side in row.sides)
    return replace(row, sides=tuple(sides))


NCCL_TESTS: Final = Tool(
    "nccl-tests",
    backend="nccl",
    library="NCCL",
    heading_marks=("algbw",),
    heading=heading,
    facts=FACTS,
    interpret=interpret,
    decided=with_wrong_rows,
    usual=_USUAL,
    started=frozenset({"program", "min_bytes"}),
    end_line="the line with the average is",
)
RCCL_TESTS: Final = replace(NCCL_TESTS, name="rccl-tests", backend="rccl", library="RCCL")
