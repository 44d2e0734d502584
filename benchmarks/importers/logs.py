"""Logs of any number of rows: tables of the tests, each with other numbers and all that stands around it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from busbw_testing.logs import NEW_HEADING, TOOL_TABLES

RANKS: Final = 16
_ROWS: Final = {"nccl-tests": 29, "nccom-test": 20, "osu": 19, "imb": 22}  # of one table
Lines = Iterator[str]


def tables(tool: str, rows: int) -> Lines:
    """As many tables as have so many rows."""
    texts = (TOOL_TABLES[tool](number) for number in range(-(-rows // _ROWS[tool])))
    yield from (f"{line}\n" for text in texts for line in text.splitlines())


def one_table(rows: int) -> Lines:
    """One table: sweeps from 8 B to 2 GiB, one after the other."""
    yield NEW_HEADING
    yield from islice((line for line in tables("nccl-tests", rows) if line.split()[0].isdigit()), rows)


def with_stamps(lines: Iterable[str]) -> Lines:
    """Every line behind another time."""
    for line, number in zip(lines, count(), strict=False):
        second = f"{number // 60 % 60:02d}:{number % 60:02d}.{number * 7919 % 1_000_000:06d}"
        yield f"2026-11-21T18:{second}Z {line}"


def with_nccl(lines: Iterable[str], every: int = 10) -> Lines:
    """A line of NCCL between every so many others."""
    for number, line in enumerate(lines):
        yield line
        if number % every == 0:
            channel = f"Channel {number % 32:02d}/0 : 0[0] -> 1[1] via P2P/CUMEM"
            yield f"node1:14:20 [{number % 8}] NCCL INFO {channel}\n"


LOGS: Final[dict[str, Callable[[int], Lines]]] = {
    "nccl-tests, one table": one_table,
    "nccl-tests, tables of 29 rows": lambda rows: tables("nccl-tests", rows),
    "nccl-tests, time stamps": lambda rows: with_stamps(tables("nccl-tests", rows)),
    "nccl-tests, NCCL_DEBUG=INFO": lambda rows: with_nccl(tables("nccl-tests", rows)),
    "nccom-test, tables of 20 rows": lambda rows: tables("nccom-test", rows),
    "OSU, tables of 19 rows": lambda rows: tables("osu", rows),
    "IMB, tables of 22 rows, kubectl": lambda rows: (
        f"[pod/imb-0/main] {line}" for line in tables("imb", rows)
    ),
}
