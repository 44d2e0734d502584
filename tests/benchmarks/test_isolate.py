from __future__ import annotations

from collections.abc import Callable

Script = Callable[..., str]


def test_hunts_are_simulated(script: Script) -> None:
    lines = script("isolate/simulate.py", "--hunts", "1", "--parts", "16", "--cases", "noise 1%|half")
    rows = [row.split(" | ") for row in lines.splitlines()[2:]]
    assert [row[5] for row in rows] == ["-", "1 of 1", "1 of 1", "1 of 1", "8 of 8"]
    assert {row[7] for row in rows} == {"0 parts, 0 paths"}
