"""Hunts and series of setups on disk, with known slow pairs and known verdicts."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw.errors import ExitCode
from busbw.hunt.rounds import turn, turns
from busbw.launch.series import Series, create_series, measure
from busbw.model.event import Event, EventKind, event
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, Hunt
from busbw.plan.setups import Setup
from busbw.record.folder import LOG_FILE, ROUNDS_FILE, create
from busbw.record.results import append_line
from busbw.record.write import write_record
from busbw_testing.compared import record_of

SIZE_BYTES = 1 << 20
ALIKE_NS = 1e5  # 10.49 GB/s
SIZES = (1024, 2048, 4096, 8192)
# Times against the default, by size; the last setup does not start.
FACTORS = {"plain": (1.0,) * 4, "large": (1.3, 1.0, 0.97, 0.7), "broken": (1.0,) * 4}


def pairs_folder(home: Path, name: str, *, parts: int = 8, slow: Mapping[tuple[int, int], float]) -> Path:
    """A matrix of ranks on one host that are all alike, but for ``slow``: (from, to) and how many times as
    long the large messages take.
    """
    record = record_of({1024: 1.0}, ranks=parts, name=name)
    hunt = Hunt("pairs", SIZE_BYTES)
    record = replace(
        record,
        plan=replace(record.plan, cases=(), hunt=hunt),
        results=(),
        hunt={"kind": "pairs", "exit_code": 0},
    )
    folder = create(home, name)
    write_record(folder, record)
    for number in range(turns(parts)):
        append_line(folder / ROUNDS_FILE, _round(number, parts, turn(parts, number), slow))
    return folder


def _round(
    number: int, parts: int, turn: tuple[tuple[int, int], ...], slow: Mapping[tuple[int, int], float]
) -> dict[str, Any]:
    tests = []
    for one, other in turn:
        there, back = (ALIKE_NS * slow.get(way, 1.0) for way in ((one, other), (other, one)))
        times = {BANDWIDTH: [[there], [back]], BOTH_WAYS: [[2 * there], [2 * back]], LATENCY: [[2e4], [2e4]]}
        tests.append({"one": one, "other": other, "times_ns": times})
    return {
        "kind": "rank", "names": [f"rank {rank} on node0" for rank in range(parts)],
        "round": {"number": number, "stage": "matrix", "pairs": [list(pair) for pair in turn]},
        "tests": tests, "seconds": 0.1,
    }  # fmt: skip


def series(blocks: int = 12) -> Series:
    """Setups in the home of the runs (BUSBW_HOME): one that helps and hurts, one that does not start."""
    made = 0

    def start(setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        nonlocal made
        made += 1
        if setup.name == "broken":
            (folder / LOG_FILE).write_text("no such algorithm\n")
            hear(event(EventKind.ERROR, message="rank 1 died", hint="", exit_code=5))
            return ExitCode.RANK_FAILED
        times = zip(SIZES, FACTORS[setup.name], strict=True)
        wobble = 1 + 0.001 * (made * 7 % 5)
        write_record(
            folder, record_of({size: 100 * factor * wobble for size, factor in times}, name=folder.name)
        )
        return ExitCode.OK

    setups = (
        Setup("plain"),
        Setup("large", {"NCCL_ALGO": "Ring"}, why="for large messages"),
        Setup("broken"),
    )
    return measure(create_series(setups, blocks, 1, (), {}), start, io.StringIO())
