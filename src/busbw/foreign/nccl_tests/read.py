"""nccl-tests and rccl-tests, text: every layout since 2.0, by the words of its heading.

Rows are told apart whatever options added columns: ``error`` or ``#wrong``, with or without ``root``, -I, -C.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from busbw.foreign.logs.context import VERSION
from busbw.foreign.logs.operations import operation
from busbw.foreign.logs.row_words import BoolArray, Column, FloatArray, Kind, Layout
from busbw.foreign.logs.table import FoundTable, Table, Timing, Tool, fact
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding
from busbw.units import NS_PER_US

NAME: Final = "nccl-tests"
RCCL_TESTS: Final = "rccl-tests"
TIME: Final = (
    "mean over the timed calls of one loop, then the mean over ranks (nccl-tests' -a 1, its default; the log"
    " does not say -a)"
)
_PLACEMENTS: Final = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
_NO_COLUMN: Final = "none: the table has no such column"


# ---- headings ----------------------------------------------------------------------------------------------

_WORDS: Final = re.compile(r"(?<!\S)[#\\]*(?P<name>[^\s#\\]\S*)")  # pages want a backslash before a sign
# Columns since the first version, and of rccl-tests: name in the heading to our name and kind.
_COLUMNS: Final = {
    "size": ("size", Kind.INTEGER),
    "count": ("count", Kind.INTEGER),
    "type": ("type", Kind.WORD),
    "redop": ("redop", Kind.WORD),
    "root": ("root", Kind.INTEGER),
    "time": ("time", Kind.MEASURE),
    "cputime": ("cputime", Kind.MEASURE),
    "algbw": ("algbw", Kind.MEASURE),
    "busbw": ("busbw", Kind.MEASURE),
    "wrong": ("wrong", Kind.WRONG),
    "error": ("error", Kind.DEVIATION),
    "i_min": ("min", Kind.MEASURE),
    "i_max": ("max", Kind.MEASURE),
    "i_p99": ("p99", Kind.MEASURE),
    "i_cv%": ("cv%", Kind.MEASURE),
}
_TIMESTAMP: Final = (Column("date", Kind.ANY), Column("clock", Kind.ANY))
_STATS: Final = ("min", "max", "p50", "p95", "p99")
_KINDS: Final = dict(_COLUMNS.values())
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
        if name not in _COLUMNS:
            return None
        ours, kind = _COLUMNS[name]
        if ours in ("time", "cputime") and index:
            breaks.append((len(columns), matches[index - 1].end()))
        if ours == "redop":
            blank = (len(columns), matches[index - 1].end(), match.end())
        columns.append(Column(ours, kind, seen[ours]))
        seen[ours] += 1
    return Layout(tuple(columns), tuple(breaks), blank=blank)


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


def interpret(found: FoundTable) -> Table:
    """What a table of nccl-tests says."""
    header, job, names = found.facts.header, found.job, found.layout.names
    named = operation(str(header.get("program", "")))
    name = named or operation(str(job.get("command_program", "")))
    is_rccl = _is_rccl(found)
    return found.as_table(
        tool=RCCL_TESTS if is_rccl else NAME,
        backend="rccl" if is_rccl else "nccl",
        library="RCCL" if is_rccl else "NCCL",
        time=str(header.get("time_is", TIME)),
        timings=tuple(_timings(found)),
        operation=name,
        operation_from="header" if named else "command" if name else "",
        trusted_time="cputime" not in names,
        formulas="old" if "error" in names else "today's",
        rank_labels=_rank_labels(header, job),
        out_of_bounds=found.footer.get("out_of_bounds"),
        end_line="the line with the average is",
        words_from={
            name: "rows" if column in names else _NO_COLUMN
            for name, column in (("op", "redop"), ("root", "root"))
        },
        decided=with_wrong_rows,
    )


def _is_rccl(found: FoundTable) -> bool:
    """By its own word, the library's, or its GPUs: these have a bus address in hex, unlike AMD's CPUs."""
    if found.facts.header.get("tests"):
        return bool(found.facts.header["tests"] == "rccl")
    return any(word.startswith("RCCL") for word in found.evidence.as_dict().get(VERSION, ())) or any(
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


def _timings(found: FoundTable) -> Iterator[Timing]:
    # Without its out-of-place columns, rccl-tests prints the others alone, below their name.
    is_second_alone = found.placements.startswith("in-place") and not any(
        column.placement for column in found.layout.columns
    )
    for index, placement in enumerate(_PLACEMENTS[1:] if is_second_alone else _PLACEMENTS):
        time = found.numbers("time", index) or found.numbers("cputime", index)
        if time is None:
            continue
        yield Timing(
            placement,
            time,
            found.numbers("algbw", index),
            found.numbers("busbw", index),
            _wrong(found, index),
            _stats(found, index),
            found.numbers("error", index),
        )


def _wrong(found: FoundTable, index: int) -> FloatArray | None:
    """Wrong elements a row. The old column ``error`` is the largest deviation, not a count: a row is wrong
    where it has a mark for that, and all others are right where the line below the table says so.
    """
    counted, deviation = found.numbers("wrong", index), found.numbers("error", index)
    if counted is not None:
        return np.where(_has_no_bandwidth(found, index), np.inf, counted.value)
    if deviation is None:
        return None
    unmarked = np.nan if found.footer.get("out_of_bounds") != 0 else 0.0
    marked = np.where(np.isinf(deviation.value), np.inf, unmarked)
    return np.where(np.isnan(deviation.value), np.nan, marked)


def _has_no_bandwidth(found: FoundTable, index: int) -> BoolArray:
    """Rows that have a time and no bandwidth, nor a count of wrong elements: busbw's exports write what is
    wrong like this if the elements were not counted.
    """
    numbers = [found.numbers(name, index) for name in ("time", "algbw", "wrong")]
    time, algbw, wrong = (
        np.full(len(found.rows), np.nan) if each is None else each.value for each in numbers
    )
    is_sized = found.integers("size", 0) > 0  # a barrier has no bandwidth
    found_wrong: BoolArray = is_sized & np.isfinite(time) & np.isnan(algbw) & np.isnan(wrong)
    return found_wrong


def _stats(found: FoundTable, index: int) -> dict[str, FloatArray]:
    columns = {name: found.numbers(name, index) for name in _STATS}
    stats = {name: column.value * NS_PER_US for name, column in columns.items() if column is not None}
    variation = found.numbers("cv%", index)
    return stats if variation is None else stats | {"cv": variation.value / 100}


# ---- wrong rows of the old column ``error`` ----------------------------------------------------------------

# DeltaMaxValue of nccl-tests 1.0 to 2.11, for each further rank; 1e-200 for all other types.
_LIMITS: Final = {"half": 1e-2, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}
_OTHER_LIMIT: Final = 1e-200


def with_wrong_rows(table: Table, operation: str, ranks: int) -> Table:  # noqa: ARG001 (see Table.decided)
    """The table with the rows marked whose deviation is beyond the limit with which the test itself compared
    it, where the line below does not deny that there are such; and with a finding where it counts some that
    no row shows. The deviations of several threads of a process are added up: then they are not compared.
    """
    if not table.out_of_bounds and table.out_of_bounds is not None:
        return table
    if table.formulas == "old" and table.header.get("threads", 1) == 1 and ranks > 1:
        table = replace(table, timings=tuple(_marked(table, timing, ranks) for timing in table.timings))
    shown = any(timing.wrong is not None and (timing.wrong > 0).any() for timing in table.timings)
    if not table.out_of_bounds or shown or not len(table):
        return table
    text = (
        f"the line below the table counts {table.out_of_bounds} values out of bounds, but no row shows which"
    )
    return table.with_findings(ImportFinding("contradiction", text, table.last_line))


def _marked(table: Table, timing: Timing, ranks: int) -> Timing:
    if timing.deviation is None:
        return timing
    limits = np.array([_LIMITS.get(word, _OTHER_LIMIT) for word in table.types])
    beyond: BoolArray = timing.deviation.low > limits * (ranks - 1)
    unknown = np.full(len(table), np.nan) if timing.wrong is None else timing.wrong
    return replace(timing, wrong=np.where(beyond, np.inf, unknown))


NCCL_TESTS: Final = Tool(
    NAME,
    heading_marks=("algbw",),
    heading=heading,
    facts=FACTS,
    interpret=interpret,
    usual=_USUAL,
    started=frozenset({"program", "min_bytes"}),
)
