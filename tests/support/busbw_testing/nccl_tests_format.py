"""A reader of nccl-tests' output, written from the description of its format and from nothing of busbw: what
a script of a user would do.

Rows do not begin with ``#``. Fields of a row: 1 size, 2 count, 3 type, 4 redop (no word for hypercube),
5 root, then out-of-place time, algbw, busbw, #wrong, and the same in-place; with ``-I`` i_min, i_max, i_p99
and i_cv% behind each #wrong; with ``-S`` a date and a time at the end. #wrong may be N/A.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

PREFIX: Final = re.compile(r"^(?:\d+: ?|\[\d+,\d+\]<\w+>: ?)")
SUMMARY: Final = re.compile(r"# (Out of bounds values|Avg bus bandwidth)\s+: (\S+) ?(OK|FAILED)?\s*$")
DEVICE: Final = re.compile(
    r"#\s+Rank\s+(\d+) Group\s+(-?\d+) Pid\s+(\d+) on\s+(\S+) device\s+(\d+) \[(\S+)\] (.+)$"
)


@dataclass(frozen=True)
class Side:
    """One placement of a row."""

    time_us: float
    algbw: float
    busbw: float
    wrong: float | None
    iterations: tuple[float, ...] = ()


@dataclass(frozen=True)
class Row:
    """One size."""

    size: int
    count: int
    type: str
    redop: str
    root: int
    out_of_place: Side
    in_place: Side
    stamp: str = ""


@dataclass
class Output:
    """Everything that is in a log."""

    program: str = ""
    options: str = ""
    devices: list[tuple[str, ...]] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    out_of_bounds: int | None = None
    data_ok: str = ""
    average: float | None = None
    bandwidth_ok: str = ""
    concluded: str = ""


def read_output(text: str) -> Output:
    """Read a log; raises where a line that is a row cannot be read."""
    output = Output()
    for raw in text.splitlines():
        line = PREFIX.sub("", raw)
        if line.startswith("# Collective test starting: "):
            output.program = line.rpartition(" ")[2]
        elif line.startswith("# Collective test concluded: "):
            output.concluded = line.rpartition(" ")[2]
        elif line.startswith("# nThread"):
            output.options = line
        elif match := DEVICE.match(line):
            output.devices.append(match.groups())
        elif line.startswith("#") and line.split()[1:3] == ["size", "count"]:
            output.titles = line.split()[1:]
        elif match := SUMMARY.match(line):
            _summarise(output, match)
        elif re.match(r"\s+\d+\s+\d+\s", line):
            output.rows.append(_row(line, output.titles))
    return output


def _summarise(output: Output, match: re.Match[str]) -> None:
    if match[1] == "Avg bus bandwidth":
        output.average, output.bandwidth_ok = float(match[2]), match[3] or ""
    else:
        output.out_of_bounds, output.data_ok = int(match[2]), match[3] or ""


def _row(line: str, titles: list[str]) -> Row:
    words = line.split()
    stamp = " ".join(words[-2:]) if titles[-1] == "timestamp" else ""
    if stamp:
        words, titles = words[:-2], titles[:-1]
    if len(words) == len(titles) - 1:  # hypercube has no redop, not even a word for none
        words.insert(3, "")
    assert len(words) == len(titles), (line, titles)
    half = (len(titles) - 5) // 2
    sides = [_side(words[start : start + half]) for start in (5, 5 + half)]
    return Row(int(words[0]), int(words[1]), words[2], words[3], int(words[4]), *sides, stamp)


def _side(words: list[str]) -> Side:
    time, algbw, busbw, wrong, *iterations = words
    return Side(
        float(time),
        float(algbw),
        float(busbw),
        None if wrong == "N/A" else float(wrong),
        tuple(map(float, iterations)),
    )
