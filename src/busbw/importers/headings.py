"""Which line is the heading of a table, and what columns it announces.

Every tool here names all its columns in one line above the rows, so that a row's words can be told apart
whatever options added columns: ``error`` or ``#wrong``, with or without ``root``, -I, -S, -C, --stats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from busbw.importers.columns import Column, Kind, Layout

NCCL_TESTS: Final = "nccl-tests"
RCCL_TESTS: Final = "rccl-tests"
NCCOM_TEST: Final = "nccom-test"
OSU: Final = "osu"
IMB: Final = "imb"

_TIMES: Final = ("time", "cputime")
_IMB_FIRST: Final = ("#bytes", "#repetitions", "Group")
_SPACES: Final = re.compile(r"\S+")
_STARTS: Final = re.compile(r"#|\bsize\b")

# Columns of nccl-tests since its first version, and of rccl-tests: name in the heading to our name and kind.
_NCCL_TESTS_COLUMNS: Final = {
    "size": ("size", Kind.INTEGER),
    "bytes": ("size", Kind.INTEGER),
    "count": ("count", Kind.INTEGER),
    "N": ("count", Kind.INTEGER),
    "type": ("type", Kind.WORD),
    "redop": ("redop", Kind.WORD),
    "op": ("redop", Kind.WORD),
    "root": ("root", Kind.INTEGER),
    "time": ("time", Kind.MEASURE),
    "cputime": ("cputime", Kind.MEASURE),
    "algbw": ("algbw", Kind.MEASURE),
    "busbw": ("busbw", Kind.MEASURE),
    "#wrong": ("wrong", Kind.WRONG),
    "error": ("error", Kind.DEVIATION),
    "res": ("error", Kind.DEVIATION),
    "i_min": ("min", Kind.MEASURE),
    "i_max": ("max", Kind.MEASURE),
    "i_p99": ("p99", Kind.MEASURE),
    "i_cv%": ("cv%", Kind.MEASURE),
}
_TIMESTAMP: Final = (Column("date", Kind.ANY), Column("clock", Kind.ANY))
_NCCOM_COLUMNS: Final = {
    "size(B)": ("size", Kind.INTEGER),
    "size": ("size", Kind.INTEGER),
    "count(elems)": ("count", Kind.INTEGER),
    "count": ("count", Kind.INTEGER),
    "total_input_size(B)": ("input_bytes", Kind.INTEGER),
    "total_output_size(B)": ("output_bytes", Kind.INTEGER),
    "type": ("type", Kind.WORD),
    "algbw(GB/s)": ("algbw", Kind.MEASURE),
    "algbw": ("algbw", Kind.MEASURE),
    "busbw(GB/s)": ("busbw", Kind.MEASURE),
    "busbw": ("busbw", Kind.MEASURE),
    "algorithm": ("algorithm", Kind.WORD),
}
_NCCOM_TIME: Final = re.compile(r"time(?::(avg|p\d+(?:\.\d+)?))?\(us\)")
_NCCOM_START: Final = re.compile(r"\bsize(?:\(B\))?\s+count\S*\s+(?:\S+\s+)*?type\s+time\S*\(us\)")
_OSU_COLUMNS: Final = re.compile(
    r"(?P<size>Size)|(?P<avg>Avg Latency\s?\(us\)|Latency\s?\(us\))|(?P<min>Min Latency\s?\(us\))"
    r"|(?P<max>Max Latency\s?\(us\))|(?P<iterations>Iterations)|P(?P<tail>\d+(?:\.\d+)?) Tail Lat\s?\(us\)"
    r"|(?P<validation>Validation)|(?P<transmit>Transmit Size)"
    # of non-blocking collectives: the time is that of the communication alone
    r"|(?P<pure>Pure Comm\.\(us\))|(?P<overall>Overall\(us\))|(?P<compute>Compute\(us\))"
    r"|(?P<init>Coll\. Init\(us\))|(?P<test>MPI_Test\(us\))|(?P<wait>MPI_Wait\(us\))"
    r"|(?P<least>Min Comm\.\(us\))|(?P<most>Max Comm\.\(us\))|(?P<overlap>Overlap\(%\))"
)
_OSU_NAMES: Final = {"avg": "time", "pure": "time", "least": "min", "most": "max"}
_OSU_KINDS: Final = {
    "size": Kind.INTEGER,
    "iterations": Kind.INTEGER,
    "transmit": Kind.INTEGER,
    "validation": Kind.WORD,
}
_OSU_LEFT: Final = 10  # fprintf("%-*d", 10, size)
_IMB_COLUMNS: Final = {
    "#bytes": ("size", Kind.INTEGER),
    "#repetitions": ("repetitions", Kind.INTEGER),
    "t_min[usec]": ("min", Kind.MEASURE),
    "t_max[usec]": ("time", Kind.MEASURE),
    "t_avg[usec]": ("avg", Kind.MEASURE),
    "t[usec]": ("time", Kind.MEASURE),
    "Mbytes/sec": ("mbytes_per_s", Kind.MEASURE),
    "Msg/sec": ("messages_per_s", Kind.MEASURE),
    "Group": ("group", Kind.INTEGER),
    "defects": ("defects", Kind.MEASURE),
    "t_pure[usec]": ("time", Kind.MEASURE),
    "t_ovrl[usec]": ("overall", Kind.MEASURE),
    "t_CPU[usec]": ("compute", Kind.MEASURE),
    "overlap[%]": ("overlap", Kind.MEASURE),
}


def heading(line: str, tool: str = "") -> Layout | None:
    """The layout that a line announces; None where it is no heading. ``tool`` leaves only its own."""
    return _layout(line, tool) if may_be_heading(line) else None


def usual_layout() -> Layout:
    """The layout of nccl-tests without options that change it."""
    layout = heading("# size count type redop root time algbw busbw #wrong time algbw busbw #wrong")
    assert layout is not None
    return layout


def hidden_heading(line: str, tool: str = "") -> tuple[str, str] | None:
    """The tool of a heading that stands behind other words, and these words; None where there is none."""
    for match in _STARTS.finditer(line) if may_be_heading(line) else ():
        layout = heading(line[match.start() :], tool) if match.start() else None
        if layout is not None:
            return layout.tool, line[: match.start()]
    return None


def may_be_heading(line: str) -> bool:
    """Whether a word of a heading stands in the line."""
    return "algbw" in line or "usec" in line or "Latency" in line or "Overall(us)" in line


@lru_cache(64)  # the tables of a log have few headings
def _layout(line: str, tool: str) -> Layout | None:
    for name, read in _READERS.items():
        layout = read(line) if tool in ("", name) or (tool, name) == (RCCL_TESTS, NCCL_TESTS) else None
        if layout is not None and any(column.name.startswith(_TIMES) for column in layout.columns):
            return replace(layout, width=len(line.rstrip()))
    return None


def _nccl_tests(line: str) -> Layout | None:
    matches = [match for match in _SPACES.finditer(line) if match.group() != "#"]
    names = [match.group() for match in matches]
    if names[:2] not in (["size", "count"], ["bytes", "N"]) or not {"time", "cputime"} & set(names):
        return None
    columns: list[Column] = []
    seen: dict[str, int] = {}
    breaks: list[tuple[int, int]] = []
    blank = None
    for index, (name, match) in enumerate(zip(names, matches, strict=True)):
        if name == "timestamp":
            columns.extend(_TIMESTAMP)
            continue
        if name not in _NCCL_TESTS_COLUMNS:
            return None
        ours, kind = _NCCL_TESTS_COLUMNS[name]
        if ours in ("time", "cputime") and index:
            breaks.append((len(columns), matches[index - 1].end()))
        if ours == "redop":
            blank = (len(columns), matches[index - 1].end(), match.end())
        columns.append(Column(ours, kind, seen.get(ours, 0)))
        seen[ours] = seen.get(ours, 0) + 1
    if not _is_in_order(names):
        return None
    return Layout(NCCL_TESTS, tuple(columns), "", tuple(breaks), blank=blank)


def _is_in_order(names: Sequence[str]) -> bool:
    """Whether times, algbw and busbw follow each other as in every version: in damaged headings that have
    them in another order the rows are told from their numbers.
    """
    before = {"algbw": ("time", "cputime"), "busbw": ("algbw",)}
    told = [name for name in names if name in ("time", "cputime", *before)]
    return all(first in before.get(second, (first,)) for first, second in pairwise(told))


def _nccom_test(line: str) -> Layout | None:
    start = _NCCOM_START.search(line)
    if start is None:
        return None
    columns: list[Column] = []
    for name in line[start.start() :].split():
        time = _NCCOM_TIME.fullmatch(name)
        if time is not None:
            columns.append(Column(f"time:{time[1]}" if time[1] else "time", Kind.MEASURE))
        elif name in _NCCOM_COLUMNS:
            columns.append(Column(*_NCCOM_COLUMNS[name]))
        elif name != "(GiB/s)":
            return None
    return Layout(NCCOM_TEST, tuple(columns))


def _osu(line: str) -> Layout | None:
    text = line.lstrip("# \t")
    if not text.startswith(("Size", "Avg Latency", "Latency", "Overall")):
        return None
    columns: list[Column] = []
    end = 0
    for match in _OSU_COLUMNS.finditer(text):
        if text[end : match.start()].strip():
            return None
        end = match.end()
        found = str(match.lastgroup)
        name = f"p{match['tail']}" if match["tail"] else _OSU_NAMES.get(found, found)
        columns.append(Column(name, _OSU_KINDS.get(found, Kind.MEASURE)))
    if text[end:].strip() or not columns:
        return None
    return Layout(OSU, tuple(columns), left=_OSU_LEFT if columns[0].name == "size" else 0)


def _imb(line: str) -> Layout | None:
    names = line.split()
    if not names or names[0] not in _IMB_FIRST or not any("usec" in name for name in names):
        return None
    if any(name not in _IMB_COLUMNS for name in names):
        return None
    return Layout(IMB, tuple(Column(*_IMB_COLUMNS[name]) for name in names))


_READERS: Final[dict[str, Callable[[str], Layout | None]]] = {
    NCCL_TESTS: _nccl_tests,
    NCCOM_TEST: _nccom_test,
    OSU: _osu,
    IMB: _imb,
}

_UNITS: Final = re.compile(r"#?\s*\(B\)\s+\(elements\)\s+\((us|ms|s)\)")


def time_unit(line: str) -> str:
    """The unit of times in the second line of a heading of nccl-tests; empty where the line is none."""
    match = _UNITS.match(line.strip())
    return match[1] if match is not None else ""
